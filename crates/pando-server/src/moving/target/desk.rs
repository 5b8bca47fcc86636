//! Between a target and its driver: one step at a time goes out, and its result comes in.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Ask, Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Moving, Told};

use crate::moving::faults::Point;
use crate::moving::silent::Silent;
use crate::moving::target::end::{End, Ended};

/// The next step of a target.
#[derive(Debug)]
pub enum Step {
    /// Ask the source this. The result is [`Heard::Told`].
    Ask(Ask),
    /// Do nothing for this long.
    Pause(Duration),
    /// The move has come to this point.
    Pass(Point),
    /// The shard is this process's, and its copy is in its place. Open and run it. The result is
    /// [`Heard::Opened`].
    Open,
    /// The shard runs with this epoch. Admit connections to it, and tell other servers. The result
    /// is [`Heard::Announced`].
    Announce(Epoch),
    /// The move has ended.
    Ended(Ended),
}

/// Result of a step.
#[derive(Debug)]
pub enum Heard {
    /// The step is done.
    Done,
    /// Answer of the source, or why there is none.
    Told(Result<Told, Silent>),
    /// Epoch with which the shard runs, or why it does not.
    Opened(Result<Epoch, String>),
    /// The host of the shard that other servers hear of, or why there is none.
    Announced(Result<Hosting, String>),
}

/// The steps of one target. Clones share them.
#[derive(Clone)]
pub(crate) struct Desk(Rc<RefCell<Inner>>);

struct Inner {
    now: u64,
    step: Option<Step>,
    heard: Option<Heard>,
    moving: Moving,
}

impl Desk {
    pub(crate) fn new(moving: Moving) -> Self {
        Self(Rc::new(RefCell::new(Inner { now: 0, step: None, heard: None, moving })))
    }

    /// Called by the driver: takes the time, and the result of the last step.
    pub(crate) fn hear(&self, now: u64, heard: Heard) {
        let mut inner = self.0.borrow_mut();
        (inner.now, inner.heard) = (now, Some(heard));
    }

    /// Called by the driver: the next step.
    pub(crate) fn take(&self) -> Option<Step> {
        self.0.borrow_mut().step.take()
    }

    pub(crate) fn moving(&self) -> Moving {
        self.0.borrow().moving.clone()
    }

    /// The clock of timers, nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.0.borrow().now
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut Moving)) {
        change(&mut self.0.borrow_mut().moving);
    }

    pub(crate) fn stage(&self, stage: MoveStage) {
        self.note(|moving| moving.stage = stage);
    }

    async fn put(&self, step: Step) -> Heard {
        {
            let mut inner = self.0.borrow_mut();
            (inner.step, inner.heard) = (Some(step), None);
        }
        std::future::poll_fn(|_| match self.0.borrow_mut().heard.take() {
            Some(heard) => std::task::Poll::Ready(heard),
            None => std::task::Poll::Pending,
        })
        .await
    }

    pub(crate) async fn pause(&self, time: Duration) {
        self.put(Step::Pause(time)).await;
    }

    pub(crate) async fn pass(&self, point: Point) {
        self.put(Step::Pass(point)).await;
    }

    pub(crate) fn end(&self, ended: Ended) {
        self.0.borrow_mut().step = Some(Step::Ended(ended));
    }

    /// Asks the source a question.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Told, Silent> {
        match self.put(Step::Ask(ask)).await {
            Heard::Told(told) => told,
            _ => Err(Silent("the question was not asked".to_owned())),
        }
    }

    /// Asks the source a question about the move.
    pub(crate) async fn ask_move(
        &self,
        shard: ShardIndex,
        token: MoveToken,
        ask: MoveAsk,
    ) -> Result<MoveTold, Silent> {
        match self.ask(Ask::Move(shard, token, ask)).await? {
            Told::Move(told) => Ok(told),
            // This answer tells nothing of the move. The source may have agreed nevertheless.
            Told::Failed(why) => Err(Silent(why)),
            _ => Err(Silent("its server sent an unexpected reply".to_owned())),
        }
    }

    pub(crate) async fn open(&self) -> Result<Epoch, String> {
        match self.put(Step::Open).await {
            Heard::Opened(opened) => opened,
            _ => Err("the shard was not opened".to_owned()),
        }
    }

    pub(crate) async fn announce(&self, epoch: Epoch) -> Result<Hosting, String> {
        match self.put(Step::Announce(epoch)).await {
            Heard::Announced(hosting) => hosting,
            _ => Err("the shard was not announced".to_owned()),
        }
    }
}

impl From<Silent> for End {
    fn from(silent: Silent) -> Self {
        Self::Failed(format!("its server does not answer: {}", silent.0))
    }
}
