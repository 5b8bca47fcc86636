//! Pages are dropped by a process of its own, if there is one for it.
//!
//! Who has the kernel drop pages waits until nobody reads them from here any more, and not even
//! `SIGKILL` ends that wait. A mount that is killed meanwhile would never end: the waiting thread
//! keeps its descriptors, with them the kernel keeps the connection, and the readers wait for
//! answers that cannot come. The answer to a read that is under way can be given up with the
//! channel it was read from, but the reader then asks again. So another process waits, and does
//! what is left to do once the mount is gone:
//!
//! ```text
//! mount ── number, node ──► dropper ── INVAL_INODE ──► kernel        stdin: a channel of its own   stdout: the socket
//!       ◄── number, errno ──   │
//!       killed: end of file ──►┴─ answers all requests with ECONNABORTED until nobody waits any more, and ends
//! ```

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{self, notify, opcode};
use super::mount::clone_channel;
use super::session::{BUFFER_SIZE, write};

/// A question or an answer: two numbers.
type Words = [u64; 2];
/// While nothing is asked of it, a dropper whose mount is gone looks so often whether anybody waits
/// still.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const PAUSE: Duration = Duration::from_millis(10);

/// The mount's side.
#[derive(Debug)]
pub(super) struct Dropper {
    /// What is to be run, and its arguments: it calls [`drop_pages`].
    program: Vec<OsString>,
    helper: Mutex<Option<Arc<Helper>>>,
}

#[derive(Debug)]
struct Helper {
    socket: UnixStream,
    waiting: Mutex<Waiting>,
}

#[derive(Default, Debug)]
struct Waiting {
    last: u64,
    /// It has ended.
    is_over: bool,
    by_number: HashMap<u64, Sender<Result<(), Errno>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(mut socket: &UnixStream, words: Words) -> io::Result<()> {
    socket.write_all(words.as_bytes())
}

fn get(mut socket: &UnixStream) -> io::Result<Words> {
    let mut words = [0; 2];
    socket.read_exact(words.as_mut_bytes())?;
    Ok(words)
}

impl Dropper {
    pub(super) fn new(program: Vec<OsString>) -> Self {
        Self { program, helper: Mutex::default() }
    }

    /// Has all pages of a node dropped, and waits until they are. Nothing: there is no process for
    /// it.
    pub(super) fn drop_pages(&self, channel: &OwnedFd, node: u64) -> Option<Result<(), Errno>> {
        let helper = self.helper(channel).ok()?;
        let (tell, told) = mpsc::channel();
        {
            let mut waiting = lock(&helper.waiting);
            if waiting.is_over {
                return None;
            }
            waiting.last += 1;
            let number = waiting.last;
            waiting.by_number.insert(number, tell);
            // Within the lock: no two questions are mixed.
            put(&helper.socket, [number, node]).ok()?;
        }
        told.recv().ok()
    }

    /// The process, begun if there is none: most mounts never need it.
    fn helper(&self, channel: &OwnedFd) -> io::Result<Arc<Helper>> {
        let mut current = lock(&self.helper);
        if let Some(helper) = &*current
            && !lock(&helper.waiting).is_over
        {
            return Ok(Arc::clone(helper));
        }
        let (ours, theirs) = UnixStream::pair()?;
        let (program, arguments) = self.program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(clone_channel(channel)?))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::null())
            // Who kills the mount's group, from a terminal say, leaves it.
            .process_group(0)
            .spawn()?;
        let helper = Arc::new(Helper { socket: ours, waiting: Mutex::default() });
        let hearing = Arc::clone(&helper);
        Builder::new().name("pando-dropped".to_owned()).spawn(move || hearing.hear(child))?;
        *current = Some(Arc::clone(&helper));
        Ok(helper)
    }
}

impl Drop for Dropper {
    fn drop(&mut self) {
        if let Some(helper) = &*lock(&self.helper) {
            let _ = helper.socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Helper {
    /// Hands on what the process says, until it ends.
    fn hear(&self, mut child: Child) {
        while let Ok([number, errno]) = get(&self.socket) {
            let result = match i32::try_from(errno) {
                Ok(0) => Ok(()),
                errno => Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))),
            };
            if let Some(tell) = lock(&self.waiting).by_number.remove(&number) {
                let _ = tell.send(result);
            }
        }
        let mut waiting = lock(&self.waiting);
        waiting.is_over = true;
        // Who waits drops them without it.
        waiting.by_number.clear();
        drop(waiting);
        let _ = child.wait();
    }
}

/// The process's side: `device` is a channel of the mount, `mount` the socket at which it asks.
/// Ends with the mount.
pub fn drop_pages(device: OwnedFd, mount: OwnedFd) {
    let (device, mount) = (Arc::new(device), Arc::new(UnixStream::from(mount)));
    let (underway, sending) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    while let Ok([number, node]) = get(&mount) {
        underway.fetch_add(1, Ordering::SeqCst);
        let answer = {
            let (mount, sending) = (Arc::clone(&mount), Arc::clone(&sending));
            move |errno: i32| {
                let _one = lock(&sending);
                // The mount may be gone.
                let _ = put(&mount, [number, u64::from(errno.unsigned_abs())]);
            }
        };
        let (device, left, answered) = (Arc::clone(&device), Arc::clone(&underway), answer.clone());
        let work = move || {
            let out = abi::InvalInodeOut { ino: node, off: 0, len: 0 };
            let told = write(&device, 0, notify::INVAL_INODE, &[out.as_bytes()]);
            answered(told.err().map_or(0, Errno::raw_os_error));
            left.fetch_sub(1, Ordering::SeqCst);
        };
        // One each: any of them may have to wait.
        if Builder::new().spawn(work).is_err() {
            underway.fetch_sub(1, Ordering::SeqCst);
            answer(libc::EAGAIN);
        }
    }
    bury(&device, &underway);
}

/// Nobody answers requests any more, and whoever has pages dropped may wait for one: they fail,
/// until none of them waits.
fn bury(device: &OwnedFd, underway: &AtomicUsize) {
    // A request may be withdrawn between a look and the read.
    let _ = rustix::fs::fcntl_setfl(device, OFlags::NONBLOCK);
    let mut buffer = vec![0; BUFFER_SIZE];
    while underway.load(Ordering::SeqCst) > 0 {
        let mut ready = [PollFd::new(device, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&LOOK)), Ok(1..)) {
            continue;
        }
        let Ok(len) = rustix::io::read(device, &mut buffer) else {
            // Unmounted, say.
            std::thread::sleep(PAUSE);
            continue;
        };
        let Ok((header, _)) = abi::InHeader::read_from_prefix(&buffer[..len]) else { continue };
        if !matches!(header.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT) {
            let _ = write(device, header.unique, Errno::CONNABORTED.raw_os_error(), &[]);
        }
    }
}
