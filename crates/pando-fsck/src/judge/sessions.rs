//! Judges sessions. Shards hear of them in one order (docs/design/sessions.md).

use pando_core::Write;
use pando_core::keys::{self, Table};
use pando_core::record::{Record, SessionRecord, SessionsHeard};
use pando_types::{KeyId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::judge::judgement::Judge;
use crate::rows::cursor;
use crate::unfinished::place::Place;

impl Judge<'_, '_> {
    /// Compares the living sessions of each shard with those of shard 0. Shards hear of begins and
    /// ends in one order, from shard 0. A difference is right if one of the two has not heard of it
    /// yet.
    pub(crate) fn sessions(&mut self) -> Result<(), String> {
        let tables = &self.sweep.tables;
        let zero = ShardIndex(0);
        for (session, shards) in &tables.sessions {
            let record = |shard| shards.get(&shard).copied().flatten();
            let lives = |shard| record(shard).is_some_and(|record| record.over.is_none());
            // Whether a session may live on shard `on` and not on shard `off`.
            let can_be = |on: ShardIndex, off: ShardIndex| {
                session.number() > tables.heard_by(off).last
                    || tables.heard_by(off).position > tables.heard_by(on).position
            };
            let key = keys::session(*session);
            for shard in self.probe.volume.shards().filter(|shard| *shard != zero) {
                let is_unreadable = |shard| shards.get(&shard).is_some_and(Option::is_none);
                let (on, off) = match (lives(zero), lives(shard)) {
                    (true, false) => (zero, shard),
                    (false, true) => (shard, zero),
                    _ => continue,
                };
                if is_unreadable(off) || can_be(on, off) {
                    continue;
                }
                let what = format!("session {session}");
                let detail = format!("it lives on shard {on}, and is over on shard {off}");
                let mut finding = Finding::new(Code::SessionNotEverywhere, shard, what, detail)
                    .under(Place::Session(*session));
                for at in [zero, shard] {
                    let row = cursor::get(self.probe.rows, at, &key)?;
                    finding = finding.known_by(Evidence::row(at, &key, row.as_deref()));
                }
                // Shard 0 is right. Whatever the session has on the other shard goes when that
                // shard runs.
                let right = record(on).map(|record| match on == zero {
                    true => record,
                    false => {
                        let over = Some(tables.heard_by(shard).position);
                        SessionRecord { over, ..record }
                    }
                });
                if let Some(right) = right {
                    let put = Write::Put(key.clone(), right.encode());
                    finding = finding.mended_by(shard, vec![put]);
                }
                self.found.push(finding);
            }
        }
        Ok(())
    }

    /// Checks that a shard has heard of each session that lives on it.
    pub(crate) fn sessions_heard(&mut self) -> Result<(), String> {
        let tables = &self.sweep.tables;
        for shard in self.probe.volume.shards() {
            let lives = |record: Option<&Option<SessionRecord>>| {
                record.is_some_and(|r| r.is_some_and(|record| record.over.is_none()))
            };
            let living = tables.sessions.iter().filter(|(_, shards)| lives(shards.get(&shard)));
            let Some(highest) = living.map(|(session, _)| *session).max_by_key(|s| s.number())
            else {
                continue;
            };
            let heard = tables.heard_by(shard);
            if highest.number() <= heard.last {
                continue;
            }
            let (row, key) = (keys::table(Table::Session), keys::session(highest));
            let [said, record] = [&row, &key].map(|key| cursor::get(self.probe.rows, shard, key));
            let (said, record) = (said?, record?);
            let what = format!("session {highest}");
            let detail = format!("shard {shard} knows of sessions up to {}", heard.last);
            let right = SessionsHeard { last: highest.number(), ..heard }.encode();
            self.found.push(
                Finding::new(Code::SessionNotEverywhere, shard, what, detail)
                    .known_by(Evidence::row(shard, &row, said.as_deref()))
                    .known_by(Evidence::row(shard, &key, record.as_deref()))
                    .under(Place::Session(highest))
                    .mended_by(shard, vec![Write::Put(row, right)]),
            );
        }
        Ok(())
    }

    /// Checks that all shards on which a session lives record one key for it. Shard 0 began the
    /// session, so its record is the truth.
    pub(crate) fn session_keys(&mut self) -> Result<(), String> {
        let coordinator = ShardIndex(0);
        for (session, shards) in &self.sweep.tables.sessions {
            let Some(Some(truth)) = shards.get(&coordinator) else { continue };
            // The key of a session that is over may not be known any more.
            if truth.key.is_none() {
                continue;
            }
            let row = keys::session(*session);
            for (shard, record) in shards {
                let is_wrong =
                    |record: &SessionRecord| record.over.is_none() && record.key != truth.key;
                let Some(record) = record.filter(is_wrong) else { continue };
                let [theirs, right] =
                    [*shard, coordinator].map(|shard| cursor::get(self.probe.rows, shard, &row));
                let (theirs, right) = (theirs?, right?);
                let what = format!("session {session}");
                let of =
                    |key: Option<KeyId>| key.map_or_else(|| "?".to_owned(), |key| key.to_string());
                let detail =
                    format!("it belongs to key {}, not to key {}", of(truth.key), of(record.key));
                let put = SessionRecord { key: truth.key, ..record };
                let finding = Finding::new(Code::SessionOfTwoKeys, *shard, what, detail)
                    .known_by(Evidence::row(coordinator, &row, right.as_deref()))
                    .known_by(Evidence::row(*shard, &row, theirs.as_deref()))
                    .under(Place::Session(*session))
                    .mended_by(*shard, vec![Write::Put(row.clone(), put.encode())]);
                self.found.push(finding);
            }
        }
        Ok(())
    }
}
