//! Kernel side of the mount: [`Vfs`](crate::Vfs) behind the [`device`](crate::device), and
//! mounting.

pub(crate) mod adaptor;
mod alone;
mod appends;
mod closing;
mod convert;
mod gone;
mod kept;
mod locking;
mod memory;
mod powers;
pub mod session;
mod told;
