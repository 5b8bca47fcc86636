//! The server process: what a keeper starts.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pando_fuse::{Options, Unserved};
use pando_keeper::{Kept, Mode};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

use crate::diary::Diary;
use crate::fixed::Fixed;

/// Exit codes: it cannot mount; it finds a file `fail`; it has got no mount.
pub const NO_MOUNTPOINT: i32 = 4;
const FAILED: i32 = 3;
const NOT_GIVEN: i32 = 5;

/// After this time a server process serves well.
const WELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

pub fn serve(mountpoint: &Path, dir: &Path, mode: &str, threads: &str) -> i32 {
    let mut signals = Signals::new([SIGHUP, SIGTERM]).unwrap();
    let kept = Kept::connect().unwrap();
    let (generation, diary) = (kept.generation(), Diary::of(dir));
    let pid = u64::from(std::process::id());
    let threads: usize = threads.parse().unwrap();
    let options = Options { threads, clone_fd: threads > 1, is_kept: true, ..Options::default() };
    diary.note(generation, "began", "server", pid);
    if generation > 0 && dir.join("fail").exists() {
        return FAILED;
    }
    while dir.join("wait").exists() {
        std::thread::sleep(LOOK);
    }
    let mode = if mode == "resend" { Mode::Resend } else { Mode::Clones };
    let unserved = match begin(&kept, mountpoint, &options, mode) {
        Ok(unserved) => unserved,
        Err(_) => {
            diary.note(generation, "gave-up", "server", pid);
            return if generation == 0 { NO_MOUNTPOINT } else { NOT_GIVEN };
        }
    };
    let fixed = Fixed { dir: dir.to_owned(), diary: diary.clone(), generation };
    let mounted = pando_fuse::serve(unserved, Arc::new(fixed), &options).unwrap();
    diary.note(generation, "serves", "server", pid);
    let (begun, mut kept, mut is_told) = (Instant::now(), Some(kept), false);
    while !mounted.is_over() {
        if dir.join("hang-up").exists() && kept.take().is_some() {
            diary.note(generation, "hung-up", "server", pid);
        }
        for signal in signals.pending() {
            diary.note(generation, "signal", "server", signal.cast_unsigned().into());
            if signal == SIGTERM {
                mounted.request_unmount().unwrap();
            }
        }
        if let Some(kept) = kept.as_ref().filter(|_| !is_told && begun.elapsed() >= WELL) {
            kept.serving();
            is_told = true;
        }
        std::thread::sleep(LOOK);
    }
    mounted.wait().unwrap();
    if let Some(kept) = kept {
        kept.over(0);
    }
    0
}

/// Mounts, or takes the mount over.
fn begin(kept: &Kept, mountpoint: &Path, options: &Options, mode: Mode) -> io::Result<Unserved> {
    let (unserved, mode) = if kept.generation() == 0 {
        let unserved = Unserved::mount(mountpoint, options, false)?;
        let count = if mode == Mode::Clones { 1 } else { unserved.channels().len() };
        kept.keep(&unserved.channels()[..count], None, unserved.number(), mode)?;
        (unserved, mode)
    } else {
        let mount = kept.take_over()?;
        (Unserved::taken_over(mountpoint, mount.channels, mount.number), mount.mode)
    };
    if mode == Mode::Clones { unserved.by_clones() } else { Ok(unserved) }
}
