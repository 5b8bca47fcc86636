//! Connections that are admitted, by their keys: how many each key may have. They are ended when
//! their key no longer counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pando_keys::Serial;
use pando_net::tls::TlsError;
use pando_net::{Accepts, Belief, Keys, Outbound, Proof, Shown, Stream, Who};
use pando_types::KeyId;
use pando_wire::{Message, REVOKED_MAX, Refused, Role, encode};
use parking_lot::Mutex;

use crate::net::bounds::limits::Limits;

/// Connections of tools beyond the limit: a tool must get in when clients no longer can.
const TOOLS_MORE: u32 = 16;

/// All admitted connections of a process.
#[derive(Default)]
pub(crate) struct Guests {
    count: AtomicU32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    guests: BTreeMap<u64, Guest>,
    /// Connections with keys of clients. Trusted keys are counted apart, so that no client takes
    /// the room of servers and administrators.
    clients: u32,
    trusted: u32,
    of_key: HashMap<KeyId, u32>,
}

struct Guest {
    who: Who,
    shown: Option<Shown>,
    kind: Kind,
    /// Set once the thread that serves the connection has it.
    stream: Option<Arc<Stream>>,
    /// Writing half of a client's connection, once it is served.
    out: Option<Arc<Outbound>>,
    /// Frames that wait for `out`.
    untold: Vec<u8>,
    is_cut: bool,
}

/// The protocol on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Client,
    Peer,
    Tool,
}

/// A place among the admitted connections. Dropped when the connection ends.
pub(crate) struct Place {
    guests: Arc<Guests>,
    number: u64,
}

impl Guests {
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Admits a connection, if there is room and its key still counts. The handshake judged by what
    /// was known at its beginning. Any later change finds the connection in the table, and cuts it.
    pub(crate) fn enter(
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
        // This second judgement holds the lock. It is needed only if something has changed since
        // the first.
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

    /// Ends connections of peers: they hear what is revoked when they begin.
    pub(crate) fn cut_peers(&self) {
        self.cut_if(|guest| guest.kind == Kind::Peer);
    }

    /// Ends connections of these certificates, and no other.
    pub(crate) fn cut_revoked(&self, revoked: &BTreeSet<Serial>) {
        self.cut_if(|guest| guest.who.serial().is_some_and(|serial| revoked.contains(&serial)));
    }

    /// Ends connections whose key no longer counts, whatever has changed: an authority, too. The
    /// keys are judged without the lock. A connection that enters meanwhile is judged by
    /// [`Guests::enter`].
    pub(crate) fn cut_unaccepted(&self, keys: &Keys) {
        let table = self.table.lock();
        let shown = table.guests.iter().filter_map(|(at, guest)| Some((*at, guest.shown.clone()?)));
        let shown: Vec<(u64, Shown)> = shown.collect();
        drop(table);
        let over = shown.iter().filter(|(_, shown)| judge(shown, keys).is_err());
        let over: BTreeSet<u64> = over.map(|(at, _)| *at).collect();
        let mut table = self.table.lock();
        let guests = table.guests.iter_mut().filter(|(at, _)| over.contains(at));
        guests.for_each(|(_, guest)| guest.cut());
    }

    /// Ends connections with certificates that have expired.
    pub(crate) fn expire(&self, now: SystemTime) {
        self.cut_if(|guest| guest.shown.as_ref().is_some_and(|shown| shown.is_expired(now)));
    }

    fn cut_if(&self, is_over: impl Fn(&Guest) -> bool) {
        let mut table = self.table.lock();
        table.guests.values_mut().filter(|guest| is_over(guest)).for_each(Guest::cut);
    }

    /// Tells clients what was revoked since they came: their server may be among it. More than a
    /// page would take memory for each client, outside of all budgets. So clients are cut then, and
    /// hear all of it when they connect again.
    pub(crate) fn tell(&self, revoked: Vec<[u8; 16]>) {
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

/// Judges a key by the current trust. Returns that trust.
fn judge(shown: &Shown, keys: &Keys) -> Result<Belief, Refused> {
    let judged = keys.belief().and_then(|belief| {
        belief.judge(shown, Accepts::AnyRole)?;
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
    fn cut(&mut self) {
        self.is_cut = true;
        self.shut();
    }

    fn shut(&self) {
        if let Some(stream) = &self.stream
            && self.is_cut
        {
            stream.shut();
        }
    }
}

impl Place {
    /// Notes the stream of a connection that is served from now on. Ends it if it was cut before.
    pub(crate) fn serve(&self, stream: &Arc<Stream>) {
        let mut table = self.guests.table.lock();
        if let Some(guest) = table.guests.get_mut(&self.number) {
            guest.stream = Some(stream.clone());
            guest.shut();
        }
    }

    /// Notes the writing half of a client's connection, and sends the frames that wait for it.
    pub(crate) fn speak(&self, out: &Arc<Outbound>) {
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
