//! Connections over TCP that have proved nothing yet. A new one always finds a place. If all places
//! are taken, another connection goes for it: of the address that has most, a silent one, else the
//! oldest.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Greetings of all addresses together.
pub(crate) const MOST: usize = 512;
/// Greetings of one address. A mount has one for each shard when it begins.
pub(crate) const MOST_OF_ONE: usize = 64;

/// The source by which a connection is counted. It is an IPv4 address, or the /64 network of an
/// IPv6 address: one machine may have all of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Source(IpAddr);

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(long) => {
                let network = u128::from(long) & !u128::from(u64::MAX);
                Self(Ipv6Addr::from(network).into())
            }
            short => Self(short),
        }
    }
}

/// All connections in the greeting.
#[derive(Default)]
pub(crate) struct Greetings {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// By number: the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    of_source: HashMap<Source, usize>,
}

struct Waiting {
    source: Source,
    has_spoken: bool,
    /// Dropped to end the connection.
    _stay: oneshot::Sender<()>,
}

/// A place among the greetings, which it frees when dropped.
pub(crate) struct Greeting {
    greetings: Arc<Greetings>,
    number: u64,
}

impl Greetings {
    /// Takes a connection in. The receiver is closed when the place is needed for another
    /// connection.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> (Greeting, oneshot::Receiver<()>) {
        let source = Source::of(address);
        let (stay, leave) = oneshot::channel();
        let mut table = self.table.lock();
        if let Some(number) = table.to_leave(source) {
            table.remove(number);
        }
        let number = table.next;
        table.next += 1;
        table.waiting.insert(number, Waiting { source, has_spoken: false, _stay: stay });
        *table.of_source.entry(source).or_default() += 1;
        (Greeting { greetings: self.clone(), number }, leave)
    }
}

impl Greeting {
    /// Notes that bytes have come on the connection.
    pub(crate) fn has_spoken(&self) {
        if let Some(waiting) = self.greetings.table.lock().waiting.get_mut(&self.number) {
            waiting.has_spoken = true;
        }
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.greetings.table.lock().remove(self.number);
    }
}

impl Table {
    /// The connection that must go before another of `source` comes. `None`: there is room. A
    /// source that has its part loses one of its own; otherwise a source that has most loses one.
    fn to_leave(&self, source: Source) -> Option<u64> {
        let of_it = self.of_source.get(&source).copied().unwrap_or(0);
        let most = self.of_source.values().max().copied().unwrap_or(0);
        let is_candidate = |of: Source| {
            if of_it >= MOST_OF_ONE { of == source } else { self.of_source.get(&of) == Some(&most) }
        };
        if of_it < MOST_OF_ONE && self.waiting.len() < MOST {
            return None;
        }
        let candidates = self.waiting.iter().filter(|(_, waiting)| is_candidate(waiting.source));
        candidates.min_by_key(|(number, waiting)| (waiting.has_spoken, **number)).map(|(n, _)| *n)
    }

    fn remove(&mut self, number: u64) {
        let Some(gone) = self.waiting.remove(&number) else { return };
        if let Some(count) = self.of_source.get_mut(&gone.source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&gone.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(leave: &mut oneshot::Receiver<()>) -> bool {
        leave.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn v4(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    #[test]
    fn one_address_has_its_part_and_loses_its_silent_ones_first() {
        let greetings = Arc::new(Greetings::default());
        let (_other, mut other) = greetings.enter(v4(2));
        let mut of_one: Vec<_> = (0..MOST_OF_ONE).map(|_| greetings.enter(v4(1))).collect();
        of_one[0].0.has_spoken();
        let _next = greetings.enter(v4(1));
        let ended: Vec<_> = of_one.iter_mut().map(|(_, leave)| ends(leave)).collect();
        assert_eq!(ended.iter().position(|ended| *ended), Some(1), "the oldest that is silent");
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
        assert!(!ends(&mut other));
    }

    #[test]
    fn when_all_is_full_the_source_with_most_loses_one() {
        let greetings = Arc::new(Greetings::default());
        let (_few, mut few) = greetings.enter(v4(200));
        let mut many = Vec::new();
        for at in 0..MOST - 1 {
            many.push(greetings.enter(v4((at / 32) as u8)));
        }
        let (_next, mut next) = greetings.enter(v4(201));
        assert!(ends(&mut many[0].1));
        assert!(!ends(&mut few) && !ends(&mut next));
        assert_eq!(many.iter_mut().filter_map(|(_, leave)| ends(leave).then_some(())).count(), 1);
        assert_eq!(greetings.table.lock().waiting.len(), MOST);
        drop((many, _few, _next));
        let table = greetings.table.lock();
        assert!(table.waiting.is_empty() && table.of_source.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_a_mapped_address_is_ipv4() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    }
}
