//! One move as its target does it, step by step.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use pando_types::Epoch;
use pando_wire::{Hosting, MoveStage, Moving};

use crate::folder::move_notes::Coming;
use crate::moving::target::desk::Desk;
use crate::moving::target::end::{End, Ended};
use crate::moving::target::taker::{Pace, Taker};
use crate::moving::target::work::Move;
use crate::moving::target::{Heard, Step};

/// One move as its target does it. [`Target::next`] drives it.
pub struct Target {
    desk: Desk,
    task: Pin<Box<dyn Future<Output = ()>>>,
    from: Hosting,
}

impl Target {
    /// Copies a shard and takes it over.
    pub fn adopt(taker: Rc<dyn Taker>, from: Hosting, pace: Pace) -> Self {
        Self::begin(taker, from.clone(), |move_| async move { move_.adopt(from, pace).await })
    }

    /// Resumes a move with a copy that was complete when the last process of this place ended. Only
    /// the source's word that it has gone on makes the copy worthless.
    pub fn resume(taker: Rc<dyn Taker>, coming: Coming) -> Self {
        Self::begin(taker, coming.from.clone(), |move_| async move { move_.resume(coming).await })
    }

    fn begin<F: Future<Output = Result<(), End>> + 'static>(
        taker: Rc<dyn Taker>,
        from: Hosting,
        work: impl FnOnce(Move) -> F,
    ) -> Self {
        let shard = from.shard;
        let moving = Moving {
            shard,
            from: from.addresses.clone(),
            to: taker.here(shard, Epoch(0)).addresses,
            stage: MoveStage::Copying,
            copied: 0,
            total: 0,
        };
        let desk = Desk::new(moving);
        let move_ = Move { taker, desk: desk.clone(), shard };
        let work = work(move_.clone());
        let task = Box::pin(async move {
            let end = work.await;
            let ended = move_.finish(end);
            move_.desk.end(ended);
        });
        Self { desk, task, from }
    }

    /// Host of the source, which the target asks.
    #[must_use]
    pub const fn from(&self) -> &Hosting {
        &self.from
    }

    /// How far the move is.
    #[must_use]
    pub fn moving(&self) -> Moving {
        self.desk.moving()
    }

    /// The next step. `now` is the clock of timers in nanoseconds. `heard` is the result of the
    /// last step, at first [`Heard::Done`]. Must not be called after [`Step::Ended`].
    pub fn next(&mut self, now: u64, heard: Heard) -> Step {
        self.desk.hear(now, heard);
        let _ = self.task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.desk.take().unwrap_or_else(|| Step::Ended(Ended::Later("it stands still".to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use pando_types::{Epoch, Lsn, ShardIndex};
    use pando_wire::MoveToken;

    use super::*;
    use crate::folder::layout::Folder;
    use crate::folder::place::Place;
    use crate::folder::superblock::Superblock;
    use crate::moving::target::desk::{Heard, Step};
    use crate::store::error::StoreError;
    use crate::store::records::Store;

    /// A process with a disk that fails to remove stores.
    struct Here(Folder);

    impl Place for Here {
        fn read(&self, name: &str) -> io::Result<Option<String>> {
            Place::read(&self.0, name)
        }

        fn write(&self, name: &str, text: &str) -> io::Result<()> {
            Place::write(&self.0, name, text)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Place::rename(&self.0, from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            match self.0.path().join(name).is_dir() {
                true => Err(io::Error::other("a disk fails")),
                false => Place::remove(&self.0, name),
            }
        }

        fn exists(&self, name: &str) -> io::Result<bool> {
            Place::exists(&self.0, name)
        }

        fn sync(&self) -> io::Result<()> {
            Place::sync(&self.0)
        }
    }

    impl Taker for Here {
        fn place(&self) -> &dyn Place {
            self
        }

        fn open_copy(&self, shard: ShardIndex, _: u64) -> Result<Store, StoreError> {
            panic!("shard {shard} is not to be copied")
        }

        fn token(&self) -> Result<MoveToken, String> {
            Ok(MoveToken([3; 16]))
        }

        fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting {
            Hosting { shard, epoch, host: [1; 16], addresses: Vec::new() }
        }

        fn say(&self, _: &str) {}
    }

    fn pace() -> Pace {
        Pace {
            page_bytes: 1,
            rate: 1,
            checkpoint_bytes: 1,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// A process with a copy of shard 1, and the shard's host.
    fn with_a_copy() -> (tempfile::TempDir, Rc<Here>, Hosting) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap();
        std::fs::create_dir(folder.coming(1)).unwrap();
        let taker = Rc::new(Here(folder));
        let from = taker.here(ShardIndex(1), Epoch(5));
        (temp, taker, from)
    }

    /// The copy could not be put in its place, since the disk was full or failed. There is no other
    /// copy.
    #[test]
    fn a_whole_copy_is_not_thrown_away_when_the_shard_is_asked_for_again() {
        let (_temp, taker, from) = with_a_copy();
        let (token, last) = (MoveToken([4; 16]), (Epoch(5), Lsn(7)));
        let coming = Coming { token, from: from.clone(), last, is_taken: true };
        coming.write(taker.place()).unwrap();
        let step = Target::adopt(taker.clone(), from, pace()).next(0, Heard::Done);
        assert!(matches!(step, Step::Ended(Ended::Later(_))), "{step:?}");
        assert!(taker.0.coming(1).exists());
        assert_eq!(Coming::read(&taker.0, 1).unwrap(), Some(coming));
    }

    /// Else records that were removed at the source meanwhile would be here again.
    #[test]
    fn nothing_is_copied_over_what_is_left_of_an_earlier_copy() {
        let (_temp, taker, from) = with_a_copy();
        let step = Target::adopt(taker, from, pace()).next(0, Heard::Done);
        assert!(matches!(step, Step::Ended(Ended::Stays(_))), "{step:?}");
    }
}
