//! Passing a point of a move: the process dies, fails or waits there if a test wants that.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::common::log::say;
use crate::moving::faults::Point;
use crate::moving::shared::Shared;

/// How often a held process looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Shared {
    /// Passes a point, and fails if it is [`Faults::fail_at`].
    pub(crate) fn fail_at(&self, point: Point) -> io::Result<()> {
        self.pass(point);
        match self.faults.fail_at == Some(point) {
            true => Err(io::Error::other("it fails as it was told")),
            false => Ok(()),
        }
    }

    /// Passes a point: aborts or waits there if a test wants that.
    pub(crate) fn pass(&self, point: Point) {
        if self.faults.die_at == Some(point) {
            say(&format!("dies as it was told, at {point:?}"));
            std::process::abort();
        }
        if self.faults.may_be_held {
            self.wait_at(point, &self.folder.run());
        }
    }

    fn wait_at(&self, point: Point, run: &Path) {
        let hold = run.join("hold");
        let is_held = || fs::read_to_string(&hold).is_ok_and(|name| name.parse() == Ok(point));
        if !is_held() {
            return;
        }
        let held = run.join("held");
        if let Err(error) = fs::write(&held, "") {
            say(&format!("cannot say that it is held at {point:?}: {error}"));
        }
        while is_held() && !self.is_stopped() {
            self.pause(LOOK_EVERY);
        }
        let _ = fs::remove_file(held);
    }
}
