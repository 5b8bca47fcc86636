//! Which inputs bring names of objects into a shard's log.
//!
//! Before the log is synced, the objects that exist at that moment are synced. A group that this
//! sync covers must not name an object that was stored later. So inputs that name objects wait
//! while a sync goes on.

use pando_types::op::Request;
use pando_types::peer::{Change, EntryRows, Peer, PeerMessage, Seen, Vote};

use crate::calls::incoming::Incoming;

pub(crate) fn names_objects(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::Call { request, .. } | Incoming::Judged { request, .. } => {
            request_names_objects(request)
        }
        Incoming::Peer(peer) => in_peer(peer),
    }
}

/// Whether a request names an object.
pub(crate) fn request_names_objects(request: &Request) -> bool {
    request.op.objects().next().is_some()
}

/// Whether a peer message names an object. Pages of a split need not wait: their source syncs the
/// objects before the pages leave.
fn in_peer(peer: &Peer) -> bool {
    let in_entry = |entry: &EntryRows| !entry.inode.slices.is_empty();
    match &peer.message {
        PeerMessage::Voted(Vote::Yes(Seen::Name { entry: Some(entry), .. })) => in_entry(entry),
        PeerMessage::Finish(Some(changes)) => changes.iter().any(|change| match change {
            Change::PutEntry { entry, .. } => in_entry(entry),
            Change::PutLink { rows, .. } => !rows.slices.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}
