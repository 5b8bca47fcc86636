//! Pando as the kernel's language has it: [`Vfs`](crate::Vfs) behind the [`device`](crate::device), and mounting.

pub(crate) mod adaptor;
mod closing;
mod convert;
pub mod credentials;
mod locking;
pub mod session;
mod ways;
