//! Dead mounts of users other than root: the helper removes them.

use std::fs::{self, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};

use rustix::mount::{MountFlags, mount};

use crate::common::{Scratch, USER, all, as_user, is_mounted};

/// Where another user may not run the program, this is not tested. The helper is a script that
/// notes its arguments, since the real one is setuid root.
#[test]
fn a_dead_mount_is_cleared_by_the_helper() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let [dead, run, programs] = ["dead", "run", "programs"].map(|name| scratch.path().join(name));
    for folder in [&dead, &run, &programs] {
        fs::create_dir(folder).unwrap();
        chown(folder, Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(&run, Permissions::from_mode(0o700)).unwrap();
    let helper = programs.join("fusermount3");
    let told = run.join("told");
    fs::write(&helper, format!("#!/bin/sh\necho \"$@\" >> {}\n", told.display())).unwrap();
    fs::set_permissions(&helper, Permissions::from_mode(0o755)).unwrap();

    let channel = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let data = format!("fd={},rootmode=40000,user_id={USER},group_id={USER}", channel.as_raw_fd());
    let data = std::ffi::CString::new(data).unwrap();
    let source = format!("pando:{}", scratch.path().join("none").display());
    mount(source, &dead, "fuse", MountFlags::empty(), data.as_c_str()).unwrap();
    drop(channel);

    let Some(as_user) = as_user(&run) else { return };
    let shown = dead.to_str().unwrap();
    let with_helper = format!("{}:/usr/bin:/bin", programs.display());
    for (extra, flags) in [(&[][..], "-u -q"), (&["--force"], "-u -q -z")] {
        let arguments = [&["umount", shown][..], extra].concat();
        let output = as_user(&with_helper, &arguments);
        assert!(output.status.success(), "{}", all(&output));
        let said = fs::read_to_string(&told).unwrap();
        assert_eq!(said, format!("{flags} -- {shown}\n"));
        fs::remove_file(&told).unwrap();
    }
    // Without a helper, the message says what to do.
    let output = as_user("/nonexistent", &["umount", shown]);
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    for word in ["install fuse3", &format!("umount -l {shown}")] {
        assert!(all(&output).contains(word), "{}", all(&output));
    }
    assert!(is_mounted(&dead));
}
