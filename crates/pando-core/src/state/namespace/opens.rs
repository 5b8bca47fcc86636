//! Which inodes sessions have open.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::SessionOpens;
use pando_types::{DirId, Ino, SessionId};

use crate::records::record::{Holders, Open, OpenAt};
use crate::state::ctx::OpenChange;

/// All opens on a shard.
#[derive(Default, Debug)]
pub struct Opens {
    by_ino: BTreeMap<Ino, (OpenAt, BTreeMap<SessionId, u32>)>,
    /// What this input has replaced, in order: its effects may yet be dropped.
    replaced: Vec<(Ino, SessionId, Before)>,
}

/// Where an inode was open, and how often the session had it open. `None`: no session had it open.
pub type Before = Option<(OpenAt, Option<u32>)>;

impl Opens {
    /// Loads an open from its record, at the start.
    pub fn load(&mut self, ino: Ino, session: SessionId, open: Open) {
        self.by_ino.entry(ino).or_insert((open.at, BTreeMap::new())).1.insert(session, open.count);
    }

    /// Takes over a change that an input made.
    pub fn update(&mut self, change: &OpenChange) {
        let (OpenChange::Set(ino, session, ..) | OpenChange::Clear(ino, session)) = *change;
        let before = self.by_ino.get(&ino).map(|(at, by)| (*at, by.get(&session).copied()));
        self.replaced.push((ino, session, before));
        match *change {
            OpenChange::Set(_, _, count, at) => self.set(ino, session, count, at),
            OpenChange::Clear(..) => {
                if let Some((_, by)) = self.by_ino.get_mut(&ino) {
                    by.remove(&session);
                    if by.is_empty() {
                        self.by_ino.remove(&ino);
                    }
                }
            }
        }
    }

    fn set(&mut self, ino: Ino, session: SessionId, count: u32, at: OpenAt) {
        let entry = self.by_ino.entry(ino).or_insert((at, BTreeMap::new()));
        entry.0 = at;
        entry.1.insert(session, count);
    }

    /// Makes the last input's changes final, when the next input comes.
    pub fn settle(&mut self) {
        self.replaced.clear();
    }

    /// Takes back the last input's changes, because its effects are dropped.
    fn restore(&mut self) {
        while let Some((ino, session, before)) = self.replaced.pop() {
            let Some((at, count)) = before else {
                self.by_ino.remove(&ino);
                continue;
            };
            let entry = self.by_ino.entry(ino).or_insert((at, BTreeMap::new()));
            entry.0 = at;
            match count {
                Some(count) => entry.1.insert(session, count),
                None => entry.1.remove(&session),
            };
        }
    }

    /// Takes over from `old`, when the shard begins anew, the opens that have no record, for
    /// sessions of which `lives` is true. The last input's changes are taken back first.
    pub fn keep_unrecorded(&mut self, old: &mut Self, lives: impl Fn(SessionId) -> bool) {
        old.restore();
        for SessionOpens { ino, at, session, count } in old.all() {
            if at != OpenAt::Link && lives(session) {
                self.set(ino, session, count, at);
            }
        }
    }

    /// Sessions that have an inode open, each with the number of its opens.
    pub fn holders(&self, ino: Ino) -> Holders {
        self.by_ino
            .get(&ino)
            .map_or_else(Vec::new, |(_, by)| by.iter().map(|(s, n)| (*s, *n)).collect())
    }

    /// Number of opens that a session has of an inode.
    pub fn count_of(&self, ino: Ino, session: SessionId) -> u32 {
        self.by_ino.get(&ino).and_then(|(_, by)| by.get(&session)).copied().unwrap_or(0)
    }

    /// Whether any session has an inode open.
    pub fn any(&self, ino: Ino) -> bool {
        self.by_ino.contains_key(&ino)
    }

    /// Whether any session except `session` has an inode open.
    pub fn by_others(&self, ino: Ino, session: SessionId) -> bool {
        self.by_ino.get(&ino).is_some_and(|(_, by)| by.keys().any(|s| *s != session))
    }

    /// Inodes that a session has open.
    pub fn of_session(&self, session: SessionId) -> Vec<Ino> {
        self.by_ino
            .iter()
            .filter(|(_, (_, by))| by.contains_key(&session))
            .map(|(ino, _)| *ino)
            .collect()
    }

    /// Opens of names in a range of orders, each at the order of its entry.
    pub fn in_range(&self, dir: DirId, orders: &Range<u64>) -> Vec<SessionOpens<u64>> {
        let inside = |at: &OpenAt| match at {
            OpenAt::Name(d, order) if *d == dir && orders.contains(order) => Some(*order),
            _ => None,
        };
        self.by_ino
            .iter()
            .filter_map(|(ino, (at, by))| Some((*ino, inside(at)?, by)))
            .flat_map(|(ino, order, by)| opens_at(ino, order, by))
            .collect()
    }

    /// All opens.
    pub fn all(&self) -> impl Iterator<Item = SessionOpens<OpenAt>> + '_ {
        self.by_ino.iter().flat_map(|(ino, (at, by))| opens_at(*ino, *at, by))
    }

    /// Where an open inode is; `None`: no session has it open.
    pub fn place(&self, ino: Ino) -> Option<OpenAt> {
        self.by_ino.get(&ino).map(|(at, _)| *at)
    }

    /// Number of open inodes.
    pub fn count(&self) -> usize {
        self.by_ino.len()
    }
}

/// Opens of one inode, which is at `at`.
fn opens_at<At: Copy>(
    ino: Ino,
    at: At,
    by: &BTreeMap<SessionId, u32>,
) -> impl Iterator<Item = SessionOpens<At>> {
    by.iter().map(move |(session, count)| SessionOpens {
        ino,
        at,
        session: *session,
        count: *count,
    })
}
