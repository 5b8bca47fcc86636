//! What looks at a database that is not open.

pub mod check;
pub mod inspect;
