//! What is measured. A work gives the figures of one row, or of rows that go together.

mod build;
mod calls;
mod extract;
mod foreign;
mod git;
mod meanwhile;
mod recall;
mod reread;
mod second;
mod walk;

use super::kit::Kit;
use super::row::{Figure, Row, System};
use super::system::Stage;
use crate::output::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Extract,
    ExtractFsync,
    Find,
    Grep,
    GitStatus,
    GitClone,
    Make,
    Calls,
    Reread,
    Recall,
    SecondMount,
    ForeignFind,
}

impl Work {
    pub const ALL: [Self; 12] = [
        Self::Extract,
        Self::ExtractFsync,
        Self::Find,
        Self::Grep,
        Self::GitStatus,
        Self::GitClone,
        Self::Make,
        Self::Calls,
        Self::Reread,
        Self::Recall,
        Self::SecondMount,
        Self::ForeignFind,
    ];

    /// The rows that this work gives.
    pub const fn rows(self) -> &'static [Row] {
        match self {
            Self::Extract => &[Row::Extract, Row::Rm],
            Self::ExtractFsync => &[Row::ExtractFsync],
            Self::Find => &[Row::Find1, Row::Find2],
            Self::Grep => &[Row::Grep1, Row::Grep2],
            Self::GitStatus => &[Row::GitStatus],
            Self::GitClone => &[Row::GitClone],
            Self::Make => &[Row::Make],
            Self::Calls => &[Row::Fstat, Row::LseekEnd, Row::OpenClose],
            Self::Reread => &[Row::Reread],
            Self::Recall => &[Row::Recall],
            Self::SecondMount => &[Row::SecondMountIdle, Row::SecondMountBusy],
            Self::ForeignFind => &[Row::ForeignFind],
        }
    }

    /// The first of its rows names it.
    pub fn name(self) -> String {
        self.rows().first().map(|row| row.name()).unwrap_or_default()
    }

    /// Whether it gives one of the wanted rows on this system.
    pub fn is_for(self, system: System, wanted: &[Row]) -> bool {
        self.rows().iter().any(|row| row.is_for(system) && wanted.contains(row))
    }

    /// Makes what this work needs on a system, before all rounds.
    pub fn prepare(self, stage: &Stage, kit: &Kit<'_>) -> Result<(), Failure> {
        match self {
            Self::Extract => extract::prepare(stage, kit),
            Self::Find | Self::Grep => walk::prepare(stage, kit),
            Self::GitStatus => git::prepare(stage, kit),
            Self::Calls => calls::prepare(stage),
            Self::Reread => reread::prepare(stage, kit),
            _ => Ok(()),
        }
    }

    /// Does the work once.
    pub fn measure(self, stage: &mut Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
        match self {
            Self::Extract => extract::extract(stage, kit),
            Self::ExtractFsync => extract::extract_fsync(stage, kit),
            Self::Find => walk::find(stage, kit),
            Self::Grep => walk::grep(stage, kit),
            Self::GitStatus => git::status(stage, kit),
            Self::GitClone => git::clone(stage, kit),
            Self::Make => build::build(stage, kit),
            Self::Calls => calls::calls(stage, kit),
            Self::Reread => reread::reread(stage, kit),
            Self::Recall => recall::recall(stage.system, kit),
            Self::SecondMount => second::second_mount(stage.system, kit),
            Self::ForeignFind => foreign::foreign_find(stage.system, kit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_work() {
        for row in Row::ALL {
            let works = Work::ALL.iter().filter(|work| work.rows().contains(&row)).count();
            assert_eq!(works, 1, "{row:?}");
        }
    }
}
