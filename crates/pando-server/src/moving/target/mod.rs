//! The process that a shard comes to, without threads, sockets and clocks: it says what is to be done next, and is told what came of it.
//!
//! ```text
//!   adopt ─► attempt: Follow, pages and changes ─► exchange: Freeze, the rest, sync, coming-K ─► obtain: GiveAway … ─► serve
//!              ▲ again, with a new copy                ▲ again, with the same copy                   ▲ resume
//! ```

mod copy;
mod desk;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Moving};

use super::journal::{Coming, put_in_place};
use super::place::{Place, copy_name};
use super::{Point, Silent};
use crate::store::{Store, StoreError};
use copy::{Copy, changes};
use desk::Desk;
pub use desk::{Heard, Step};

/// Attempts, if the source cannot keep what changes, or more changes than can be told while it is frozen.
const ATTEMPTS_MAX: u32 = 5;
/// Exchanges with one copy, likewise.
const EXCHANGES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// What a target needs of its process.
pub trait Taker {
    /// Where copies and shards are kept.
    fn place(&self) -> &dyn Place;
    /// Opens the store of a copy, and makes it if there is none.
    fn open_copy(&self, shard: ShardIndex, epoch_at_least: u64) -> Result<Store, StoreError>;
    /// Draws a token.
    fn token(&self) -> Result<MoveToken, String>;
    /// This process as the host of a shard.
    fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting;
    /// Says something to whoever reads the log.
    fn say(&self, what: &str);
}

/// How a shard is copied.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes of a page of records; the source serves nothing else while it reads one.
    pub page_bytes: u32,
    /// Bytes a second.
    pub rate: u64,
    /// Memory of the copy's tree at which a checkpoint is made, bytes.
    pub checkpoint_bytes: usize,
    /// A fault that a test plants.
    #[cfg(feature = "planted")]
    pub planted: Option<crate::host::Planted>,
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It is served here.
    Served,
    /// It stays where it was, in words why; nothing is left of the copy.
    Stays(String),
    /// A later process of this place looks again, in words why.
    Later(String),
}

/// Why a step has ended the move, or an attempt.
enum End {
    /// It stays where it was, in words why.
    Failed(String),
    /// It may be tried again.
    Again(String),
    /// Nothing more is done here.
    Later(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.what)
    }
}

/// See the module.
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

    /// Goes on with a copy that was complete when the last process of this place ended. Only the source's word that it has gone on
    /// makes the copy worthless.
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

    /// Whom it asks.
    #[must_use]
    pub const fn from(&self) -> &Hosting {
        &self.from
    }

    /// How far it is.
    #[must_use]
    pub fn moving(&self) -> Moving {
        self.desk.moving()
    }

    /// What is to be done next. `now`: nanoseconds, by the clock of timers; `heard`: what came of the last step, at first
    /// [`Heard::Done`]. Not to be called once it has ended.
    pub fn next(&mut self, now: u64, heard: Heard) -> Step {
        self.desk.hear(now, heard);
        let _ = self.task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.desk.take().unwrap_or_else(|| Step::Ended(Ended::Later("it stands still".to_owned())))
    }
}

/// What the source says in the end.
enum Answer {
    /// The shard is this process's.
    Given,
    /// The source has gone on, in words why.
    Over(String),
}

/// A move as its target does it.
#[derive(Clone)]
struct Move {
    taker: Rc<dyn Taker>,
    desk: Desk,
    shard: ShardIndex,
}

impl Move {
    fn place(&self) -> &dyn Place {
        self.taker.place()
    }

    /// A store's files go.
    fn remove_copy(&self) {
        let name = copy_name(self.shard.0);
        if let Err(error) = self.place().remove(&name) {
            self.taker.say(&format!("cannot remove {name}: {error}"));
        }
    }

    async fn adopt(self, from: Hosting, pace: Pace) -> Result<(), End> {
        if !matches!(Coming::read(self.place(), self.shard.0), Ok(None)) {
            // The source may have given it away: there may be no other.
            let why = "a whole copy is here already, and is looked at again at the next start";
            return Err(End::Later(why.to_owned()));
        }
        let mut tries = 0;
        loop {
            tries += 1;
            self.remove_copy();
            match self.attempt(&from, pace).await {
                Err(End::Again(why)) if tries < ATTEMPTS_MAX => {
                    self.taker.say(&format!("the move begins anew: {why}"));
                    self.desk.pause(PAUSE).await;
                }
                end => return end,
            }
        }
    }

    async fn resume(self, mut coming: Coming) -> Result<(), End> {
        if !coming.is_taken && !self.place().exists(&copy_name(self.shard.0)) {
            // Without a copy nothing is to be asked for.
            return Err(End::Failed("its copy is gone".to_owned()));
        }
        match self.obtain(&mut coming).await? {
            Answer::Given => self.serve(&coming).await,
            Answer::Over(why) => Err(End::Failed(why)),
        }
    }

    fn finish(&self, end: Result<(), End>) -> Ended {
        let ended = match end {
            Ok(()) => return Ended::Served,
            Err(End::Later(why)) => Ended::Later(why),
            // First what says that the copy is complete: else a later start asks for the shard, and has nothing of it.
            Err(End::Failed(why) | End::Again(why)) => {
                match Coming::remove(self.place(), self.shard) {
                    Ok(()) => {
                        self.remove_copy();
                        Ended::Stays(why)
                    }
                    Err(error) => Ended::Later(format!(
                        "it stays where it was: {why}; its copy here is looked at again at the next start ({error})"
                    )),
                }
            }
        };
        let (Ended::Stays(why) | Ended::Later(why)) = &ended else { return ended };
        self.desk.stage(MoveStage::Failed(why.clone()));
        ended
    }

    async fn attempt(&self, from: &Hosting, pace: Pace) -> Result<(), End> {
        let token = self.taker.token().map_err(End::Failed)?;
        let follow = MoveAsk::Follow(None);
        let begun = changes(self.desk.ask_move(self.shard, token, follow).await?)?;
        self.desk.note(|moving| {
            (moving.stage, moving.copied, moving.total) = (MoveStage::Copying, 0, begun.bytes);
        });
        // One more than the source is told that it will at least be: so its word and its host's are told apart.
        let store = self.taker.open_copy(self.shard, begun.epoch.0 + 2)?;
        let mut copy = Copy::new(self.clone(), token, store, pace, begun.upto);
        copy.records().await?;
        let mut tries = 0;
        let coming = loop {
            tries += 1;
            let why = match copy.exchange(from).await {
                Ok((coming, Answer::Given)) => break coming,
                Ok((_, Answer::Over(why))) | Err(End::Again(why)) => why,
                Err(end) => return Err(end),
            };
            if tries == EXCHANGES_MAX {
                return Err(End::Again(why));
            }
            // It goes on there, and what changes is still kept.
            self.desk.stage(MoveStage::Copying);
            self.desk.pause(PAUSE).await;
        };
        drop(copy);
        self.serve(&coming).await
    }

    /// Asks the source for the shard until it has answered.
    async fn obtain(&self, coming: &mut Coming) -> Result<Answer, End> {
        self.desk.stage(MoveStage::Asking);
        let to = self.taker.here(self.shard, Epoch(coming.last.0.0 + 1));
        let mut is_said = false;
        loop {
            let ask = MoveAsk::GiveAway { last: coming.last, to: to.clone() };
            match self.desk.ask_move(self.shard, coming.token, ask).await {
                Ok(MoveTold::Given) => {
                    coming.is_taken = true;
                    return Ok(Answer::Given);
                }
                Ok(MoveTold::Over(why)) => {
                    Coming::remove(self.place(), self.shard)
                        .map_err(|error| End::Failed(error.to_string()))?;
                    return Ok(Answer::Over(why));
                }
                Ok(MoveTold::Unsure(why)) | Err(Silent(why)) => {
                    if !is_said {
                        self.taker.say(&format!(
                            "it is complete here, but the server that it comes from does not say whether it has given it \
                             away; it is asked until it does ({why})"
                        ));
                        is_said = true;
                    }
                    self.desk.pause(PAUSE).await;
                }
                Ok(_) => return Err(End::Later("its host speaks nonsense".to_owned())),
            }
        }
    }

    /// The shard is this process's: opens it, and tells.
    async fn serve(&self, coming: &Coming) -> Result<(), End> {
        let hosting = self.open(coming).await.map_err(|why| {
            End::Later(format!(
                "it is this server's, but cannot be served: {why}; it is tried again at the next start"
            ))
        })?;
        self.desk.pass(Point::Opened).await;
        // If it is not heard now, the source learns it as all others do.
        let _ = self.desk.ask_move(self.shard, coming.token, MoveAsk::Moved(hosting)).await;
        self.desk.stage(MoveStage::Done);
        Ok(())
    }

    async fn open(&self, coming: &Coming) -> Result<Hosting, String> {
        let words = |error: std::io::Error| error.to_string();
        self.desk.stage(MoveStage::Opening);
        coming.write(self.place()).map_err(words)?;
        self.desk.pass(Point::Taken).await;
        put_in_place(self.place(), self.shard).map_err(words)?;
        let epoch = self.desk.open().await?;
        Coming::remove(self.place(), self.shard).map_err(words)?;
        self.desk.announce(epoch).await
    }
}

#[cfg(test)]
mod tests {
    use pando_types::Lsn;

    use super::*;
    use crate::{Folder, Superblock};

    struct Here(Folder);

    impl Taker for Here {
        fn place(&self) -> &dyn Place {
            &self.0
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

    /// It could not be put in its place for want of room, or a disk failed: nobody else has it.
    #[test]
    fn a_whole_copy_is_not_thrown_away_when_the_shard_is_asked_for_again() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap();
        std::fs::create_dir(folder.coming(1)).unwrap();
        let taker = Rc::new(Here(folder.clone()));
        let from = taker.here(ShardIndex(1), Epoch(5));
        let (token, last) = (MoveToken([4; 16]), (Epoch(5), Lsn(7)));
        let coming = Coming { token, from: from.clone(), last, is_taken: true };
        coming.write(&folder).unwrap();
        let pace = Pace {
            page_bytes: 1,
            rate: 1,
            checkpoint_bytes: 1,
            #[cfg(feature = "planted")]
            planted: None,
        };
        let step = Target::adopt(taker, from, pace).next(0, Heard::Done);
        assert!(matches!(step, Step::Ended(Ended::Later(_))), "{step:?}");
        assert!(folder.coming(1).exists());
        assert_eq!(Coming::read(&folder, 1).unwrap(), Some(coming));
    }
}
