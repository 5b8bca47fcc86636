//! A mount as the work on it sees it: it may be killed, and is then mounted again.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

/// A mount that may be killed and mounted again while work goes on.
pub struct Station {
    mount: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_up: bool,
    kills: u64,
    /// Steps that a kill has undone, and that have not been done again.
    undone: u64,
    is_over: bool,
}

impl Station {
    pub fn new(mount: PathBuf) -> Self {
        Self { mount, state: Mutex::default(), changed: Condvar::new() }
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Must be called when the mount is up.
    pub fn is_up(&self) {
        self.state().is_up = true;
        self.changed.notify_all();
    }

    /// Must be called before the mount is killed.
    pub fn is_to_be_killed(&self) {
        let mut state = self.state();
        state.is_up = false;
        state.kills += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Runs a program that works on the mount. If the mount is killed, the program is killed with
    /// all its processes, because some programs ask a dead mount again for ever.
    pub fn run(&self, mut command: Command) -> io::Result<Output> {
        let before = {
            let state = self.state();
            if !state.is_up {
                return Err(io::ErrorKind::NotConnected.into());
            }
            state.kills
        };
        command.process_group(0).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let group = Pid::from_child(&child);
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let goes_on =
                    |state: &mut State| state.kills == before && !has_ended.load(Ordering::Relaxed);
                let _state = self.changed.wait_while(self.state(), goes_on).unwrap();
                if !has_ended.load(Ordering::Relaxed) {
                    // The program may have ended just now.
                    let _ = kill_process_group(group, Signal::KILL);
                }
            });
            let output = child.wait_with_output();
            {
                let _state = self.state();
                has_ended.store(true, Ordering::Relaxed);
            }
            self.changed.notify_all();
            output
        })
    }

    /// Whether all steps that the last kill has undone are done again. If a mount were always
    /// killed earlier, its work would never end.
    pub fn may_be_killed(&self) -> bool {
        self.state().undone == 0
    }

    pub fn was_killed(&self) -> bool {
        self.state().kills > 0
    }

    /// Makes no further step begin.
    pub fn break_off(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Does a step of the work. If the mount was killed meanwhile, the step is repeated, whatever
    /// its result. If not, nothing excuses an error.
    pub fn work<T>(&self, mut step: impl FnMut(&Path) -> Result<T, String>) -> Result<T, String> {
        let mut is_undone = false;
        loop {
            let waits = |state: &mut State| !state.is_up && !state.is_over;
            let before = {
                let state = self.changed.wait_while(self.state(), waits).unwrap();
                if state.is_over {
                    return Err("broken off".to_owned());
                }
                state.kills
            };
            let done = step(&self.mount);
            let mut state = self.state();
            if state.kills == before {
                state.undone -= u64::from(is_undone);
                return done;
            }
            state.undone += u64::from(!is_undone);
            is_undone = true;
        }
    }
}
