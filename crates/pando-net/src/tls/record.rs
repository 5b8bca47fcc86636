//! Records of TLS 1.3 after the handshake (RFC 8446, 5.2). They are sealed in the outgoing buffer,
//! and opened in the incoming one.
//!
//! ```text
//!  23 3 3 length │ messages … 23 │ tag       type (sealed), version, length; the true type is the last byte inside
//!  └── HEAD ────┘ └── sealed ───┘ └ 16 ┘
//! ```
//!
//! A [`Sealer`] belongs to the outgoing half of a connection, an [`Opener`] to the incoming half.
//! They share a lock, which only a change of keys takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, Error};

use crate::tls::alert::Alert;

/// Bytes before what is sealed.
pub(crate) const HEAD: usize = 5;
const TAG: usize = 16;
/// Bytes of a record besides its content.
pub(super) const OVERHEAD: usize = HEAD + 1 + TAG;
/// Most content of one record, bytes.
pub(super) const CONTENT_MAX: usize = 1 << 14;
/// Most sealed bytes of a record that another side may send: it may add zeros.
const SEALED_MAX: usize = CONTENT_MAX + 256;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const KEY_UPDATE: u8 = 24;

/// In a change of keys: the other side need not change its own (RFC 8446, 4.6.3).
const UPDATE_NOT_REQUESTED: u8 = 0;
/// In a change of keys: the other side must change its own, too.
pub(super) const UPDATE_REQUESTED: u8 = 1;

/// Records that are sealed with one key. AES-GCM is good for 2^24.5 records of full length (RFC
/// 8446, 5.5), nearly three times as many.
const UPDATE_AFTER: u64 = 1 << 23;
/// Changes of keys that the other side may make without content in between.
const UPDATES_MAX: u32 = 32;

/// Why a record ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The record is not sealed.
    #[error("a record of type {0} that is not encrypted")]
    Plain(u8),
    /// Its length is impossible.
    #[error("a record of {0} bytes; from 17 to 16640 are allowed")]
    Length(u16),
    /// The tag does not match the bytes, the key, and the record's number.
    #[error("a record that was changed, repeated or left out on the way")]
    Forged,
    /// It has more content than a record may have.
    #[error("a record with {0} bytes of content; 16384 are allowed")]
    TooLong(usize),
    /// It has no content, and so no type.
    #[error("a record of nothing but zeros")]
    Empty,
    /// A record of this type may not come here.
    #[error("a record of type {0} after the handshake")]
    Kind(u8),
    /// A message of the handshake after its end.
    #[error("a message {0} of the handshake after its end")]
    Handshake(u8),
    /// A malformed change of keys.
    #[error("a change of keys that is malformed")]
    Update,
    /// Too many changes of keys without content in between.
    #[error("{UPDATES_MAX} changes of keys and nothing in between")]
    Updates,
    /// A malformed alert.
    #[error("an alert that is malformed")]
    Alert,
    /// No new key can be made.
    #[error("a change of keys that cannot be followed")]
    NoKey,
}

/// Makes the next keys. Both directions come from one object.
pub(super) trait Keychain: Send {
    fn next_to_seal(&mut self) -> Result<ConnectionTrafficSecrets, Error>;
    fn next_to_open(&mut self) -> Result<ConnectionTrafficSecrets, Error>;
}

impl<D: Send> Keychain for KernelConnection<D> {
    fn next_to_seal(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
        self.update_tx_secret().map(|(_, secrets)| secrets)
    }

    fn next_to_open(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
        self.update_rx_secret().map(|(_, secrets)| secrets)
    }
}

/// What the two directions share, for changes of keys only.
pub(super) struct Shared {
    keychain: Mutex<Box<dyn Keychain>>,
    /// The other side wants this side to change its key, too.
    is_update_wanted: AtomicBool,
}

impl Shared {
    pub(super) fn new(keychain: impl Keychain + 'static) -> Arc<Self> {
        let keychain: Box<dyn Keychain> = Box::new(keychain);
        Arc::new(Self { keychain: Mutex::new(keychain), is_update_wanted: AtomicBool::new(false) })
    }
}

/// A key, and the number of the next record.
struct Cipher {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl Cipher {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("an unknown cipher".to_owned())),
        };
        let wrong = |_| Error::General("a key of the wrong length".to_owned());
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(wrong)?;
        let iv = iv.as_ref().first_chunk().copied();
        let iv = iv.ok_or_else(|| Error::General("an IV of the wrong length".to_owned()))?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// The nonce of the next record. No number is used twice with a key: keys change long before
    /// the numbers end.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, of) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Turns messages into records, in place.
pub(crate) struct Sealer {
    cipher: Cipher,
    shared: Arc<Shared>,
    pub(super) update_after: u64,
}

impl Sealer {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        shared: Arc<Shared>,
    ) -> Result<Self, Error> {
        Ok(Self { cipher: Cipher::new(secrets)?, shared, update_after: UPDATE_AFTER })
    }

    /// Seals the bytes from `out[from + HEAD]` on. At `from` there must be room for a first head.
    /// Makes one record if they fit in one.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, mut from: usize) -> Result<(), Error> {
        if self.shared.is_update_wanted.load(Ordering::Relaxed)
            || self.cipher.sequence >= self.update_after
        {
            // Any later change of keys fulfils the other side's wish.
            self.shared.is_update_wanted.store(false, Ordering::Relaxed);
            from += self.update(out, from, UPDATE_NOT_REQUESTED)?;
        }
        let content = out.len() - from - HEAD;
        let records = content.div_ceil(CONTENT_MAX).max(1);
        out.resize(from + content + records * OVERHEAD, 0);
        let place = |index: usize| from + index * (CONTENT_MAX + OVERHEAD);
        let length = |index: usize| CONTENT_MAX.min(content - index * CONTENT_MAX);
        // Later parts move farther, so the last one moves first, and none is overwritten.
        for index in (1..records).rev() {
            let source = from + HEAD + index * CONTENT_MAX;
            out.copy_within(source..source + length(index), place(index) + HEAD);
        }
        for index in 0..records {
            let (start, length) = (place(index), length(index));
            self.seal_one(APPLICATION_DATA, &mut out[start..start + length + OVERHEAD])?;
        }
        Ok(())
    }

    /// Puts a change of keys at `out[at..]`, and returns its length. All later records have the new
    /// key. The other side changes its own if `request` says so.
    pub(super) fn update(
        &mut self,
        out: &mut Vec<u8>,
        at: usize,
        request: u8,
    ) -> Result<usize, Error> {
        let mut record = vec![0; HEAD];
        record.extend([KEY_UPDATE, 0, 0, 1, request]);
        record.resize(record.len() + 1 + TAG, 0);
        self.seal_one(HANDSHAKE, &mut record)?;
        let length = record.len();
        out.splice(at..at, record);
        self.cipher = Cipher::new((0, self.shared.keychain.lock().next_to_seal()?))?;
        Ok(length)
    }

    /// Seals one record: a head, content, and room for the type and the tag.
    pub(super) fn seal_one(&mut self, kind: u8, record: &mut [u8]) -> Result<(), Error> {
        let (head, sealed) = record.split_at_mut(HEAD);
        let length = sealed.len() as u16;
        let [high, low] = length.to_be_bytes();
        head.copy_from_slice(&[APPLICATION_DATA, 3, 3, high, low]);
        let (inner, tag) = sealed.split_at_mut(sealed.len() - TAG);
        if let Some(last) = inner.last_mut() {
            *last = kind;
        }
        let nonce = self.cipher.nonce();
        let made = self.cipher.key.seal_in_place_separate_tag(nonce, Aad::from(&*head), inner);
        tag.copy_from_slice(made.map_err(|_| Error::EncryptError)?.as_ref());
        Ok(())
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

/// What the opened records held besides messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fed {
    /// Only messages.
    More,
    /// The other side sends nothing more.
    Ended,
    /// The other side has sent an alert.
    Alert(Alert),
}

/// Turns bytes, as they come in, into bytes of messages, in place.
pub(crate) struct Opener {
    cipher: Cipher,
    shared: Arc<Shared>,
    /// The beginning of a record that is not complete.
    kept: Vec<u8>,
    /// Changes of keys since the last message.
    updates: u32,
    failed: Option<RecordError>,
}

impl Opener {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        shared: Arc<Shared>,
    ) -> Result<Self, Error> {
        let cipher = Cipher::new(secrets)?;
        Ok(Self { cipher, shared, kept: Vec::new(), updates: 0, failed: None })
    }

    /// Bytes of an incomplete record: less than one record.
    pub(crate) fn pending(&self) -> usize {
        self.kept.len()
    }

    /// Takes in bytes; `take` gets their content, piece by piece. After an error every call returns
    /// that error.
    pub(crate) fn feed(
        &mut self,
        bytes: &mut [u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<Fed, RecordError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let fed = self.step(bytes, &mut take);
        self.failed = fed.err();
        fed
    }

    fn step(
        &mut self,
        mut bytes: &mut [u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<Fed, RecordError> {
        while !bytes.is_empty() {
            let fed = if self.kept.is_empty()
                && let Some(length) = whole(bytes)?
                && bytes.len() >= length
            {
                let (record, rest) = std::mem::take(&mut bytes).split_at_mut(length);
                bytes = rest;
                self.open(record, take)?
            } else {
                let wanted = whole(&self.kept)?.unwrap_or(HEAD);
                let (more, rest) = {
                    let most = bytes.len();
                    std::mem::take(&mut bytes).split_at_mut(most.min(wanted - self.kept.len()))
                };
                bytes = rest;
                self.kept.extend_from_slice(more);
                if whole(&self.kept)?.is_none_or(|length| self.kept.len() < length) {
                    continue;
                }
                let mut record = std::mem::take(&mut self.kept);
                let fed = self.open(&mut record, take)?;
                record.clear();
                self.kept = record;
                fed
            };
            if fed != Fed::More {
                return Ok(fed);
            }
        }
        Ok(Fed::More)
    }

    fn open(
        &mut self,
        record: &mut [u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<Fed, RecordError> {
        let (head, sealed) = record.split_at_mut(HEAD);
        let nonce = self.cipher.nonce();
        let inner = self.cipher.key.open_in_place(nonce, Aad::from(&*head), sealed);
        let inner = inner.map_err(|_| RecordError::Forged)?;
        // Padding with zeros counts, too.
        if inner.len() > CONTENT_MAX + 1 {
            return Err(RecordError::TooLong(inner.len() - 1));
        }
        let last = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordError::Empty)?;
        let (content, kind) = (&inner[..last], inner[last]);
        match kind {
            APPLICATION_DATA => {
                self.updates = 0;
                take(content);
                Ok(Fed::More)
            }
            HANDSHAKE => self.handshake(content).map(|()| Fed::More),
            ALERT => match *content {
                [_, description] if description == Alert::END.0 => Ok(Fed::Ended),
                [_, description] => Ok(Fed::Alert(Alert(description))),
                _ => Err(RecordError::Alert),
            },
            other => Err(RecordError::Kind(other)),
        }
    }

    /// Handles a message of the handshake. Only a change of keys may come now, and it ends its
    /// record: later records have the new key.
    fn handshake(&mut self, content: &[u8]) -> Result<(), RecordError> {
        let is_wanted = match *content {
            [KEY_UPDATE, 0, 0, 1, UPDATE_NOT_REQUESTED] => false,
            [KEY_UPDATE, 0, 0, 1, UPDATE_REQUESTED] => true,
            [KEY_UPDATE, ..] | [] => return Err(RecordError::Update),
            [other, ..] => return Err(RecordError::Handshake(other)),
        };
        self.updates += 1;
        if self.updates > UPDATES_MAX {
            return Err(RecordError::Updates);
        }
        let next = self.shared.keychain.lock().next_to_open();
        let next = next.and_then(|secrets| Cipher::new((0, secrets)));
        self.cipher = next.map_err(|_| RecordError::NoKey)?;
        if is_wanted {
            self.shared.is_update_wanted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opener")
    }
}

/// Length of the record at the beginning of `bytes`, if its head is there.
fn whole(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
    // A wrong type is refused as soon as the first byte is there.
    if let Some(&kind) = bytes.first()
        && kind != APPLICATION_DATA
    {
        return Err(RecordError::Plain(kind));
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let length = u16::from_be_bytes([high, low]);
    if !(TAG + 1..=SEALED_MAX).contains(&usize::from(length)) {
        return Err(RecordError::Length(length));
    }
    Ok(Some(HEAD + usize::from(length)))
}
