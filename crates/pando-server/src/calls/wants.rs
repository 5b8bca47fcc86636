//! How much log space each input may need, and which inputs may take it from the reserve.

use pando_core::contract::Input;
use pando_core::takes_space;
use pando_types::Errno;
use pando_types::op::{Op, Payload, Request};
use pando_types::peer::{Peer, PeerMessage, Prepare, Vote};

/// Log bytes that any change may take besides what it carries: records, an outcome, a transaction's
/// state.
const CHANGE_BYTES: u64 = 8 << 10;
/// Log bytes that the locks of one session on one file may take.
const LOCKS_BYTES: u64 = 48 * pando_types::LockSet::MAX as u64;

/// What an input wants of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wants {
    /// Hardly any log space.
    Nothing,
    /// The input makes something, and needs so many bytes. On a full disk the machine refuses a
    /// client's request with `ENOSPC`, unless it has run before. The shell refuses a peer message
    /// at once.
    Space(u64),
    /// The input gives space back, or ends what has begun. It may take so many bytes from the
    /// reserve.
    Reserve(u64),
}

/// What `input` wants.
pub(crate) fn wants(input: &Input) -> Wants {
    match input {
        Input::Client(_, request) => of_request(request),
        Input::Peer(peer) => of_peer(peer),
        Input::Tick | Input::Ready => Wants::Reserve(CHANGE_BYTES),
    }
}

fn of_request(request: &Request) -> Wants {
    match bytes_of(&request.op) {
        None => Wants::Nothing,
        Some(bytes) if takes_space(&request.op) => Wants::Space(bytes),
        Some(bytes) => Wants::Reserve(bytes),
    }
}

/// Log bytes that an operation may take. `None`: hardly any.
fn bytes_of(op: &Op) -> Option<u64> {
    Some(match op {
        Op::Create { node, .. } => CHANGE_BYTES + node.symlink.len() as u64,
        Op::SetXattr { value, .. } => CHANGE_BYTES + value.len() as u64,
        Op::WriteData { pieces, .. } => {
            let bytes = |payload: &Payload| match payload {
                // The log record of an inline file has its whole content.
                Payload::Inline(bytes) => pando_types::op::INLINE_MAX + bytes.len() as u64,
                Payload::Object(_) | Payload::Hole(_) => 256,
            };
            let payload: u64 = pieces.iter().map(|piece| bytes(&piece.payload)).sum();
            CHANGE_BYTES + payload
        }
        Op::Mkdir(..)
        | Op::Link(..)
        | Op::Rename { .. }
        | Op::Unlink(..)
        | Op::Rmdir(..)
        | Op::Release(..)
        | Op::ReleaseAll(..)
        | Op::SetAttr(..)
        | Op::DirSetAttr(..)
        | Op::RemoveXattr(..)
        | Op::Open { .. }
        | Op::OpenName { .. }
        | Op::OpenSession
        | Op::OpenLocalSession
        | Op::EndSession(..)
        | Op::Borrow(..)
        | Op::BorrowToRead(..)
        | Op::Attend { .. }
        | Op::GarbageDone(..) => CHANGE_BYTES,
        // A program that frees space must be able to lock the files in which it does so.
        Op::Lock(..) | Op::LockOf(..) | Op::Unlock(..) => CHANGE_BYTES + LOCKS_BYTES,
        Op::TestLock(..)
        | Op::Lookup(..)
        | Op::GetAttr(..)
        | Op::Readlink(..)
        | Op::Access(..)
        | Op::ReadData { .. }
        | Op::GetXattr(..)
        | Op::ListXattr(..)
        | Op::DirGetAttr(..)
        | Op::PartitionStat(..)
        | Op::DirAccess(..)
        | Op::ReadDir { .. }
        | Op::ReadFiles { .. }
        | Op::Parent(..)
        | Op::StatFs(..)
        | Op::Sync(..)
        | Op::SyncFile(..)
        | Op::Garbage(..)
        | Op::InspectDir(..)
        | Op::Glimpse(..)
        | Op::HandOver(..)
        | Op::AddShard(..)
        // Each element is an input of its own.
        | Op::Stream { .. }
        | Op::LentRows(..)
        | Op::Renew(..)
        | Op::Hold(..) => return None,
    })
}

fn of_peer(peer: &Peer) -> Wants {
    // The log gets the message at most twice: as a record, and within an outcome.
    let bytes = CHANGE_BYTES + 2 * pando_types::codec::encode(0, peer).len() as u64;
    match &peer.message {
        PeerMessage::Page { .. }
        | PeerMessage::HashSlotPage { .. }
        | PeerMessage::Prepare(
            _,
            Prepare::NewHome(_) | Prepare::Arrive(_) | Prepare::TakeHashSlot(_),
        ) => Wants::Space(bytes),
        PeerMessage::Prepare(..) | PeerMessage::Voted(_) | PeerMessage::Finish(_) => {
            Wants::Reserve(bytes)
        }
        PeerMessage::Finished
        | PeerMessage::Ask
        | PeerMessage::PageDone(_)
        | PeerMessage::Elsewhere(_) => Wants::Reserve(bytes),
        PeerMessage::Sessions { .. } | PeerMessage::SessionsHeard { .. } => Wants::Reserve(bytes),
        PeerMessage::AskSessions { .. } => Wants::Nothing,
        // It may begin a merge, which in the end takes as much room as it gives back.
        PeerMessage::Shrunk { .. } => Wants::Space(bytes),
        PeerMessage::Versions { .. }
        | PeerMessage::VersionsKnown(_)
        | PeerMessage::AskVersions(_) => Wants::Nothing,
    }
}

/// The answer to a peer message for which there is no room. `None`: no answer, the sender sends the
/// message again.
pub(crate) fn no_room_for(peer: &Peer) -> Option<PeerMessage> {
    match &peer.message {
        PeerMessage::Prepare(..) => Some(PeerMessage::Voted(Vote::No(Errno::ENOSPC))),
        // The source gives up the split, merge or handover.
        PeerMessage::Page { .. } | PeerMessage::HashSlotPage { .. } => {
            Some(PeerMessage::PageDone(0))
        }
        PeerMessage::Voted(_)
        | PeerMessage::Finish(_)
        | PeerMessage::Finished
        | PeerMessage::Ask
        | PeerMessage::PageDone(_) => None,
        PeerMessage::Versions { .. }
        | PeerMessage::VersionsKnown(_)
        | PeerMessage::AskVersions(_) => None,
        PeerMessage::Shrunk { .. } | PeerMessage::Elsewhere(_) => None,
        PeerMessage::Sessions { .. }
        | PeerMessage::SessionsHeard { .. }
        | PeerMessage::AskSessions { .. } => None,
    }
}
