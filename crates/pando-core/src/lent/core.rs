//! The lent core: it answers requests from lent parts, and says what it has changed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::lend::{Act, Change, Element, Inos, LentPage, Loan, Part, PartOpen};
use pando_types::op::{CHANGE_MAX, Op, Request};
use pando_types::reply::{Body, HashSlotNews, Refusal};
use pando_types::requests::asked::{Asked, changes_at, is_change, names_of, reads_at};
use pando_types::{DirId, DirRef, Ino, KeyId, Name, Order, PartitionIndex, SessionId, TxnId};

use crate::contract::{Config, Halt, Now, Write};
use crate::grants::run::Change as Ran;
use crate::grants::stream::OPENS_MAX;
use crate::lent::store::LentStore;
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Header, Numbers as Reserved, Record};
use crate::state::ctx::{Ctx, Lent, OpenChange};
use crate::state::numbers::Numbers;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// What the lent core says to a request.
#[derive(Debug)]
pub enum Said {
    /// The answer. What it has changed is an element, which is sent to the shard.
    Answer(Result<Body, Refusal>, Option<Element>),
    /// It needs the rows of the file at this order of the part of this grant, and has changed
    /// nothing.
    Fetch(TxnId, Order),
    /// It needs more than one lent part, or a transaction, and has changed nothing. The parts of
    /// these grants are concerned: they are returned before the request travels.
    Travel(Vec<TxnId>),
}

/// A part, as far as is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Its directory.
    pub dir: DirId,
    /// Where it lies.
    pub orders: Range<u64>,
    /// How many entries it has.
    pub entries: u64,
}

impl Counted {
    /// What the first page of a part's rows tells.
    #[must_use]
    pub fn of(dir: DirId, page: &LentPage) -> Option<Self> {
        let is_header = |key: &[u8]| keys::kind_of(key) == Some(Kind::Header as u8);
        let row = page.rows.iter().find(|row| is_header(&row.0))?;
        let header = Header::decode(&row.1).ok()?;
        Some(Self { dir, orders: header.range(), entries: header.entries })
    }
}

/// A part that this session has.
#[derive(Debug)]
pub(super) struct LentPart {
    pub(super) generation: TxnId,
    pub(super) dir: DirRef,
    partition: PartitionIndex,
    /// Beyond this number of entries it is returned.
    entries_max: u64,
    pub(super) orders: Range<u64>,
    /// Whether all its rows are here.
    pub(super) is_whole: bool,
    /// Number of the last element.
    pub(super) number: u64,
    /// Number of amendments.
    pub(super) amended: u64,
    inos: Vec<Inos>,
    /// The highest number that was given to an inode.
    given: Ino,
}

/// The shard's own code, over the parts of one shard that a session has borrowed.
pub struct LentCore {
    pub(super) shard: Shard,
    pub(super) store: LentStore,
    pub(super) parts: BTreeMap<TxnId, LentPart>,
    /// Grants of parts of a directory.
    dirs: BTreeMap<DirId, Vec<TxnId>>,
    session: SessionId,
}

impl LentCore {
    /// A core without parts, of the shard that `config` names.
    pub fn new(config: Config, session: SessionId, now: Now) -> Result<Self, Halt> {
        let store = LentStore::default();
        let ctx = Ctx::new(now, &store);
        let numbers = Numbers::recover(config.shard, Reserved { inos: 0, txns: 0 }, 2);
        let mut shard = Shard::from_records(config, numbers, &ctx)?;
        // Here it lives as long as this core.
        shard.sessions.begin(session, KeyId::OWNER);
        Ok(Self { shard, store, parts: BTreeMap::new(), dirs: BTreeMap::new(), session })
    }

    /// Takes in a part that was lent, as yet without rows.
    pub fn begin(&mut self, loan: Loan, dir: DirRef) {
        let Loan { grant: generation, partition, inos, entries_max } = loan;
        let part = LentPart {
            generation,
            entries_max,
            dir,
            partition,
            orders: 0..0,
            is_whole: false,
            number: 0,
            amended: 0,
            inos,
            given: Ino(0),
        };
        self.dirs.entry(dir.id).or_default().push(generation);
        self.parts.insert(generation, part);
    }

    /// Takes in a page of a part's rows. After the last page requests are answered.
    pub fn take_page(&mut self, generation: TxnId, page: LentPage) -> Result<(), Halt> {
        let Some(part) = self.parts.get_mut(&generation) else { return Ok(()) };
        let dir = part.dir.id;
        for row in page.rows {
            if keys::kind_of(&row.0) == Some(Kind::Header as u8) {
                let header = Header::decode(&row.1)?;
                part.orders = header.range();
                self.shard.namespace.dirs.update(&[(dir, header)], &[]);
            }
            if keys::kind_of(&row.0) == Some(Kind::Content as u8) {
                // What the map says may be older than the grant.
                let hash_slot = dir.hash_slot();
                let version = self.shard.config.map.news(hash_slot).map_or(0, |it| it.version);
                let owner = self.shard.config.shard;
                let news = HashSlotNews { hash_slot, version: version + 1, owner };
                if self.shard.config.map.home(dir) != owner {
                    self.shard.config.map.learn(news);
                }
            }
            self.store.load(row.0, row.1)?;
        }
        for open in page.opens {
            let at = crate::record::OpenAt::Name(dir, open.order.0);
            let change = OpenChange::Set(open.ino, self.session, open.count.min(OPENS_MAX), at);
            self.shard.namespace.opens.update(&change);
        }
        part.is_whole = page.next.is_empty();
        // No merge follows from it here.
        self.shard.namespace.dirs.take_loaded();
        Ok(())
    }

    /// Takes in a page of a file's rows beside its entry. After the last page they are used.
    pub fn take_file(
        &mut self,
        generation: TxnId,
        order: Order,
        page: LentPage,
    ) -> Result<(), Halt> {
        let Some(part) = self.parts.get(&generation) else { return Ok(()) };
        // Its own changes are newer than these rows.
        if self.store.is_cold(part.dir.id, order) {
            for row in page.rows {
                self.store.load(row.0, row.1)?;
            }
            if page.next.is_empty() {
                self.store.warm(part.dir.id, order);
            }
        }
        Ok(())
    }

    /// Takes in further numbers of inodes, as the shard tells them.
    pub fn take_inos(&mut self, generation: TxnId, told: &[Inos]) {
        let Some(part) = self.parts.get_mut(&generation) else { return };
        let end = part.inos.last().map_or(Ino(part.given.0 + 1), |range| range.end);
        for range in told {
            // What is told may be older than what was given since.
            let first = range.first.max(end);
            if first < range.end {
                part.inos.push(Inos { first, end: range.end });
            }
        }
    }

    /// Whether numbers of inodes up to this one were taken in.
    #[must_use]
    pub fn has_inos(&self, generation: TxnId, end: Ino) -> bool {
        let part = self.parts.get(&generation);
        part.is_none_or(|part| part.inos.last().map_or(part.given, |range| range.end) >= end)
    }

    /// Answers a request, or says what else it needs. `session` of the request is this session.
    pub fn answer(&mut self, now: Now, request: &Request) -> Result<Said, Halt> {
        let Some(generation) = self.part_of(&request.op) else {
            return Ok(Said::Travel(self.concerned(&request.op)));
        };
        let asked = match is_change(&request.op) {
            true => {
                let (credentials, op) = (request.credentials.clone(), request.op.clone());
                let asked = Asked { credentials, op }.encode();
                if asked.len() > CHANGE_MAX {
                    return Ok(Said::Travel(Vec::from([generation])));
                }
                asked
            }
            false => Vec::new(),
        };
        let part = &self.parts[&generation];
        let ino = part.inos.iter().find(|range| range.first < range.end).map(|it| it.first);
        let mut ctx = Ctx::new(now, &self.store);
        ctx.lent = Some(Lent { grant: generation, ino, counts_opens: true });
        match self.shard.run_lent(&mut ctx, self.session, request) {
            Ok(ran) => {
                let done = ctx.finish();
                let element = self.keep(generation, done, (&ran, asked, now.wall));
                Ok(Said::Answer(Ok(ran.body), element))
            }
            Err(Stop::Refuse(
                Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_) | Refusal::Stale,
            ))
            | Err(Stop::Wait(_)) => Ok(Said::Travel(Vec::from([generation]))),
            Err(Stop::Refuse(refusal)) => Ok(Said::Answer(Err(refusal), None)),
            Err(Stop::Halt(halt)) => match self.store.take_missed() {
                Some((_, order)) => Ok(Said::Fetch(generation, order)),
                None => Err(halt),
            },
        }
    }

    /// Takes over what a run has changed.
    fn keep(
        &mut self,
        generation: TxnId,
        done: crate::state::ctx::Done,
        (ran, asked, stamp): (&Ran, Vec<u8>, u64),
    ) -> Option<Element> {
        let mut is_changed = !done.headers.is_empty();
        for write in done.writes {
            is_changed |= self.store.apply(write);
        }
        for (dir, header) in &done.headers {
            let key = keys::dir(*dir, Kind::Header, header.range().start);
            self.store.apply(Write::Put(key, header.encode()));
        }
        self.shard.namespace.dirs.update(&done.headers, &done.dropped);
        for change in &done.opens {
            self.shard.namespace.opens.update(change);
        }
        self.shard.namespace.opens.settle();
        let part = self.parts.get_mut(&generation).filter(|_| is_changed)?;
        #[cfg(feature = "planted")]
        let is_given_again = self.shard.is_planted(crate::Planted::InoGivenTwice);
        #[cfg(not(feature = "planted"))]
        let is_given_again = false;
        if ran.made.0 > 0 && !is_given_again {
            part.given = ran.made;
            part.inos.retain(|range| range.end.0 > ran.made.0 + 1);
            if let Some(range) = part.inos.first_mut() {
                range.first.0 = range.first.0.max(ran.made.0 + 1);
            }
        }
        part.number += 1;
        let (made, after) = (ran.made, part.amended);
        let change = Change { asked, stamp, ino: made, digest: ran.digest, after };
        Some(Element { grant: generation, number: part.number, act: Act::Change(change) })
    }

    /// Plants a fault, for tests.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, fault: crate::Planted) {
        self.shard.plant(fault);
        self.store.plant(fault);
    }

    /// Gives a part back: drops its rows. Returns its last element.
    pub fn end(&mut self, generation: TxnId) -> Option<Element> {
        #[cfg(feature = "planted")]
        if self.shard.is_planted(crate::Planted::AnswersAfterReturn) {
            let number = self.parts.get(&generation)?.number + 1;
            return Some(Element { grant: generation, number, act: Act::Return(None) });
        }
        let part = self.parts.remove(&generation)?;
        let dir = part.dir.id;
        if let Some(of_dir) = self.dirs.get_mut(&dir) {
            of_dir.retain(|other| *other != generation);
            if of_dir.is_empty() {
                self.dirs.remove(&dir);
            }
        }
        let opens = self.shard.namespace.opens.in_range(dir, &part.orders);
        let told = opens.iter().map(|open| PartOpen {
            ino: open.ino,
            order: Order(open.at),
            count: open.count,
        });
        // Of a part that never answered, what the shard has recorded stands.
        let act = Act::Return(part.is_whole.then(|| told.collect()));
        for open in &opens {
            self.shard.namespace.opens.update(&OpenChange::Clear(open.ino, open.session));
        }
        self.shard.namespace.opens.settle();
        self.shard.namespace.dirs.update(&[], &[(dir, part.orders.start)]);
        self.store.drop_part(dir, &part.orders, part.partition.0 == 0);
        Some(Element { grant: generation, number: part.number + 1, act })
    }

    /// Parts that this session has, each with its grant.
    pub fn parts(&self) -> impl Iterator<Item = (TxnId, Part)> + '_ {
        self.parts.iter().map(|(generation, part)| {
            (*generation, Part { dir: part.dir, partition: part.partition })
        })
    }

    /// The directory of a grant, with its inode number.
    #[must_use]
    pub fn dir_ref_of(&self, generation: TxnId) -> Option<DirRef> {
        self.parts.get(&generation).map(|part| part.dir)
    }

    /// Where a part lies, and how many entries it has. `None`: its rows are not here.
    #[must_use]
    pub fn counted(&self, generation: TxnId) -> Option<Counted> {
        let header = self.header(generation)?;
        Some(Counted {
            dir: self.parts.get(&generation)?.dir.id,
            orders: header.range(),
            entries: header.entries,
        })
    }

    fn header(&self, generation: TxnId) -> Option<Header> {
        let part = self.parts.get(&generation).filter(|part| !part.orders.is_empty())?;
        let key = keys::dir(part.dir.id, Kind::Header, part.orders.start);
        let header = crate::contract::Rows::get(&self.store, &key).ok().flatten()?;
        Header::decode(&header).ok()
    }

    /// The order of a name.
    #[must_use]
    pub fn order(&self, name: &Name) -> Order {
        self.shard.order(name)
    }

    /// The grant of the part with an order of a directory, if one of its rows is here.
    #[must_use]
    pub fn grant_at(&self, dir: DirId, order: Order) -> Option<TxnId> {
        let is_it = |part: &&LentPart| part.orders.contains(&order.0);
        self.parts_of(dir).find(is_it).map(|part| part.generation)
    }

    /// The parts of a directory that an operation is about: those with its names, or else all.
    #[must_use]
    pub fn about(&self, op: &Op, dir: DirId) -> Vec<TxnId> {
        let named = names_of(op);
        let is_about = |part: &&LentPart| match &named {
            Some(names) => names
                .iter()
                .flatten()
                .any(|(of, name)| of.id == dir && part.orders.contains(&self.shard.order(name).0)),
            None => true,
        };
        self.parts_of(dir).filter(is_about).map(|part| part.generation).collect()
    }

    /// The directory of a grant.
    #[must_use]
    pub fn dir_of(&self, generation: TxnId) -> Option<DirId> {
        self.parts.get(&generation).map(|part| part.dir.id)
    }

    /// Parent and name of the directory of a grant, if its content is here.
    #[must_use]
    pub fn place_of(&self, generation: TxnId) -> Option<(DirId, Name)> {
        let key = keys::dir(self.dir_of(generation)?, Kind::Content, 0);
        let content = crate::contract::Rows::get(&self.store, &key).ok().flatten()?;
        let content = Content::decode(&content).ok()?;
        Some((content.parent.id, content.name?))
    }

    /// The grants of parts of a directory.
    #[must_use]
    pub fn grants_in(&self, dir: DirId) -> Vec<TxnId> {
        self.dirs.get(&dir).cloned().unwrap_or_default()
    }

    /// Whether a part of this directory is here, or will be.
    #[must_use]
    pub fn has_dir(&self, dir: DirId) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// The grants of the parts that an operation is about.
    #[must_use]
    pub fn grants_of(&self, op: &Op) -> Vec<TxnId> {
        self.part_of(op).map_or_else(|| self.concerned(op), |grant| Vec::from([grant]))
    }

    /// Number of the last element of a grant, if its part is here.
    #[must_use]
    pub fn last_element(&self, generation: TxnId) -> Option<u64> {
        self.parts.get(&generation).map(|part| part.number)
    }

    /// Bytes of all rows.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.store.bytes()
    }

    pub(super) fn holds(&self, (dir, name): (DirRef, &Name)) -> Option<TxnId> {
        self.at(dir, self.shard.order(name))
    }

    /// The grant of the part with this order of a directory, if its rows are here.
    fn at(&self, dir: DirRef, order: Order) -> Option<TxnId> {
        let is_it = |part: &&LentPart| part.orders.contains(&order.0);
        self.whole_parts(dir).find(is_it).map(|part| part.generation)
    }

    fn partition(&self, dir: DirRef, partition: PartitionIndex) -> Option<TxnId> {
        let is_it = |part: &&LentPart| part.partition == partition;
        self.whole_parts(dir).find(is_it).map(|part| part.generation)
    }

    fn parts_of(&self, dir: DirId) -> impl Iterator<Item = &LentPart> {
        let its = self.dirs.get(&dir).into_iter().flatten();
        its.filter_map(|generation| self.parts.get(generation))
    }

    /// Parts of a directory of which all rows are here.
    fn whole_parts(&self, dir: DirRef) -> impl Iterator<Item = &LentPart> {
        self.parts_of(dir.id).filter(move |part| part.dir == dir && part.is_whole)
    }

    /// The one part that has all that an operation is about; `None`: it travels.
    pub(super) fn part_of(&self, op: &Op) -> Option<TxnId> {
        if let Some([first, second]) = changes_at(op) {
            let part = self.holds(first?)?;
            let same = second.is_none_or(|name| self.holds(name) == Some(part));
            let may = same && !(matches!(op, Op::Create { .. }) && self.is_grown(part));
            return may.then_some(part);
        }
        if let Some(name) = reads_at(op) {
            return self.holds(name);
        }
        match op {
            Op::ReadDir { dir, from, .. } => self.at(*dir, *from),
            Op::PartitionStat(dir, index) => self.partition(*dir, *index),
            Op::DirSetAttr(dir, _) if self.is_unsplit(dir.id) => {
                self.partition(*dir, PartitionIndex(0))
            }
            // Of the partitions that are not here, the client asks itself. Nobody moves a directory
            // of which the content is lent.
            Op::DirGetAttr(dir) | Op::DirAccess(dir, _) | Op::Parent(dir) => {
                self.partition(*dir, PartitionIndex(0))
            }
            _ => None,
        }
    }

    /// Whether the part of a grant is its whole directory, as far as its rows are here.
    #[must_use]
    pub fn is_all(&self, generation: TxnId) -> bool {
        self.dir_of(generation).is_some_and(|dir| self.is_unsplit(dir))
    }

    /// Whether a directory has one partition only, and that is here.
    fn is_unsplit(&self, dir: DirId) -> bool {
        let whole = 0..pando_placement::range(PartitionIndex(0), pando_types::Radix(0)).end;
        self.parts_of(dir).any(|part| part.orders == whole)
    }

    /// Whether a part is to be returned because it would split.
    pub(super) fn is_grown(&self, generation: TxnId) -> bool {
        let Some(part) = self.parts.get(&generation) else { return false };
        self.header(generation).is_none_or(|header| header.entries > part.entries_max)
    }

    /// The parts that a request is about which travels.
    fn concerned(&self, op: &Op) -> Vec<TxnId> {
        let names = changes_at(op).into_iter().flatten().flatten();
        let mut parts: Vec<_> = names.filter_map(|name| self.holds(name)).collect();
        parts.extend(self.concerned_besides(op));
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// The parts that an operation is about which no element has.
    fn concerned_besides(&self, op: &Op) -> Vec<TxnId> {
        let of_dir =
            |dir: &DirRef| self.parts_of(dir.id).map(|part| part.generation).collect::<Vec<_>>();
        match op {
            Op::Mkdir(dir, name, _) | Op::Rmdir(dir, name) => {
                self.holds((*dir, name)).into_iter().collect()
            }
            Op::Link(file, dir, name) => {
                let first = self.holds((*dir, name));
                let second = match &file.at {
                    pando_types::op::FileAt::Name(dir, name) => self.holds((*dir, name)),
                    pando_types::op::FileAt::Link => None,
                };
                first.into_iter().chain(second).collect()
            }
            Op::Rename { from, name, to, new_name, .. } => {
                let ends = [self.holds((*from, name)), self.holds((*to, new_name))];
                ends.into_iter().flatten().collect()
            }
            Op::DirSetAttr(dir, _) | Op::DirGetAttr(dir) => of_dir(dir),
            Op::SetXattr { target: pando_types::op::Target::Dir(dir), .. }
            | Op::RemoveXattr(pando_types::op::Target::Dir(dir), _) => of_dir(dir),
            _ => Vec::new(),
        }
    }
}
