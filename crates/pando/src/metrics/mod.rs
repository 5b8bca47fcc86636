//! What this process counts, for Prometheus: text in the format of OpenMetrics, made when asked for
//! over HTTP.

pub mod door;
pub mod family;
mod http;
pub mod shards;
pub mod tree;
