//! The result of a run of the model.

use serde::Serialize;

use crate::repro::directory::Moved;

/// Creates finished in one window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Window {
    /// The middle of the window, in seconds since the start.
    pub at: f64,
    /// Creates a second in the window.
    pub rate: f64,
}

/// The figures of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Number of files made.
    pub files: u64,
    /// Time of the last create, in seconds.
    pub seconds: f64,
    /// End of the last split, in seconds; 0 if there was none.
    pub last_split: f64,
    /// Requests that reached a wrong server.
    pub astray: u64,
    /// Requests that waited because their half was closed.
    pub waited: u64,
    /// Entries that splits moved.
    pub moved: Moved,
    /// Number of partitions at the end.
    pub partitions: usize,
    /// The longest time for which a half was closed, in seconds.
    pub closed_longest: f64,
    /// All windows but the last, which is incomplete.
    #[serde(skip)]
    pub windows: Vec<Window>,
}

impl Report {
    /// Creates a second, averaged over the whole run, as in Figure 4.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.files as f64 / self.seconds.max(1e-9)
    }

    /// Median rate of the windows after the last split. If there are none, of all windows.
    #[must_use]
    pub fn rate_grown(&self) -> f64 {
        let after = |window: &&Window| window.at > self.last_split;
        let grown: Vec<f64> = self.windows.iter().filter(after).map(|w| w.rate).collect();
        match grown.is_empty() {
            true => crate::repro::stats::median(self.windows.iter().map(|w| w.rate).collect()),
            false => crate::repro::stats::median(grown),
        }
    }

    /// The lowest rate of a window until the last split ended. If nothing split, of all windows.
    #[must_use]
    pub fn rate_lowest(&self) -> f64 {
        let while_splitting = |w: &&Window| self.last_split == 0.0 || w.at <= self.last_split;
        let rates = self.windows.iter().filter(while_splitting).map(|w| w.rate);
        let lowest = rates.fold(f64::MAX, f64::min);
        // The run was too short for a whole window.
        if lowest == f64::MAX { self.rate() } else { lowest }
    }

    /// Seconds in windows whose rate is lower than `rate`.
    #[must_use]
    pub fn seconds_below(&self, rate: f64) -> f64 {
        let width = self.windows.first().map_or(0.0, |w| w.at * 2.0);
        self.windows.iter().filter(|w| w.rate < rate).count() as f64 * width
    }
}
