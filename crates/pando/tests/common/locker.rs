//! Programs that lock files. Each is a process that runs commands from its standard input and
//! prints each result.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

const SCRIPT: &str = r#"
import errno, fcntl, os, signal, struct, sys, threading

is_asked = False

def interrupted(*_):
    if is_asked:
        raise InterruptedError(errno.EINTR, "a signal")
signal.signal(signal.SIGUSR1, interrupted)

LAYOUT = "hhqqi4x"
SET = {"try": fcntl.F_SETLK, "wait": fcntl.F_SETLKW, "ofd-try": 37, "ofd-wait": 38}
KINDS = {"r": fcntl.F_RDLCK, "w": fcntl.F_WRLCK, "u": fcntl.F_UNLCK}
NAMES = {number: name for name, number in KINDS.items()}
FLOCKS = {"sh": fcntl.LOCK_SH, "ex": fcntl.LOCK_EX, "un": fcntl.LOCK_UN}
files = {}
beside = []

def record(how, name, kind, start, length):
    wanted = struct.pack(LAYOUT, KINDS[kind], 0, int(start), int(length), 0)
    fcntl.fcntl(files[name], SET[how], wanted)

def do(verb, *words):
    if verb == "open":
        name, path, flags = words
        files[name] = os.open(path, {"r": os.O_RDONLY, "rw": os.O_RDWR | os.O_CREAT}[flags])
    elif verb == "dup":
        files[words[1]] = os.dup(files[words[0]])
    elif verb == "close":
        os.close(files.pop(words[0]))
    elif verb == "flock":
        fcntl.flock(files[words[0]], FLOCKS[words[1]] | (fcntl.LOCK_NB if words[2] == "try" else 0))
    elif verb in SET:
        record(verb, *words)
    elif verb in ("get", "ofd-get"):
        name, kind, start, length = words
        wanted = struct.pack(LAYOUT, KINDS[kind], 0, int(start), int(length), 0)
        found = fcntl.fcntl(files[name], fcntl.F_GETLK if verb == "get" else 36, wanted)
        kind, _, start, length, pid = struct.unpack(LAYOUT, found)
        return NAMES[kind] if kind == fcntl.F_UNLCK else f"{NAMES[kind]} {start} {length} {pid}"
    elif verb == "read":
        return os.pread(files[words[0]], 100, 0).decode()
    elif verb == "write":
        os.pwrite(files[words[0]], words[1].encode(), 0)
    elif verb == "fsync":
        os.fsync(files[words[0]])
    elif verb == "beside":
        # In a thread of its own; `join` tells what came of it.
        said = []
        thread = threading.Thread(target=lambda: said.append(answer(words)))
        beside.append((thread, said))
        thread.start()
    elif verb == "join":
        thread, said = beside.pop()
        thread.join()
        return said[0]
    elif verb == "count":
        # Adds to the number in a file, under a lock, so often.
        name, how, times = words
        for _ in range(int(times)):
            if how == "flock":
                fcntl.flock(files[name], fcntl.LOCK_EX)
            else:
                record(how, name, "w", 0, 0)
            number = int(os.pread(files[name], 100, 0) or b"0")
            os.pwrite(files[name], b"%010d" % (number + 1), 0)
            if how == "flock":
                fcntl.flock(files[name], fcntl.LOCK_UN)
            else:
                record(how, name, "u", 0, 0)
    else:
        raise SystemExit("no such verb: " + verb)
    return "ok"

def answer(words):
    try:
        return do(*words)
    except OSError as error:
        return errno.errorcode[error.errno]

print("ready", flush=True)
for line in sys.stdin:
    try:
        is_asked = True
        said = do(*line.split())
        is_asked = False
    except OSError as error:
        is_asked = False
        said = errno.errorcode[error.errno]
    print(said, flush=True)
"#;

/// Number of the system call `fcntl`.
const fn fcntl_number() -> u32 {
    if cfg!(target_arch = "x86_64") { 72 } else { 25 }
}

/// A process that locks files on command.
pub struct Locker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Locker {
    pub fn new() -> Self {
        let mut child = Command::new("python3")
            .args(["-u", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut locker = Self { child, input, output };
        assert_eq!(locker.hear(), "ready");
        locker
    }

    /// A process that has the file at `path` open as `f`.
    pub fn with(path: &Path) -> Self {
        let mut locker = Self::new();
        locker.open("f", path);
        locker
    }

    pub fn open(&mut self, name: &str, path: &Path) {
        assert_eq!(self.ask(&format!("open {name} {} rw", path.display())), "ok");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command, and returns its result.
    pub fn ask(&mut self, words: &str) -> String {
        self.tell(words);
        self.hear()
    }

    /// Sends a command.
    pub fn tell(&mut self, words: &str) {
        writeln!(self.input, "{words}").unwrap();
    }

    /// The result of the oldest command that has not been read.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether the process has not yet printed a result.
    pub fn waits(&self) -> bool {
        let mut ready = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).unwrap() == 0
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whether one of the process's threads is in `fcntl`.
    pub fn is_locking(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let calls = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("syscall")));
        let fcntl = format!("{} ", fcntl_number());
        calls.flatten().any(|call| call.starts_with(&fcntl))
    }

    /// Kills the process with `SIGKILL`, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.kill();
    }
}
