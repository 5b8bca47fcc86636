//! `pando server` that cannot listen at an address. It says why, and the volume is as free as
//! before.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pando_keys::KeyRole;

use crate::common::site::{Site, until};
use crate::common::{Scratch, pando_within};
use crate::words::{Stranger, nobody, processes_with};
use crate::{assert_said, key};

#[test]
fn a_server_that_cannot_listen_ends_says_why_and_lets_go_of_its_shards() {
    let mut site = Site::new(&[], &[]);
    let taken = Stranger::silent();
    let [open, missing, client] =
        ["open.pem", "missing.pem", "client.pem"].map(|name| site.scratch().join(name));
    key(&site.folder, KeyRole::Server, &open);
    fs::set_permissions(&open, Permissions::from_mode(0o604)).unwrap();
    key(&site.folder, KeyRole::Client, &client);
    let other = Site::new(&[], &[]);
    let theirs = other.folder.join("keys/server.pem");
    let [open, missing, client, theirs] =
        [&open, &missing, &client, &theirs].map(|path| path.to_str().unwrap());
    let cases: [(&[&str], i32, &[&str]); 7] = [
        (&["--listen", &taken.address], 4, &[&taken.address, "in use", "Name another address"]),
        (&["--listen", "0.0.0.0:0"], 1, &["--advertise HOST:PORT"]),
        // No machine has this address: it is reserved for examples.
        (&["--listen", "192.0.2.1:0"], 1, &["192.0.2.1:0 is not an address of this machine"]),
        (&["--listen", "127.0.0.1:0", "--key", open], 1, &[open, "chmod 600"]),
        (&["--listen", "127.0.0.1:0", "--key", missing], 1, &[missing, "No such file"]),
        (&["--listen", "127.0.0.1:0", "--key", client], 1, &["--role server"]),
        (&["--listen", "127.0.0.1:0", "--key", theirs], 1, &[theirs, "is a key of volume"]),
    ];
    for (extra, code, words) in cases {
        for detach in [&[][..], &["-d"]] {
            let mut command = pando_within(60);
            command.arg("server").arg(&site.folder).args(["--shard", "all"]);
            let output = command.args(extra).args(detach).output().unwrap();
            assert_said(&output, code, words);
        }
    }
    until("no process is left behind", || processes_with(&site.folder).is_empty());
    // Without keys the server listens only on this machine's Unix sockets.
    let (keys, away) = (site.folder.join("keys"), site.scratch().join("keys"));
    fs::rename(&keys, &away).unwrap();
    let mut command = pando_within(60);
    command.arg("server").arg(&site.folder).args(["--shard", "all", "--listen", "127.0.0.1:0"]);
    assert_said(&command.output().unwrap(), 1, &["127.0.0.1:0", "--key", "pando auth init"]);
    fs::rename(&away, &keys).unwrap();
    site.serve("all", &["--listen", "127.0.0.1:0"]);
    site.mount(&[]);
    fs::write(site.at(0, "file"), "text").unwrap();
}

#[test]
fn a_folder_does_not_become_one_of_a_volume_whose_server_is_none() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("new");
    let (ssh, silent, nobody) = (Stranger::ssh(), Stranger::silent(), nobody());
    let site = Site::new(&[], &[]);
    let key = site.folder.join("keys/server.pem");
    for address in [&ssh.address, &silent.address, &nobody] {
        let mut command = pando_within(60);
        command.arg("server").arg(&folder).args(["--shard", "all", "--join", address.as_str()]);
        command.arg("--key").arg(&key);
        assert_said(&command.output().unwrap(), 3, &[address, "see that it runs"]);
        assert!(!folder.join("superblock").exists());
    }
}
