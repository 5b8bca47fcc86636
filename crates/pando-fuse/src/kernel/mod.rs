//! Everything that knows the FUSE library, or the kernel's side of a request.

pub mod adaptor;
mod aside;
mod convert;
pub mod credentials;
pub mod session;
