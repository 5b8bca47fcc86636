//! Clients that connect over TCP with a key, and clients that no longer may.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pando_keys::{Bundle, KeyRole, KeysFolder, Wanted};
use rustix::process::Pid;
use serde_json::Value;

use crate::common::site::{Site, until};
use crate::common::{all, is_mounted, pando, pando_within};

/// A volume with a server that listens for other machines.
pub struct Open {
    pub site: Site,
    address: String,
}

impl Open {
    pub fn new() -> Self {
        let mut site = Site::new(&[], &[]);
        site.serve("all", &["--listen", "127.0.0.1:0"]);
        let address = site.tcp();
        Self { site, address }
    }

    fn auth(&self, words: &[&str]) -> Command {
        let mut command = pando();
        command.arg("auth").args(words).arg("--volume").arg(&self.site.folder);
        command
    }

    fn done(&self, words: &[&str]) {
        let output = self.auth(words).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.scratch().join(name)
    }

    /// Runs `pando auth … > NAME`, and returns the file's path.
    pub fn to_file(&self, words: &[&str], name: &str) -> String {
        let path = self.path(name);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o644);
        let output = self.auth(words).stdout(options.open(&path).unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        path.to_str().unwrap().to_owned()
    }

    /// Mounts with a key. Returns the mount's number.
    pub fn mount(&mut self, key: &str) -> usize {
        let number = self.site.mounts.len();
        let path = self.path(&format!("mount-{number}"));
        self.site.mount_at(self.address.clone().as_ref(), path, &["--key", key, "--timeout", "2"]);
        number
    }

    /// Checks that a mount with this key fails, and that the error contains `said`.
    fn refused(&self, key: &str, said: &str) {
        let path = self.path("refused");
        let mut command = pando_within(60);
        command.args(["mount", &self.address]).arg(&path).args(["--key", key]);
        let output = command.output().unwrap();
        assert!(!output.status.success() && !is_mounted(&path), "{}", all(&output));
        assert!(all(&output).contains(said), "no `{said}` in: {}", all(&output));
    }

    fn works(&self, mount: usize) {
        let path = self.site.at(mount, &format!("file-of-{mount}"));
        fs::write(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        fs::remove_file(&path).unwrap();
    }

    /// Waits until a mount that worked gets no answers.
    fn is_cut_off(&self, mount: usize) {
        until("the mount is cut off", || {
            fs::metadata(self.site.at(mount, "none")).is_err_and(is_timeout)
        });
    }

    fn keys(&self) -> KeysFolder {
        let folder = pando_server::Folder::new(&self.site.folder).unwrap();
        KeysFolder::open(&folder.keys(), folder.read().unwrap().id()).unwrap()
    }
}

fn is_timeout(error: std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TIMEDOUT.raw_os_error())
}

#[test]
fn a_key_lets_its_holder_in_as_it_says() {
    let mut open = Open::new();
    let ada = open.to_file(&["add", "ada"], "ada.pem");
    assert_eq!(Bundle::read(Path::new(&ada)).unwrap().addresses, [open.address.clone()]);
    let ada = open.mount(&ada);
    open.works(ada);
    fs::write(open.site.at(ada, "file"), "text").unwrap();
    let reader = open.to_file(&["add", "reader", "--ro"], "reader.pem");
    let reader = open.mount(&reader);
    assert_eq!(fs::read_to_string(open.site.at(reader, "file")).unwrap(), "text");
    assert!(fs::write(open.site.at(reader, "other"), "text").is_err());
    assert!(fs::remove_file(open.site.at(reader, "file")).is_err());
    fs::create_dir(open.site.at(ada, "all")).unwrap();
    let all_may = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    fs::set_permissions(open.site.at(ada, "all"), all_may).unwrap();
    let guest = open.to_file(&["add", "guest", "--squash", "all:5:6"], "guest.pem");
    let guest = open.mount(&guest);
    fs::write(open.site.at(guest, "all/file"), "text").unwrap();
    let made = fs::metadata(open.site.at(ada, "all/file")).unwrap();
    assert_eq!((made.uid(), made.gid()), (5, 6));
    open.works(ada);
}

#[test]
fn what_is_revoked_is_cut_off_and_does_not_come_again() {
    let mut open = Open::new();
    let ada = open.to_file(&["add", "ada"], "ada.pem");
    let bob = open.to_file(&["add", "bob"], "bob.pem");
    let (of_ada, of_bob) = (open.mount(&ada), open.mount(&bob));
    open.works(of_ada);
    open.done(&["revoke", "ada"]);
    open.is_cut_off(of_ada);
    open.refused(&ada, "revoked");
    open.works(of_bob);
    // The next key of that name is a different key.
    let again = open.to_file(&["add", "ada"], "again.pem");
    let again = open.mount(&again);
    open.works(again);
}

#[test]
fn a_renewed_key_stands_when_the_old_one_is_revoked() {
    let mut open = Open::new();
    let old = open.to_file(&["add", "ada"], "old.pem");
    let new = open.to_file(&["renew", "ada"], "new.pem");
    let (of_old, of_new) = (open.mount(&old), open.mount(&new));
    open.works(of_old);
    open.works(of_new);
    let serial = Bundle::read(Path::new(&old)).unwrap().identity.serial.to_string();
    open.done(&["revoke", &serial]);
    open.is_cut_off(of_old);
    open.refused(&old, "revoked");
    // What shards lent to the old key's mount delays others by 10 s at most, and a call waits 2 s.
    until("the other goes on", || fs::write(open.site.at(of_new, "file"), "text").is_ok());
    open.works(of_new);
}

#[test]
fn two_authorities_count_until_one_is_ended() {
    let mut open = Open::new();
    let ada = open.to_file(&["add", "ada"], "ada.pem");
    let of_ada = open.mount(&ada);
    open.done(&["rotate"]);
    let bob = open.to_file(&["add", "bob"], "bob.pem");
    let (again, of_bob) = (open.mount(&ada), open.mount(&bob));
    for mount in [of_ada, again, of_bob] {
        open.works(mount);
    }
    open.done(&["rotate", "--finish", "--force"]);
    open.is_cut_off(again);
    open.refused(&ada, "no authority");
    until("the other goes on", || fs::write(open.site.at(of_bob, "file"), "text").is_ok());
    // Clients that trust only the new authority are let in, too: the running server shows a
    // certificate from it.
    let carol = open.to_file(&["add", "carol"], "carol.pem");
    assert_eq!(Bundle::read(Path::new(&carol)).unwrap().authorities.len(), 1);
    for key in [&bob, &carol] {
        let more = open.mount(key);
        open.works(more);
    }
}

#[test]
fn a_key_whose_time_is_over_is_refused() {
    let open = Open::new();
    let keys = open.keys();
    let wanted = Wanted {
        role: KeyRole::Client,
        name: "old".to_owned(),
        read_only: false,
        squash: None,
        days: 1,
        addresses: Vec::new(),
    };
    let authority = keys.authority(None).unwrap();
    let day = std::time::Duration::from_secs(86_400);
    let ago = std::time::SystemTime::now() - 2 * day;
    let path = open.path("old.pem");
    authority.issue_at(&wanted, ago.into()).unwrap().write(&path).unwrap();
    open.refused(path.to_str().unwrap(), "expired");
    authority.issue_at(&wanted, (ago + 4 * day).into()).unwrap().write(&path).unwrap();
    open.refused(path.to_str().unwrap(), "key");
}

#[test]
fn a_key_is_found_where_keys_are_kept() {
    let open = Open::new();
    let config = open.path("config");
    fs::create_dir_all(config.join("pando")).unwrap();
    let status = |name: &str, value: &Path| -> Output {
        let mut command = pando_within(60);
        let home = open.path("home");
        command.env("HOME", home).env_remove("XDG_CONFIG_HOME").env_remove("PANDO_KEY");
        command.args(["status", &open.address]).env(name, value).output().unwrap()
    };
    let output = status("XDG_CONFIG_HOME", &config);
    assert!(all(&output).contains("a key is needed"), "{}", all(&output));
    let ada = open.to_file(&["add", "ada"], "config/pando/ada.pem");
    for (name, value) in [("XDG_CONFIG_HOME", config.as_path()), ("PANDO_KEY", Path::new(&ada))] {
        let output = status(name, value);
        assert!(output.status.success(), "{name}: {}", all(&output));
    }
    open.to_file(&["add", "bob"], "config/pando/bob.pem");
    let output = status("XDG_CONFIG_HOME", &config);
    assert!(all(&output).contains("several keys") && all(&output).contains("bob.pem"));
}

/// Servers do not need the authority's key. A server in another folder brings its own key.
#[test]
fn a_server_with_a_folder_of_its_own_comes_with_a_key_and_takes_a_shard() {
    let mut open = Open::new();
    let host2 = open.to_file(&["add", "host2", "--role", "server"], "host2.pem");
    let ada = open.to_file(&["add", "ada"], "ada.pem");
    let bob = open.to_file(&["add", "bob"], "bob.pem");
    fs::remove_file(open.site.folder.join("keys/ca.key")).unwrap();
    let of_ada = open.mount(&ada);
    let there = open.path("there");
    let start = |key: &str| {
        let mut command = pando_within(60);
        command.arg("server").arg(&there).args(["--shard", "all", "--join", &open.address]);
        command.args(["--listen", "127.0.0.1:0", "-d", "--json", "--key", key]).output().unwrap()
    };
    // A client's key does not make a server.
    let refused = start(&ada);
    assert!(!refused.status.success(), "{}", all(&refused));
    let output = start(&host2);
    assert!(output.status.success(), "{}", all(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = i32::try_from(said["pid"].as_i64().unwrap()).unwrap();
    open.site.processes.push(Pid::from_raw(pid).unwrap());
    let addresses = said["addresses"].as_array().unwrap().iter();
    let mut addresses = addresses.map(|address| address.as_str().unwrap());
    let to = addresses.find(|address| !address.starts_with("unix:")).unwrap();
    for (key, may) in
        [(ada.as_str(), false), (&format!("{}/keys/admin.pem", open.site.folder.display()), true)]
    {
        let mut command = pando_within(60);
        let output =
            command.args(["shard", "move", "1", "--to", to, "--key", key]).output().unwrap();
        assert_eq!(output.status.success(), may, "{}", all(&output));
    }
    // So many that some are on the shard that was moved: each is on one of four.
    const DIRS: usize = 64;
    for number in 0..DIRS {
        let dir = open.site.at(of_ada, &format!("dir-{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("file"), "text").unwrap();
    }
    let mut list = pando();
    let list = list.args(["auth", "list", "--volume"]).arg(&there).output().unwrap();
    assert!(all(&list).contains("keys of one server only"), "{}", all(&list));
    // The server hears of revocations where the volume's keys are.
    open.done(&["revoke", "ada"]);
    open.is_cut_off(of_ada);
    open.refused(&ada, "revoked");
    // A mount hears from the other server that this one's key is revoked, and leaves it.
    let of_bob = open.mount(&bob);
    let looked =
        |number: usize| fs::metadata(open.site.at(of_bob, &format!("dir-{number}/file"))).map(drop);
    // The mount that was cut off may use what was lent to it for some seconds.
    until("its directories are free", || (0..DIRS).all(|number| looked(number).is_ok()));
    open.done(&["revoke", "host2"]);
    until("the mount leaves the server", || {
        (0..DIRS).any(|number| looked(number).is_err_and(is_timeout))
    });
}
