//! What all rows share: arguments, the materials that programs work on, and how programs are run.

mod failed;
pub mod materials;
pub mod needs;
pub mod programs;

pub use failed::failed;

use super::args::TreesArgs;
use super::row::Row;
use crate::output::failure::Failure;
use crate::output::progress::Progress;
use materials::Materials;
use programs::Programs;

pub struct Kit<'a> {
    pub args: &'a TreesArgs,
    pub materials: Materials,
    pub programs: Programs<'a>,
}

impl<'a> Kit<'a> {
    /// Makes what the rows need.
    pub fn make(args: &'a TreesArgs, watch: &'a Progress) -> Result<Self, Failure> {
        let programs = Programs::new(watch, args.limit);
        let materials = Materials::make(args, &programs)?;
        Ok(Self { args, materials, programs })
    }

    pub fn wants(&self, row: Row) -> bool {
        self.args.rows.contains(&row)
    }
}
