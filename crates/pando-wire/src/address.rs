//! Where a server listens, as users write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// `HOST:PORT`, `tcp:HOST:PORT` or `unix:PATH`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not an address: write HOST:PORT, or unix:PATH")]
pub struct NoAddress(String);

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let wrong = || NoAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let text = text.strip_prefix("tcp:").unwrap_or(text);
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // An IPv6 address without brackets leaves open where its port begins.
        if host.is_empty() || host.contains('/') || (bare.is_none() && host.contains(':')) {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self::Tcp(bare.unwrap_or(host).to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_return_as_they_are_written() {
        for (text, shown) in [
            ("localhost:7000", "localhost:7000"),
            ("tcp:10.0.0.1:1", "10.0.0.1:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("unix:/run/x:y", "unix:/run/x:y"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse::<Address>().unwrap(), address);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for text in ["", "host", ":1", "host:", "host:65536", "unix:", "/a/folder:1", "::1:7"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
