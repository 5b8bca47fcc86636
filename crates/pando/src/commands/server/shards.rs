//! Which shards a server takes, and the sockets of its folder.

use pando_net::HostsFolder;
use pando_server::founding::make;
use pando_server::moving::Given;
use pando_server::{Folder, Superblock};
use pando_types::SHARDS_MAX;
use pando_wire::Address;

use crate::console::output::say;
use crate::failure::Failure;

/// The value of `--shard` for all shards whose stores are in the folder.
pub const ALL: &str = "all";

/// The shards that the user asks for, without those that were moved away.
pub fn shards_of(
    folder: &Folder,
    text: &str,
    superblock: &Superblock,
) -> Result<Vec<u16>, Failure> {
    if text == ALL {
        return Ok(folder.kept()?);
    }
    let known = shards_known(folder, superblock);
    let mut shards = parse_shards(text, known)?;
    // The shard after the last is made, so that `pando shard add` can add it. A folder whose
    // objects are elsewhere may not know all shards, so nothing is made there.
    if folder.has_objects() && shards.contains(&known) {
        make(folder, superblock, known)?;
    }
    let mut is_gone = Ok(());
    shards.retain(|&shard| match Given::read(folder, shard) {
        Ok(None) => true,
        Ok(Some(given)) => {
            let at = given.to.addresses.join(" or ");
            say!("shard {shard} is not served here: it was moved to the server at {at}");
            false
        }
        Err(error) => {
            is_gone = Err(Failure::plain(error));
            true
        }
    });
    is_gone.map(|()| shards)
}

/// Sockets of earlier processes of this folder. A process names its socket after its first shard,
/// or after having none. Other processes still ask there: for example, a server that holds a whole
/// copy of a shard and waits for the handover.
pub fn former_sockets(folder: &Folder, text: &str, shards: &[u16]) -> Vec<Address> {
    let is_asked_for =
        |shard: u16| text == ALL || text.split(',').any(|part| part.trim().parse() == Ok(shard));
    let is_given = |shard: u16| matches!(Given::read(folder, shard), Ok(Some(_)));
    let had = |shard: &u16| shards.contains(shard) || (is_asked_for(*shard) && is_given(*shard));
    let sockets = (0..SHARDS_MAX).filter(had).map(|shard| folder.server_socket(shard));
    let empty = (text == ALL).then(|| folder.empty_server_socket());
    sockets.chain(empty).map(Address::Unix).collect()
}

/// Number of shards of the volume, as far as this folder knows.
fn shards_known(folder: &Folder, superblock: &Superblock) -> u16 {
    let told = HostsFolder::new(&folder.run()).read().into_iter().map(|hosting| hosting.shard.0);
    let here = (0..SHARDS_MAX).filter(|&shard| folder.shard(shard).is_dir());
    let last = told.chain(here).max().unwrap_or(0);
    superblock.shards.max(last + 1)
}

/// Parses shard numbers with commas between. Each is at most `known`, the first number that is not
/// in use. Returns them ascending, each once.
fn parse_shards(text: &str, known: u16) -> Result<Vec<u16>, Failure> {
    let mut shards = Vec::new();
    for part in text.split(',') {
        match part.trim().parse() {
            Ok(shard) if shard <= known && shard < SHARDS_MAX => shards.push(shard),
            Ok(shard) => {
                let last = known - 1;
                return Err(Failure::new(
                    2,
                    format!(
                        "there is no shard {shard}: the volume has shards 0 to {last}, and {known} would be the next"
                    ),
                ));
            }
            Err(_) => {
                return Err(Failure::new(
                    2,
                    format!("`{part}` is not a shard: write --shard 0,1 or --shard all"),
                ));
            }
        }
    }
    shards.sort_unstable();
    shards.dedup();
    Ok(shards)
}
