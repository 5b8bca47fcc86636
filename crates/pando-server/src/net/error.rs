//! Why a server cannot begin.

use std::io;
use std::path::PathBuf;

use pando_keys::KeyRole;
use pando_net::ListenError;
use pando_wire::{Address, uuid};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server cannot listen at an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Without a key, each user of this machine at least could connect.
    #[error(
        "cannot listen at {0} without a key: over TCP, also within one machine, all is \
         encrypted and both sides show a key. Name a server's key with --key FILE (`pando auth \
         init` makes the volume's keys)"
    )]
    NoKey(Address),
    /// The key is of another volume.
    #[error("the key is for volume {}, and this is {}", uuid(.0), uuid(.1))]
    OtherVolume([u8; 16], [u8; 16]),
    /// The key is not a server's.
    #[error(
        "a server needs a server's key, and this is {0}'s: `pando auth add NAME --role server` makes one"
    )]
    NotAServer(KeyRole),
    /// There is no address for others.
    #[error(
        "{0} stands for all addresses of this machine: say which one others shall use, with --advertise HOST:PORT"
    )]
    Any(Address),
    /// The file with the keys that other servers have revoked cannot be read.
    #[error(
        "{}: {why}. The file names keys that other servers have revoked; without it, this server \
         would accept them again. Restore the file. If it is lost, remove it, and start this \
         server while another one runs, which sends the list",
        .path.display()
    )]
    Revoked {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// The system refuses threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}
