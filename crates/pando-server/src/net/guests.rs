//! Connections that have been let in, by whose they are: how many each may have, and to be ended
//! when their key counts no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pando_keys::Serial;
use pando_net::tls::TlsError;
use pando_net::{Belief, Keys, Outbound, Proof, Shown, Stream, Who};
use pando_types::KeyId;
use pando_wire::{Message, REVOKED_MAX, Refused, Role, encode};
use parking_lot::Mutex;

use super::limits::Limits;

/// Connections of tools beyond the limit: a tool must get in where clients cannot any more.
const TOOLS_MORE: u32 = 16;

/// All of a process.
#[derive(Default)]
pub(super) struct Guests {
    count: AtomicU32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    guests: BTreeMap<u64, Guest>,
    /// How many come with keys of clients. Whom the volume trusts is counted apart, so that no
    /// client takes the room of servers and administrators.
    clients: u32,
    trusted: u32,
    of_key: HashMap<KeyId, u32>,
}

struct Guest {
    who: Who,
    shown: Option<Shown>,
    kind: Kind,
    /// Once it has one in the runtime that serves it.
    stream: Option<Arc<Stream>>,
    /// Of clients, once there is one.
    out: Option<Arc<Outbound>>,
    /// What is to be told once there is one.
    untold: Vec<u8>,
    is_cut: bool,
}

/// What is said on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Client,
    Peer,
    Tool,
}

/// A place among the connections that a process takes. Dropped when the connection ends.
pub(super) struct Place {
    guests: Arc<Guests>,
    number: u64,
}

impl Guests {
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// A connection of one more, if there is room for it, and if its key is accepted still: the
    /// handshake went by what was so when it began. Whatever changes after this finds the
    /// connection here, and cuts it.
    pub(super) fn enter(
        self: &Arc<Self>,
        proof: &Proof,
        role: &Role,
        keys: Option<&Keys>,
        limits: &Limits,
    ) -> Result<Place, Refused> {
        self.table.lock().check_room(&proof.who, role, limits)?;
        let shown = proof.shown.as_ref().zip(keys);
        let judged = shown.map(|(shown, keys)| judge(shown, keys)).transpose()?;
        let mut table = self.table.lock();
        table.check_room(&proof.who, role, limits)?;
        // Nobody waits for the judgement but in the rare case that something has changed since.
        if let (Some((shown, keys)), Some(judged)) = (shown, &judged)
            && !keys.is_current(judged)
        {
            judge(shown, keys)?;
        }
        let kind = match role {
            Role::Client(_) => Kind::Client,
            Role::Peer(..) => Kind::Peer,
            Role::Tool => Kind::Tool,
        };
        let number = table.next;
        table.next += 1;
        *table.counter(&proof.who) += 1;
        if !proof.who.is_trusted() {
            *table.of_key.entry(proof.who.key()).or_default() += 1;
        }
        let (who, shown) = (proof.who.clone(), proof.shown.clone());
        let (stream, out, untold, is_cut) = Default::default();
        table.guests.insert(number, Guest { who, shown, kind, stream, out, untold, is_cut });
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(Place { guests: self.clone(), number })
    }

    /// Ends connections whose keys count no more: those that are `revoked`, and all others that
    /// came with a key if authorities have changed. Connections of servers end in any case: they
    /// hear at their beginning what is revoked.
    pub(super) fn cut(&self, revoked: &BTreeSet<Serial>, is_of_others: bool) {
        self.cut_if(|guest| {
            let serial = guest.who.serial();
            let is_over = serial.is_some_and(|it| is_of_others || revoked.contains(&it));
            is_over || guest.kind == Kind::Peer
        });
    }

    /// Ends connections of these certificates, and no other.
    pub(super) fn cut_revoked(&self, revoked: &BTreeSet<Serial>) {
        self.cut_if(|guest| guest.who.serial().is_some_and(|serial| revoked.contains(&serial)));
    }

    /// Ends connections whose certificates are too old by now.
    pub(super) fn expire(&self, now: SystemTime) {
        self.cut_if(|guest| guest.shown.as_ref().is_some_and(|shown| shown.is_expired(now)));
    }

    fn cut_if(&self, is_over: impl Fn(&Guest) -> bool) {
        for guest in self.table.lock().guests.values_mut().filter(|guest| is_over(guest)) {
            guest.is_cut = true;
            guest.shut();
        }
    }

    /// Tells clients what is revoked since they came: a server may be among it. What is more than a
    /// page would be held for each of them, outside of all budgets. So they are cut then, and are
    /// told all of it when they come again, at their own pace.
    pub(super) fn tell(&self, revoked: Vec<[u8; 16]>) {
        if revoked.is_empty() {
            return;
        }
        if revoked.len() > REVOKED_MAX {
            return self.cut_if(|guest| guest.kind == Kind::Client);
        }
        let mut frames = Vec::new();
        encode(&mut frames, pando_wire::Stream(0), &Message::Revoked(revoked));
        let mut outs = Vec::new();
        for guest in self.table.lock().guests.values_mut() {
            match (&guest.out, guest.kind) {
                (Some(out), Kind::Client) => outs.push(out.clone()),
                (None, Kind::Client) => guest.untold.extend_from_slice(&frames),
                (_, Kind::Peer | Kind::Tool) => {}
            }
        }
        for out in outs {
            out.append(|bytes| bytes.extend_from_slice(&frames));
            out.flush();
        }
    }
}

/// By what a key was accepted that counts still.
fn judge(shown: &Shown, keys: &Keys) -> Result<Belief, Refused> {
    let judged = keys.belief().and_then(|belief| {
        belief.judge(shown, false)?;
        Ok(belief)
    });
    judged.map_err(|error| {
        Refused::KeyEnded(match error {
            TlsError::Peer(denial) => denial.to_string(),
            other => other.to_string(),
        })
    })
}

impl Table {
    fn counter(&mut self, who: &Who) -> &mut u32 {
        if who.is_trusted() { &mut self.trusted } else { &mut self.clients }
    }

    fn check_room(&mut self, who: &Who, role: &Role, limits: &Limits) -> Result<(), Refused> {
        let more = if matches!(role, Role::Tool) { TOOLS_MORE } else { 0 };
        if *self.counter(who) >= limits.connections.saturating_add(more) {
            return Err(Refused::Full(limits.connections));
        }
        let of_key = self.of_key.get(&who.key()).copied().unwrap_or(0);
        if !who.is_trusted() && of_key >= limits.connections_of_key {
            return Err(Refused::FullOfKey(limits.connections_of_key));
        }
        Ok(())
    }
}

impl Guest {
    fn shut(&self) {
        if let Some(stream) = &self.stream
            && self.is_cut
        {
            stream.shut();
        }
    }
}

impl Place {
    /// The connection is served from now on; if it was cut before, it ends.
    pub(super) fn serve(&self, stream: &Arc<Stream>) {
        let mut table = self.guests.table.lock();
        if let Some(guest) = table.guests.get_mut(&self.number) {
            guest.stream = Some(stream.clone());
            guest.shut();
        }
    }

    /// A client hears here what is said unasked.
    pub(super) fn speak(&self, out: &Arc<Outbound>) {
        let mut untold = Vec::new();
        if let Some(guest) = self.guests.table.lock().guests.get_mut(&self.number) {
            guest.out = Some(out.clone());
            untold = std::mem::take(&mut guest.untold);
        }
        if !untold.is_empty() {
            out.append(|bytes| bytes.extend_from_slice(&untold));
            out.flush();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.guests.table.lock();
        if let Some(guest) = table.guests.remove(&self.number) {
            *table.counter(&guest.who) -= 1;
            let key = guest.who.key();
            if let Some(count) = table.of_key.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    table.of_key.remove(&key);
                }
            }
        }
        self.guests.count.fetch_sub(1, Ordering::AcqRel);
    }
}
