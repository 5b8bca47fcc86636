//! A row of a shard's own tables, and how findings call it.

use pando_core::record::Record;
use pando_types::ShardIndex;

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::findings::words::ino_words;
use crate::rows::key::Key;
use crate::sweep::pass::Sweep;

/// How findings call the record of the numbers that a shard has given.
pub(crate) const NUMBERS: &str = "the record of numbers given";

/// A row of one of a shard's tables, as it was read.
pub(crate) struct TableRow {
    pub shard: ShardIndex,
    pub parsed: Key,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl TableRow {
    /// What the row is, in words.
    pub(crate) fn what(&self) -> String {
        table_words(&self.parsed)
    }

    /// The row as evidence.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence::row(self.shard, &self.key, Some(&self.value))
    }

    /// A finding about the row, which follows from the row.
    pub(crate) fn finding(&self, code: Code, detail: String) -> Finding {
        Finding::new(code, self.shard, self.what(), detail).known_by(self.evidence())
    }
}

impl Sweep<'_> {
    /// Decodes the record in a row, or reports that it cannot be read.
    pub(crate) fn record<R: Record>(&mut self, row: &TableRow) -> Option<R> {
        self.decode(row.shard, &|| row.what(), &row.key, &row.value)
    }

    /// Whether the volume has a shard of this number.
    pub(crate) fn is_shard(&self, shard: ShardIndex) -> bool {
        shard.0 < self.volume.map.shards
    }
}

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
        Key::Grant(generation) => format!("grant {generation}"),
        Key::Reader(session) => format!("that session {session} reads"),
        Key::Shred(slices) => format!("slices that go: {}", slices.escape_ascii()),
        Key::Joined(shard) => format!("that shard {shard} was added"),
        Key::Lock(ino, session) => format!("locks of {} in session {session}", ino_words(*ino)),
        other => format!("{other:?}"),
    }
}
