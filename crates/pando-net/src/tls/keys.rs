//! The key by which one side proves its identity, and the authorities that it trusts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use pando_keys::{Bundle, Identity, KeyError, KeyRole, Serial, Trust};
use pando_wire::REVOKED_IN_ALL_MAX;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::UnixTime;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::tls::error::TlsError;
use crate::tls::shown::Shown;
use crate::tls::verify::{Accepts, Verifier};

/// A key with its certificate, and the authorities that it trusts. Clones share their state.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    identity: Identity,
    own: Arc<SingleCertAndKey>,
    provider: Arc<CryptoProvider>,
    source: Source,
    /// Serials that other servers say are revoked.
    heard: Mutex<BTreeSet<Serial>>,
    /// How often something new was heard.
    news: AtomicU64,
    /// The belief of the last judgement. It is made once for each change, as the list of revoked
    /// keys may be long.
    belief: Mutex<Option<Belief>>,
}

/// The authorities and revocations that keys believe at one moment. Clones share their state.
#[derive(Clone)]
pub struct Belief {
    known: Arc<Trust>,
    news: u64,
    trust: Arc<Trust>,
    verifier: Arc<Verifier>,
}

enum Source {
    /// The authorities that came with the key.
    Given(Arc<Trust>),
    /// A volume's folder of keys, which is read again when it has changed.
    Folder(PathBuf, Mutex<Option<Known>>),
}

/// The content of a folder.
#[derive(Clone)]
struct Known {
    stamp: Stamp,
    trust: Arc<Trust>,
    /// This side's key, if it was renewed there.
    own: Option<Arc<SingleCertAndKey>>,
}

/// State of a folder's files, to know whether any has changed.
type Stamp = BTreeSet<FileStamp>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FileStamp {
    name: std::ffi::OsString,
    device: u64,
    ino: u64,
    len: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl Keys {
    /// Keys that trust the authorities of `bundle`.
    pub fn new(bundle: &Bundle) -> Result<Self, TlsError> {
        let (authorities, revoked) = (bundle.authorities.clone(), BTreeSet::new());
        Self::of(bundle, Source::Given(Arc::new(Trust { authorities, revoked })))
    }

    /// A server's keys that trust what a volume's folder of keys says at each handshake. So the own
    /// key can be renewed there, too.
    pub fn of_folder(bundle: &Bundle, keys: &Path) -> Result<Self, TlsError> {
        Self::of(bundle, Source::Folder(keys.to_owned(), Mutex::default()))
    }

    fn of(bundle: &Bundle, source: Source) -> Result<Self, TlsError> {
        let inner = Inner {
            identity: bundle.identity.clone(),
            own: certified(bundle)?,
            provider: Arc::new(provider()),
            source,
            heard: Mutex::default(),
            news: AtomicU64::new(0),
            belief: Mutex::default(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The identity of this key.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// The authorities and revocations that it believes now.
    pub fn trust(&self) -> Result<Arc<Trust>, TlsError> {
        Ok(self.belief()?.trust)
    }

    /// The present belief, from memory if nothing has changed.
    pub fn belief(&self) -> Result<Belief, TlsError> {
        let known = self.known()?;
        let mut belief = self.0.belief.lock();
        // Read before what was heard: news in between cause another look.
        let news = self.news();
        if let Some(belief) = &*belief
            && belief.is_of(&known, news)
        {
            return Ok(belief.clone());
        }
        let trust = {
            let heard = self.0.heard.lock();
            if heard.len() > REVOKED_IN_ALL_MAX {
                return Err(KeyError::TooManyHeard(REVOKED_IN_ALL_MAX).into());
            }
            let mut trust = Trust::clone(&known);
            trust.revoke(heard.iter().copied());
            Arc::new(trust)
        };
        let verifier = Verifier::new(trust.clone(), self.0.identity.volume, &self.0.provider)?;
        let made = Belief { known, news, trust, verifier: Arc::new(verifier) };
        *belief = Some(made.clone());
        Ok(made)
    }

    /// Whether nothing has changed since `belief` was made.
    #[must_use]
    pub fn is_current(&self, belief: &Belief) -> bool {
        self.known().is_ok_and(|known| belief.is_of(&known, self.news()))
    }

    /// What it believes without other servers' messages. Without a change it returns the `Arc` that
    /// it returned before.
    fn known(&self) -> Result<Arc<Trust>, KeyError> {
        Ok(match &self.0.source {
            Source::Given(trust) => trust.clone(),
            Source::Folder(folder, known) => self.read(folder, known)?.trust,
        })
    }

    /// Takes in serials that another server says are revoked; true if any is new. The caller has
    /// made sure that a server of the volume says so. If there are more than a process takes in, it
    /// accepts no key any more ([`Keys::trust`]). The newest authority is left out: a message has
    /// no effect on it. If its serial were kept, that would end the authority as soon as there is a
    /// newer one.
    pub fn learn(&self, revoked: impl IntoIterator<Item = Serial>) -> bool {
        let known = self.known().ok();
        let newest = known.as_ref().and_then(|known| known.newest());
        let is_known = |serial: &Serial| {
            newest == Some(*serial)
                || known.as_ref().is_some_and(|known| known.revoked.contains(serial))
        };
        let mut heard = self.0.heard.lock();
        let before = heard.len();
        for serial in revoked {
            if heard.len() > REVOKED_IN_ALL_MAX {
                break;
            }
            if !is_known(&serial) {
                heard.insert(serial);
            }
        }
        let is_news = heard.len() > before;
        drop(heard);
        if is_news {
            self.0.news.fetch_add(1, Ordering::Release);
        }
        is_news
    }

    /// A number that changes whenever [`Keys::learn`] hears something new.
    #[must_use]
    pub fn news(&self) -> u64 {
        self.0.news.load(Ordering::Acquire)
    }

    /// Whether the other side's certificates are still accepted, by what is known now and by the
    /// present time.
    pub fn judge(&self, shown: &Shown, accepts: Accepts) -> Result<(), TlsError> {
        self.belief()?.judge(shown, accepts)
    }

    /// Revoked certificates, even while no key can be accepted. They are those of the folder, now
    /// or when it could last be read, and those that were heard of.
    #[must_use]
    pub fn revoked_in_any_case(&self) -> BTreeSet<Serial> {
        let mut revoked = self.heard();
        match &self.0.source {
            Source::Given(trust) => revoked.extend(&trust.revoked),
            Source::Folder(folder, known) => {
                if let Some(known) = &*known.lock() {
                    revoked.extend(&known.trust.revoked);
                }
                revoked.extend(pando_keys::revoked(folder).into_iter().flatten());
            }
        }
        revoked
    }

    /// Serials that other servers have said are revoked.
    #[must_use]
    pub fn heard(&self) -> BTreeSet<Serial> {
        self.0.heard.lock().clone()
    }

    /// Serials to tell other sides: all that are revoked.
    #[must_use]
    pub fn told_revoked(&self) -> Vec<[u8; 16]> {
        let Ok(trust) = self.trust() else { return Vec::new() };
        trust.revoked.iter().map(|serial| serial.0).collect()
    }

    /// The configuration for a connection to a server.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = self.belief()?.verifier;
        let builder = ClientConfig::builder_with_provider(self.0.provider.clone());
        let mut config = builder
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(self.own()?);
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }

    /// The configuration for an incoming connection.
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let verifier = self.belief()?.verifier;
        let builder = ServerConfig::builder_with_provider(self.0.provider.clone());
        let mut config = builder
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.own()?);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }

    /// The certificate that this side shows now.
    fn own(&self) -> Result<Arc<SingleCertAndKey>, TlsError> {
        let renewed = match &self.0.source {
            Source::Given(_) => None,
            Source::Folder(folder, known) => self.read(folder, known)?.own,
        };
        Ok(renewed.unwrap_or_else(|| self.0.own.clone()))
    }

    /// The content of a folder, from memory if none of its files has changed.
    fn read(&self, folder: &Path, known: &Mutex<Option<Known>>) -> Result<Known, KeyError> {
        let mut known = known.lock();
        // Read before the files: a change in between causes another look.
        let stamp = stamp(folder);
        if let Some(known) = &*known
            && stamp.as_ref() == Some(&known.stamp)
        {
            return Ok(known.clone());
        }
        let trust = Arc::new(Trust::read(folder)?);
        let is_own = |bundle: &Bundle| bundle.identity.key == self.0.identity.key;
        let path = folder.join(format!("{}.pem", KeyRole::Server));
        let own = Bundle::read(&path).ok().filter(is_own);
        let own = own.and_then(|bundle| certified(&bundle).ok());
        let read = Known { stamp: stamp.clone().unwrap_or_default(), trust, own };
        *known = stamp.map(|_| read.clone());
        Ok(read)
    }
}

impl Belief {
    /// The authorities and revocations that it believes.
    #[must_use]
    pub const fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Whether the other side's certificates are accepted, by this belief and the present time.
    pub fn judge(&self, shown: &Shown, accepts: Accepts) -> Result<(), TlsError> {
        self.verifier.verify(shown.chain(), accepts, UnixTime::now())
    }

    fn is_of(&self, known: &Arc<Trust>, news: u64) -> bool {
        Arc::ptr_eq(&self.known, known) && self.news == news
    }
}

impl std::fmt::Debug for Belief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.trust.fmt(f)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.identity)
    }
}

/// The cipher suites, the fastest one here first: AES if the processor supports it.
fn provider() -> CryptoProvider {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    let mut cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384];
    cipher_suites.insert(if has_aes { 2 } else { 0 }, TLS13_CHACHA20_POLY1305_SHA256);
    CryptoProvider { cipher_suites, ..ring::default_provider() }
}

fn certified(bundle: &Bundle) -> Result<Arc<SingleCertAndKey>, TlsError> {
    let key = ring::sign::any_supported_type(&bundle.key)?;
    let chain = [&bundle.certificate].into_iter().chain(&bundle.chain).cloned().collect();
    let own = CertifiedKey::new(chain, key);
    own.keys_match()?;
    Ok(Arc::new(own.into()))
}

fn stamp(folder: &Path) -> Option<Stamp> {
    let entries = fs::read_dir(folder).ok()?;
    let one = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let is = fs::metadata(entry.path()).ok()?;
        Some(FileStamp {
            name: entry.file_name(),
            device: is.dev(),
            ino: is.ino(),
            len: is.len(),
            modified: is.modified().ok(),
            changed: (is.ctime(), is.ctime_nsec()),
        })
    };
    entries.map(one).collect()
}
