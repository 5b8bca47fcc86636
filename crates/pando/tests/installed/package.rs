//! What goes into the Debian package, as `crates/pando/Cargo.toml` lists it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::all;

/// Sources and destinations.
fn assets() -> Vec<(String, String)> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap().iter();
    let pando = packages.into_iter().find(|package| package["name"] == "pando").unwrap();
    let assets = pando["metadata"]["deb"]["assets"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assets.map(|asset| (text(&asset[0]), text(&asset[1]))).collect()
}

#[test]
fn what_the_package_takes_from_the_tree_is_there() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let assets = assets();
    let from_tree = |source: &&str| !source.contains("target/");
    let mut found = 0;
    for source in assets.iter().map(|(source, _)| source.as_str()).filter(from_tree) {
        let (folder, name) = source.rsplit_once('/').unwrap();
        let ending = name.strip_prefix('*');
        let entries = fs::read_dir(tree.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_meant = |entry: &String| match ending {
            Some(ending) => entry.ends_with(ending),
            None => entry == name,
        };
        assert!(names.filter(is_meant).count() > 0, "{source} is not there");
        found += 1;
    }
    assert!(found > 4, "{assets:?}");
}

#[test]
fn the_package_puts_things_where_the_system_looks() {
    let assets = assets();
    let at = |source: &str| {
        let found = assets.iter().find(|(from, _)| from.ends_with(source));
        found.unwrap_or_else(|| panic!("{source} is not in the package")).1.as_str()
    };
    for (source, destination) in [
        ("release/pando", "usr/bin/"),
        ("sbin/mount.pando", "usr/sbin/"),
        ("sbin/umount.fuse.pando", "usr/sbin/"),
        ("systemd/*.service", "usr/lib/systemd/system/"),
        ("man/*.1.gz", "usr/share/man/man1/"),
        ("man/*.8.gz", "usr/share/man/man8/"),
        ("completions/pando", "usr/share/bash-completion/completions/"),
    ] {
        assert_eq!(at(source), destination);
    }
    // What `scripts/package` makes, and what the package takes, go by one list of folders.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package");
    let script = fs::read_to_string(script).unwrap();
    for (source, _) in assets.iter().filter(|(source, _)| source.contains("target/package/")) {
        let (_, made) = source.split_once("target/package/").unwrap();
        let (folder, name) = made.split_once('/').unwrap();
        assert!(script.contains(&format!("$made/{folder}")), "{source} is not made");
        let is_named = name.starts_with('*') || script.contains(name);
        assert!(is_named, "{source} is not made");
    }
}
