//! Users of a mount with a key that squashes root. Other users read, write and list as anywhere,
//! and root may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::coming::Open;
use crate::common::all;

const ANN: u32 = 1001;
const BOB: u32 = 1002;
const GROUP: u32 = 2001;

/// Runs a function of `squash.py` as a user, who is also in these groups.
fn act(what: &str, at: &Path, user: u32, groups: &[u32]) {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("squash.py"), what]).arg(at);
    command.arg(user.to_string()).args(groups.iter().map(u32::to_string));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{what} by {user}: {}", all(&output));
}

#[test]
fn where_root_is_nobody_others_work_as_anywhere_and_root_may_not() {
    let mut open = Open::new();
    fs::set_permissions(open.site.scratch(), PermissionsExt::from_mode(0o755)).unwrap();
    let ada = open.to_file(&["add", "ada"], "ada.pem");
    let guest = open.to_file(&["add", "guest", "--squash", "root"], "guest.pem");
    let trusted = open.mount(&ada);
    let [first, second] = [open.mount(&guest), open.mount(&guest)];
    let (first, second) = (open.site.at(first, ""), open.site.at(second, ""));
    for (name, mode, uid, gid) in [("open", 0o1777, 0, 0), ("shared", 0o770, 0, GROUP)] {
        let path = open.site.at(trusted, name);
        fs::create_dir(&path).unwrap();
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let file = open.site.at(trusted, "shared/file");
    fs::write(&file, "text").unwrap();
    chown(&file, Some(0), Some(GROUP)).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o660)).unwrap();
    let root = open.site.at(trusted, "");
    fs::set_permissions(&root, PermissionsExt::from_mode(0o777)).unwrap();

    act("works", &first, ANN, &[]);
    act("reads", &second, ANN, &[]);
    act("locks", &second, ANN, &[]);
    act("shares", &second, BOB, &[GROUP]);
    act("holds", &first, ANN, &[]);
    for user in [0, BOB] {
        for at in [&first, &second] {
            act("may_not", at, user, &[]);
        }
    }
    // Where every user is squashed to Ann, root is, too.
    let as_ann = format!("all:{ANN}:{ANN}");
    let all = open.to_file(&["add", "all", "--squash", &as_ann], "all.pem");
    let all = open.mount(&all);
    let all = open.site.at(all, "");
    act("locks", &all, 0, &[]);
    // Users of the mount with the trusted key are refused nothing.
    assert_eq!(fs::read(open.site.at(trusted, "shared/file")).unwrap(), b"text more");
    assert_eq!(fs::read_dir(open.site.at(trusted, "own")).unwrap().count(), 304);
}
