//! The units of systemd: that they are sound, how much they close off, and that the program works
//! with the rights that they leave.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::site::Site;
use crate::common::{USER, all, is_mounted, pando, shell};
use crate::manager::{Manager, Service};

const PROGRAM: &str = "/usr/bin/pando";
const UNITS: [&str; 2] = ["pando-server@.service", "pando-mount@.service"];

/// What gives a service a mount namespace of its own, by systemd.exec(5).
const GIVES_NAMESPACE: [&str; 37] = [
    "BindPaths",
    "BindReadOnlyPaths",
    "DynamicUser",
    "ExecPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "InaccessiblePaths",
    "IPCNamespacePath",
    "JoinsNamespaceOf",
    "LoadCredential",
    "LoadCredentialEncrypted",
    "LogNamespace",
    "MountAPIVFS",
    "MountFlags",
    "MountImages",
    "NetworkNamespacePath",
    "NoExecPaths",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivateTmp",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RootDirectory",
    "RootImage",
    "SetCredential",
    "TemporaryFileSystem",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd")
}

/// Lines `KEY=VALUE` of a unit or an environment.
fn lines(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with(['#', '[']));
    lines.filter_map(|line| line.split_once('=')).collect()
}

fn unit(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// Runs `systemd-analyze` on a unit that names the program under test.
fn analyze(arguments: &[&str], name: &str) -> Output {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(name);
    fs::write(&path, unit(name).replace(PROGRAM, env!("CARGO_BIN_EXE_pando"))).unwrap();
    let output = Command::new("systemd-analyze").args(arguments).arg(path).output();
    output.expect("the package systemd is needed, which ./test installs")
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    for name in UNITS {
        let output = analyze(&["verify", "--man=no", "--recursive-errors=no"], name);
        assert!(output.status.success(), "{name}: {}", all(&output));
        // Faults of the machine's own units are told, too.
        assert!(!all(&output).contains("pando"), "{name}: {}", all(&output));
    }
}

#[test]
fn services_have_few_rights() {
    // Of a hundred. A service without any limits has 96.
    for (name, most) in UNITS.into_iter().zip(["25", "50"]) {
        let threshold = format!("--threshold={most}");
        let output = analyze(&["security", "--no-pager", "--offline=true", &threshold], name);
        assert!(output.status.success(), "{name}: {}", all(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Overall exposure level"), "{said}");
    }
}

#[test]
fn a_mount_has_no_mount_namespace_that_would_hide_it() {
    let text = unit("pando-mount@.service");
    for (key, _) in lines(&text) {
        assert!(!GIVES_NAMESPACE.contains(&key), "{key} would hide the mount");
    }
    assert!(lines(&text).contains(&("DeviceAllow", "/dev/fuse rw")));
}

#[test]
fn what_units_read_from_the_environment_is_in_the_example() {
    let example = fs::read_to_string(folder().join("example.env")).unwrap();
    let known: Vec<_> = lines(&example).into_iter().map(|(name, _)| name).collect();
    let mut read = Vec::new();
    for name in UNITS {
        let text = unit(name);
        let (_, start) = lines(&text).into_iter().find(|(key, _)| *key == "ExecStart").unwrap();
        let variables = start.split(' ').filter_map(|word| word.strip_prefix('$'));
        read.extend(variables.map(|name| name.trim_matches(['{', '}']).to_owned()));
    }
    read.sort();
    let mut known = known;
    known.sort_unstable();
    assert_eq!(read, known);
}

/// The command of a unit, with the capabilities that the unit leaves.
fn command_of(name: &str, environment: &[(&str, &str)]) -> Command {
    let text = unit(name);
    let all: HashMap<_, _> = lines(&text).into_iter().collect();
    let left = all["CapabilityBoundingSet"].split(' ').map(|name| name.strip_prefix("CAP_"));
    let left: Vec<_> = left.map(|name| format!("+{}", name.unwrap().to_lowercase())).collect();
    let mut command = Command::new("setpriv");
    command.arg(format!("--bounding-set=-all,{}", left.join(",")));
    command.args(["--inh-caps=-all", "--no-new-privs", "--"]);
    let own = pando();
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap());
    }
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).unwrap().1;
    let mut words = all["ExecStart"].split(' ');
    assert_eq!(words.next(), Some(PROGRAM));
    command.arg(own.get_program());
    for word in words {
        // As systemd does: with braces one word, without braces as many as there are.
        match word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => command.arg(value(name)),
            None => match word.strip_prefix('$') {
                Some(name) => command.args(value(name).split_ascii_whitespace()),
                None => command.arg(word),
            },
        };
    }
    command
}

#[test]
fn servers_and_mounts_work_with_the_capabilities_of_their_units() {
    let mut site = Site::new(&[], &[]);
    let folder = site.folder.to_str().unwrap().to_owned();
    let tree = site.scratch().join("tree");
    let (served, mounted) = (site.scratch().join("served"), site.scratch().join("mounted"));
    fs::create_dir(&served).unwrap();
    fs::create_dir(&mounted).unwrap();
    let (served, mounted) = (Manager::at_path(&served), Manager::at_path(&mounted));
    let server: Service = served.start(command_of(
        UNITS[0],
        &[
            ("PANDO_FOLDER", &folder),
            ("PANDO_SHARDS", "all"),
            ("PANDO_SERVER_OPTIONS", "--listen 127.0.0.1:0 --metrics 0"),
        ],
    ));
    server.begins(&served, "shards 0,1,2,3 of");
    site.mounts.push(tree.clone());
    let mount: Service = mounted.start(command_of(
        UNITS[1],
        &[
            ("PANDO_SOURCE", &folder),
            ("PANDO_MOUNTPOINT", tree.to_str().unwrap()),
            ("PANDO_MOUNT_OPTIONS", ""),
        ],
    ));
    mount.begins(&mounted, "is mounted at");
    // What needs rights in a mount: files of other users, programs that leave their rights behind.
    let script = "mkdir -m 1777 d && head -c 3000000 /dev/zero > d/root && chown";
    shell(&tree, &format!("{script} {USER}:{USER} d/root"));
    let user = format!("--reuid={USER} --regid={USER} --clear-groups");
    let script = format!("setpriv {user} sh -c 'cat d/root > d/user && mkdir d/e && rm d/root'");
    shell(&tree, &script);
    assert_eq!(fs::metadata(tree.join("d/user")).unwrap().len(), 3_000_000);
    assert!(!tree.join("d/root").exists());
    mount.ends(&mounted);
    assert!(!is_mounted(&tree));
    server.ends(&served);
}
