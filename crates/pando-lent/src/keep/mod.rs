//! What a holder does by itself: it borrows parts, sends elements, and asks for news. What it asks
//! for along with a read.

mod along;
mod attend;
mod beside;
mod born;
mod borrow;
mod fallen;
mod flush;
mod read;
mod send;
mod synced;
mod under;
