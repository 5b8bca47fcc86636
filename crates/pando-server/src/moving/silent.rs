//! A server that does not answer.

/// A server gave no answer, or could not be reached, with the reason in words.
#[derive(Debug)]
pub struct Silent(pub String);
