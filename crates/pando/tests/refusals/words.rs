//! `pando mount` with targets that cannot be mounted. It ends, says what is wrong and what to do,
//! and leaves nothing behind.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pando_keys::KeyRole;
use pando_net::{HostsFolder, this_host};
use pando_types::{Epoch, ShardIndex};
use pando_wire::Hosting;

use crate::common::site::{Site, until};
use crate::common::{Scratch, is_mounted, pando, pando_within};
use crate::{Guarded, assert_said, key};

/// A listener that is not a server of Pando.
pub struct Stranger {
    listener: TcpListener,
    pub address: String,
    is_over: Arc<AtomicBool>,
}

impl Stranger {
    /// Accepts connections, one after the other, and runs `serve` with each.
    pub fn new(serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let stranger = Self::silent();
        let listener = stranger.listener.try_clone().unwrap();
        let is_over = stranger.is_over.clone();
        std::thread::spawn(move || {
            let all = listener.incoming().flatten();
            all.take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(serve);
        });
        stranger
    }

    /// Accepts no connection: each waits in the system's queue.
    pub fn silent() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self { listener, address, is_over: Arc::default() }
    }

    /// Sends the first line of an SSH server, and waits for an answer.
    pub fn ssh() -> Self {
        Self::new(|mut stream| {
            let _ = stream.write_all(b"SSH-2.0-x\r\n");
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(&self.address);
    }
}

/// An address without a listener.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Processes that have this folder among their arguments.
pub fn processes_with(folder: &Path) -> Vec<i32> {
    let folder = folder.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(folder)
    })
    .collect()
}

/// A folder for mounts that fail.
struct Attempts(Scratch);

impl Attempts {
    /// Checks that the mount fails with this code and these words, in the foreground and in the
    /// background.
    fn fail(&self, target: &str, extra: &[&str], code: i32, words: &[&str]) {
        let path = self.0.path().join("mount");
        for detach in [&[][..], &["-d"]] {
            let mut command = pando_within(60);
            command.arg("mount").arg(target).arg(&path).args(extra).args(detach);
            let output = command.output().unwrap();
            assert_said(&output, code, words);
            assert!(!is_mounted(&path), "{target}");
        }
        until("no process is left behind", || processes_with(self.0.path()).is_empty());
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        // Processes are left only if the test has failed.
        for pid in processes_with(self.0.path()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn a_mount_without_the_right_key_says_what_is_wrong_with_it() {
    let guarded = Guarded::new();
    let (address, folder) = (&guarded.address[..], guarded.site.scratch());
    let attempts = Attempts(Scratch::new());
    attempts.fail(address, &[], 1, &[address, "a key is needed", "--key", "pando auth add"]);
    let other = Site::new(&[], &[]);
    let wrong = key(&other.folder, KeyRole::Client, &folder.join("wrong.pem"));
    let open = key(&guarded.site.folder, KeyRole::Client, &folder.join("open.pem"));
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let missing = folder.join("missing.pem");
    let empty = folder.join("empty.pem");
    fs::write(&empty, "").unwrap();
    fs::set_permissions(&empty, Permissions::from_mode(0o600)).unwrap();
    let cases: [(&PathBuf, &[&str]); 4] = [
        (&wrong, &[address, "no authority of this volume has signed it"]),
        (&missing, &["missing.pem: No such file"]),
        (&empty, &["empty.pem: it has no private key"]),
        (&open, &["open.pem is open to others", "chmod 600"]),
    ];
    for (file, words) in cases {
        attempts.fail(address, &["--key", file.to_str().unwrap()], 1, words);
    }
    // `--secret`, from before keys, is refused with advice.
    attempts.fail(
        address,
        &["--secret", "/etc/s"],
        2,
        &["no --secret any more", "pando auth add", "--key"],
    );
    attempts.fail(
        address,
        &["--secret=/etc/s"],
        2,
        &["no --secret any more", "pando auth add", "--key"],
    );
    guarded.others_go_on();
}

#[test]
fn a_mount_of_what_is_no_server_of_pando_ends_and_says_so() {
    let attempts = Attempts(Scratch::new());
    let (ssh, silent) = (Stranger::ssh(), Stranger::silent());
    let (closing, nobody) = (Stranger::new(drop), nobody());
    let socket = format!("unix:{}", attempts.0.path().join("none.sock").display());
    let cases: [(&str, &str); 5] = [
        (&ssh.address, "does not speak TLS"),
        (&silent.address, "no answer within 3 s"),
        // The error depends on the order of two events.
        (&closing.address, "connection"),
        (&nobody, "cannot connect: Connection refused"),
        (&socket, "cannot connect: No such file"),
    ];
    let guarded = Guarded::new();
    let named = ["--key", guarded.key.to_str().unwrap()];
    for (address, words) in cases {
        attempts.fail(address, &named, 3, &[address, words, "see that it runs"]);
    }
    attempts.fail("localhost:ssh", &[], 1, &["`localhost:ssh` is not an address", "HOST:PORT"]);
    // After an address without a server, the next one is asked.
    let mut site = guarded.site;
    let addresses = OsString::from(format!("{},{nobody},{}", ssh.address, guarded.address));
    let path = site.scratch().join("other");
    site.mount_at(&addresses, path, &named);
    assert!(is_mounted(&site.mounts[1]));
}

#[test]
fn a_mount_that_leads_to_another_volume_is_refused_and_names_it() {
    let attempts = Attempts(Scratch::new());
    let mut site = Site::new(&[], &[]);
    site.serve("all", &["--listen", "127.0.0.1:0"]);
    let (address, folder) = (site.tcp(), attempts.0.path().join("volume"));
    let key = key(&site.folder, KeyRole::Client, &site.scratch().join("ada.pem"));
    let key = ["--key", key.to_str().unwrap()];
    assert!(pando().arg("format").arg(&folder).output().unwrap().status.success());
    let id = |folder: &Path| pando_server::Folder::new(folder).unwrap().read().unwrap().uuid;
    let (wanted, found) = (id(&folder), id(&site.folder));
    // Another volume's server listens where the volume's own server did.
    let addresses = vec![address.clone()];
    let (shard, epoch, host) = (ShardIndex(0), Epoch(1), this_host());
    let hosts = HostsFolder::new(&folder.join("run"));
    hosts.write(&Hosting { shard, epoch, host, addresses }).unwrap();
    // The mount's own key is refused there. With a key of the other volume, the message names both
    // volumes.
    let shown = folder.to_str().unwrap();
    attempts.fail(shown, &[], 1, &[&address, "no authority of this volume has signed it"]);
    attempts.fail(shown, &key, 1, &["ada.pem is a key of volume", &wanted, &found]);
    // Objects of one volume are not taken for the other's.
    let ours = folder.join("objects");
    fs::write(ours.join("volume"), format!("{wanted}\n")).unwrap();
    let of = |objects| [&key[..], &["--objects", objects]].concat();
    let words = ["objects of another volume", &wanted, "--objects"];
    attempts.fail(&address, &of(ours.to_str().unwrap()), 1, &words);
    attempts.fail(&address, &of("/proc"), 1, &["/proc here has none of it", "--objects"]);
}
