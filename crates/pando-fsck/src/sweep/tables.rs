//! Reads the shards' own tables. Their keys come in this order: numbers, counts for `df`, sessions,
//! outcomes, opens, transactions, arrivals, garbage, owners, incoming hash slots, added shards,
//! locks, removed files.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{
    Arriving, Decided, Floor, Incoming, Numbers, Open, Outcome, Owner, Prepared, Record as _,
    SessionRecord, SessionsHeard, Shred, Stat,
};
use pando_placement::range;
use pando_types::{DirId, HashSlot, LockSet, SessionId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::findings::words::ino_words;
use crate::learned::tables::OpenSeen;
use crate::rows::cursor::Cursor;
use crate::rows::key::Key;
use crate::rows::source::{Row, Rows};
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

impl Sweep<'_> {
    /// Reads one row of a table. The cursor ends behind it.
    pub(crate) fn table(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        (shard, parsed): (ShardIndex, Key),
    ) -> Result<(), String> {
        let Some((key, value)) = cursor.next(rows)? else { return Ok(()) };
        self.rows += 1;
        let what = || table_words(&parsed);
        let row = (key, value);
        let (key, value) = (&row.0, &row.1);
        let evidence = Evidence::row(shard, key, Some(value));
        match parsed {
            Key::Numbers => {
                if let Some(numbers) = self.decode::<Numbers>(shard, &what, key, value) {
                    self.tables.numbers.insert(shard, (row, numbers));
                }
            }
            Key::Stat => {
                if let Some(stat) = self.decode::<Stat>(shard, &what, key, value) {
                    self.tables.stats.insert(shard, (row, stat));
                }
            }
            Key::SessionsHeard => {
                if let Some(heard) = self.decode::<SessionsHeard>(shard, &what, key, value) {
                    self.tables.heard.insert(shard, heard);
                }
            }
            Key::Session(session) => {
                let record = self.decode::<SessionRecord>(shard, &what, key, value);
                self.tables.sessions.entry(session).or_default().insert(shard, record);
                self.number(ShardIndex(0), session.number().saturating_add(1), &evidence);
            }
            Key::Outcome(session, _) => {
                self.decode::<Outcome>(shard, &what, key, value);
                self.of_session(shard, session, Code::OutcomeOfUnknownSession, what(), row);
            }
            Key::Open(ino, session) => {
                let open = self.decode::<Open>(shard, &what, key, value);
                self.pending.opens += 1;
                let code = Code::OpenOfUnknownSession;
                let lives = self.of_session(shard, session, code, what(), row.clone());
                if let Some(open) = open.filter(|_| lives) {
                    self.tables.opens.push(OpenSeen { shard, ino, at: open.at, row });
                }
            }
            Key::Txn(number) => {
                if let Some(decided) = self.decode::<Decided>(shard, &what, key, value) {
                    let strange = decided.steps.iter().any(|(_, to, _)| !self.is_shard(*to));
                    if strange || decided.then.iter().any(|(to, _)| !self.is_shard(*to)) {
                        let detail = "a step of it is on a shard that does not exist".to_owned();
                        let code = Code::StepOfUnknownTransaction;
                        let finding = Finding::new(code, shard, what(), detail);
                        self.findings.push(finding.known_by(evidence.clone()));
                    }
                }
                self.number(shard, number.saturating_add(1), &evidence);
            }
            Key::Prepared(txn, _) => {
                self.decode::<Prepared>(shard, &what, key, value);
                let undo = vec![Write::Delete(key.clone())];
                self.coordinator(
                    shard,
                    txn.shard,
                    txn.number.saturating_add(1),
                    what(),
                    (evidence, undo),
                );
            }
            Key::Finished(txn, _) => {
                let undo = vec![Write::Delete(key.clone())];
                self.coordinator(
                    shard,
                    txn.shard,
                    txn.number.saturating_add(1),
                    what(),
                    (evidence, undo),
                );
            }
            Key::Floor(coordinator) => {
                if let Some(floor) = self.decode::<Floor>(shard, &what, key, value) {
                    let undo = vec![Write::Delete(key.clone())];
                    self.coordinator(shard, coordinator, floor.below, what(), (evidence, undo));
                }
            }
            Key::Arrival(dir, partition) => {
                self.pending.arriving += 1;
                if let Some(record) = self.decode::<Arriving>(shard, &what, key, value) {
                    let orders = range(partition, record.radix);
                    let mut undo = vec![Write::Delete(key.clone())];
                    undo.extend(keys::MOVING.map(|kind: Kind| {
                        let (from, to) = keys::dir_range(dir, kind, &orders);
                        Write::DeleteRange(from, to)
                    }));
                    let (coordinator, number) =
                        (record.txn.shard, record.txn.number.saturating_add(1));
                    self.coordinator(shard, coordinator, number, what(), (evidence, undo));
                }
            }
            Key::Garbage(object) => self.needed.garbage(object),
            Key::Shred(_) => drop(self.decode::<Shred>(shard, &what, key, value)),
            Key::Owner(hash_slot) => {
                if let Some(owner) = self.decode::<Owner>(shard, &what, key, value) {
                    self.owner(shard, hash_slot, owner, what(), evidence);
                }
            }
            Key::Incoming(_) => {
                self.pending.arriving += 1;
                if let Some(record) = self.decode::<Incoming>(shard, &what, key, value) {
                    let (of, number) = (record.txn.shard, record.txn.number.saturating_add(1));
                    self.coordinator(shard, of, number, what(), (evidence, Vec::new()));
                }
            }
            Key::Lock(ino, session) => {
                if self.busy.is_incoming(shard, ino.hash_slot()) {
                    return Ok(());
                }
                let owner = self.volume.map.link(ino);
                if owner != shard {
                    self.misplaced(shard, what(), owner, evidence);
                    return Ok(());
                }
                self.decode::<LockSet>(shard, &what, key, value);
                // When the shard hears that it owns the hash slot, it deals with locks of sessions
                // that are over. Until then they are not judged.
                if self.busy.is_arrived(shard, ino.hash_slot()) {
                    return Ok(());
                }
                self.of_session(shard, session, Code::LockOfUnknownSession, what(), row);
            }
            // Rows outside the tables, and `Joined`, which `Volume::grown` reads.
            _ => {}
        }
        Ok(())
    }

    /// Checks the recorded owner of a hash slot. The owner itself must have a record of it. All
    /// shards that ever owned the hash slot must agree.
    fn owner(
        &mut self,
        shard: ShardIndex,
        hash_slot: HashSlot,
        said: Owner,
        what: String,
        row: Evidence,
    ) {
        let Owner { version, owner } = said;
        if !self.is_shard(owner) || hash_slot == DirId::ROOT.hash_slot() {
            let detail = format!("it names shard {owner}, which cannot own it");
            let finding = Finding::new(Code::SlotOwnerUnknown, shard, what, detail);
            return self.findings.push(finding.known_by(row));
        }
        let owners = &self.busy.owners;
        let same = owners.iter().find(|((_, s), news)| {
            *s == hash_slot && news.version == version && news.owner != owner
        });
        if let Some(((other, _), news)) = same {
            let detail = format!("at this version, shard {other} names shard {}", news.owner);
            // The other shard may be this one, if it lost its first record in a power loss.
            let there = Owner { version: news.version, owner: news.owner }.encode();
            let other = Evidence::row(*other, &keys::owner(hash_slot), Some(&there));
            let finding = Finding::new(Code::SlotOwnersDiffer, shard, what, detail);
            return self.findings.push(finding.known_by(row).known_by(other));
        }
        let newest =
            owners.iter().filter(|((_, s), _)| *s == hash_slot).map(|(_, news)| news.version).max();
        let knows = owners.get(&(owner, hash_slot)).is_some_and(|news| news.version == version);
        if newest == Some(version) && !knows && !self.busy.is_arrived(owner, hash_slot) {
            let detail = format!("shard {owner}, which it names, does not know of it");
            let finding = Finding::new(Code::SlotOwnerUnknown, shard, what, detail)
                .known_by(row)
                .known_by(Evidence::row(owner, &keys::owner(hash_slot), None));
            self.findings.push(finding);
        }
    }

    fn is_shard(&self, shard: ShardIndex) -> bool {
        shard.0 < self.volume.map.shards
    }

    /// Notes a number of a transaction, which its coordinator must have given.
    fn number(&mut self, coordinator: ShardIndex, reached: u64, row: &Evidence) {
        let known = self.tables.txns.entry(coordinator).or_insert((0, row.clone()));
        if reached > known.0 {
            *known = (reached, row.clone());
        }
    }

    fn coordinator(
        &mut self,
        shard: ShardIndex,
        coordinator: ShardIndex,
        reached: u64,
        what: String,
        (row, undo): (Evidence, Vec<Write>),
    ) {
        if self.is_shard(coordinator) {
            self.number(coordinator, reached, &row);
            return;
        }
        let detail = format!("its coordinator, shard {coordinator}, does not exist");
        let finding = Finding::new(Code::StepOfUnknownTransaction, shard, what, detail);
        let finding = finding.known_by(row);
        self.findings.push(match undo.is_empty() {
            true => finding,
            false => finding.mended_by(shard, undo),
        });
    }

    /// Whether a session has a record on this shard, or may have begun without the shard having
    /// heard of it. Otherwise the row is reported.
    fn of_session(
        &mut self,
        shard: ShardIndex,
        session: SessionId,
        code: Code,
        what: String,
        (key, value): Row,
    ) -> bool {
        let known = self.tables.sessions.get(&session);
        if known.is_some_and(|shards| shards.contains_key(&shard))
            || self.tables.may_have_begun(shard, session)
        {
            return true;
        }
        let row = Evidence::row(shard, &key, Some(&value));
        let gone = Evidence::row(shard, &keys::session(session), None);
        let detail = format!("session {session} is not known to shard {shard}");
        self.findings.push(
            Finding::new(code, shard, what, detail)
                .known_by(row)
                .known_by(gone)
                .under(Place::Session(session))
                .mended_by(shard, vec![Write::Delete(key)]),
        );
        false
    }

    pub(crate) fn missing_tables(&mut self, shard: ShardIndex) {
        let key = keys::table(keys::Table::Numbers);
        let unreadable =
            |f: &Finding| (f.code, f.shard) == (Code::UnreadableRecord, shard) && f.what == NUMBERS;
        if !self.tables.numbers.contains_key(&shard) && !self.findings.kept.iter().any(unreadable) {
            let detail = "which numbers the shard has given is unknown".to_owned();
            let finding = Finding::new(Code::NumbersMissing, shard, NUMBERS.to_owned(), detail);
            self.findings.push(finding.known_by(Evidence::row(shard, &key, None)));
        }
    }
}

const NUMBERS: &str = "the record of numbers given";

fn table_words(key: &Key) -> String {
    match key {
        Key::Numbers => NUMBERS.to_owned(),
        Key::Stat => "the count of files and bytes".to_owned(),
        Key::SessionsHeard => "the record of sessions known".to_owned(),
        Key::Session(session) => format!("session {session}"),
        Key::Outcome(session, slot) => format!("the outcome in slot {slot} of session {session}"),
        Key::Open(ino, session) => format!("{}, open in session {session}", ino_words(*ino)),
        Key::Txn(number) => format!("the decision of transaction {number}"),
        Key::Prepared(txn, step) => format!("prepared step {step} of transaction {txn}"),
        Key::Finished(txn, step) => format!("finished step {step} of transaction {txn}"),
        Key::Floor(shard) => format!("the floor of coordinator {shard}"),
        Key::Arrival(dir, partition) => format!("partition {partition} of {dir} on its way"),
        Key::Garbage(object) => format!("object {:032x}", object.0),
        Key::Owner(hash_slot) => format!("the owner of hash slot {}", hash_slot.0),
        Key::Incoming(hash_slot) => format!("hash slot {} on its way", hash_slot.0),
        Key::Shred(slices) => format!("slices that go: {}", slices.escape_ascii()),
        Key::Joined(shard) => format!("that shard {shard} was added"),
        Key::Lock(ino, session) => format!("locks of {} in session {session}", ino_words(*ino)),
        other => format!("{other:?}"),
    }
}
