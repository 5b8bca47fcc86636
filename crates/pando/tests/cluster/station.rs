//! A mount as those see it who work on it: it may be killed under them, and is mounted again.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

/// See the module.
pub struct Station {
    mount: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_up: bool,
    kills: u64,
    /// Steps that a kill has undone and that are not yet done again.
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

    /// To be said when it is mounted.
    pub fn is_up(&self) {
        self.state().is_up = true;
        self.changed.notify_all();
    }

    /// To be said before it is killed.
    pub fn is_to_be_killed(&self) {
        let mut state = self.state();
        state.is_up = false;
        state.kills += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Runs a program that works on the mount. If that is killed, so is the program, with all that
    /// it has started: there are some that ask a dead mount the same for ever.
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
                    // It may have come to its end just now.
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

    /// Whether all that its last kill has undone is done: were it always killed too early, nothing
    /// would come to an end.
    pub fn may_be_killed(&self) -> bool {
        self.state().undone == 0
    }

    pub fn was_killed(&self) -> bool {
        self.state().kills > 0
    }

    /// No further step begins.
    pub fn break_off(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Does a step of somebody's work. It is begun anew, whatever came of it, if the mount was
    /// killed meanwhile. If it was not, nothing excuses an error.
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
