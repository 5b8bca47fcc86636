//! Another process drops pages for the mount, if a program for that is configured.
//!
//! A thread that has the kernel drop pages waits until no page is being read from this mount. Not
//! even `SIGKILL` ends that wait. So a mount that is killed meanwhile would never end. The waiting
//! thread keeps its descriptors, and with them the kernel keeps the connection. The programs that
//! read wait for answers that cannot come. The kernel gives up a pending read with the channel that
//! it was read from, but the program then asks again. Therefore another process waits, and cleans
//! up once the mount is gone:
//!
//! ```text
//! mount ── number, node ──► dropper ── INVAL_INODE ──► kernel        stdin: a channel of its own   stdout: the socket
//!       ◄── number, errno ──   │
//!       killed: end of file ──►┴─ answers all requests with ECONNABORTED until its own waits are over, and ends
//! ```
//!
//! If the mount has a keeper, a successor answers. Then the dropper answers nothing, and only ends.
//! Requests that came by rings can be answered by no other process. Then the dropper aborts the
//! connection.

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

use crate::protocol::abi::{self, notify, opcode};
use crate::protocol::channel::{BUFFER_SIZE, clone_channel, write};
use crate::protocol::connection::{abort, open_abort};

/// A message: number of the request, then the node (to the dropper) or the errno (from it).
type Words = [u64; 2];
/// Number of the message that says what becomes of the mount without its process. No request has
/// it. The second word is [`IS_KEPT`], or the number of the connection that is to be aborted.
const AFTERWARDS: u64 = 0;
/// A keeper holds the mount's channels. No connection has this number.
const IS_KEPT: u64 = 0;
/// Interval at which a dropper checks whether any of its threads still waits, once the mount is
/// gone.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const PAUSE: Duration = Duration::from_millis(10);

/// What becomes of requests once the process that served them is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Afterwards {
    /// The dropper fails them.
    Fail,
    /// A successor answers them.
    Leave,
    /// The connection of this number is aborted.
    Abort(u64),
}

/// The mount's side of the dropper.
#[derive(Debug)]
pub(crate) struct Dropper {
    /// Program to run, and its arguments. It calls [`drop_pages`].
    program: Vec<OsString>,
    afterwards: Afterwards,
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
    /// Whether the process has ended.
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
    pub(crate) fn new(program: Vec<OsString>, afterwards: Afterwards) -> Self {
        Self { program, afterwards, helper: Mutex::default() }
    }

    /// Has all pages of a node dropped, and waits until they are. Returns `None` if there is no
    /// process for it.
    pub(crate) fn drop_pages(&self, channel: &OwnedFd, node: u64) -> Option<Result<(), Errno>> {
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
            // The lock is held here, so that two messages are not mixed.
            put(&helper.socket, [number, node]).ok()?;
        }
        told.recv().ok()
    }

    /// The process, started if there is none. Most mounts never need it.
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
            // A signal to the mount's process group, such as from a terminal, must not reach this
            // process.
            .process_group(0)
            .spawn()?;
        match self.afterwards {
            Afterwards::Fail => {}
            Afterwards::Leave => put(&ours, [AFTERWARDS, IS_KEPT])?,
            Afterwards::Abort(connection) => put(&ours, [AFTERWARDS, connection])?,
        }
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
    /// Passes on the answers of the process, until the process ends.
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
        // Threads that wait drop the pages themselves.
        waiting.by_number.clear();
        drop(waiting);
        let _ = child.wait();
    }
}

/// Runs the dropper's side. `device` is a channel of the mount, `mount` the socket over which the
/// mount asks. Returns once the mount is gone and no page waits any more. If the mount has a
/// keeper, returns once the process that served it is gone.
pub fn drop_pages(device: OwnedFd, mount: OwnedFd) {
    let (device, mount) = (Arc::new(device), Arc::new(UnixStream::from(mount)));
    let (underway, sending) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    let (mut is_kept, mut abort_file) = (false, None);
    while let Ok([number, node]) = get(&mount) {
        if number == AFTERWARDS {
            is_kept = node == IS_KEPT;
            if !is_kept {
                // Without it this process could not end the mount.
                let Ok(file) = open_abort(node) else { return };
                abort_file = Some(file);
            }
            continue;
        }
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
        // Each request has a thread of its own, since each may have to wait.
        if Builder::new().spawn(work).is_err() {
            underway.fetch_sub(1, Ordering::SeqCst);
            answer(libc::EAGAIN);
        }
    }
    if let Some(file) = abort_file {
        if underway.load(Ordering::SeqCst) > 0 {
            let _ = abort(&file);
        }
    } else if !is_kept {
        bury(&device, &underway);
    }
}

/// Fails all requests after the mount is gone, until none of this process's threads waits. Nothing
/// else answers requests now, and a thread that drops pages may wait for an answer.
fn bury(device: &OwnedFd, underway: &AtomicUsize) {
    // Another request may be withdrawn between the poll and the read. The read must not block then.
    let _ = rustix::fs::fcntl_setfl(device, OFlags::NONBLOCK);
    let mut buffer = vec![0; BUFFER_SIZE];
    while underway.load(Ordering::SeqCst) > 0 {
        let mut ready = [PollFd::new(device, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&LOOK)), Ok(1..)) {
            continue;
        }
        let Ok(len) = rustix::io::read(device, &mut buffer) else {
            // The mount may have been unmounted.
            std::thread::sleep(PAUSE);
            continue;
        };
        let Ok((header, _)) = abi::InHeader::read_from_prefix(&buffer[..len]) else { continue };
        if !matches!(header.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT) {
            let _ = write(device, header.unique, Errno::CONNABORTED.raw_os_error(), &[]);
        }
    }
}
