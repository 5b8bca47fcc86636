//! Reads the shards' own tables. Their keys come in this order: numbers, counts for `df`, sessions,
//! outcomes, opens, transactions, arrivals, garbage, owners, incoming hash slots, added shards,
//! locks, removed files.

use pando_core::Write;
use pando_core::keys;
use pando_core::record::{
    Grant, Numbers, Open, Outcome, Owner, Prepared, Reader, Record as _, SessionRecord,
    SessionsHeard, Shred, Stat,
};
use pando_types::{DirId, HashSlot, Ino, LockSet, SessionId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::learned::tables::OpenSeen;
use crate::rows::cursor::Cursor;
use crate::rows::key::Key;
use crate::rows::source::Rows;
use crate::sweep::pass::Sweep;
use crate::sweep::table_row::{NUMBERS, TableRow};
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
        let row = TableRow { shard, parsed, key, value };
        match row.parsed {
            Key::Numbers => {
                if let Some(numbers) = self.record::<Numbers>(&row) {
                    self.tables.numbers.insert(shard, ((row.key, row.value), numbers));
                }
            }
            Key::Stat => {
                if let Some(stat) = self.record::<Stat>(&row) {
                    self.tables.stats.insert(shard, ((row.key, row.value), stat));
                }
            }
            Key::SessionsHeard => {
                if let Some(heard) = self.record::<SessionsHeard>(&row) {
                    self.tables.heard.insert(shard, heard);
                }
            }
            Key::Session(session) => {
                let record = self.record::<SessionRecord>(&row);
                self.tables.sessions.entry(session).or_default().insert(shard, record);
                self.number(ShardIndex(0), session.number().saturating_add(1), &row);
            }
            Key::Outcome(session, _) => {
                self.record::<Outcome>(&row);
                self.of_session(session, Code::OutcomeOfUnknownSession, &row);
            }
            Key::Open(ino, session) => self.open(ino, session, row),
            Key::Txn(number) => self.decision(number, &row),
            Key::Prepared(txn, _) => {
                self.record::<Prepared>(&row);
                self.step(txn, &row);
            }
            Key::Finished(txn, _) => self.step(txn, &row),
            Key::Floor(coordinator) => self.floor(coordinator, &row),
            Key::Arrival(dir, partition) => self.arrival(dir, partition, &row),
            Key::Garbage(object) => self.needed.garbage(object),
            Key::Shred(_) => drop(self.record::<Shred>(&row)),
            Key::Grant(_) => drop(self.record::<Grant>(&row)),
            Key::Reader(_) => drop(self.record::<Reader>(&row)),
            Key::Owner(hash_slot) => self.owner(hash_slot, &row),
            Key::Incoming(_) => self.incoming(&row),
            Key::Lock(ino, session) => self.locks(ino, session, &row),
            // Rows outside the tables, and `Joined`, which `Volume::grown` reads.
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, ino: Ino, session: SessionId, row: TableRow) {
        let open = self.record::<Open>(&row);
        self.pending.opens += 1;
        let lives = self.of_session(session, Code::OpenOfUnknownSession, &row);
        if let Some(open) = open.filter(|_| lives) {
            let TableRow { shard, key, value, .. } = row;
            self.tables.opens.push(OpenSeen { shard, ino, at: open.at, row: (key, value) });
        }
    }

    fn locks(&mut self, ino: Ino, session: SessionId, row: &TableRow) {
        if self.busy.is_incoming(row.shard, ino.hash_slot()) {
            return;
        }
        let owner = self.volume.map.link(ino);
        if owner != row.shard {
            return self.misplaced(row.shard, row.what(), owner, row.evidence());
        }
        self.record::<LockSet>(row);
        // When the shard hears that it owns the hash slot, it deals with locks of sessions that are
        // over. Until then they are not judged.
        if !self.busy.is_arrived(row.shard, ino.hash_slot()) {
            self.of_session(session, Code::LockOfUnknownSession, row);
        }
    }

    /// Checks the recorded owner of a hash slot. The owner itself must have a record of it. All
    /// shards that ever owned the hash slot must agree.
    fn owner(&mut self, hash_slot: HashSlot, row: &TableRow) {
        let Some(Owner { version, owner }) = self.record::<Owner>(row) else { return };
        let finding = |code, detail| row.finding(code, detail);
        if !self.is_shard(owner) || hash_slot == DirId::ROOT.hash_slot() {
            let detail = format!("it names shard {owner}, which cannot own it");
            return self.findings.push(finding(Code::SlotOwnerUnknown, detail));
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
            return self.findings.push(finding(Code::SlotOwnersDiffer, detail).known_by(other));
        }
        let newest =
            owners.iter().filter(|((_, s), _)| *s == hash_slot).map(|(_, news)| news.version).max();
        let knows = owners.get(&(owner, hash_slot)).is_some_and(|news| news.version == version);
        if newest == Some(version) && !knows && !self.busy.is_arrived(owner, hash_slot) {
            let detail = format!("shard {owner}, which it names, does not know of it");
            let missing = Evidence::row(owner, &keys::owner(hash_slot), None);
            self.findings.push(finding(Code::SlotOwnerUnknown, detail).known_by(missing));
        }
    }

    /// Whether a session has a record on this shard, or may have begun without the shard having
    /// heard of it. Otherwise the row is reported.
    fn of_session(&mut self, session: SessionId, code: Code, row: &TableRow) -> bool {
        let shard = row.shard;
        let known = self.tables.sessions.get(&session);
        if known.is_some_and(|shards| shards.contains_key(&shard))
            || self.tables.may_have_begun(shard, session)
        {
            return true;
        }
        let gone = Evidence::row(shard, &keys::session(session), None);
        let detail = format!("session {session} is not known to shard {shard}");
        self.findings.push(
            row.finding(code, detail)
                .known_by(gone)
                .under(Place::Session(session))
                .mended_by(shard, vec![Write::Delete(row.key.clone())]),
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
