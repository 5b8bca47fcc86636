//! Faults that a test causes at a point of a move: the process dies, fails, or waits.

/// A point of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Source: the target asks what has changed since the copy began.
    Following,
    /// Target: a page of records is copied.
    Copying,
    /// Source: the shard is frozen, and the last groups are not sent yet.
    Frozen,
    /// Target: it has heard the last groups, and has not applied them.
    Exchanging,
    /// Target: the copy is complete, and the source was not asked for the shard.
    Ready,
    /// Source: `given-K` is written, and may not be durable.
    Committed,
    /// Source: the shard is given away, and the target has not heard so.
    Given,
    /// Target: it has heard `Given`, and has not opened its copy.
    Taken,
    /// Target: it serves the shard, and the source has not heard so.
    Opened,
}

/// All points, by name.
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

/// Faults of this process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// The point at which the process aborts.
    pub die_at: Option<Point>,
    /// The point at which the step fails.
    pub fail_at: Option<Point>,
    /// Whether the process waits at the point that `FOLDER/run/hold` names, while that file exists.
    /// Meanwhile the test can kill others. `FOLDER/run/held` exists while the process waits.
    pub may_be_held: bool,
}
