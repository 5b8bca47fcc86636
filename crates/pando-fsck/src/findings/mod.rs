//! What is wrong, the evidence for it, and what would mend it.

pub mod code;
pub mod evidence;
pub mod finding;
pub mod gaps;
pub mod report;
pub mod words;
