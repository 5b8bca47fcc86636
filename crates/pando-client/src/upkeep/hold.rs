//! What the kernel of a mount may remember, as shard 0 is asked and told (docs/design/holds.md).
//! Also when a session that changes nothing goes quiet.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use pando_types::hold::{Holding, Said};
use pando_types::op::{FileAt, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, SessionId, ShardIndex};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::nodes::table::Spot;
use crate::nodes::untold::Hurry;
use crate::request::outcome::Answer;
use crate::route::plan::Route;
use crate::session::sessions::Session;
use crate::session::stance::Seen;
use crate::transport::grounds::Grounds;

/// How often a client looks whether its session changes anything, nanoseconds.
const LOOK_EVERY: u64 = 1_000_000_000;
/// After this number of looks without a change a session goes quiet.
const STILL_LOOKS: u32 = 5;
/// How long a client waits for shard 0 to hear what it says, nanoseconds. Then it says that anew.
const SAY_WITHIN: u64 = 2_000_000_000;
/// How long other sessions wait until shards have been told what is open, nanoseconds.
pub(crate) const TELL_WITHIN: u64 = 500_000_000;

impl Client {
    /// Whether the session holds until it [says](Client::end_hold) otherwise. That is so if it ends
    /// together with the shards' own process. Any other session holds for
    /// [`HOLD_TIME`](pando_types::hold::HOLD_TIME), and has to ask again.
    #[must_use]
    pub fn holds_for_good(&self) -> bool {
        self.transport.is_local()
    }

    /// Asks shard 0 whether the kernel may remember. If the answer is true, no other session
    /// changes a name or an attribute before [`Client::end_hold`], or before the time that counts
    /// from this call is over.
    pub async fn ask_to_hold(&self) -> Result<bool, Errno> {
        let session = self.session();
        self.hold.session.store(session.0, Ordering::SeqCst);
        let number = self.hold.next();
        match self.run_plain(SYSTEM, Op::Hold(session, Holding::Ask(number))).await? {
            // A grant to a session that is over is worth nothing.
            Body::Holds(holds) => Ok(holds && session == self.session()),
            _ => Err(Errno::EIO),
        }
    }

    /// Ready when another session wants to write, when this session is over, or when the request
    /// fails.
    pub async fn recalled(&self) {
        let session = self.session();
        let mut gone = pin!(self.sessions.gone(session));
        let mut recalled = pin!(self.run_plain(SYSTEM, Op::Hold(session, Holding::Await)));
        poll_fn(|context| {
            let is_over = gone.as_mut().poll(context).is_ready();
            let is_recalled = recalled.as_mut().poll(context).is_ready();
            if is_over || is_recalled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether another session wants to write, or this one does not hold. For sessions that hold
    /// for a time: an answer comes after [`AWAIT_TIME`](pando_types::hold::AWAIT_TIME) in any case.
    pub async fn is_recalled(&self) -> Result<bool, Errno> {
        let asked = Op::Hold(self.session(), Holding::Await);
        Ok(!matches!(self.run_plain(SYSTEM, asked).await?, Body::Holds(true)))
    }

    /// Tells shards what is open, and shard 0 that the kernel remembers nothing: other sessions may
    /// write. The session that asked may be over.
    pub async fn end_hold(&self) -> Result<(), Errno> {
        let asked = self.hold.session.load(Ordering::Acquire);
        if asked == 0 {
            return Ok(());
        }
        let hurry = self.untold.hurry();
        self.tell_what_is_open(&hurry).await;
        let said = Said { number: self.hold.next(), epoch: self.epoch() };
        self.run_plain(SYSTEM, Op::Hold(SessionId(asked), Holding::End(said))).await?;
        drop(hurry);
        self.hold_is_over(asked);
        Ok(())
    }

    /// Waits until shards have been told what is open. A shard that is away keeps no other session
    /// waiting for long.
    async fn tell_what_is_open(&self, hurry: &Hurry<'_>) {
        let until = self.transport.now_nanos().saturating_add(TELL_WITHIN);
        self.within(Some(until), hurry.all_told()).await;
    }

    /// Notes that the time of the hold is over, or that shard 0 said no.
    pub fn hold_lapsed(&self) {
        self.untold.hold_is_over();
        self.hold_is_over(self.hold.session.load(Ordering::Acquire));
    }

    fn hold_is_over(&self, asked: u64) {
        let cell = &self.hold.session;
        // Another question may have been asked meanwhile.
        let _ = cell.compare_exchange(asked, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Lets a session that changes nothing go quiet, and tells each start of shard 0 so. Never
    /// ready.
    pub(super) async fn keep_quiet(&self) {
        let mut watch = Watch::default();
        loop {
            // By the clock that goes on while the machine sleeps: such a look is no early one.
            let before = self.transport.machine_nanos();
            self.transport.sleep(LOOK_EVERY).await;
            if self.transport.machine_nanos().saturating_sub(before) < LOOK_EVERY / 2 {
                // The transport is stopped.
                return std::future::pending().await;
            }
            let Some(session) = self.sessions.live() else { continue };
            let seen = session.stance.look();
            // What a transport answers by itself, it answers to a change under way. So nothing that
            // is to be sent comes between this look and the end.
            let is_settled = self.doubts.count() == 0 && self.transport.is_settled();
            if watch.is_still(session.id, seen) && is_settled {
                session.stance.be_quiet(seen);
            }
            self.say_to_shard_0(&session).await;
        }
    }

    /// Tells shard 0 that the session is quiet, or that its kernel remembers nothing, if a start of
    /// it has not heard.
    async fn say_to_shard_0(&self, session: &Arc<Session>) {
        let epoch = self.epoch();
        if let Some(said) = session.stance.to_say(epoch) {
            // If it is not heard, it is said again.
            if !self.say(session, Holding::Quiet(said)).await || self.epoch() != epoch {
                return;
            }
            session.stance.heard(said);
        }
        // After a start, shard 0 takes each session for one that may hold.
        let holds = || self.hold.session.load(Ordering::SeqCst) != 0;
        if self.hold.epoch.load(Ordering::Relaxed) == epoch.0 || holds() {
            return;
        }
        let hurry = self.untold.hurry();
        self.tell_what_is_open(&hurry).await;
        // A question that is asked from now on has a higher number.
        let said = Said { number: self.hold.next(), epoch };
        if !holds() && self.say(session, Holding::End(said)).await {
            self.hold.epoch.store(epoch.0, Ordering::Relaxed);
        }
    }

    /// Says something to shard 0. Returns whether it has heard.
    async fn say(&self, session: &Session, says: Holding) -> bool {
        let op = Op::Hold(session.id, says);
        let route = Route::Shard(ShardIndex(0));
        let mut pending = self.pending(SYSTEM, (&op).into(), route, self.reading());
        pending.deadline = Some(self.transport.now_nanos().saturating_add(SAY_WITHIN));
        match self.chase(&pending, &mut false).await {
            Ok(Answer::Final(answer)) => answer.is_ok(),
            Ok(Answer::NoSession) => {
                self.session_over(session.id);
                false
            }
            Err(_) => false,
        }
    }

    /// Whether `ino` is a directory that was looked up.
    #[must_use]
    pub fn is_dir(&self, ino: Ino) -> bool {
        self.nodes.dir(ino).is_ok()
    }

    /// Whether `ino` is the root, or an inode with lookups that are not all forgotten.
    #[must_use]
    pub fn knows(&self, ino: Ino) -> bool {
        self.nodes.find(ino).is_ok()
    }

    /// On what grounds the kernel may remember names and attributes of single directories. `None`:
    /// on no other than the hold.
    #[must_use]
    pub fn grounds(&self) -> Option<&Arc<Grounds>> {
        self.transport.grounds()
    }

    /// The entry in which a file lies: its directory, and its name's [key](Grounds::key). `None`:
    /// it lies elsewhere, or is not known.
    #[must_use]
    pub fn lies_in(&self, ino: Ino) -> Option<(Ino, u64)> {
        match self.nodes.find(ino) {
            Ok(Spot::File(FileAt::Name(dir, name))) => {
                Some((dir.ino, self.transport.grounds()?.key(&name)))
            }
            _ => None,
        }
    }

    /// Inodes that were looked up and not yet forgotten, and the root.
    #[must_use]
    pub fn known(&self) -> Vec<Ino> {
        let mut inos = self.nodes.inos();
        inos.push(Ino::ROOT);
        inos
    }
}

/// What a client has seen of its session.
#[derive(Default)]
struct Watch {
    session: SessionId,
    seen: Seen,
    looks: u32,
}

impl Watch {
    /// Whether the session has changed nothing for a while.
    fn is_still(&mut self, session: SessionId, seen: Seen) -> bool {
        if (self.session, self.seen) != (session, seen) || !seen.is_still() {
            (self.session, self.seen, self.looks) = (session, seen, 0);
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks >= STILL_LOOKS
    }
}
