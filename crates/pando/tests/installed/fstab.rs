//! Lines of fstab, as mount(8) reads them.

use std::fs;

use crate::common::all;
use crate::stage::Stage;

/// Writes a table of mounts with one line for the volume. Returns its path.
fn table(stage: &Stage, source: &str, options: &str) -> String {
    let path = stage.site.scratch().join("fstab");
    let line = format!("{source} {} pando {options} 0 0\n", stage.dir.display());
    fs::write(&path, line).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_line_of_fstab_is_mounted_by_its_folder() {
    let stage = Stage::new();
    let key = stage.key();
    let options = format!("noauto,nofail,_netdev,user,key={},ro", key.display());
    let table = table(&stage, &stage.site.tcp(), &options);
    stage.quietly("mount", &["-T", &table, stage.dir.to_str().unwrap()]);
    let listed = stage.listed().unwrap();
    // `user` keeps programs from being run, too.
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(listed.split(',').any(|listed| listed == option), "no {option} in {listed}");
    }
    assert_eq!(stage.shell("ls -A \"$1\""), "");
}

#[test]
fn all_of_fstab_is_mounted_and_no_line_twice() {
    let stage = Stage::new();
    let source = format!("pando:{}", stage.site.folder.display());
    let table = table(&stage, &source, "defaults,x-systemd.requires=network-online.target");
    for _ in 0..2 {
        stage.quietly("mount", &["-a", "-T", &table]);
        assert!(stage.listed().is_some());
    }
    stage.shell("echo text > \"$1/file\"; test \"$(cat \"$1/file\")\" = text");
    stage.quietly("umount", &[&stage.dir]);
    assert_eq!(stage.listed(), None);
    let output = stage.run("mount", &["-a", "-f", "-T", &table]);
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(stage.listed(), None);
}
