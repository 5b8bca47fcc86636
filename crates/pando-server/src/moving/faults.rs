//! What a test may do to a process at a point of a move.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::Shared;
use crate::net::say;

/// How often it is looked whether the process may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A moment in a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Source: it is asked what has changed since the copy began.
    Following,
    /// Target: a first page of records is copied.
    Copying,
    /// Source: it stands still, and nobody has heard the last changes.
    Frozen,
    /// Target: it has been told the last changes, and has not applied them.
    Exchanging,
    /// Target: the copy is complete, and the source has not been asked.
    Ready,
    /// Source: that it is given away is written, and may not be durable.
    Committed,
    /// Source: it is given away, and nobody has heard it.
    Given,
    /// Target: it has heard it, and has not opened its copy.
    Taken,
    /// Target: it serves, and the source has not heard it.
    Opened,
}

/// All of them, by name.
const POINTS: [(&str, Point); 9] = [
    ("following", Point::Following),
    ("copying", Point::Copying),
    ("frozen", Point::Frozen),
    ("exchanging", Point::Exchanging),
    ("ready", Point::Ready),
    ("committed", Point::Committed),
    ("given", Point::Given),
    ("taken", Point::Taken),
    ("opened", Point::Opened),
];

impl std::str::FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = POINTS.iter().find(|(name, _)| *name == text).map(|(_, point)| *point);
        found.ok_or_else(|| POINTS.map(|(name, _)| name).join(", "))
    }
}

/// What a process does at such points.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// Where it dies.
    pub die_at: Option<Point>,
    /// Where what it does fails.
    pub fail_at: Option<Point>,
    /// Whether it waits at the point that `FOLDER/run/hold` names while there is such a file, so
    /// that others can be killed meanwhile. `FOLDER/run/held` says that it is there.
    pub may_be_held: bool,
}

impl Shared {
    /// What the move does at this point.
    pub(super) fn fail_at(&self, point: Point) -> io::Result<()> {
        self.pass(point);
        match self.faults.fail_at == Some(point) {
            true => Err(io::Error::other("it fails as it was told")),
            false => Ok(()),
        }
    }

    /// The move has come to this point.
    pub(super) fn pass(&self, point: Point) {
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
