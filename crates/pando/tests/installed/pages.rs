//! Pages of the manual, and completions of the command line.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::{Scratch, all, pando};

/// The names of the commands that a help lists.
fn listed(words: &[&str]) -> Vec<String> {
    let output = pando().args(words).arg("-h").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let help = String::from_utf8(output.stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    // Further lines of a command's summary stand further to the right.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn each_command_and_helper_has_a_page_that_groff_can_read() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("new/man");
    let output = pando().arg("man").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let mut expected = BTreeSet::new();
    expected.extend(["pando.1", "mount.pando.8", "umount.fuse.pando.8"].map(str::to_owned));
    for command in listed(&[]) {
        expected
            .extend(listed(&[&command]).iter().map(|inner| format!("pando-{command}-{inner}.1")));
        expected.insert(format!("pando-{command}.1"));
    }
    for known in ["pando-mount.1", "pando-shard-add.1", "pando-completions.1"] {
        assert!(expected.contains(known), "{expected:?}");
    }
    let written = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let written: BTreeSet<_> = written.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(written, expected);
    for name in written {
        let mut command = Command::new("groff");
        command.args(["-man", "-Kutf8", "-Tutf8", "-P-cbou", "-ww"]).arg(folder.join(&name));
        let output =
            command.output().expect("the package groff-base is needed: ./test installs it");
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", all(&output));
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("SYNOPSIS") && shown.contains("OPTIONS"), "{name}: {shown}");
        let page = fs::read_to_string(folder.join(&name)).unwrap();
        assert!(!page.contains("\\-\\-background"), "{name} has a hidden option");
    }
}

#[test]
fn pages_have_examples_and_exit_codes() {
    let scratch = Scratch::new();
    assert!(pando().arg("man").arg(scratch.path()).status().unwrap().success());
    let page = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap();
    for (name, words) in [
        ("pando.1", &[".SH \"EXIT CODES\"", ".SH \"EXAMPLES\"", "the volume is not running"][..]),
        ("pando-mount.1", &[".SH \"EXAMPLES\"", "pando mount ~/volume ~/tree \\-d"]),
        (
            "mount.pando.8",
            &["mount \\-t pando", ".SH \"A LINE OF /ETC/FSTAB\"", ".TH mount.pando 8"],
        ),
        ("umount.fuse.pando.8", &[".SH \"EXIT CODES\""]),
    ] {
        let page = page(name);
        for word in words {
            assert!(page.contains(word), "no {word} in {name}: {page}");
        }
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let output = pando().arg("man").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(all(&output).contains(file.to_str().unwrap()), "{}", all(&output));
}

#[test]
fn bash_completes_commands_and_their_flags() {
    let scratch = Scratch::new();
    let script = scratch.path().join("pando.bash");
    let output = pando().args(["completions", "bash"]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    fs::write(&script, output.stdout).unwrap();
    let bash = |arguments: &[&str]| {
        let output = Command::new("bash").args(arguments).arg(&script).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    bash(&["-n"]);
    let completed = |words: &str, last: &str| {
        let ask = format!(
            ". \"$0\"; COMP_WORDS=({words} {last}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _pando pando {last} x; echo \"${{COMPREPLY[@]}}\""
        );
        bash(&["-c", &ask])
    };
    assert_eq!(completed("pando", "mou").trim(), "mount");
    assert_eq!(completed("pando mount", "--sync").trim(), "--sync-metadata");
    assert_eq!(completed("pando shard", "mo").trim(), "move");
}

#[test]
fn each_shell_has_completions_of_what_help_shows_and_unknown_ones_an_error() {
    for (shell, word) in
        [("bash", "complete -F _pando"), ("zsh", "#compdef pando"), ("fish", "complete -c pando")]
    {
        let output = pando().args(["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains(word) && script.contains("sync-metadata"), "{script}");
        for hidden in ["drop-pages", "lease-ms", "split-threshold"] {
            assert!(!script.contains(hidden), "{hidden} in {script}");
        }
    }
    let output = pando().args(["completions", "ksh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(all(&output).contains("fish"), "{}", all(&output));
}
