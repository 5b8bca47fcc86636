//! Messages between shards.
