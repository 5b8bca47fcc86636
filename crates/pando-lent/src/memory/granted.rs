//! Read grants: directories that no other session changes without telling this one
//! (docs/design/read-grants.md).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use pando_client::Grounds;
use pando_client::grounds::Kind;
use pando_types::lend::HOLD;
use pando_types::{DirId, DirRef, SessionId, ShardIndex, TxnId};

use crate::settings::{IDLE, MILLIS};

/// Requests about a directory within [`WITHIN`] after which a read grant of it is asked for.
const AFTER: u32 = 4;
/// See [`AFTER`], nanoseconds.
const WITHIN: u64 = 1_000 * MILLIS;
/// Time after a refusal in which a directory is not asked for, nanoseconds.
const REFUSED_FOR: u64 = 500 * MILLIS;
/// Directories that are watched at most.
const WATCHED_MAX: usize = 1_024;
/// Read grants at most. A shard gives a session somewhat more.
const MOST: usize = 4_000;

/// A read grant.
#[derive(Clone, Copy)]
struct Granted {
    shard: ShardIndex,
    grant: TxnId,
    /// Until when it may be used, whatever becomes of the hold.
    until: u64,
    /// When it was used last.
    last: u64,
}

/// How often a directory was asked about, of which there is no read grant.
#[derive(Clone, Copy)]
struct Watched {
    count: u32,
    since: u64,
    not_before: u64,
}

/// Read grants that end. They are given back when this client has told shards what it has open in
/// their directories.
struct Ending {
    shard: ShardIndex,
    grants: Vec<TxnId>,
    dirs: Vec<DirId>,
    /// Number of the batch in which it was taken.
    batch: Option<u64>,
    /// Whether shards were told.
    is_told: bool,
}

/// What concerns one shard.
#[derive(Default)]
struct Side {
    /// Until when its read grants may be used, by the last question for news.
    until: u64,
    /// Read grants that it is to be told are given back.
    back: Vec<TxnId>,
    /// Directories of which a read grant is to be asked for.
    ready: VecDeque<DirRef>,
    /// Of which directory one is being asked for.
    asking: Option<DirId>,
    /// Whether that one is void when it comes: the directory was borrowed meanwhile.
    is_void: bool,
    /// Recalled while one was being asked for, and not known.
    void: HashSet<TxnId>,
}

/// All read grants, and what is to be asked for.
#[derive(Default)]
pub(super) struct ReadGrants {
    /// The session to which they belong.
    session: SessionId,
    /// In order, so that a run of the simulator can be repeated.
    dirs: BTreeMap<DirId, Granted>,
    watched: HashMap<DirId, Watched>,
    sides: BTreeMap<ShardIndex, Side>,
    endings: Vec<Ending>,
    batches: u64,
    /// What the kernel may remember.
    grounds: Arc<Grounds>,
    /// Directories that are being borrowed. Of these none is asked for.
    borrowing: HashMap<DirId, u32>,
    is_closed: bool,
}

impl ReadGrants {
    pub(super) fn new(grounds: &Arc<Grounds>) -> Self {
        Self { grounds: Arc::clone(grounds), ..Self::default() }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// Number of read grants.
    pub(super) fn count(&self) -> usize {
        self.dirs.len()
    }

    /// The read grant of a directory, if it may be used at `now`.
    pub(super) fn of(&mut self, dir: DirId, now: u64) -> Option<TxnId> {
        if self.has_lapsed(dir, now) {
            return None;
        }
        let granted = self.dirs.get_mut(&dir)?;
        granted.last = now;
        Some(granted.grant)
    }

    /// Whether a directory has a read grant that may not be used any more. It may have ended at the
    /// shard, so nothing may prolong it: it is to be given back.
    pub(super) fn has_lapsed(&self, dir: DirId, now: u64) -> bool {
        let until = |granted: &Granted| {
            let side = self.sides.get(&granted.shard);
            granted.until.max(side.map_or(0, |side| side.until))
        };
        self.dirs.get(&dir).is_some_and(|granted| until(granted) <= now)
    }

    /// Ends what may not be used any more of a shard. Returns its directories.
    pub(super) fn end_lapsed(&mut self, shard: ShardIndex, now: u64) -> Vec<DirId> {
        let its = self.dirs.iter().filter(|(_, granted)| granted.shard == shard);
        let lapsed: Vec<_> =
            its.map(|(dir, _)| *dir).filter(|dir| self.has_lapsed(*dir, now)).collect();
        lapsed.iter().for_each(|dir| self.give_back(*dir));
        lapsed
    }

    /// Notes a request about a directory that travels. Returns whether there is something to ask
    /// this shard for.
    pub(super) fn asked_about(&mut self, dir: DirRef, shard: ShardIndex, now: u64) -> bool {
        let has_one = self.dirs.contains_key(&dir.id) || self.borrowing.contains_key(&dir.id);
        if self.is_closed || self.session == SessionId(0) || has_one {
            return false;
        }
        if self.watched.len() >= WATCHED_MAX && !self.watched.contains_key(&dir.id) {
            self.watched.clear();
        }
        let first = Watched { count: 0, since: now, not_before: 0 };
        let watched = self.watched.entry(dir.id).or_insert(first);
        if watched.since.saturating_add(WITHIN) < now {
            (watched.count, watched.since) = (0, now);
        }
        watched.count += 1;
        if watched.count < AFTER || now < watched.not_before || self.dirs.len() >= MOST {
            return false;
        }
        // Until it is answered or refused.
        (watched.count, watched.not_before) = (0, now.saturating_add(REFUSED_FOR));
        self.sides.entry(shard).or_default().ready.push_back(dir);
        true
    }

    /// Takes the next directory of which a read grant is to be asked for, with the session.
    pub(super) fn take_ready(&mut self, shard: ShardIndex) -> Option<(SessionId, DirRef)> {
        let side = self.sides.get_mut(&shard)?;
        while let Some(dir) = side.ready.pop_front() {
            if !self.borrowing.contains_key(&dir.id) {
                (side.asking, side.is_void) = (Some(dir.id), false);
                side.void.clear();
                return Some((self.session, dir));
            }
        }
        None
    }

    /// Notes that no read grant was given.
    pub(super) fn refused(&mut self, shard: ShardIndex) {
        if let Some(side) = self.sides.get_mut(&shard) {
            side.asking = None;
        }
    }

    /// Enters a read grant that was asked for at `asked` on behalf of `session`.
    pub(super) fn granted(
        &mut self,
        (shard, session): (ShardIndex, SessionId),
        (dir, grant): (DirRef, TxnId),
        (asked, now): (u64, u64),
    ) {
        let side = self.sides.entry(shard).or_default();
        side.asking = None;
        if side.void.contains(&grant) {
            return;
        }
        let until = asked.saturating_add(HOLD);
        // One that comes so late may be over at the shard.
        let is_late = until <= now;
        if self.is_closed || side.is_void || is_late || session != self.session {
            side.back.push(grant);
            return;
        }
        self.give_back(dir.id);
        self.watched.remove(&dir.id);
        self.dirs.insert(dir.id, Granted { shard, grant, until, last: asked });
        self.grounds.stand(((shard, Kind::Read), grant), dir.ino, until, true);
    }

    /// Ends the read grant of a directory. It is given back later.
    pub(super) fn give_back(&mut self, dir: DirId) {
        if let Some(Granted { shard, grant, .. }) = self.dirs.remove(&dir) {
            self.grounds.fall(grant);
            let (grants, dirs) = (vec![grant], vec![dir]);
            self.endings.push(Ending { shard, grants, dirs, batch: None, is_told: false });
        }
    }

    /// Ends the read grant of a directory that is being borrowed. One that comes now is void, and
    /// none is asked for.
    pub(super) fn borrows(&mut self, dir: DirId) {
        self.give_back(dir);
        *self.borrowing.entry(dir).or_default() += 1;
        for side in self.sides.values_mut() {
            side.is_void |= side.asking == Some(dir);
        }
    }

    /// Notes that a directory is lent, or not.
    pub(super) fn has_borrowed(&mut self, dir: DirId) {
        if let Some(count) = self.borrowing.get_mut(&dir) {
            *count -= 1;
            if *count == 0 {
                self.borrowing.remove(&dir);
            }
        }
    }

    /// Whether a read grant of this directory ends.
    pub(super) fn is_ending(&self, dir: DirId) -> bool {
        self.endings.iter().any(|ending| ending.dirs.contains(&dir))
    }

    /// Takes what ends: a number for it, and its directories.
    pub(super) fn take_endings(&mut self) -> Option<(u64, Vec<DirId>)> {
        let batch = self.batches + 1;
        let new = self.endings.iter_mut().filter(|ending| ending.batch.is_none());
        let mut dirs = Vec::new();
        let mut is_any = false;
        for ending in new {
            ending.batch = Some(batch);
            dirs.extend(&ending.dirs);
            is_any = true;
        }
        self.batches += u64::from(is_any);
        is_any.then_some((batch, dirs))
    }

    /// Notes that shards were told of what was taken up to this batch.
    pub(super) fn ended(&mut self, batch: u64) {
        for ending in &mut self.endings {
            ending.is_told |= ending.batch.is_some_and(|its| its <= batch);
        }
    }

    /// Gives back what shards were told of, and the kernel remembers nothing by. Returns the shards
    /// to tell.
    pub(super) fn take_fallen(&mut self) -> Vec<ShardIndex> {
        let grounds = &self.grounds;
        let falls = |ending: &Ending| ending.grants.iter().any(|grant| grounds.is_falling(*grant));
        let falling: HashSet<_> =
            self.endings.iter().filter(|it| falls(it)).map(|it| it.shard).collect();
        // One that is not known may be of any directory of its shard.
        let is_it = |ending: &mut Ending| {
            let may_fall = ending.dirs.is_empty() && falling.contains(&ending.shard);
            ending.is_told && !may_fall && !falls(ending)
        };
        let ended: Vec<_> = self.endings.extract_if(.., is_it).collect();
        let mut shards = Vec::new();
        for Ending { shard, grants, .. } in ended {
            self.sides.entry(shard).or_default().back.extend(grants);
            shards.push(shard);
        }
        shards
    }

    /// Ends all read grants of a shard. Returns their directories.
    pub(super) fn give_all_back(&mut self, shard: ShardIndex) -> Vec<DirId> {
        let its = self.dirs.iter().filter(|(_, granted)| granted.shard == shard);
        let dirs: Vec<_> = its.map(|(dir, _)| *dir).collect();
        dirs.iter().for_each(|dir| self.give_back(*dir));
        if let Some(side) = self.sides.get_mut(&shard) {
            side.is_void |= side.asking.is_some();
        }
        dirs
    }

    /// The shard wants these back. Returns their directories. One that is not known may be of any
    /// directory, or of all.
    pub(super) fn recalled(&mut self, shard: ShardIndex, grants: &[TxnId]) -> Vec<DirId> {
        if is_planted!(ReadsAfterRecall) {
            self.sides.entry(shard).or_default().back.extend(grants);
            return Vec::new();
        }
        let mut dirs = Vec::new();
        for grant in grants {
            let known = self.dirs.iter().find(|(_, it)| (it.shard, it.grant) == (shard, *grant));
            match known.map(|(dir, _)| *dir) {
                Some(dir) => {
                    self.give_back(dir);
                    dirs.push(dir);
                }
                None if self.is_over(shard, *grant) => {}
                None => {
                    dirs.extend(self.give_all_back(shard));
                    let (grants, none) = (vec![*grant], Vec::new());
                    self.endings.push(Ending {
                        shard,
                        grants,
                        dirs: none,
                        batch: None,
                        is_told: false,
                    });
                    let side = self.sides.entry(shard).or_default();
                    if side.asking.is_some() {
                        side.void.insert(*grant);
                    }
                }
            }
        }
        dirs
    }

    /// Whether a read grant is over here, and the shard has not said that it knows.
    pub(super) fn is_over(&self, shard: ShardIndex, grant: TxnId) -> bool {
        let ends = |it: &Ending| it.shard == shard && it.grants.contains(&grant);
        self.endings.iter().any(ends)
            || self.sides.get(&shard).is_some_and(|side| side.back.contains(&grant))
    }

    /// Lets a shard's read grants be used for a hold from `asked` on.
    pub(super) fn prolong(&mut self, shard: ShardIndex, asked: u64) {
        if let Some(side) = self.sides.get_mut(&shard) {
            side.until = side.until.max(asked.saturating_add(HOLD));
            self.grounds.prolong((shard, Kind::Read), side.until);
        }
    }

    /// Directories of a shard whose read grants have not been used for a while.
    pub(super) fn idle(&self, shard: ShardIndex, now: u64) -> Vec<DirId> {
        let is_idle = |it: &Granted| it.shard == shard && it.last.saturating_add(IDLE) <= now;
        self.dirs.iter().filter(|(_, it)| is_idle(it)).map(|(dir, _)| *dir).collect()
    }

    /// Read grants that a shard is to be told are given back. `None`: there is nothing to ask it
    /// for news about.
    pub(super) fn to_tell(&self, shard: ShardIndex) -> Option<Vec<TxnId>> {
        let side = self.sides.get(&shard)?;
        let attends = !side.back.is_empty()
            || self.endings.iter().any(|ending| ending.shard == shard)
            || self.dirs.values().any(|granted| granted.shard == shard);
        attends.then(|| side.back.clone())
    }

    /// Notes that a shard was told that these are given back.
    pub(super) fn told(&mut self, shard: ShardIndex, grants: &[TxnId]) {
        if let Some(side) = self.sides.get_mut(&shard) {
            side.back.retain(|grant| !grants.contains(grant));
        }
    }

    /// Notes the session of this client. Those of another one end. Returns their
    /// directories.
    pub(super) fn take_session(&mut self, session: SessionId) -> Vec<DirId> {
        if session == self.session {
            return Vec::new();
        }
        self.session = session;
        let shards: Vec<_> = self.sides.keys().copied().collect();
        shards.into_iter().flat_map(|shard| self.give_all_back(shard)).collect()
    }

    /// The session to which read grants belong.
    pub(super) const fn session(&self) -> SessionId {
        self.session
    }

    /// Asks for none any more, and ends all. Returns their directories.
    pub(super) fn close(&mut self) -> Vec<DirId> {
        self.is_closed = true;
        let shards: Vec<_> = self.sides.keys().copied().collect();
        shards.into_iter().flat_map(|shard| self.give_all_back(shard)).collect()
    }
}

#[cfg(test)]
mod tests {
    use pando_client::grounds::Watch;
    use pando_types::Ino;

    use super::*;

    const SHARD: ShardIndex = ShardIndex(1);
    const ME: SessionId = SessionId(5);
    const DIR: DirRef = DirRef { id: DirId([7; 16]), ino: Ino(70) };

    fn id(number: u64) -> TxnId {
        TxnId { shard: SHARD, number }
    }

    fn with_grant() -> ReadGrants {
        let mut grants = ReadGrants::default();
        grants.take_session(ME);
        for nth in 0..AFTER {
            assert_eq!(grants.asked_about(DIR, SHARD, 9), nth + 1 == AFTER);
        }
        assert_eq!(grants.take_ready(SHARD), Some((ME, DIR)));
        grants.granted((SHARD, ME), (DIR, id(1)), (10, 10));
        grants
    }

    #[test]
    fn a_grant_counts_from_when_it_was_asked_for_and_then_from_the_last_question() {
        let mut grants = with_grant();
        assert_eq!(grants.of(DIR.id, 10 + HOLD - 1), Some(id(1)));
        assert_eq!(grants.of(DIR.id, 10 + HOLD), None);
        grants.prolong(SHARD, 20);
        assert_eq!(grants.of(DIR.id, 20 + HOLD - 1), Some(id(1)));
        assert_eq!(grants.end_lapsed(SHARD, 20 + HOLD - 1), []);
        assert_eq!(grants.of(DIR.id, 20 + HOLD), None);
        // The shard may have ended it by now, and then prolongs what it does not have.
        assert_eq!(grants.end_lapsed(SHARD, 20 + HOLD), [DIR.id]);
        grants.prolong(SHARD, 20 + HOLD);
        assert_eq!(grants.of(DIR.id, 21 + HOLD), None, "what has lapsed is over");
    }

    /// Parts of one directory are borrowed from two shards at once.
    #[test]
    fn nothing_is_granted_while_any_part_is_being_borrowed() {
        let mut grants = with_grant();
        grants.borrows(DIR.id);
        grants.borrows(DIR.id);
        grants.has_borrowed(DIR.id);
        for _ in 0..2 * AFTER {
            assert!(!grants.asked_about(DIR, SHARD, 11), "one is asked for");
        }
        grants.has_borrowed(DIR.id);
        assert!((0..2 * AFTER).any(|_| grants.asked_about(DIR, SHARD, 11)));
    }

    #[test]
    fn what_is_recalled_is_given_back_until_the_shard_was_told() {
        let mut grants = with_grant();
        assert_eq!(grants.to_tell(SHARD), Some(Vec::new()));
        assert_eq!(grants.recalled(SHARD, &[id(1)]), [DIR.id]);
        assert_eq!(grants.of(DIR.id, 11), None);
        assert_eq!(grants.recalled(SHARD, &[id(1)]), []);
        assert_eq!(grants.to_tell(SHARD), Some(vec![]), "files may be open untold");
        assert!(grants.is_ending(DIR.id));
        assert_eq!(grants.take_endings(), Some((1, vec![DIR.id])));
        assert_eq!(grants.take_endings(), None);
        grants.ended(1);
        assert_eq!(grants.take_fallen(), [SHARD]);
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(1)]));
        assert_eq!(grants.recalled(SHARD, &[id(1)]), [], "it is known to be over");
        grants.told(SHARD, &[id(1)]);
        assert_eq!(grants.to_tell(SHARD), None);
    }

    #[test]
    fn a_recall_of_what_is_not_known_ends_all_and_voids_what_is_asked_for() {
        let mut grants = with_grant();
        let other = DirRef { id: DirId([8; 16]), ino: Ino(80) };
        for _ in 0..AFTER {
            grants.asked_about(other, SHARD, 12);
        }
        assert_eq!(grants.take_ready(SHARD), Some((ME, other)));
        assert_eq!(grants.recalled(SHARD, &[id(2)]), [DIR.id]);
        grants.granted((SHARD, ME), (other, id(2)), (13, 13));
        assert_eq!(grants.of(other.id, 14), None, "it was wanted before it came");
        assert_eq!(grants.take_endings(), Some((1, vec![DIR.id])));
        grants.ended(1);
        grants.take_fallen();
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(1), id(2)]));
    }

    #[test]
    fn what_is_not_known_is_given_back_after_what_the_kernel_has_yet_to_forget() {
        let grounds = Arc::new(Grounds::default());
        let [newest, clock] =
            [(); 2].map(|()| Box::new(|| 5_u64) as Box<dyn Fn() -> u64 + Send + Sync>);
        grounds.watch(Watch { newest, clock });
        let mut grants = ReadGrants::new(&grounds);
        grants.take_session(ME);
        grants.granted((SHARD, ME), (DIR, id(1)), (10, 10));
        assert!(grounds.tell_name(DIR.ino, (6, 11), HOLD) > 0);
        assert_eq!(grants.recalled(SHARD, &[id(9)]), [DIR.id]);
        grants.take_endings();
        grants.ended(1);
        assert_eq!(grants.take_fallen(), []);
        assert_eq!(grounds.take_falls().grants, [id(1)]);
        grounds.forgotten(&[id(1)]);
        assert_eq!(grants.take_fallen(), [SHARD, SHARD]);
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(1), id(9)]));
    }

    #[test]
    fn what_comes_after_its_time_is_given_back() {
        let mut grants = with_grant();
        grants.granted((SHARD, ME), (DIR, id(2)), (14, 14 + HOLD));
        grants.prolong(SHARD, 14 + HOLD);
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(2)]));
    }

    #[test]
    fn what_comes_while_its_directory_is_borrowed_is_given_back() {
        let mut grants = with_grant();
        grants.borrows(DIR.id);
        assert_eq!(grants.of(DIR.id, 11), None);
        assert!((0..AFTER).all(|_| !grants.asked_about(DIR, SHARD, 12)));
        grants.has_borrowed(DIR.id);
        assert!((0..AFTER).any(|_| grants.asked_about(DIR, SHARD, 13)));
        assert_eq!(grants.take_ready(SHARD), Some((ME, DIR)));
        grants.borrows(DIR.id);
        grants.has_borrowed(DIR.id);
        grants.granted((SHARD, ME), (DIR, id(2)), (14, 14));
        assert_eq!(grants.of(DIR.id, 15), None, "the loan has ended it at the shard");
    }

    #[test]
    fn what_comes_for_an_earlier_session_is_given_back() {
        let mut grants = with_grant();
        assert_eq!(grants.take_session(SessionId(6)), [DIR.id]);
        grants.granted((SHARD, ME), (DIR, id(3)), (13, 13));
        assert_eq!(grants.of(DIR.id, 14), None);
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(3)]));
        grants.take_endings();
        grants.ended(1);
        grants.take_fallen();
        assert_eq!(grants.to_tell(SHARD), Some(vec![id(3), id(1)]));
    }

    #[test]
    fn after_a_refusal_a_directory_is_left_alone_for_a_while() {
        let mut grants = ReadGrants::default();
        grants.take_session(ME);
        let mut asks = |now| (0..AFTER).any(|_| grants.asked_about(DIR, SHARD, now));
        assert!(asks(9) && !asks(10) && asks(10 + REFUSED_FOR));
    }

    #[test]
    fn memory_is_bounded() {
        let mut grants = ReadGrants::default();
        grants.take_session(ME);
        for ino in 0..3 * WATCHED_MAX as u64 {
            let id = DirId(u128::from(ino).to_be_bytes());
            grants.asked_about(DirRef { id, ino: Ino(ino) }, SHARD, 9);
        }
        assert!(grants.watched.len() <= WATCHED_MAX);
    }
}
