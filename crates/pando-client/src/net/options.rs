//! Where a volume is, settings of the transport, and why there is no connection.

use std::io::Write;
use std::time::Duration;

use pando_net::{HandshakeError, Keys};
use pando_wire::Address;

/// Where a volume is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// In a folder on this machine: the one where its processes keep their sockets and addresses.
    Run(std::path::PathBuf),
    /// Behind these addresses, of any of its servers.
    Servers(Vec<Address>),
}

/// Settings of the transport.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// The id that the volume must have; zero if any will do.
    pub volume: [u8; 16],
    /// The keys of this client for servers over TCP, and the authority that it trusts there.
    pub keys: Option<Keys>,
    /// A call counts as lost after this long without an answer.
    pub answer_within: Duration,
    /// Hears when a shard cannot be reached, and when it can be again.
    pub notice: fn(&str),
}

impl Default for NetOptions {
    fn default() -> Self {
        // The disk with the log may be full.
        let notice = |what: &str| drop(writeln!(std::io::stderr(), "pando: {what}"));
        Self { volume: [0; 16], keys: None, answer_within: Duration::from_secs(5), notice }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// No address of a server is known.
    #[error("no server of this volume has been started yet")]
    NoServer,
    /// No known server can be used. The fields tell of one of them.
    #[error("{address}: {why}")]
    Unreachable {
        /// The server's address.
        address: Address,
        /// The reason.
        why: String,
        /// Whether the server was there and refused.
        is_refusal: bool,
    },
    /// The server's answer does not fit the question.
    #[error("the server at {0} did not say what its volume is")]
    OutOfTurn(Address),
}

pub(super) fn unreachable(address: &Address, error: &HandshakeError) -> NetError {
    use HandshakeError::{Closed, NotTls, Silent, Stranger, Unreached};
    let is_refusal = !matches!(error, Closed(_) | NotTls | Silent(_) | Stranger(_) | Unreached(_));
    NetError::Unreachable { address: address.clone(), why: error.to_string(), is_refusal }
}
