//! The volume's superblock: what must be known before any shard is opened. `format` writes it once.
//!
//! ```text
//! FOLDER/superblock:
//! PANDO 1 <BLAKE3 of everything after this line, 64 hex digits>\n
//! { JSON }\n
//! ```
//!
//! 1. A change of any byte is noticed before anything else of the volume is touched.
//! 2. Unknown compatible features are ignored. An unknown incompatible one refuses the volume.
//! 3. It holds the hash secrets: only its owner may read the file.

use pando_placement::{ClusterMap, Secrets};
use pando_types::ShardIndex;
use serde::{Deserialize, Serialize};

/// Name of the file.
pub const SUPERBLOCK_FILE: &str = "superblock";
const MAGIC: &str = "PANDO";
const FORMAT_VERSION: u32 = 1;

/// What a volume is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Superblock {
    /// UUID of the volume, in hexadecimal with dashes.
    pub uuid: String,
    /// Version of the format of everything below the folder.
    pub format_version: u32,
    /// Features that an older program may ignore.
    pub compatible_features: Vec<String>,
    /// Features without which the volume cannot be understood.
    pub incompatible_features: Vec<String>,
    /// Number of shards that the volume was made with, at least 1.
    pub shards: u16,
    /// When the volume was made, nanoseconds since 1970.
    pub created_nanos: u64,
    /// How directory ids, orders of names, and owners of hash slots are computed.
    pub algorithms: Algorithms,
    /// Secrets of the hashes, hexadecimal.
    secrets: HexSecrets,
}

/// Names and widths of the hashes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Algorithms {
    /// Hash that makes directory ids.
    pub directory_id: String,
    /// Hash that makes the orders of names.
    pub name_order: String,
    /// Hash that places hash slots on shards.
    pub slots: String,
}

impl Default for Algorithms {
    fn default() -> Self {
        Self {
            directory_id: "blake3-keyed-128".to_owned(),
            name_order: "siphash-1-3-58+4".to_owned(),
            slots: "rendezvous-65536".to_owned(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HexSecrets {
    directory: String,
    name: String,
}

impl std::fmt::Debug for HexSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HexSecrets(..)")
    }
}

/// Why a superblock is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// The file is not a superblock.
    #[error("it does not begin as a superblock of Pando does")]
    Foreign,
    /// Some byte differs from that which was written.
    #[error("it is damaged: its checksum does not match its content")]
    Damaged,
    /// A later program made it.
    #[error(
        "it has format version {0}, and this program knows version {FORMAT_VERSION}: use a program of the version that made the volume"
    )]
    Version(u32),
    /// It uses a feature that this program does not know.
    #[error("it uses the feature `{0}`, which this program does not know: use a newer program")]
    Feature(String),
    /// The checksum is right, but the content is not.
    #[error("its content is invalid: {0}")]
    Nonsense(String),
}

impl Superblock {
    /// Superblock of a new volume.
    pub fn new(shards: u16, created_nanos: u64) -> Result<Self, getrandom::Error> {
        let mut uuid = [0; 16];
        getrandom::fill(&mut uuid)?;
        // Version 4, variant 1 (RFC 9562): random.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let mut secrets = Secrets { dir: [0; 32], name: [0; 16] };
        getrandom::fill(&mut secrets.dir)?;
        getrandom::fill(&mut secrets.name)?;
        Ok(Self {
            uuid: dashed(&uuid),
            format_version: FORMAT_VERSION,
            compatible_features: Vec::new(),
            incompatible_features: Vec::new(),
            shards,
            created_nanos,
            algorithms: Algorithms::default(),
            secrets: HexSecrets { directory: hex(&secrets.dir), name: hex(&secrets.name) },
        })
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = serde_json::to_string_pretty(self).expect("plain data always encodes");
        body.push('\n');
        let checksum = blake3::hash(body.as_bytes()).to_hex();
        format!("{MAGIC} {FORMAT_VERSION} {checksum}\n{body}").into_bytes()
    }

    /// Reads the file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let text = std::str::from_utf8(bytes).map_err(|_| SuperblockError::Damaged)?;
        let (head, body) = text.split_once('\n').ok_or(SuperblockError::Foreign)?;
        let fields: Vec<&str> = head.split(' ').collect();
        let [magic, version, checksum] = fields[..] else { return Err(SuperblockError::Foreign) };
        if magic != MAGIC {
            return Err(SuperblockError::Foreign);
        }
        if *checksum != *blake3::hash(body.as_bytes()).to_hex() {
            return Err(SuperblockError::Damaged);
        }
        // A changed version is noticed: the body repeats it, under the checksum.
        let version: u32 = version.parse().map_err(|_| SuperblockError::Damaged)?;
        let value: serde_json::Value = parse(body)?;
        let inner = value.get("format_version").and_then(serde_json::Value::as_u64);
        if inner != Some(version.into()) {
            return Err(SuperblockError::Damaged);
        }
        if version != FORMAT_VERSION {
            return Err(SuperblockError::Version(version));
        }
        let superblock: Self = parse(body)?;
        superblock.check()?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), SuperblockError> {
        if let Some(feature) = self.incompatible_features.first() {
            return Err(SuperblockError::Feature(feature.clone()));
        }
        if self.algorithms != Algorithms::default() {
            return Err(SuperblockError::Feature(format!("{:?}", self.algorithms)));
        }
        if self.shards == 0 {
            return Err(SuperblockError::Nonsense("no shards".to_owned()));
        }
        let secrets = unhex(&self.secrets.directory).map(|b| b.len()) == Some(32)
            && unhex(&self.secrets.name).map(|b| b.len()) == Some(16)
            && self.id() != [0; 16];
        secrets.then_some(()).ok_or_else(|| SuperblockError::Nonsense("ids or secrets".to_owned()))
    }

    /// The volume's hash secrets.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets { dir: [0; 32], name: [0; 16] };
        for (to, from) in [
            (&mut secrets.dir[..], &self.secrets.directory),
            (&mut secrets.name[..], &self.secrets.name),
        ] {
            to.copy_from_slice(&unhex(from).expect("checked when read"));
        }
        secrets
    }

    /// The owners of hash slots before any shard was added.
    pub fn map(&self) -> ClusterMap {
        ClusterMap::new(self.shards)
    }

    /// All shards that the volume was made with.
    pub fn all_shards(&self) -> Vec<ShardIndex> {
        (0..self.shards).map(ShardIndex).collect()
    }

    /// The UUID as bytes. All zero if it is not 32 hexadecimal digits.
    pub fn id(&self) -> [u8; 16] {
        let bytes = unhex(&self.uuid.replace('-', "")).unwrap_or_default();
        bytes.try_into().unwrap_or_default()
    }

    /// Identity of one shard's store, derived from the UUID.
    pub fn database_id(&self, shard: u16) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.id()).update(&shard.to_le_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(bytes)
    }
}

fn parse<T: serde::de::DeserializeOwned>(body: &str) -> Result<T, SuperblockError> {
    serde_json::from_str(body).map_err(|error| SuperblockError::Nonsense(error.to_string()))
}

fn dashed(uuid: &[u8; 16]) -> String {
    let digits = hex(uuid);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes. `None`: they are no pairs of such digits.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_returns_as_it_was_written() {
        let written = Superblock::new(4, 77).unwrap();
        let read = Superblock::decode(&written.encode()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.secrets(), written.secrets());
        assert_ne!(read.database_id(0), read.database_id(1));
        assert_eq!(read.uuid.len(), 36);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = Superblock::new(4, 77).unwrap().encode();
        for position in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[position] ^= 1 << bit;
                assert!(Superblock::decode(&bad).is_err(), "byte {position}, bit {bit}");
            }
        }
        for len in 0..good.len() {
            assert!(Superblock::decode(&good[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn what_a_later_program_made_is_refused_by_name() {
        let mut superblock = Superblock::new(1, 0).unwrap();
        superblock.compatible_features.push("harmless".to_owned());
        assert!(Superblock::decode(&superblock.encode()).is_ok());
        superblock.incompatible_features.push("quorum".to_owned());
        let error = Superblock::decode(&superblock.encode()).unwrap_err();
        assert_eq!(error, SuperblockError::Feature("quorum".to_owned()));
    }

    #[test]
    fn secrets_are_not_printed() {
        let superblock = Superblock::new(1, 0).unwrap();
        let shown = format!("{superblock:?}");
        assert!(!shown.contains(&superblock.secrets.directory));
    }
}
