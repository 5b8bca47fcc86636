//! The event loop of the model: requests and messages arrive in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use pando_placement::DirMap;
use pando_types::{Order, PartitionIndex, ShardIndex};

use super::report::{Report, Window};
use super::splits::Move;
use super::{Setup, Splitting};
use crate::repro::directory::{Directory, any_order};

/// An arrival. The field is the number of a process or of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// At the server that the process chose: its request.
    Request(u32),
    /// At the source: the next page is to be sent.
    Step(u32),
    /// At the target: a page.
    Page(u32),
    /// At the target: the exchange.
    Arrive(u32),
    /// At the source: the vote.
    Voted(u32),
    /// At the target: the news that it owns the partition.
    Own(u32),
}

impl Event {
    const ID_BITS: u32 = 29;

    const fn pack(self) -> u32 {
        let (kind, id) = match self {
            Self::Request(id) => (0, id),
            Self::Step(id) => (1, id),
            Self::Page(id) => (2, id),
            Self::Arrive(id) => (3, id),
            Self::Voted(id) => (4, id),
            Self::Own(id) => (5, id),
        };
        kind << Self::ID_BITS | id
    }

    const fn unpack(packed: u32) -> Self {
        let id = packed & ((1 << Self::ID_BITS) - 1);
        match packed >> Self::ID_BITS {
            0 => Self::Request(id),
            1 => Self::Step(id),
            2 => Self::Page(id),
            3 => Self::Arrive(id),
            4 => Self::Voted(id),
            _ => Self::Own(id),
        }
    }
}

struct Process {
    client: u32,
    left: u64,
    order: Order,
    server: ShardIndex,
}

/// The state of the model.
pub(super) struct Model<'a> {
    pub(super) setup: &'a Setup,
    pub(super) rng: fastrand::Rng,
    pub(super) directory: Directory,
    /// Ordered by time, then by the order of creation. So events of equal time have a fixed order.
    events: BinaryHeap<Reverse<(u64, u64)>>,
    made: u64,
    /// For each server, the time at which it has done all work that has arrived.
    free: Vec<u64>,
    processes: Vec<Process>,
    maps: Vec<DirMap>,
    pub(super) moves: Vec<Move>,
    /// Number of the move, by the partition that splits.
    pub(super) leaving: HashMap<u32, u32>,
    /// Number of the move, by the new partition, until its owner knows that it owns it.
    pub(super) arriving: HashMap<u32, u32>,
    /// Number of moves in progress, by source.
    pub(super) copies: Vec<u32>,
    windows: Vec<u64>,
    last_finish: u64,
    pub(super) last_split: u64,
    pub(super) closed_longest: u64,
    astray: u64,
    waited: u64,
}

impl<'a> Model<'a> {
    pub(super) fn new(setup: &'a Setup) -> Self {
        let (clients, processes) = (setup.clients, setup.clients * setup.processes);
        assert!((1..1 << 24).contains(&processes), "{processes} processes");
        let servers = usize::from(setup.rules.servers);
        let directory = Directory::new(setup.rules);
        let home = directory.home();
        let each = setup.files / u64::from(processes);
        let process = |number| Process {
            client: number % clients,
            left: each,
            order: Order(0),
            server: home,
        };
        Self {
            setup,
            rng: fastrand::Rng::with_seed(setup.seed),
            events: BinaryHeap::new(),
            made: 0,
            free: vec![0; servers],
            processes: (0..processes).map(process).collect(),
            maps: vec![DirMap::new(); clients as usize],
            moves: Vec::new(),
            leaving: HashMap::new(),
            arriving: HashMap::new(),
            copies: vec![0; servers],
            windows: Vec::new(),
            last_finish: 0,
            last_split: 0,
            closed_longest: 0,
            astray: 0,
            waited: 0,
            directory,
        }
    }

    pub(super) fn run(mut self) -> Report {
        for number in 0..self.processes.len() as u32 {
            // Processes begin at different times.
            let begin = self.rng.u64(..=self.setup.costs.hop + self.setup.costs.create);
            self.next_request(number, begin);
        }
        while let Some(Reverse((now, packed))) = self.events.pop() {
            match Event::unpack(packed as u32) {
                Event::Request(process) => self.request(process, now),
                Event::Step(number) => self.step(number, now),
                Event::Page(number) => self.page(number, now),
                Event::Arrive(number) => self.arrive(number, now),
                Event::Voted(number) => self.voted(number, now),
                Event::Own(number) => self.own(number, now),
            }
        }
        self.report()
    }

    pub(super) fn at(&mut self, time: u64, event: Event) {
        // The low half of the word encodes the event, the high half the order of creation.
        self.events.push(Reverse((time, self.made << 32 | u64::from(event.pack()))));
        self.made = (self.made + 1) & u64::from(u32::MAX);
    }

    /// Adds work that arrives now to a server. Returns the time at which it is done.
    pub(super) fn occupy(&mut self, server: ShardIndex, now: u64, nanos: u64) -> u64 {
        let free = &mut self.free[usize::from(server.0)];
        *free = now.max(*free) + nanos;
        *free
    }

    /// Sends a process's next create, if any is left.
    fn next_request(&mut self, number: u32, now: u64) {
        let process = &mut self.processes[number as usize];
        if process.left == 0 {
            return;
        }
        process.left -= 1;
        process.order = any_order(&mut self.rng);
        self.send(number, now);
    }

    /// Sends a process's create to the server that its client's map names.
    fn send(&mut self, number: u32, now: u64) {
        let process = &mut self.processes[number as usize];
        let map = &self.maps[process.client as usize];
        process.server = map.shard(self.directory.home(), map.locate(process.order).0);
        self.at(now + self.setup.costs.hop, Event::Request(number));
    }

    fn request(&mut self, number: u32, now: u64) {
        let costs = &self.setup.costs;
        let Process { client, order, server, .. } = self.processes[number as usize];
        let (partition, owner) = self.directory.locate(order);
        if owner != server {
            self.astray += 1;
            let finish = self.occupy(server, now, costs.redirect);
            let told = self.directory.told_by(server);
            self.maps[client as usize].merge(&told);
            return self.send(number, finish + costs.hop);
        }
        if self.is_closed(partition, order, number) {
            self.waited += 1;
            return;
        }
        let finish = self.occupy(server, now, costs.create);
        self.finished(finish);
        self.directory.add(partition);
        self.grown(partition, order, finish);
        self.next_request(number, finish + costs.hop + costs.client);
    }

    /// Whether the request must wait for a split. If so, the move notes the process.
    fn is_closed(&mut self, partition: PartitionIndex, order: Order, process: u32) -> bool {
        let closed = |of: &Move| match self.setup.splitting {
            Splitting::Locked => true,
            Splitting::Live => of.is_closed() && of.orders.contains(&order.0),
        };
        let leaving = self.leaving.get(&partition.0).copied();
        let leaving = leaving.filter(|number| closed(&self.moves[*number as usize]));
        let Some(number) = leaving.or_else(|| self.arriving.get(&partition.0).copied()) else {
            return false;
        };
        self.moves[number as usize].waiting.push(process);
        true
    }

    fn finished(&mut self, at: u64) {
        let window = (at / self.setup.window) as usize;
        if window >= self.windows.len() {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
        self.last_finish = self.last_finish.max(at);
    }

    fn report(mut self) -> Report {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let width = seconds(self.setup.window);
        self.windows.pop();
        let windows = self.windows.iter().zip(0..).map(|(count, index)| Window {
            at: (f64::from(index) + 0.5) * width,
            rate: *count as f64 / width,
        });
        Report {
            files: self.setup.files / self.processes.len() as u64 * self.processes.len() as u64,
            seconds: seconds(self.last_finish),
            last_split: seconds(self.last_split),
            astray: self.astray,
            waited: self.waited,
            moved: self.directory.moved,
            partitions: self.directory.partitions(),
            closed_longest: seconds(self.closed_longest),
            windows: windows.collect(),
        }
    }
}
