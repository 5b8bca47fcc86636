//! Shows the progress of a check, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pando_fsck::{Progress, Watch};

use crate::console::text::count;

/// Requests that are under way on a running volume end within this time.
const PAUSE: Duration = Duration::from_secs(3);

/// A progress line on standard error. It shows nothing if that is no terminal.
pub struct Terminal {
    bar: ProgressBar,
    shards: u16,
}

impl Terminal {
    pub fn new(shards: u16) -> Self {
        // The target draws nothing where there is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        Self { bar, shards }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Terminal {
    fn progress(&mut self, progress: Progress) {
        self.bar.set_message(match progress {
            Progress::Sweep { shard, rows } => {
                format!("shard {} of {}, {} records", shard.0 + 1, self.shards, count(rows))
            }
            Progress::Objects(objects) => format!("{} objects", count(objects)),
            Progress::Suspects(suspects) => {
                format!("{} suspicions looked at", count(suspects))
            }
        });
        self.bar.tick();
    }

    fn pause(&mut self) {
        self.bar.set_message("letting operations come to their end");
        self.bar.tick();
        std::thread::sleep(PAUSE);
    }
}
