//! Files and formats of the store: their bytes, their levels, the space they take.

mod fixture;
mod format;
mod ingest;
mod inspect;
mod levels;
mod memory;
mod merges;
mod space;
