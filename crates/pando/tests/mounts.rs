//! Two mounts of one volume. Each sees the other's changes, and files that are open on one stay
//! usable whatever the other does.

mod common;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use common::shell;
use common::site::{Site, suspend, until};
use rustix::process::{Signal, kill_process};

#[test]
fn each_sees_at_once_what_the_other_does() {
    let site = Site::pair();
    for round in 0..50 {
        let (here, there) = (round % 2, 1 - round % 2);
        let name = format!("d{round}");
        fs::create_dir(site.at(here, &name)).unwrap();
        fs::write(site.at(there, &format!("{name}/file")), format!("round {round}")).unwrap();
        assert_eq!(
            fs::read_to_string(site.at(here, &format!("{name}/file"))).unwrap(),
            format!("round {round}")
        );
        fs::rename(site.at(here, &name), site.at(here, &format!("{name}-moved"))).unwrap();
        assert_eq!(site.at(there, &name).metadata().unwrap_err().kind(), ErrorKind::NotFound);
        let moved = site.at(there, &format!("{name}-moved/file"));
        fs::set_permissions(&moved, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let seen = site.at(here, &format!("{name}-moved/file")).metadata().unwrap();
        assert_eq!(seen.mode() & 0o777, 0o640);
        fs::remove_file(moved).unwrap();
        fs::remove_dir(site.at(here, &format!("{name}-moved"))).unwrap();
        assert_eq!(fs::read_dir(&site.mounts[there]).unwrap().count(), 0);
    }
}

#[test]
fn what_was_closed_here_is_read_by_a_program_that_opens_it_there() {
    let site = Site::pair();
    let (one, two) = (site.at(0, "file"), site.at(1, "file"));
    let mut expected = Vec::new();
    for round in 0..20_usize {
        let bytes = vec![round as u8; 3000 * (round % 3 + 1)];
        let writer = if round % 2 == 0 { &one } else { &two };
        let mut file = File::options().create(true).append(true).open(writer).unwrap();
        file.write_all(&bytes).unwrap();
        drop(file);
        expected.extend(bytes);
        assert_eq!(fs::read(&one).unwrap(), expected);
        assert_eq!(fs::read(&two).unwrap(), expected);
    }
    File::options().write(true).open(&two).unwrap().set_len(100).unwrap();
    assert_eq!(fs::read(&one).unwrap(), expected[..100]);
}

/// A write through a descriptor with `O_APPEND` goes to the file's end that the kernel knows. A
/// write that asks for an offset (`RWF_NOAPPEND`) goes to that offset.
#[test]
fn a_program_that_appends_and_asks_for_an_offset_writes_there() {
    use rustix::io::{ReadWriteFlags, pwritev2};
    let no_append = ReadWriteFlags::from_bits_retain(0x20);
    let site = Site::pair();
    let append = |at| File::options().create(true).append(true).open(site.at(at, "file")).unwrap();
    let write = |file: &mut File, text: &str| {
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
    };
    let at = |file: &File, text: &str, offset| {
        let slices = [std::io::IoSlice::new(text.as_bytes())];
        assert_eq!(pwritev2(file, &slices, offset, no_append).unwrap(), text.len());
        file.sync_all().unwrap();
    };
    let mut one = append(0);
    write(&mut one, "aaaa");
    let mut two = append(1);
    write(&mut two, "bbbb");
    // This kernel took 4 for the file's end.
    assert_eq!(one.metadata().unwrap().len(), 8);
    write(&mut one, "cccc");
    assert_eq!(fs::read(site.at(1, "file")).unwrap(), b"aaaabbbbcccc");
    at(&one, "X", 2);
    at(&one, "Y", 0);
    assert_eq!(fs::read(site.at(1, "file")).unwrap(), b"YaXabbbbcccc");
    write(&mut one, "dd");
    assert_eq!(fs::read(site.at(1, "file")).unwrap(), b"YaXabbbbccccdd");
}

#[test]
fn a_file_removed_here_stays_usable_where_it_is_open() {
    let site = Site::pair();
    fs::write(site.at(0, "file"), vec![7; 20_000]).unwrap();
    let before = site.inodes();
    let mut open = File::options().read(true).write(true).open(site.at(1, "file")).unwrap();
    fs::remove_file(site.at(0, "file")).unwrap();
    assert_eq!(site.at(1, "file").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    open.seek(SeekFrom::End(0)).unwrap();
    open.write_all(b"more").unwrap();
    open.sync_all().unwrap();
    open.seek(SeekFrom::Start(0)).unwrap();
    let mut content = Vec::new();
    open.read_to_end(&mut content).unwrap();
    assert_eq!((content.len(), &content[20_000..]), (20_004, &b"more"[..]));
    assert_eq!(site.inodes(), before);
    drop(open);
    until("the file goes with its last open", || site.inodes() == before - 1);
}

#[test]
fn a_file_renamed_or_replaced_here_is_the_same_where_it_is_open() {
    let site = Site::pair();
    for name in ["old", "other"] {
        fs::write(site.at(0, name), name).unwrap();
    }
    fs::create_dir(site.at(0, "dir")).unwrap();
    let old = File::options().read(true).write(true).open(site.at(1, "old")).unwrap();
    let other = File::open(site.at(1, "other")).unwrap();
    let ino = old.metadata().unwrap().ino();
    // The rename goes to another directory, over a file that is open there as well.
    fs::rename(site.at(0, "other"), site.at(0, "dir/new")).unwrap();
    fs::rename(site.at(0, "old"), site.at(0, "dir/new")).unwrap();
    assert_eq!(old.metadata().unwrap().ino(), ino);
    old.write_all_at(b"OLD, and more", 0).unwrap();
    old.sync_all().unwrap();
    assert_eq!(fs::read_to_string(site.at(0, "dir/new")).unwrap(), "OLD, and more");
    let mut content = [0; 5];
    other.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"other");
    assert_eq!(other.metadata().unwrap().nlink(), 0);
}

#[test]
fn of_two_that_make_the_same_name_one_wins() {
    let site = Site::pair();
    let make = |mount: usize| {
        let names = (0..300).map(|n| site.at(mount, &format!("name-{n}")));
        let won = names.map(|path| File::options().write(true).create_new(true).open(path));
        won.map(|result| match result {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => panic!("{error}"),
        })
        .collect::<Vec<_>>()
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| make(1));
        (make(0), other.join().unwrap())
    });
    assert!(one.iter().zip(&two).all(|(one, two)| one != two));
    for mount in [0, 1] {
        assert_eq!(fs::read_dir(&site.mounts[mount]).unwrap().count(), 300);
    }
}

#[test]
fn a_directory_removed_here_is_gone_for_programs_in_it_there() {
    let site = Site::pair();
    fs::create_dir(site.at(0, "dir")).unwrap();
    let script = format!(
        "cd dir; rmdir {}; ! touch file 2>error; ! ls . 2>/dev/null | grep .; mkdir {}; ! touch file",
        site.at(1, "dir").display(),
        site.at(1, "dir").display()
    );
    // The shell cannot create a file for its complaints either, and would say so.
    shell(&site.mounts[0], &script.replace(" 2>error", " 2>/dev/null"));
    assert_eq!(fs::read_dir(site.at(1, "dir")).unwrap().count(), 0);
}

#[test]
fn while_a_server_is_stopped_others_go_on_and_what_waits_ends_with_its_time() {
    let mut site = Site::new(&["0", "1,2,3"], &[]);
    let stopped = site.processes[1];
    // In directories that are lent to it, a mount goes on by itself for a while.
    site.mount(&["--timeout", "2", "--sync-metadata"]);
    // With 24 directories, each shard has some.
    for number in 0..24 {
        fs::create_dir(site.at(0, &format!("dir-{number}"))).unwrap();
    }
    suspend(stopped);
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..24)
            .map(|number| {
                let path = site.at(0, &format!("dir-{number}/file"));
                scope.spawn(move || File::create_new(path).map(drop))
            })
            .collect();
        results.extend(attempts.into_iter().map(|attempt| attempt.join().unwrap()));
    });
    let timed_out = |result: &&std::io::Result<()>| {
        result.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    };
    let (late, made) = (
        results.iter().filter(timed_out).count(),
        results.iter().filter(|result| result.is_ok()).count(),
    );
    assert_eq!(late + made, 24, "{results:?}");
    assert!(late > 0 && made > 0, "{late} late, {made} made");
    kill_process(stopped, Signal::CONT).unwrap();
    // The server goes on by itself. What was given up may have happened or not, and is settled.
    for number in 0..24 {
        let path = site.at(0, &format!("dir-{number}/file"));
        until("it answers again", || match File::create_new(&path) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::AlreadyExists,
        });
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_mount_whose_server_does_not_answer_ends_when_it_is_told_twice() {
    let mut site = Site::new(&["all"], &[]);
    let mount = site.mount(&[]);
    fs::write(site.at(0, "file"), "text").unwrap();
    suspend(site.processes[0]);
    kill_process(mount, Signal::TERM).unwrap();
    until("it says that it waits", || site.log().contains("still storing"));
    kill_process(mount, Signal::TERM).unwrap();
    until("it gives up", || site.log().contains("the end was broken off"));
}

#[test]
fn what_a_dead_mount_held_open_goes_with_its_lease() {
    let mut site = Site::new(&["all"], &["--lease-ms", "1500"]);
    let dead = site.mount(&[]);
    site.mount(&[]);
    let before = site.inodes();
    fs::write(site.at(0, "file"), "x").unwrap();
    let open = File::open(site.at(0, "file")).unwrap();
    fs::remove_file(site.at(1, "file")).unwrap();
    assert_eq!(site.inodes(), before + 1);
    kill_process(dead, Signal::KILL).unwrap();
    until("the orphan is removed", || site.inodes() == before);
    drop(open);
    // The other mount's lease did not end meanwhile.
    fs::write(site.at(1, "file"), "y").unwrap();
}

#[test]
fn nothing_is_left_in_the_folder_of_sockets_and_logs_after_all_is_unmounted() {
    let site = Site::new(&["all"], &[]);
    let (own, path) = (site.scratch().join("own"), site.scratch().join("here"));
    let run = |words: &[&std::ffi::OsStr]| {
        let output = common::pando().env("PANDO_RUN", &own).args(words).output().unwrap();
        assert!(output.status.success(), "{}", common::all(&output));
    };
    run(&["mount".as_ref(), site.folder.as_ref(), path.as_ref(), "-d".as_ref()]);
    let left = || fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left().count(), 3, "a socket, a log, and the folder of journals");
    fs::write(path.join("file"), "text").unwrap();
    run(&["umount".as_ref(), path.as_ref()]);
    assert_eq!(left().collect::<Vec<_>>(), [""; 0]);
    run(&["down".as_ref(), site.folder.as_ref()]);
    assert_eq!(left().count(), 0);
}

#[test]
fn paths_may_stand_behind_a_double_dash_in_the_background_too() {
    let mut site = Site::new(&["all"], &[]);
    let (path, log) = (site.scratch().join("mount-0"), site.scratch().join("mount-log"));
    let mut command = common::pando();
    command
        .args(["mount", "-d", "--json", "--log"])
        .arg(log)
        .arg("--")
        .arg(&site.folder)
        .arg(&path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", common::all(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = i32::try_from(summary["pid"].as_i64().unwrap()).unwrap();
    site.processes.push(rustix::process::Pid::from_raw(pid).unwrap());
    site.mounts.push(path);
    fs::write(site.at(0, "file"), "text").unwrap();
}
