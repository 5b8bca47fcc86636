//! Where objects are: a key-value store of immutable bytes, which does not know what they mean.

mod listing;
mod local;
mod remote;
mod traits;

pub use listing::Listing;
pub use local::{LocalStore, Syncs};
pub use remote::RemoteStore;
pub use traits::{ObjectStore, Space, StoreError, SyncHook, sync_hook};
