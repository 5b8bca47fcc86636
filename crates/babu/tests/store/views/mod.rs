//! Views of the past and of what is not in the trees yet: snapshots, keeping, and applying later.

mod keep;
mod later;
mod snapshots;
