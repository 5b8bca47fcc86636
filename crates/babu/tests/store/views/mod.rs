//! Views of the past and of what is not in the trees yet: snapshots, exports, keeping, and applying
//! later.

mod export;
mod keep;
mod later;
mod snapshots;
