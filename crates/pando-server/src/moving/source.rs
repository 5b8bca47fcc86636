//! The source of a move: its answers to the target.

use std::io;

use pando_types::{Epoch, Lsn, ShardIndex};
use pando_wire::{Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Moving};

use crate::folder::move_notes::{Coming, Given};
use crate::folder::place::{Place, store_name};
use crate::host::leaving::{Changes, MAY_BE_GIVEN, MoveRefused, NotGiven};
use crate::host::shards::Host;
use crate::moving::faults::Point;

/// What a source needs of its process.
pub trait Giver {
    /// The host that runs the shards of this process.
    fn host(&self) -> &Host;
    /// Where the shards are kept.
    fn place(&self) -> &dyn Place;
    /// Passes a point of the move. It fails there if a test wants that.
    fn pass(&self, point: Point) -> io::Result<()>;
    /// The shard was given to the host `to`, and runs here no more.
    fn is_given(&self, to: &Hosting);
    /// Learns the host of a shard.
    fn learn(&self, hosting: &Hosting);
    /// Notes how far a move is, as its target reports.
    fn hear(&self, _moving: &Moving) {}
    /// Notes how far a move is, as the source knows itself.
    fn note(&self, _shard: ShardIndex, _stage: MoveStage) {}
}

/// Answers one message of the target. The flag tells whether the shard was given away by this.
pub fn answer(
    giver: &impl Giver,
    shard: ShardIndex,
    token: MoveToken,
    ask: &MoveAsk,
) -> (MoveTold, bool) {
    let over = |refused: MoveRefused| MoveTold::Over(refused.0);
    let host = giver.host();
    let told = match ask {
        MoveAsk::Follow(after) => {
            if after.is_some() {
                let _ = giver.pass(Point::Following);
            }
            host.follow(shard, token, *after).map_or_else(over, changes)
        }
        MoveAsk::Freeze(after) => {
            let told = host.freeze(shard, token, *after);
            if told.is_ok() {
                giver.note(shard, MoveStage::Exchanging);
                let _ = giver.pass(Point::Frozen);
            }
            told.map_or_else(over, changes)
        }
        MoveAsk::GiveAway { last, to } => {
            let given = Given { token, to: to.clone() };
            return give_away(giver, &given, *last);
        }
        MoveAsk::Moved(to) => {
            giver.learn(to);
            MoveTold::Done
        }
        MoveAsk::SoFar(moving) => {
            // Only the process that copies a shard may report on it.
            if host.is_followed(shard, token) && moving.shard == shard {
                giver.hear(moving);
            }
            MoveTold::Done
        }
    };
    (told, false)
}

fn give_away(giver: &impl Giver, given: &Given, last: (Epoch, Lsn)) -> (MoveTold, bool) {
    let (shard, place) = (given.to.shard, giver.place());
    match Given::read(place, shard.0) {
        // `given-K` may not be durable, if the process that wrote it ended at once. It is not
        // written again: the shard may come back at this moment, and its coming removes `given-K`.
        Ok(Some(known)) if known.token == given.token => {
            if let Err(error) = place.sync() {
                return (MoveTold::Unsure(error.to_string()), false);
            }
            let was_here = giver.host().was_given(shard);
            if was_here {
                giver.note(shard, MoveStage::Opening);
                giver.is_given(&known.to);
            }
            return (MoveTold::Given, was_here);
        }
        // Another server at the source's address knows nothing of the move.
        Ok(None) if giver.host().epoch(shard).is_none() => {
            let why = format!("shard {shard} does not run there, and nothing tells where it is");
            return (MoveTold::Unsure(why), false);
        }
        Ok(_) => {}
        Err(error) => return (MoveTold::Unsure(error.to_string()), false),
    }
    if giver.host().may_be_given(shard) {
        return (MoveTold::Unsure(MAY_BE_GIVEN.to_owned()), false);
    }
    let draft = match forget_arrival(giver, shard).and_then(|()| given.draft(place)) {
        Ok(draft) => draft,
        // `Over` is the last word on this exchange: the shard thaws before it is said.
        Err(error) => {
            let why = format!("it cannot be given away: {error}");
            giver.host().keep(shard, given.token, &why);
            return (MoveTold::Over(why), false);
        }
    };
    let commit = || draft.commit(place, || giver.pass(Point::Committed));
    match giver.host().give_away(shard, given.token, last, commit) {
        Ok(()) => {
            giver.note(shard, MoveStage::Opening);
            let _ = giver.pass(Point::Given);
            giver.is_given(&given.to);
            (MoveTold::Given, true)
        }
        Err(NotGiven::Refused(refused)) => (MoveTold::Over(refused.0), false),
        Err(NotGiven::Unknown(why)) => (MoveTold::Unsure(why), false),
    }
}

/// Removes the note that a shard that runs here has come here, if that is still there. A start
/// would take the shard for this place's own again. The note of a copy that waits for its source
/// stays: that may be the only copy.
fn forget_arrival(giver: &impl Giver, shard: ShardIndex) -> io::Result<()> {
    let has_come = |note: Coming| note.is_taken && giver.host().epoch(shard).is_some();
    match Coming::read(giver.place(), shard.0)?.is_some_and(has_come) {
        true => Coming::remove(giver.place(), shard),
        false => Ok(()),
    }
}

fn changes(changes: Changes) -> MoveTold {
    let Changes { groups, upto, last, epoch, clock, bytes } = changes;
    MoveTold::Changes { groups, upto, last, epoch, clock, bytes }
}

/// Puts the old copy of a shard that was given away aside, for [`sweep`]. Answers whether nothing
/// is left to do, also because the shard has come back. `known` is the latest epoch of a host that
/// is known here.
pub fn clear(giver: &impl Giver, shard: ShardIndex, known: Option<Epoch>) -> bool {
    let place = giver.place();
    let given = match Given::read(place, shard.0) {
        Ok(Some(given)) => given,
        // The shard has come back.
        Ok(None) => return true,
        // A later look may be able to read it.
        Err(_) => return false,
    };
    // `given-K` has the expected epoch. A host that serves the shard has a later one.
    if known.is_none_or(|known| known <= given.to.epoch) {
        return false;
    }
    // The store may be the shard itself, which has come back. The target in this process must
    // complete that move first.
    if !matches!(Coming::read(place, shard.0), Ok(None)) {
        return false;
    }
    if giver.host().epoch(shard).is_none() {
        let old = old_name(shard);
        match place.exists(&old) {
            Ok(false) => drop(place.rename(&store_name(shard.0), &old)),
            Ok(true) | Err(_) => return false,
        }
    }
    true
}

/// Removes a store that [`clear`] has put aside. That may take long, so the caller holds no lock.
pub fn sweep(place: &dyn Place, shard: ShardIndex) {
    let _ = place.remove(&old_name(shard));
}

/// Whether [`clear`] has put a store aside that is still there, as far as that can be read.
pub fn is_put_aside(place: &dyn Place, shard: ShardIndex) -> bool {
    place.exists(&old_name(shard)).unwrap_or(false)
}

fn old_name(shard: ShardIndex) -> String {
    format!("{}.old", store_name(shard.0))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::common::options::HostOptions;
    use crate::folder::layout::Folder;
    use crate::folder::superblock::Superblock;
    use crate::host::start::format_shard;

    struct Here {
        host: Host,
        folder: Folder,
        fails: Cell<bool>,
        given: RefCell<Vec<ShardIndex>>,
    }

    impl Giver for Here {
        fn host(&self) -> &Host {
            &self.host
        }

        fn place(&self) -> &dyn Place {
            &self.folder
        }

        fn pass(&self, point: Point) -> io::Result<()> {
            match point == Point::Committed && self.fails.take() {
                true => Err(io::Error::other("a disk fails")),
                false => Ok(()),
            }
        }

        fn is_given(&self, to: &Hosting) {
            self.given.borrow_mut().push(to.shard);
        }

        fn learn(&self, _: &Hosting) {}
    }

    fn volume() -> (tempfile::TempDir, Folder, Superblock) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        let superblock = Superblock::new(2, 1).unwrap();
        folder.format(&superblock, |shard, path| format_shard(&superblock, shard, path)).unwrap();
        (temp, folder, superblock)
    }

    fn to(shard: ShardIndex) -> Hosting {
        Hosting { shard, epoch: Epoch(9), host: [1; 16], addresses: Vec::new() }
    }

    /// The position up to which changes were told, and the last group.
    fn upto(told: MoveTold) -> (Lsn, (Epoch, Lsn)) {
        match told {
            MoveTold::Changes { upto, last, epoch, .. } => (upto, (epoch, last)),
            other => panic!("{other:?}"),
        }
    }

    fn here(folder: &Folder, superblock: &Superblock, shards: &[ShardIndex]) -> Here {
        let (host, _) = Host::start(folder, superblock, &HostOptions::default(), shards).unwrap();
        let (fails, given) = (Cell::new(true), RefCell::default());
        Here { host, folder: folder.clone(), fails, given }
    }

    /// The target's disk stopped it while it put the copy in its place.
    #[test]
    fn what_has_come_back_is_not_taken_for_an_old_copy() {
        let (_temp, folder, superblock) = volume();
        let here = here(&folder, &superblock, &[ShardIndex(0)]);
        let (shard, token) = (ShardIndex(1), MoveToken([3; 16]));
        let to = Hosting { shard, epoch: Epoch(4), host: [1; 16], addresses: Vec::new() };
        Given { token, to: to.clone() }.write(&folder).unwrap();
        let last = (Epoch(7), Lsn(9));
        let coming = Coming { token: MoveToken([4; 16]), from: to, last, is_taken: true };
        coming.write(&folder).unwrap();
        assert!(!clear(&here, shard, Some(Epoch(5))));
        assert!(folder.shard(1).exists());
        Coming::remove(&folder, shard).unwrap();
        assert!(!clear(&here, shard, Some(Epoch(4))));
        assert!(folder.shard(1).exists());
        // What cannot be read at this moment says nothing.
        let note = Given::read(&folder, 1).unwrap().unwrap();
        Place::write(&folder, "given-0001", "damaged").unwrap();
        assert!(!clear(&here, shard, Some(Epoch(5))));
        assert!(folder.shard(1).exists());
        note.write(&folder).unwrap();
        assert!(clear(&here, shard, Some(Epoch(5))));
        assert!(!folder.shard(1).exists() && folder.path().join("shard-0001.old").exists());
        sweep(&folder, shard);
        assert!(!folder.path().join("shard-0001.old").exists());
    }

    /// The target has removed its copy by then. A repeated question may be delivered late: the
    /// target's process ended, or asked again on another connection.
    #[test]
    fn what_is_over_is_not_given_away_by_a_question_that_comes_late() {
        let (_temp, folder, superblock) = volume();
        let shards = [ShardIndex(0), ShardIndex(1)];
        let here = here(&folder, &superblock, &shards);
        here.fails.set(false);
        let (shard, token) = (ShardIndex(1), MoveToken([3; 16]));
        let ask = |ask: MoveAsk| answer(&here, shard, token, &ask).0;
        let to = to(shard);
        let give = |last| ask(MoveAsk::GiveAway { last, to: to.clone() });
        let begun = upto(ask(MoveAsk::Follow(None))).0;
        let (at, first) = upto(ask(MoveAsk::Freeze(begun)));
        // The disk fails once.
        let blocked = folder.path().join("given-0001.new");
        std::fs::create_dir(&blocked).unwrap();
        assert!(matches!(give(first), MoveTold::Over(_)));
        std::fs::remove_dir(&blocked).unwrap();
        assert!(matches!(give(first), MoveTold::Over(_)));
        // The next exchange with that copy is under way, and nothing has changed since.
        let (_, second) = upto(ask(MoveAsk::Freeze(at)));
        assert!(matches!(give(first), MoveTold::Over(_)));
        assert_eq!(here.host.hosted(), shards);
        assert_eq!(give(second), MoveTold::Given);
    }

    /// The target would throw its copy away, and that may be the only one.
    #[test]
    fn a_note_that_cannot_be_read_is_no_answer() {
        let (_temp, folder, superblock) = volume();
        let shards = [ShardIndex(0), ShardIndex(1)];
        let here = here(&folder, &superblock, &shards);
        here.fails.set(false);
        let (shard, token) = (ShardIndex(1), MoveToken([3; 16]));
        let ask = |ask: MoveAsk| answer(&here, shard, token, &ask);
        let give = |last| ask(MoveAsk::GiveAway { last, to: to(shard) });
        let begun = upto(ask(MoveAsk::Follow(None)).0).0;
        let (_, last) = upto(ask(MoveAsk::Freeze(begun)).0);
        let unreadable = folder.path().join("given-0001");
        std::fs::create_dir(&unreadable).unwrap();
        let (told, is_given) = give(last);
        assert!(matches!(told, MoveTold::Unsure(_)) && !is_given, "{told:?}");
        assert_eq!(here.host.hosted(), shards);
        std::fs::remove_dir(&unreadable).unwrap();
        assert_eq!(give(last), (MoveTold::Given, true));
        // Nor when the target asks once more.
        std::fs::rename(&unreadable, folder.path().join("aside")).unwrap();
        std::fs::create_dir(&unreadable).unwrap();
        let (told, _) = give(last);
        assert!(matches!(told, MoveTold::Unsure(_)), "{told:?}");
        std::fs::remove_dir(&unreadable).unwrap();
        std::fs::rename(folder.path().join("aside"), &unreadable).unwrap();
        assert_eq!(give(last), (MoveTold::Given, false));
    }

    /// The note could not be removed when the shard came. A start would serve the shard here again.
    #[test]
    fn the_note_that_a_shard_has_come_goes_before_the_shard_does() {
        let (_temp, folder, superblock) = volume();
        let here = here(&folder, &superblock, &[ShardIndex(0), ShardIndex(1)]);
        here.fails.set(false);
        let (shard, token) = (ShardIndex(1), MoveToken([3; 16]));
        let to = to(shard);
        let came = MoveToken([4; 16]);
        let note =
            Coming { token: came, from: to.clone(), last: (Epoch(4), Lsn(9)), is_taken: true };
        note.write(&folder).unwrap();
        let ask = |ask: MoveAsk| answer(&here, shard, token, &ask).0;
        let begun = upto(ask(MoveAsk::Follow(None))).0;
        let (_, last) = upto(ask(MoveAsk::Freeze(begun)));
        let told = ask(MoveAsk::GiveAway { last, to: to.clone() });
        assert_eq!(told, MoveTold::Given);
        assert_eq!(Coming::read(&folder, shard.0).unwrap(), None);
        // A late question about an earlier move does not touch a copy that comes back.
        let waits = Coming { is_taken: false, ..note };
        waits.write(&folder).unwrap();
        let other = MoveAsk::GiveAway { last, to };
        let (told, _) = answer(&here, shard, MoveToken([5; 16]), &other);
        assert!(matches!(told, MoveTold::Over(_)), "{told:?}");
        assert_eq!(Coming::read(&folder, shard.0).unwrap(), Some(waits));
        assert_eq!(Given::read(&folder, shard.0).unwrap().map(|given| given.token), Some(token));
    }

    /// Otherwise the shard's clients would get `EIO` here until a start, though another process
    /// serves the shard.
    #[test]
    fn a_shard_that_may_have_been_given_away_goes_when_it_was() {
        let (_temp, folder, superblock) = volume();
        let shards = [ShardIndex(0), ShardIndex(1)];
        let here = here(&folder, &superblock, &shards);
        let (shard, token) = (ShardIndex(1), MoveToken([3; 16]));
        let ask = |ask: MoveAsk| answer(&here, shard, token, &ask);
        let begun = upto(ask(MoveAsk::Follow(None)).0).0;
        let (_, last) = upto(ask(MoveAsk::Freeze(begun)).0);
        let to = to(shard);
        let give = || ask(MoveAsk::GiveAway { last, to: to.clone() });
        let (told, is_given) = give();
        assert!(matches!(told, MoveTold::Unsure(_)) && !is_given, "{told:?}");
        assert_eq!(here.host.hosted(), shards);
        assert_eq!(give(), (MoveTold::Given, true));
        assert_eq!(
            (here.host.hosted(), here.given.borrow().clone()),
            (vec![ShardIndex(0)], vec![shard])
        );
        assert_eq!(give(), (MoveTold::Given, false));
    }
}
