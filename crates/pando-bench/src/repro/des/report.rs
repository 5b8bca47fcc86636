//! What came of a run.

use serde::Serialize;

use crate::repro::directory::Moved;

/// Creates finished in one window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Window {
    /// Its middle, seconds since the beginning.
    pub at: f64,
    /// Creates a second in it.
    pub rate: f64,
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Files made.
    pub files: u64,
    /// When the last create was finished, seconds.
    pub seconds: f64,
    /// When the last split ended, seconds; 0: there was none.
    pub last_split: f64,
    /// Requests that went to a wrong server.
    pub astray: u64,
    /// Requests that waited for a closed half.
    pub waited: u64,
    /// What splits moved.
    pub moved: Moved,
    /// Partitions in the end.
    pub partitions: usize,
    /// Longest that one half was closed, seconds.
    pub closed_longest: f64,
    /// All windows but the last, which is not full.
    #[serde(skip)]
    pub windows: Vec<Window>,
}

impl Report {
    /// Creates a second, averaged over the whole run, as in Figure 4.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.files as f64 / self.seconds.max(1e-9)
    }

    /// Median rate of the windows after the last split; of all, if there are none.
    #[must_use]
    pub fn rate_grown(&self) -> f64 {
        let after = |window: &&Window| window.at > self.last_split;
        let grown: Vec<f64> = self.windows.iter().filter(after).map(|w| w.rate).collect();
        match grown.is_empty() {
            true => crate::repro::stats::median(self.windows.iter().map(|w| w.rate).collect()),
            false => crate::repro::stats::median(grown),
        }
    }

    /// The lowest rate of a window while partitions split; of all, if none did.
    #[must_use]
    pub fn rate_lowest(&self) -> f64 {
        let while_splitting = |w: &&Window| self.last_split == 0.0 || w.at <= self.last_split;
        let rates = self.windows.iter().filter(while_splitting).map(|w| w.rate);
        let lowest = rates.fold(f64::MAX, f64::min);
        // So short that no window was full.
        if lowest == f64::MAX { self.rate() } else { lowest }
    }

    /// Seconds in windows with a rate below this.
    #[must_use]
    pub fn seconds_below(&self, rate: f64) -> f64 {
        let width = self.windows.first().map_or(0.0, |w| w.at * 2.0);
        self.windows.iter().filter(|w| w.rate < rate).count() as f64 * width
    }
}
