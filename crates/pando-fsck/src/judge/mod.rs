//! The closer look at what the sweep suspects. Single rows are read again and judged together. A
//! finding lists everything that it follows from, so that it can be confirmed and mended.

pub mod data;
pub mod dirs;
pub mod entries;
pub mod judgement;
pub mod links;
pub mod partitions;
pub mod run;
pub mod sessions;
pub mod tables;
pub mod txns;
pub mod without_content;
