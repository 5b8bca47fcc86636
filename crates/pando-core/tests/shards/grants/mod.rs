//! Parts of directories that are lent (docs/design/delegations.md).

mod alike;
mod births;
pub mod failures;
pub mod hostile;
mod liars;
pub mod others;
mod parts;
pub mod reading;
mod under;

use pando_core::{LentCore, Said};
use pando_types::lend::{Element, GrantNews, GrantState, LentRows, Part, Standing};
use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, Order, PartitionIndex, Radix, SessionId, ShardIndex, TxnId};

use crate::support::Cluster;

/// A session that holds parts of one shard.
pub struct Holder {
    pub core: LentCore,
    pub shard: ShardIndex,
    pub session: SessionId,
    /// Elements that are not known to be applied.
    pub unsent: Vec<Element>,
    /// Number of the last request for a part.
    pub borrowed: u64,
}

/// A cluster of which the shards lend.
pub fn cluster(count: u16) -> Cluster {
    Cluster::with(count, |config| (config.lends, config.split_threshold) = (true, 1_000))
}

/// The number of a session's request for a part.
pub fn number(c: &Cluster, nth: u64) -> u64 {
    pando_types::lend::request_number(pando_types::Epoch(c.epoch), nth)
}

/// Partition 0 of a directory.
pub fn first(dir: DirRef) -> Part {
    Part { dir, partition: PartitionIndex(0) }
}

impl Holder {
    /// The cluster's present session, as a holder of parts of `shard`.
    pub fn new(c: &Cluster, shard: ShardIndex) -> Self {
        let config = c.configs[usize::from(shard.0)].clone();
        let core = LentCore::new(config, c.session, c.now()).unwrap();
        #[cfg(feature = "planted")]
        let core = crate::planted::planted_into(core);
        Self { core, shard, session: c.session, unsent: Vec::new(), borrowed: 0 }
    }

    /// Borrows a part, with all its rows.
    pub fn borrow(&mut self, c: &mut Cluster, part: Part) -> Result<TxnId, Refusal> {
        c.session = self.session;
        self.borrowed += 1;
        let order = Order(pando_placement::range(part.partition, Radix::MAX).start);
        let borrow = Op::Borrow(self.session, number(c, self.borrowed), part.dir, order);
        let loan = match c.run(self.shard, borrow)? {
            Body::Lent(loan, _) => loan,
            other => panic!("{other:?}"),
        };
        let generation = loan.grant;
        self.core.begin(loan, part.dir);
        let mut from = Vec::new();
        loop {
            let which = LentRows::Part(from);
            let page = match c.run(self.shard, Op::LentRows(self.shard, generation, which)) {
                Ok(Body::LentRows(page)) => page,
                other => panic!("{other:?}"),
            };
            from = page.next.clone();
            self.core.take_page(generation, page).unwrap();
            if from.is_empty() {
                return Ok(generation);
            }
        }
    }

    /// Asks the lent core, which gets the rows of a file if it needs them.
    pub fn say(&mut self, c: &mut Cluster, op: Op) -> Said {
        c.nanos += 1_000;
        let head = Head {
            id: RequestId { session: self.session, ..RequestId::default() },
            ..Head::default()
        };
        let request = Request { head, credentials: c.by.clone(), op, trail: None };
        loop {
            match self.core.answer(c.now(), &request).unwrap() {
                Said::Fetch(generation, order) => {
                    let mut from = Vec::new();
                    loop {
                        let which = LentRows::File(order, from);
                        match c.run(self.shard, Op::LentRows(self.shard, generation, which)) {
                            Ok(Body::LentRows(page)) => {
                                from = page.next.clone();
                                self.core.take_file(generation, order, page).unwrap();
                            }
                            other => panic!("{other:?}"),
                        }
                        if from.is_empty() {
                            break;
                        }
                    }
                }
                Said::Answer(result, element) => {
                    self.unsent.extend(element.clone());
                    return Said::Answer(result, element);
                }
                travel @ Said::Travel(_) => return travel,
            }
        }
    }

    /// Asks the lent core for what it must answer by itself.
    pub fn here(&mut self, c: &mut Cluster, op: Op) -> Result<Body, Refusal> {
        match self.say(c, op.clone()) {
            Said::Answer(result, _) => result,
            other => panic!("{op:?}: {other:?}"),
        }
    }

    pub fn create(&mut self, c: &mut Cluster, dir: DirRef, name: &str) -> Result<Body, Refusal> {
        let op = c.create_op(dir, name);
        self.here(c, op)
    }

    /// Sends elements, without regard to what has been sent.
    pub fn send(&self, c: &mut Cluster, elements: Vec<Element>) -> Vec<(TxnId, GrantState)> {
        let stream = Op::Stream { shard: self.shard, elements, synced: false };
        match c.run(self.shard, stream) {
            Ok(Body::Streamed(states)) => states,
            other => panic!("{other:?}"),
        }
    }

    /// Sends all that is not known to be applied. All of it must be.
    pub fn stream(&mut self, c: &mut Cluster) {
        while !self.unsent.is_empty() {
            let batch: Vec<_> = self.unsent.iter().take(7).cloned().collect();
            let before = self.unsent.len();
            for (generation, state) in self.send(c, batch) {
                self.unsent.retain(|it| it.grant != generation || it.number > state.applied);
                let stands = matches!(state.standing, Standing::Stands | Standing::Returned);
                assert!(stands, "{generation}: {state:?}");
                self.core.take_inos(generation, &state.inos);
            }
            assert!(self.unsent.len() < before, "nothing of {:?} is applied", self.unsent[0]);
        }
    }

    /// Returns a part, after all that was changed in it.
    pub fn give_back(&mut self, c: &mut Cluster, generation: TxnId) {
        self.unsent.extend(self.core.end(generation));
        self.stream(c);
    }

    pub fn attend_op(&self, recalled: Vec<TxnId>, over: Vec<TxnId>) -> Op {
        Op::Attend { shard: self.shard, session: self.session, recalled, over }
    }

    /// Asks for news, knowing none, and waits for them if there are none.
    pub fn attend(&self, c: &mut Cluster) -> GrantNews {
        self.attend_knowing(c, Vec::new(), Vec::new())
    }

    /// Asks for news but these recalls. Lets grants be forgotten that are over.
    pub fn attend_knowing(
        &self,
        c: &mut Cluster,
        recalled: Vec<TxnId>,
        over: Vec<TxnId>,
    ) -> GrantNews {
        match c.run(self.shard, self.attend_op(recalled, over)) {
            Ok(Body::Attended(news)) => news,
            other => panic!("{other:?}"),
        }
    }
}

/// The refusal of what is not lent now.
pub const NOT_NOW: Refusal = Refusal::Errno(Errno::EAGAIN);

/// A directory of one shard with some files, and a session that holds it.
pub fn lent(c: &mut Cluster) -> (DirRef, Holder, TxnId) {
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    for n in 0..5 {
        c.create(dir, &format!("old{n}")).unwrap();
    }
    c.settle();
    let mut holder = Holder::new(c, c.home(dir));
    let generation = holder.borrow(c, first(dir)).unwrap();
    (dir, holder, generation)
}
