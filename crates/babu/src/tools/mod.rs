//! What looks at a database that is not open.

pub mod check;
mod deep;
pub mod inspect;
pub mod report;
