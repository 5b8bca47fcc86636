//! The record of a run: a running hash, and on demand lines of text that show a failing seed.

use std::fmt::Arguments;

/// An FNV-1a hash of everything noted, and the lines if they are wanted.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its lines if `keep_lines`, and its hash in any case.
    #[must_use]
    pub fn new(keep_lines: bool) -> Self {
        Self { hash: 0xCBF2_9CE4_8422_2325, lines: keep_lines.then(Vec::new) }
    }

    /// Notes bytes at a time in nanoseconds, and a line about them.
    pub fn note(&mut self, at: u64, bytes: &[u8], line: Arguments<'_>) {
        for byte in at.to_le_bytes().iter().chain(bytes) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>12.6} {line}", at as f64 / 1e9));
        }
    }

    /// The hash of everything noted so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The last `count` lines, or fewer if there are fewer.
    #[must_use]
    pub fn tail(&self, count: usize) -> &[String] {
        let lines = self.lines.as_deref().unwrap_or(&[]);
        &lines[lines.len().saturating_sub(count)..]
    }
}
