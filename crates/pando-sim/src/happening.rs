//! What may happen at a moment.

use pando_types::codec;
use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;

use crate::mail::Ticket;

/// Shards are named by their position, their processes by the number of their life.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A request reaches a shard.
    Request(usize, Ticket, Vec<u8>),
    /// A reply reaches a client.
    Reply(Ticket, Vec<u8>),
    /// A message of another shard reaches a shard.
    Peer(usize, Vec<u8>),
    /// A client waited long enough for a reply.
    TimeOut(Ticket),
    /// A client slept long enough.
    Wake(Ticket),
    /// A shard turns to its inbox.
    Turn(usize, u64),
    /// The time a shard asked to be woken at.
    Tick(usize, u64),
    /// A sync of a shard's log ends.
    Sync(usize, u64),
    /// The next sync that nobody hurries.
    BackgroundSync(usize),
    /// The next step of a checkpoint, or the next checkpoint.
    Checkpoint(usize),
    /// The disk of a shard will stop soon.
    ArmCrash(usize),
    /// A shard's process dies.
    Crash(usize, u64),
    /// It comes back.
    Restart(usize),
    /// Two shards cease to hear each other.
    Cut,
    /// A client dies.
    ClientDies,
}

impl Happening {
    /// Its bytes and a number, if it is worth noting.
    #[must_use]
    pub fn traced(&self) -> Option<(&[u8], u64)> {
        match self {
            Self::Request(shard, _, bytes) | Self::Peer(shard, bytes) => {
                Some((bytes, *shard as u64))
            }
            Self::Reply(ticket, bytes) => Some((bytes, *ticket)),
            _ => None,
        }
    }

    /// In words.
    pub fn line(&self, number: u64) -> impl std::fmt::Display + '_ {
        struct Line<'a>(&'a Happening, u64);
        impl std::fmt::Display for Line<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    Happening::Request(_, ticket, bytes) => {
                        write!(f, "shard {} <- call {ticket}: ", self.1)?;
                        match codec::decode::<Request>(1, bytes) {
                            Ok(r) => write!(
                                f,
                                "s{}.{}.{} uid {} {:?}",
                                r.head.id.session,
                                r.head.id.slot,
                                r.head.id.sequence,
                                r.credentials.uid,
                                r.op
                            ),
                            Err(error) => write!(f, "{error}"),
                        }
                    }
                    Happening::Reply(_, bytes) => {
                        write!(f, "call {} <- ", self.1)?;
                        match codec::decode::<Reply>(1, bytes) {
                            Ok(r) => write!(f, "shard {}: {:?}", r.shard, r.result),
                            Err(error) => write!(f, "{error}"),
                        }
                    }
                    Happening::Peer(_, bytes) => {
                        write!(f, "shard {} <- ", self.1)?;
                        match codec::decode::<Peer>(1, bytes) {
                            Ok(p) => write!(
                                f,
                                "shard {}: txn {} step {} floor {}: {:?}",
                                p.from, p.txn, p.step, p.floor, p.say
                            ),
                            Err(error) => write!(f, "{error}"),
                        }
                    }
                    other => write!(f, "{other:?}"),
                }
            }
        }
        Line(self, number)
    }
}
