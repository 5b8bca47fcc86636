//! Opens of which no shard has been told (docs/design/holds.md, "Opens that do not travel").
//!
//! Invariants:
//! 1. An entry stands before the memory is asked whether its file may be opened. It stands until a
//!    shard counts that file as open, or nobody has it open, or it is lost. So whoever ends the
//!    hold finds it.
//! 2. While a name is being changed, it gets no entry.
//! 3. One task tells shards, and of each file once at a time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use pando_types::op::{FileAt, FileRef};
use pando_types::{DirId, DirRef, Errno, Ino, Name, SessionId, ShardIndex};
use parking_lot::Mutex;

use crate::nodes::table::Nodes;
use crate::transport::waiting::Waiting;

/// Most files that are open untold.
const MOST: usize = 1024;
/// Most files of which one shard is told at once. Each takes a request slot, and a shard that is
/// away is not to take all.
const TELLS_MAX: usize = 16;

/// A name in a directory.
type Place = (DirRef, Name);

/// Opens of which no shard has been told.
#[derive(Default)]
pub(crate) struct Untold {
    state: Mutex<State>,
    /// Number of entries, to be read without the lock.
    count: AtomicUsize,
    waiting: Waiting,
}

#[derive(Default)]
struct State {
    files: BTreeMap<Place, Entry>,
    /// Names that are being changed, and by how many calls.
    changing: BTreeMap<Place, u32>,
    /// Number of callers that wait until all is told.
    hurries: u32,
}

/// A file that is open untold.
struct Entry {
    ino: Ino,
    /// When it was opened so, or could not be told.
    since: u64,
    is_urgent: bool,
    /// The shard that is being told.
    telling: Option<ShardIndex>,
    /// Why it could not be told the last time.
    failed: Option<Errno>,
}

/// A file of which its shard is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Telling {
    place: Place,
    ino: Ino,
}

impl Telling {
    /// The file, where it is as long as nobody changes its name.
    pub(crate) fn file(&self) -> FileRef {
        FileRef { ino: self.ino, at: FileAt::Name(self.place.0, self.place.1.clone()) }
    }
}

/// What became of telling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// The shard knows, or the file is closed.
    Known,
    /// The file is gone, though it was open.
    Lost,
    /// The shard could not be told.
    NotYet(Errno),
}

/// Names that are being changed.
pub(crate) struct Changing<'a> {
    untold: &'a Untold,
    places: Vec<Place>,
}

/// The hold ends: all is to be told, and nothing is opened so.
pub(crate) struct Hurry<'a>(&'a Untold);

impl Untold {
    /// Opens a file of which its shard is told later. False: it has to be opened the ordinary way.
    /// The session lives, and the caller keeps it from ending.
    pub(crate) fn open(
        &self,
        nodes: &Nodes,
        (dir, name, ino): (DirRef, &Name, Ino),
        (session, now): (SessionId, u64),
    ) -> bool {
        let mut state = self.state.lock();
        let place = (dir, name.clone());
        let known = state.files.get(&place);
        let is_other = known.is_some_and(|entry| entry.ino != ino);
        let is_full = known.is_none() && state.files.len() >= MOST;
        if is_other || is_full || state.hurries > 0 || state.changing.contains_key(&place) {
            return false;
        }
        // Under the lock, as whoever drops an entry looks whether its file is open.
        if !nodes.open_untold(ino, &FileAt::Name(dir, name.clone())) {
            return false;
        }
        if !nodes.is_held(ino, session) {
            let entry = Entry { ino, since: now, is_urgent: false, telling: None, failed: None };
            state.files.entry(place).or_insert(entry);
            self.counted(&state);
        }
        true
    }

    fn counted(&self, state: &State) {
        self.count.store(state.files.len(), Ordering::SeqCst);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Notes that a file was closed.
    pub(crate) fn closed(&self, nodes: &Nodes, file: &FileRef) {
        let FileAt::Name(dir, name) = &file.at else { return };
        if self.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let place = (*dir, name.clone());
        let is_over = |entry: &Entry| entry.ino == file.ino && !nodes.is_open(entry.ino);
        if state.files.get(&place).is_some_and(is_over) {
            let entry = state.files.remove(&place);
            self.counted(&state);
            let is_waited_for = state.hurries > 0 || entry.is_some_and(|entry| entry.is_urgent);
            drop(state);
            if is_waited_for {
                self.waiting.wake();
            }
        }
    }

    /// Takes files of which their shards are to be told now. The task is woken when there are more,
    /// but for those that only grow old.
    pub(crate) fn take_due(
        &self,
        context: &Context<'_>,
        old: u64,
        shard_of: impl Fn(DirRef, &Name) -> ShardIndex,
    ) -> Vec<Telling> {
        self.waiting.add(context);
        if self.is_empty() {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let mut told = BTreeMap::<ShardIndex, usize>::new();
        for shard in state.files.values().filter_map(|entry| entry.telling) {
            *told.entry(shard).or_default() += 1;
        }
        let hurries = state.hurries > 0;
        let is_due = |entry: &Entry| {
            // What failed is not tried without a pause.
            let is_urgent = (hurries || entry.is_urgent) && entry.failed.is_none();
            entry.telling.is_none() && (is_urgent || entry.since < old)
        };
        let mut due = Vec::new();
        for ((dir, name), entry) in state.files.iter_mut().filter(|(_, entry)| is_due(entry)) {
            let shard = shard_of(*dir, name);
            let count = told.entry(shard).or_default();
            if *count < TELLS_MAX {
                *count += 1;
                entry.telling = Some(shard);
                due.push(Telling { place: (*dir, name.clone()), ino: entry.ino });
            }
        }
        due
    }

    /// Notes what became of telling. What is not told is told again when it is as old as one that
    /// was opened `now`.
    pub(crate) fn told(
        &self,
        (nodes, session): (&Nodes, SessionId),
        Telling { place, ino }: &Telling,
        (told, now): (Told, u64),
    ) {
        let mut state = self.state.lock();
        if let Some(entry) = state.files.get_mut(place)
            && entry.ino == *ino
        {
            (entry.telling, entry.is_urgent, entry.since) = (None, false, now);
            entry.failed = match told {
                Told::NotYet(errno) => Some(errno),
                Told::Known | Told::Lost => None,
            };
            // It may have been closed, and opened anew.
            let is_untold = nodes.is_open(*ino) && !nodes.is_held(*ino, session);
            if !is_untold || told == Told::Lost {
                state.files.remove(place);
            }
            self.counted(&state);
        }
        drop(state);
        self.waiting.wake();
    }

    /// Notes that the hold ends. Nothing is opened so for as long as the result lives.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.state.lock().hurries += 1;
        self.waiting.wake();
        Hurry(self)
    }

    /// Ready when shards have been told of all that is open in these directories. Nothing more is
    /// opened there so.
    pub(crate) async fn told_in(&self, dirs: &[DirId]) {
        let is_in = |place: &Place| dirs.contains(&place.0.id);
        if self.is_empty() {
            return;
        }
        for (_, entry) in self.state.lock().files.iter_mut().filter(|(place, _)| is_in(place)) {
            (entry.is_urgent, entry.failed) = (true, None);
        }
        self.waiting.wake();
        let is_told = || !self.state.lock().files.keys().any(is_in);
        self.waiting.when(|| is_told().then_some(())).await;
    }

    /// Notes that the hold has ended, and that all is to be told soon.
    pub(crate) fn hold_is_over(&self) {
        self.state.lock().files.values_mut().for_each(|entry| entry.is_urgent = true);
        self.waiting.wake();
    }

    /// Notes that names are about to change, for as long as the result lives.
    pub(crate) fn change(&self, names: &[(DirRef, &Name)]) -> Changing<'_> {
        let place = |(dir, name): &(DirRef, &Name)| (*dir, (*name).clone());
        let places: Vec<Place> = names.iter().map(place).collect();
        let mut state = self.state.lock();
        for place in &places {
            *state.changing.entry(place.clone()).or_default() += 1;
        }
        drop(state);
        Changing { untold: self, places }
    }

    /// Whether a file is open untold.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        !self.is_empty() && self.state.lock().files.values().any(|entry| entry.ino == ino)
    }
}

impl Changing<'_> {
    /// Ready when shards have been told of what is open by these names, or when one could not be
    /// told.
    pub(crate) async fn told(&self) -> Result<(), Errno> {
        if self.hurry_them() {
            self.untold.waiting.wake();
            self.untold.waiting.when(|| self.how_told()).await?;
        }
        Ok(())
    }

    /// Whether there are any.
    fn hurry_them(&self) -> bool {
        if self.untold.is_empty() {
            return false;
        }
        let mut state = self.untold.state.lock();
        let mut are_any = false;
        for place in &self.places {
            if let Some(entry) = state.files.get_mut(place) {
                (entry.is_urgent, entry.failed, are_any) = (true, None, true);
            }
        }
        are_any
    }

    fn how_told(&self) -> Option<Result<(), Errno>> {
        let state = self.untold.state.lock();
        let left = || self.places.iter().filter_map(|place| state.files.get(place));
        match left().find_map(|entry| entry.failed) {
            Some(errno) => Some(Err(errno)),
            None => left().next().is_none().then_some(Ok(())),
        }
    }
}

impl Hurry<'_> {
    /// Ready when shards have been told of all that is open.
    pub(crate) async fn all_told(&self) {
        self.0.waiting.when(|| self.0.is_empty().then_some(())).await;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut state = self.untold.state.lock();
        for place in &self.places {
            if let Some(count) = state.changing.get_mut(place) {
                *count -= 1;
                if *count == 0 {
                    state.changing.remove(place);
                }
            }
        }
    }
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.state.lock().hurries -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Poll, Waker};

    use super::*;
    use crate::nodes::table::Spot;

    const INO: Ino = Ino(77);
    const ME: SessionId = SessionId(1);
    const DIR: DirRef = DirRef::ROOT;

    struct Case {
        nodes: Nodes,
        untold: Untold,
    }

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    impl Case {
        fn new() -> Self {
            Self { nodes: Nodes::new(), untold: Untold::default() }
        }

        fn open(&self, of: &str, ino: Ino, now: u64) -> bool {
            let at = FileAt::Name(DIR, name(of));
            self.nodes.look_up(ino, Spot::File(at), self.nodes.stamp());
            self.open_known(of, ino, now)
        }

        fn open_known(&self, of: &str, ino: Ino, now: u64) -> bool {
            self.untold.open(&self.nodes, (DIR, &name(of), ino), (ME, now))
        }

        fn close(&self, ino: Ino) -> Option<SessionId> {
            let (file, excess, _pin) = self.nodes.close(ino).unwrap();
            self.untold.closed(&self.nodes, &file);
            excess
        }

        fn due(&self, old: u64) -> Vec<Telling> {
            self.untold.take_due(&context(), old, |_, _| ShardIndex(0))
        }

        fn tell(&self, telling: &Telling, told: Told) {
            self.untold.told((&self.nodes, ME), telling, (told, 50));
        }
    }

    #[test]
    fn what_lasts_is_told_once_and_what_is_closed_never() {
        let case = Case::new();
        assert!(case.open("a", INO, 10) && case.open("b", Ino(78), 20));
        assert_eq!(case.close(Ino(78)), None);
        assert!(case.untold.has(INO) && !case.untold.has(Ino(78)));
        assert!(case.due(10).is_empty());
        let due = case.due(11);
        assert_eq!(due.iter().map(|it| it.ino).collect::<Vec<_>>(), [INO]);
        assert!(case.due(11).is_empty(), "it is being told");
        assert!(case.nodes.held(INO, ME));
        case.tell(&due[0], Told::Known);
        assert!(!case.untold.has(INO));
        // Shards count it: nothing is to be told any more.
        assert!(case.open("a", INO, 60) && !case.untold.has(INO));
        assert_eq!((case.close(INO), case.close(INO)), (None, Some(ME)));
    }

    #[test]
    fn what_could_not_be_told_is_told_again_and_what_is_gone_is_not() {
        let case = Case::new();
        assert!(case.open("a", INO, 10));
        let due = case.due(11);
        case.tell(&due[0], Told::NotYet(Errno::ENOSPC));
        let hurry = case.untold.hurry();
        assert!(case.due(0).is_empty(), "not without a pause");
        drop(hurry);
        assert!(case.due(50).is_empty() && case.due(51) == due);
        case.tell(&due[0], Told::Lost);
        assert!(!case.untold.has(INO));
    }

    #[test]
    fn one_that_is_closed_and_opened_while_it_is_told_is_told_anew() {
        let case = Case::new();
        assert!(case.open("a", INO, 10));
        let due = case.due(11);
        // The shard counts the first open, which is over, and so that is taken back.
        case.close(INO);
        assert!(case.open("a", INO, 20));
        case.tell(&due[0], Told::Known);
        assert!(case.untold.has(INO) && case.due(51) == due);
    }

    #[test]
    fn a_name_that_changes_is_told_before_and_not_opened_so_meanwhile() {
        let case = Case::new();
        assert!(case.open("a", INO, 10) && case.open("b", Ino(78), 10));
        let of = name("a");
        let changing = case.untold.change(&[(DIR, &of)]);
        assert!(!case.open("a", INO, 20));
        {
            let mut told = pin!(changing.told());
            assert!(told.as_mut().poll(&mut context()).is_pending());
            let due = case.due(0);
            assert_eq!(due.len(), 1, "only that one");
            case.nodes.held(INO, ME);
            case.tell(&due[0], Told::Known);
            assert_eq!(told.as_mut().poll(&mut context()), Poll::Ready(Ok(())));
        }
        let second = case.untold.change(&[(DIR, &of)]);
        drop(changing);
        assert!(!case.open("a", INO, 20));
        drop(second);
        assert!(case.open("a", INO, 20));
    }

    #[test]
    fn whoever_ends_the_hold_waits_for_all() {
        let case = Case::new();
        assert!(case.open("a", INO, 10) && case.open("b", Ino(78), 10));
        let hurry = case.untold.hurry();
        assert!(!case.open("c", Ino(79), 10), "the hold ends");
        let mut all = pin!(hurry.all_told());
        assert!(all.as_mut().poll(&mut context()).is_pending());
        let due = case.due(0);
        assert_eq!(due.len(), 2);
        case.nodes.held(INO, ME);
        case.tell(&due[0], Told::Known);
        assert!(all.as_mut().poll(&mut context()).is_pending());
        case.close(Ino(78));
        assert_eq!(all.as_mut().poll(&mut context()), Poll::Ready(()));
    }

    #[test]
    fn a_name_of_which_no_shard_can_be_told_is_not_changed() {
        let case = Case::new();
        assert!(case.open("a", INO, 10));
        let of = name("a");
        let changing = case.untold.change(&[(DIR, &of)]);
        let mut told = pin!(changing.told());
        assert!(told.as_mut().poll(&mut context()).is_pending());
        let due = case.due(0);
        case.tell(&due[0], Told::NotYet(Errno::ENOSPC));
        assert_eq!(told.as_mut().poll(&mut context()), Poll::Ready(Err(Errno::ENOSPC)));
        assert!(case.untold.has(INO));
    }

    #[test]
    fn what_was_found_elsewhere_is_not_opened_by_an_old_name() {
        let case = Case::new();
        let at = |of: &str| FileAt::Name(DIR, name(of));
        case.nodes.look_up(INO, Spot::File(at("a")), case.nodes.stamp());
        case.nodes.moved(INO, at("b"));
        assert!(!case.open_known("a", INO, 10) && !case.open_known("a", Ino(78), 10));
        assert_eq!(case.nodes.find(INO), Ok(Spot::File(at("b"))));
        assert!(case.open_known("b", INO, 10));
        // Another file at the name of one that is open.
        case.nodes.look_up(Ino(78), Spot::File(at("b")), case.nodes.stamp());
        assert!(!case.open_known("b", Ino(78), 10) && case.untold.has(INO));
    }

    #[test]
    fn a_shard_that_is_away_keeps_no_other_one_from_hearing() {
        let case = Case::new();
        for nth in 0..2 * TELLS_MAX as u64 {
            assert!(case.open(&format!("away {nth}"), Ino(1000 + nth), 10));
        }
        assert!(case.open("here", INO, 10));
        let shard = |_, name: &Name| ShardIndex(u16::from(name.as_bytes()[0] == b'h'));
        let due = || case.untold.take_due(&context(), 11, shard);
        let first = due();
        assert_eq!(first.len(), TELLS_MAX + 1);
        assert!(first.iter().any(|it| it.ino == INO) && due().is_empty());
        case.tell(&first[0], Told::Lost);
        assert_eq!(due().len(), 1);
    }

    #[test]
    fn there_is_an_end_to_them() {
        let case = Case::new();
        for nth in 0..MOST as u64 {
            assert!(case.open(&nth.to_string(), Ino(1000 + nth), 10));
        }
        assert!(!case.open("one more", INO, 10));
        assert!(case.open("7", Ino(1007), 10), "it is there");
        assert_eq!(case.close(Ino(1000)), None);
        assert!(case.open("one more", INO, 10));
    }
}
