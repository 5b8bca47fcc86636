//! The book (`book/`) says what is true: each of its blocks of shell is run as it is written, each
//! chapter on new hosts.

mod chapter;
#[path = "../common/mod.rs"]
mod common;
mod hosts;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use chapter::{Chapter, Mark, sources};
use common::all;
use hosts::Hosts;

/// A test for each chapter, and the list of their files.
macro_rules! chapters {
    ($($test:ident: $file:literal,)*) => {
        const CHAPTERS: &[&str] = &[$($file),*];
        $(
            #[test]
            fn $test() {
                run(&Chapter::read($file));
            }
        )*
    };
}

chapters! {
    introduction: "introduction.md",
    install: "install.md",
    five_minutes: "five-minutes.md",
    three_machines: "three-machines.md",
    tuning: "tuning.md",
    recovery: "recovery.md",
    upgrade: "upgrade.md",
    faq: "faq.md",
    comparison: "comparison.md",
}

/// Runs all blocks of a chapter that are to be run, one after the other.
fn run(chapter: &Chapter) {
    let mut hosts = None;
    for block in &chapter.blocks {
        let Mark::Run { host, exit } = block.mark else { continue };
        let output = hosts.get_or_insert_with(Hosts::new).run(host, &block.script);
        let at = format!("book/src/{}:{}:\n{}", chapter.name, block.line, block.script);
        assert_eq!(output.status.code(), Some(exit), "{at}{}", all(&output));
        let printed = String::from_utf8_lossy(&output.stdout);
        if let Some(line) = block.missing(&printed) {
            panic!("{at}does not print\n{line}\nbut\n{printed}");
        }
    }
    if let Some(hosts) = hosts {
        hosts.end();
    }
}

/// The files that the summary names.
fn summary() -> BTreeSet<String> {
    let summary = fs::read_to_string(sources().join("SUMMARY.md")).unwrap();
    let links = summary.lines().filter_map(|line| line.split_once("](")?.1.split_once(')'));
    links.map(|(file, _)| file.to_owned()).collect()
}

/// The Markdown files of a folder, by their names there.
fn pages(folder: &Path) -> impl Iterator<Item = String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"))
}

#[test]
fn the_summary_has_each_chapter_and_each_document() {
    let sources = sources();
    let listed = summary();
    let chapters: BTreeSet<_> = pages(&sources).filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(chapters, CHAPTERS.iter().map(|&name| name.to_owned()).collect());
    let mut wanted = chapters;
    for folder in ["docs", "docs/design", "docs/decisions"] {
        wanted.extend(pages(&sources.join(folder)).map(|name| format!("{folder}/{name}")));
    }
    let symmetric: Vec<_> = listed.symmetric_difference(&wanted).collect();
    assert!(symmetric.is_empty(), "book/src/SUMMARY.md has, or lacks: {symmetric:?}");
}

/// Issue 28: from an untouched Debian to a mounted volume of three servers.
#[test]
fn a_mounted_volume_of_three_servers_takes_less_than_ten_commands() {
    for (file, section) in [
        ("five-minutes.md", "Three servers on one machine"),
        ("three-machines.md", "Nine commands"),
    ] {
        let chapter = Chapter::read(file);
        let blocks: Vec<_> =
            chapter.blocks.iter().filter(|block| block.section == section).collect();
        let script: String = blocks.iter().map(|block| block.script.as_str()).collect();
        // It begins with the package, makes three servers, and ends with the mount.
        assert!(blocks[0].script.contains("apt-get install"), "{file}: {section}");
        assert_eq!(script.matches("pando server").count(), 3, "{file}: {section}");
        assert!(script.lines().last().unwrap().starts_with("pando mount"), "{file}: {section}");
        let commands: usize = blocks.iter().map(|block| block.commands()).sum();
        assert!(commands < 10, "{file}: {section} has {commands} commands");
    }
}

/// No block is passed over silently.
#[test]
fn a_block_that_is_neither_run_nor_marked_is_an_error() {
    let is_read =
        |text: &'static str| std::panic::catch_unwind(|| Chapter::of_text("text", text)).is_ok();
    for right in [
        "words\n\n```sh\ntrue\n```\n\n```text\nprinted\n```\n",
        "<!-- run: host2 -->\n```sh\ntrue\n```\n",
        "<!-- run: host2, exit 3 -->\n```sh\nexit 3\n```\n",
        "<!-- not run: it needs a printer -->\n```sh\nlp file\n```\n",
    ] {
        assert!(is_read(right), "{right}");
    }
    for wrong in [
        "```\ntrue\n```\n",
        "```bash\ntrue\n```\n",
        "```console\n$ true\n```\n",
        "  ```sh\n  true\n  ```\n",
        "~~~sh\ntrue\n~~~\n",
        "```text\nnothing prints this\n```\n",
        "<!-- not run: -->\n```sh\ntrue\n```\n",
        "<!-- not run:  -->\n```sh\ntrue\n```\n",
        "<!-- run: elsewhere -->\n```sh\ntrue\n```\n",
        "<!-- run: host1, exit -->\n```sh\ntrue\n```\n",
        "<!-- not run: far from its block -->\nwords\n```sh\ntrue\n```\n",
        "<!-- run: host2 -->\n",
    ] {
        assert!(!is_read(wrong), "{wrong}");
    }
}

#[test]
fn what_a_block_prints_is_compared_but_for_words_with_digits() {
    let text = "```sh\ntrue\n```\n```text\none 1 word\n...\nthe end ...\n```\n";
    let chapter = Chapter::of_text("text", text);
    let missing = |printed: &str| chapter.blocks[0].missing(printed).map(str::to_owned);
    assert_eq!(missing("one 23 word\nmore\nan end\n"), Some("the end ...".to_owned()));
    assert_eq!(missing("before\none 23 word\nmore\nthe end  of it\n"), None);
    assert_eq!(missing("one two word\nthe end of it\n"), Some("one 1 word".to_owned()));
    assert_eq!(missing("the end of it\none 1 word\n"), Some("the end ...".to_owned()));
}
