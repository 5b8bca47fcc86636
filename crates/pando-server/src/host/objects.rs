//! Which inputs bring names of objects into a shard's log.
//!
//! Before a log is fsynced, all objects there are at that moment are. An object stored later must
//! not be named by a group that the same fsync covers; so while it is under way, these inputs wait.

use pando_types::op::{Op, Payload, Request};
use pando_types::peer::{Change, EntryRows, Peer, Say, Seen, Vote};

use super::state::Incoming;

pub(crate) fn names_objects(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::Call { request, .. } => request_names_objects(request),
        Incoming::Peer(peer) => in_peer(peer),
    }
}

/// The same of a request.
pub(crate) fn request_names_objects(request: &Request) -> bool {
    match &request.op {
        Op::WriteData { pieces, .. } => {
            pieces.iter().any(|piece| matches!(piece.payload, Payload::Object(_)))
        }
        _ => false,
    }
}

/// Pages of a split are left out: their source syncs what they name before they leave.
fn in_peer(peer: &Peer) -> bool {
    let in_entry = |entry: &EntryRows| !entry.inode.slices.is_empty();
    match &peer.say {
        Say::Voted(Vote::Yes(Seen::Name { entry: Some(entry), .. })) => in_entry(entry),
        Say::Finish(Some(changes)) => changes.iter().any(|change| match change {
            Change::PutEntry { entry, .. } => in_entry(entry),
            Change::PutLink { rows, .. } => !rows.slices.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}
