//! The server process's side of the connection to its keeper.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;

use crate::message::{
    CHANNELS_MAX, Descriptors, Kind, Message, Mode, NO_DESCRIPTORS, receive, send, take_memory,
};

/// How long a keeper may take to answer. It does nothing else, so it is stopped or broken then.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to the keeper.
#[derive(Debug)]
pub struct Kept {
    socket: OwnedFd,
    generation: u64,
    memory: Option<OwnedFd>,
}

/// A mount as the keeper holds it.
#[derive(Debug)]
pub struct Mount {
    /// All channels; with [`Mode::Clones`] only the first one, from which nobody may read.
    pub channels: Vec<OwnedFd>,
    /// Number below `/sys/fs/fuse/connections`: the minor number of the mount's device.
    pub number: u64,
    /// What becomes of requests that were read.
    pub mode: Mode,
}

impl Kept {
    /// Connects to the keeper that has started this process, over the standard input. Further
    /// processes get none of that connection: the standard input is empty from now on. Fails if it
    /// is no keeper.
    pub fn connect() -> io::Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let nothing = rustix::fs::open("/dev/null", flags, FileMode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        let mut kept = Self { socket, generation: 0, memory: None };
        let (take, mut came) = kept.hear(Kind::Take)?;
        kept.generation = take.generation;
        kept.memory = take_memory(take, &mut came).map_err(lost)?;
        Ok(kept)
    }

    /// How often the mount was taken over. With 0 there is none yet: this process has to make it
    /// and to [hand it over](Self::keep). Otherwise it has to [take it over](Self::take_over).
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The memory that the predecessor has [handed over](Self::keep), as long as nobody has taken
    /// it from here.
    pub fn take_memory(&mut self) -> Option<OwnedFd> {
        self.memory.take()
    }

    /// Hands a new mount to the keeper, and a file with records for successors. No channel may be
    /// read before this.
    pub fn keep(
        &self,
        channels: &[OwnedFd],
        memory: Option<BorrowedFd<'_>>,
        number: u64,
        mode: Mode,
    ) -> io::Result<()> {
        let has_memory = memory.is_some();
        let message = Message { number, code: mode.code(), has_memory, ..self.message(Kind::Keep) };
        if channels.len() > CHANNELS_MAX {
            let text = format!("a mount with a keeper has at most {CHANNELS_MAX} channels");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let channels: Vec<_> = channels.iter().map(AsFd::as_fd).chain(memory).collect();
        send(&self.socket, message, &channels).map_err(lost)?;
        self.hear(Kind::Kept).map(drop)
    }

    /// Says that this process is prepared, and waits for the mount. An error means that there is no
    /// mount to serve: exit.
    pub fn take_over(&self) -> io::Result<Mount> {
        send(&self.socket, self.message(Kind::Ready), &[]).map_err(lost)?;
        let (go, channels) = self.hear(Kind::Go)?;
        let mode = Mode::from_code(go.code).ok_or_else(|| lost(Errno::PROTO))?;
        let channels = channels.into_iter().flatten().collect();
        Ok(Mount { channels, number: go.number, mode })
    }

    /// Says that this process serves well: it has answered 100 requests, or for 1 s. If the keeper
    /// is gone, this process goes on without one.
    pub fn serving(&self) {
        let _ = send(&self.socket, self.message(Kind::Serving), &[]);
    }

    /// Says that the mount is over, and that this process is about to exit with `code`.
    pub fn over(&self, code: u8) {
        let message = Message { code: code.into(), ..self.message(Kind::Over) };
        let _ = send(&self.socket, message, &[]);
    }

    const fn message(&self, kind: Kind) -> Message {
        Message::new(kind, self.generation)
    }

    /// Waits for a message of this kind.
    fn hear(&self, kind: Kind) -> io::Result<(Message, Descriptors)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut came = NO_DESCRIPTORS;
            match receive(&self.socket, &mut came) {
                Ok(Some(message)) if message.kind == kind => return Ok((message, came)),
                Ok(Some(_)) => return Err(lost(Errno::PROTO)),
                Ok(None) => return Err(lost(Errno::PIPE)),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(lost(errno)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(lost(Errno::TIMEDOUT));
            }
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            let _ = poll(&mut ready, Timespec::try_from(left).ok().as_ref());
        }
    }
}

fn lost(errno: Errno) -> io::Error {
    let error = io::Error::from(errno);
    let text = match errno {
        Errno::PIPE | Errno::CONNRESET => "the keeper of this mount is gone".to_owned(),
        _ => format!("the standard input is no connection to a keeper of this version: {errno}"),
    };
    io::Error::new(error.kind(), text)
}
