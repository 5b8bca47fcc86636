//! Full disks, unreadable blocks, and files with very many slices.

mod full;
mod many_slices;
mod unreadable;
