//! `pando auth` of a volume that need not run.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Scratch, Volume, all, pando};
use pando_keys::{Bundle, KeyRole, Squash};
use serde_json::Value;

/// A formatted volume that does not run.
struct Formatted {
    folder: PathBuf,
    scratch: Scratch,
}

impl Formatted {
    fn new() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("volume");
        let made = pando().arg("format").arg(&folder).args(["--shards", "1"]).output().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        Self { folder, scratch }
    }

    fn key(&self, name: &str) -> PathBuf {
        self.folder.join("keys").join(name)
    }

    /// Runs `pando auth …` for this volume.
    fn auth(&self, words: &[&str]) -> Output {
        pando().arg("auth").args(words).arg("--volume").arg(&self.folder).output().unwrap()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.auth(words);
        assert!(output.status.success(), "{}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str], said: &[&str]) {
        let output = self.auth(words);
        assert!(!output.status.success(), "{words:?}");
        for said in said {
            assert!(all(&output).contains(said), "{words:?}: {}", all(&output));
        }
        assert!(!all(&output).contains("PRIVATE KEY"));
    }

    /// Runs a command with its output in a file, as a shell does for `> FILE` with the usual umask.
    fn to_file(&self, words: &[&str], name: &str) -> Bundle {
        let path = self.scratch.path().join(name);
        let file = File::options().write(true).create(true).truncate(true).mode(0o644).open(&path);
        let mut command = pando();
        command.arg("auth").args(words).arg("--volume").arg(&self.folder).stdout(file.unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        Bundle::read(&path).unwrap()
    }

    fn list(&self, more: &[&str]) -> Vec<Value> {
        let json = self.done(&[&["list", "--json"], more].concat());
        let list: Value = serde_json::from_str(&json).unwrap();
        list["keys"].as_array().unwrap().clone()
    }

    fn names(&self, more: &[&str]) -> Vec<String> {
        self.list(more).iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_new_volume_has_keys_and_an_old_one_is_told_how_to_get_them() {
    let volume = Formatted::new();
    assert_eq!(mode(&volume.folder.join("keys")), 0o700);
    for file in ["ca.crt", "ca.key", "server.pem", "admin.pem", "issued", "revoked"] {
        assert_eq!(mode(&volume.key(file)), 0o600, "{file}");
    }
    assert_eq!(volume.names(&[]), ["server", "admin"]);
    fs::remove_dir_all(volume.folder.join("keys")).unwrap();
    let init = format!("pando auth init {}", volume.folder.display());
    for words in
        [&["add", "ada"][..], &["list"], &["revoke", "ada"], &["renew", "ada"], &["rotate"]]
    {
        volume.refused(words, &["has no keys yet", &init]);
    }
    let init = || pando().args(["auth", "init"]).arg(&volume.folder).output().unwrap();
    assert!(init().status.success());
    assert_eq!(volume.names(&[]), ["server", "admin"]);
    let again = init();
    assert!(!again.status.success() && all(&again).contains("has its keys already"));
    // There is no volume at all.
    let output =
        pando().args(["auth", "list"]).current_dir(volume.scratch.path()).output().unwrap();
    assert!(all(&output).contains("--volume FOLDER"), "{}", all(&output));
}

#[test]
fn a_volume_that_up_makes_has_keys() {
    let mut volume = Volume::up(&[]);
    assert_eq!(mode(&volume.folder.join("keys")), 0o700);
    let mut list = pando();
    let list = list.args(["auth", "list", "--json"]).current_dir(&volume.folder).output().unwrap();
    assert!(all(&list).contains("\"admin\""), "{}", all(&list));
    volume.stop();
}

#[test]
fn a_key_says_what_was_asked_for() {
    let volume = Formatted::new();
    let ada = volume.to_file(&["add", "ada"], "ada.pem");
    assert_eq!((ada.identity.role, ada.identity.read_only), (KeyRole::Client, false));
    assert_eq!((ada.identity.name.as_str(), ada.identity.squash), ("ada", None));
    let words =
        ["add", "g", "--ro", "--squash", "all:5:6", "--address", "h:1", "--address", "[::1]:2"];
    let guest = volume.to_file(&words, "guest.pem");
    assert!(guest.identity.read_only);
    assert_eq!(guest.identity.squash, Some(Squash::All { uid: 5, gid: 6 }));
    assert_eq!(guest.addresses, ["h:1", "[::1]:2"]);
    let build = volume.to_file(&["add", "b", "--squash", "root"], "build.pem");
    assert_eq!(build.identity.squash, Some(Squash::Root { uid: 65_534, gid: 65_534 }));
    let host = volume.to_file(&["add", "host2", "--role", "server"], "host2.pem");
    assert_eq!(host.identity.role, KeyRole::Server);
    assert_eq!(volume.names(&[]), ["server", "admin", "ada", "g", "b", "host2"]);
    let table = volume.done(&["list"]);
    assert!(table.contains("ro,all:5:6") && table.contains(&guest.identity.serial.to_string()));
}

#[test]
fn what_cannot_be_issued_is_refused_and_nothing_remembered() {
    let volume = Formatted::new();
    volume.done(&["add", "ada"]);
    for (words, said) in [
        (&["add", "ada"][..], "pando auth renew ada"),
        (&["add", "a/b"], "A-Z a-z 0-9"),
        (&["add", ""], "A-Z a-z 0-9"),
        (&["add", "x", "--role", "root"], "client, admin or server"),
        (&["add", "x", "--role", "admin", "--ro"], "cannot be read-only"),
        (&["add", "x", "--role", "server", "--squash", "root"], "cannot be read-only or squashed"),
        (&["add", "x", "--squash", "all"], "all:UID:GID"),
        (&["add", "x", "--squash", "all:4294967295:1"], "all:UID:GID"),
        (&["add", "x", "--days", "0"], "--days"),
        (&["add", "x", "--address", "nowhere"], "HOST:PORT"),
        (&["renew", "bob"], "no valid key `bob`"),
        (&["revoke", "bob"], "no valid key `bob`"),
        (&["rotate", "--finish"], "has one authority"),
        (&["rotate", "--force"], "--finish"),
    ] {
        volume.refused(words, &[said]);
    }
    assert_eq!(volume.names(&["--all"]), ["server", "admin", "ada"]);
}

/// A process that opened the shell's file while every user could reads nothing.
#[test]
fn a_key_is_written_where_no_other_user_reads_it() {
    let volume = Formatted::new();
    let path = volume.scratch.path().join("ada.pem");
    let file =
        File::options().write(true).create(true).truncate(true).mode(0o644).open(&path).unwrap();
    let early = File::open(&path).unwrap();
    let mut command = pando();
    command.args(["auth", "add", "ada", "--volume"]).arg(&volume.folder).stdout(file);
    assert!(command.status().unwrap().success());
    assert_eq!(std::io::read_to_string(early).unwrap(), "");
    assert_eq!(mode(&path), 0o600);
    Bundle::read(&path).unwrap();
    // A file that is not empty has an owner already: it is not written.
    let file = File::options().append(true).open(&path).unwrap();
    let mut command = pando();
    command.args(["auth", "add", "bob", "--volume"]).arg(&volume.folder).stdout(file);
    let output = command.output().unwrap();
    assert!(!output.status.success() && all(&output).contains("not empty"), "{}", all(&output));
    // If the key cannot be written, the error names the command that issues another.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = pando();
    command.args(["auth", "renew", "ada", "--volume"]).arg(&volume.folder).stdout(full);
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", all(&output));
    assert!(all(&output).contains("`pando auth renew ada` issues another"), "{}", all(&output));
    // A key is not shown on a terminal.
    let line = format!(
        "{} auth add bob --volume {}",
        env!("CARGO_BIN_EXE_pando"),
        volume.folder.display()
    );
    let mut script = std::process::Command::new("script");
    let output = script.args(["-qec", &line, "/dev/null"]).output().unwrap();
    assert!(all(&output).contains("not shown on a terminal"), "{}", all(&output));
    assert!(!all(&output).contains("PRIVATE KEY"));
    assert_eq!(volume.names(&["--all"]), ["server", "admin", "ada", "ada"]);
}

#[test]
fn what_is_renewed_is_the_same_and_what_is_revoked_is_not() {
    let volume = Formatted::new();
    let words = ["add", "ada", "--ro", "--squash", "root:7:8", "--address", "h:1"];
    let old = volume.to_file(&words, "old.pem");
    let new = volume.to_file(&["renew", "ada", "--days", "9"], "new.pem");
    assert_eq!(new.identity.key, old.identity.key);
    assert_ne!(new.identity.serial, old.identity.serial);
    assert_eq!((new.identity.read_only, new.identity.squash), (true, old.identity.squash));
    assert_eq!(new.addresses, old.addresses);
    let states = |volume: &Formatted| -> Vec<(String, bool)> {
        let ada = volume.list(&["--all"]).into_iter().filter(|row| row["name"] == "ada");
        let state = |row: Value| {
            (row["state"].as_str().unwrap().to_owned(), row["renewed"].as_bool().unwrap())
        };
        ada.map(state).collect()
    };
    let state = |state: &str, renewed| (state.to_owned(), renewed);
    assert_eq!(states(&volume), [state("valid", true), state("valid", false)]);
    let said = volume.done(&["revoke", &old.identity.serial.to_string()]);
    assert!(said.contains("ada") && said.contains(&old.identity.serial.to_string()), "{said}");
    assert_eq!(states(&volume), [state("revoked", true), state("valid", false)]);
    volume.done(&["revoke", "ada"]);
    assert_eq!(states(&volume), [state("revoked", true), state("revoked", false)]);
    volume.refused(&["renew", "ada"], &["no valid key"]);
    let other = volume.to_file(&["add", "ada"], "other.pem");
    assert_ne!(other.identity.key, old.identity.key);
    assert_eq!(volume.names(&[]), ["server", "admin", "ada"]);
}

#[test]
fn the_volumes_own_keys_are_renewed_in_their_files() {
    let volume = Formatted::new();
    for name in ["server", "admin"] {
        let path = volume.key(&format!("{name}.pem"));
        let old = Bundle::read(&path).unwrap();
        let said = volume.done(&["renew", name]);
        assert!(said.contains(path.to_str().unwrap()) && !said.contains("PRIVATE"), "{said}");
        let new = Bundle::read(&path).unwrap();
        assert_eq!(new.identity.key, old.identity.key);
        assert_ne!(new.identity.serial, old.identity.serial);
    }
}

#[test]
fn the_authoritys_key_may_go_offline() {
    let volume = Formatted::new();
    let offline = volume.scratch.path().join("offline");
    fs::rename(volume.key("ca.key"), &offline).unwrap();
    for words in [&["add", "ada"][..], &["renew", "server"], &["rotate"]] {
        volume.refused(words, &["ca.key", "--ca FILE"]);
    }
    let ca = offline.to_str().unwrap();
    volume.done(&["add", "ada", "--ca", ca]);
    // These commands work without the authority's key.
    assert_eq!(volume.names(&[]), ["server", "admin", "ada"]);
    volume.done(&["revoke", "ada"]);
    let other = Formatted::new();
    let wrong = other.key("ca.key");
    volume.refused(
        &["add", "bob", "--ca", wrong.to_str().unwrap()],
        &["not the key of the authority"],
    );
    volume.done(&["rotate", "--ca", ca]);
    assert!(!volume.key("ca.key").exists());
    volume.done(&["add", "bob", "--ca", ca]);
}

#[test]
fn an_authority_ends_when_no_key_needs_it() {
    let volume = Formatted::new();
    let old = volume.to_file(&["add", "ada"], "ada.pem");
    let said = volume.done(&["rotate"]);
    assert!(said.contains("auth renew") && said.contains("--finish"), "{said}");
    volume.refused(&["rotate"], &["two authorities already"]);
    volume.refused(&["rotate", "--finish"], &["old authority only: ada;", "--force"]);
    let new = volume.to_file(&["renew", "ada"], "ada2.pem");
    assert_eq!(new.identity.key, old.identity.key);
    let said = volume.done(&["rotate", "--finish"]);
    assert!(said.contains(&old.identity.serial.to_string()), "{said}");
    let ended = volume.list(&["--all"]);
    let row = ended.iter().find(|row| row["serial"] == old.identity.serial.to_string()).unwrap();
    assert_eq!(row["state"], "ended");
    assert_eq!(volume.names(&[]).len(), 3);
    volume.done(&["rotate"]);
    let said = volume.done(&["rotate", "--finish", "--force"]);
    assert!(said.contains("`ada`"), "{said}");
    assert_eq!(volume.names(&[]), ["server", "admin"]);
}

#[test]
fn what_others_may_write_decides_nothing() {
    let volume = Formatted::new();
    for file in ["ca.crt", "revoked", "issued"] {
        let path = volume.key(file);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        volume.refused(&["list"], &[path.to_str().unwrap(), "chmod go-w"]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::set_permissions(volume.key("ca.key"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(volume.key("ca.key"), Some(65_534), None).unwrap();
    volume.refused(&["add", "ada"], &["ca.key", "chmod 600"]);
}
