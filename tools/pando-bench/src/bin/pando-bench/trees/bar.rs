//! What is asked of each row: a floor, and how near a figure must come to it.

use super::row::{Row, System};

/// A bar of one row on one system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// At most so many times the floor's time.
    Time(f64),
    /// At least this part of the floor's rate.
    Rate(f64),
    /// The figure itself is at most this, in the row's unit.
    AtMost(f64),
    /// The figure itself is at least this.
    AtLeast(f64),
}

/// The system that a row is compared with.
pub const fn floor(row: Row) -> Option<System> {
    match row {
        Row::Extract => Some(System::Null),
        Row::Grep1 | Row::Grep2 => Some(System::Pass),
        Row::Recall | Row::SecondMountIdle | Row::SecondMountBusy | Row::ForeignFind => None,
        _ => Some(System::Local),
    }
}

/// What is asked of a row on Pando.
pub fn bar(row: Row, part: Option<&str>, system: System) -> Bar {
    match row {
        Row::Extract => Bar::Rate(0.6),
        Row::ExtractFsync => Bar::Time(if system == System::Up { 1.6 } else { 2.0 }),
        Row::Find1 => Bar::Time(10.0),
        Row::Find2 => Bar::Time(3.0),
        Row::Grep1 => Bar::Time(1.0),
        Row::Grep2 => Bar::Time(0.3),
        Row::GitStatus => Bar::Time(2.0),
        Row::GitClone => Bar::Time(2.5),
        Row::Rm => Bar::Time(4.0),
        Row::Make => Bar::Time(1.1),
        Row::Fstat | Row::LseekEnd => Bar::AtMost(3.0),
        Row::OpenClose => Bar::AtMost(40.0),
        Row::Reread => Bar::Rate(0.9),
        Row::Recall => Bar::AtMost(if part == Some("p99") { 5.0 } else { 1.0 }),
        Row::SecondMountIdle | Row::SecondMountBusy => Bar::AtLeast(0.9),
        Row::ForeignFind => Bar::AtLeast(0.5),
    }
}

impl Bar {
    /// The bar for a reader of figures.
    pub fn words(self, row: Row) -> String {
        let floor = floor(row).map_or("", System::name);
        match self {
            Self::Time(times) => format!("at most {times} times the time of {floor}"),
            Self::Rate(part) => format!("at least {part} of the rate of {floor}"),
            Self::AtMost(limit) => format!("at most {limit} {}", row.unit()),
            Self::AtLeast(part) => format!("at least {part}"),
        }
    }

    /// The ratio that the bar is about, of a figure to its floor's. Both are times.
    pub fn ratio(self, figure: f64, floor: f64) -> f64 {
        match self {
            Self::Rate(_) => floor / figure,
            _ => figure / floor,
        }
    }

    /// Whether the median figure or the median ratio meets the bar. `None` without a floor.
    pub fn is_met(self, figure: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::Time(limit) => ratio.map(|ratio| ratio <= limit),
            Self::Rate(limit) => ratio.map(|ratio| ratio >= limit),
            Self::AtMost(limit) => Some(figure <= limit),
            Self::AtLeast(limit) => Some(figure >= limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_inverse_of_a_time() {
        let asked = bar(Row::Extract, None, System::Tcp);
        assert_eq!(asked.ratio(20.0, 10.0), 0.5);
        assert_eq!(asked.is_met(20.0, Some(0.5)), Some(false));
        assert_eq!(asked.is_met(20.0, None), None);
        assert_eq!(asked.words(Row::Extract), "at least 0.6 of the rate of null");
        let asked = bar(Row::ExtractFsync, None, System::Up);
        assert_eq!((asked.ratio(3.0, 2.0), asked.is_met(3.0, Some(1.5))), (1.5, Some(true)));
        let p99 = bar(Row::Recall, Some("p99"), System::Unix);
        assert_eq!(p99.words(Row::Recall), "at most 5 ms");
        assert_eq!((p99.is_met(4.9, None), p99.is_met(5.1, None)), (Some(true), Some(false)));
    }
}
