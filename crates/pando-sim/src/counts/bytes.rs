//! Counts of what happened to bytes in the network.

use super::counts;

counts! {
    /// Counts of what happened to bytes.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct Bytes {
        /// Frames that arrived in more than one chunk.
        pub cut: u64,
        /// Chunks with more than one frame.
        pub joined: u64,
        /// Chunks with a flipped bit that the decoder refused.
        pub refused: u64,
        /// Flipped bits after which no message came.
        pub stuck: u64,
        /// Chunks that arrived after their connection was replaced.
        pub lingered: u64,
    }
}
