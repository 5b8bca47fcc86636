//! What a holder does by itself: it borrows parts, sends elements, and asks for news.

mod attend;
mod borrow;
mod send;
