//! Locks of programs on two mounts of one volume exclude each other as on a local disk.

mod common;

use std::fs;
use std::path::Path;

use common::locker::Locker;
use common::site::{Site, suspend, until};
use common::{Volume, shell};
use rustix::process::{Signal, kill_process};

/// A file on two mounts, and on each mount a program that has it open.
fn pair(site: &Site) -> [Locker; 2] {
    fs::write(site.at(0, "file"), "").unwrap();
    [0, 1].map(|mount| Locker::with(&site.at(mount, "file")))
}

#[test]
fn flock_is_shared_or_exclusive_on_both() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(b.ask("flock f ex try"), "EAGAIN");
    assert_eq!(b.ask("flock f sh try"), "EAGAIN");
    assert_eq!(a.ask("flock f sh try"), "ok");
    assert_eq!(b.ask("flock f sh try"), "ok");
    assert_eq!(a.ask("flock f ex try"), "EAGAIN");
    // As on Linux, the failed upgrade has lost the shared lock.
    assert_eq!(b.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("flock f sh try"), "EAGAIN");
    // Record locks and flocks do not conflict, but a second open file of one program does.
    assert_eq!(a.ask("try f w 0 0"), "ok");
    assert_eq!(b.ask(&format!("open g {} rw", site.at(1, "file").display())), "ok");
    assert_eq!(b.ask("flock g sh try"), "EAGAIN");
    assert_eq!(b.ask("flock f un wait"), "ok");
    assert_eq!(b.ask("flock g sh try"), "ok");
}

#[test]
fn record_locks_are_of_ranges_which_split_and_merge() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    assert_eq!(a.ask("try f w 0 100"), "ok");
    assert_eq!(a.ask("try f u 40 20"), "ok");
    assert_eq!(b.ask("try f w 40 20"), "ok");
    assert_eq!(b.ask("try f r 39 1"), "EAGAIN");
    assert_eq!(b.ask("get f r 0 0"), "w 0 40 0", "a process of another mount has no number");
    assert_eq!(a.ask("get f w 40 1"), "w 40 20 0");
    assert_eq!(a.ask("get f w 0 40"), "u", "what it has itself is not in its way");
    assert_eq!(a.ask("try f r 0 40"), "ok", "a downgrade");
    assert_eq!(b.ask("try f r 0 40"), "ok");
    assert_eq!(a.ask("try f w 0 40"), "EAGAIN", "an upgrade");
    assert_eq!(b.ask("try f u 0 0"), "ok");
    assert_eq!(a.ask("try f w 0 0"), "ok", "to the end, wherever that is");
    assert_eq!(b.ask("get f w 1000000 1"), "w 0 0 0");
    assert_eq!(a.ask("try f u 50 0"), "ok");
    assert_eq!(b.ask("try f w 50 0"), "ok");
    assert_eq!(b.ask("get f w 0 1"), "w 0 50 0");
    // A process on the holder's own mount is told the holder's process id.
    let mut c = Locker::with(&site.at(0, "file"));
    assert_eq!(c.ask("get f r 10 1"), format!("w 0 50 {}", a.pid()));
    assert_eq!(c.ask("try f r 10 1"), "EAGAIN");
}

#[test]
fn locks_of_open_files_belong_to_these() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    a.open("g", &site.at(0, "file"));
    assert_eq!(a.ask("ofd-try f w 0 10"), "ok");
    assert_eq!(a.ask("ofd-try g w 0 10"), "EAGAIN", "the same process, another open file");
    assert_eq!(a.ask("try f w 0 10"), "EAGAIN", "and a process is neither");
    assert_eq!(b.ask("ofd-try f r 5 1"), "EAGAIN");
    assert_eq!(b.ask("ofd-get f r 5 1"), "w 0 10 -1");
    assert_eq!(a.ask("close g"), "ok");
    assert_eq!(b.ask("try f w 0 10"), "EAGAIN", "closing another does not matter");
    assert_eq!(a.ask("dup f h"), "ok");
    assert_eq!(a.ask("close f"), "ok");
    assert_eq!(b.ask("try f w 0 10"), "EAGAIN", "it is open still");
    b.tell("wait f w 0 10");
    assert_eq!(a.ask("close h"), "ok");
    assert_eq!(b.hear(), "ok");
}

#[test]
fn a_lock_that_is_waited_for_while_its_process_closes_the_file_is_known_afterwards() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    a.open("g", &site.at(0, "file"));
    assert_eq!(b.ask("try f w 0 0"), "ok");
    assert_eq!(a.ask("beside wait f w 0 0"), "ok");
    until("a thread waits for the lock", || a.is_locking());
    // The close ends the locks that the process has, which are none, and not the one that it waits
    // for.
    assert_eq!(a.ask("close g"), "ok");
    assert_eq!(b.ask("try f u 0 0"), "ok");
    assert_eq!(a.ask("join"), "ok");
    assert_eq!(b.ask("try f w 0 0"), "EAGAIN");
    assert_eq!(a.ask("try f u 0 0"), "ok");
    assert_eq!(b.ask("try f w 0 0"), "ok", "nobody has it any more");
}

#[test]
fn what_a_close_cannot_store_is_stored_before_another_gets_the_lock() {
    let mut site = Site::new(&["0", "1", "2", "3"], &[]);
    site.mount(&["--timeout", "2"]);
    site.mount(&["--timeout", "2"]);
    let names: Vec<_> = (0..8).map(|n| format!("file-{n}")).collect();
    // All files are in one directory, and so on one shard. Their locks are spread over all shards.
    let mut holders: Vec<_> = names.iter().map(|name| Locker::with(&site.at(0, name))).collect();
    let mut others: Vec<_> = names.iter().map(|name| Locker::with(&site.at(1, name))).collect();
    let inodes = |status: &serde_json::Value| status["shards"][0]["inodes"].as_u64().unwrap();
    let statuses = site.statuses();
    let data = statuses.iter().max_by_key(|status| inodes(status)).unwrap();
    let shard = data["shards"][0]["shard"].as_u64().unwrap();
    let server = site.processes[usize::try_from(shard).unwrap()];
    for (holder, name) in holders.iter_mut().zip(&names) {
        // The file stays open by `g`: what the last close cannot store is lost, as its error says.
        holder.open("g", &site.at(0, name));
        assert_eq!(holder.ask("try f w 0 0"), "ok");
    }
    suspend(server);
    for holder in &mut holders {
        assert_eq!(holder.ask("write f new"), "ok");
        holder.tell("close f");
    }
    for holder in &mut holders {
        assert_eq!(holder.hear(), "ETIMEDOUT");
    }
    others.iter_mut().for_each(|other| other.tell("try f w 0 0"));
    let heard: Vec<_> = others.iter_mut().map(Locker::hear).collect();
    // Nothing is known of locks at the suspended shard.
    assert!(heard.iter().all(|heard| ["EAGAIN", "ETIMEDOUT"].contains(&&heard[..])), "{heard:?}");
    assert!(heard.iter().any(|heard| heard == "EAGAIN"), "{heard:?}");
    kill_process(server, Signal::CONT).unwrap();
    for other in &mut others {
        assert_eq!(other.ask("wait f w 0 0"), "ok");
        assert_eq!(other.ask("read f"), "new");
    }
}

#[test]
fn closing_gives_back_what_it_gives_back_on_a_local_disk() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    a.open("g", &site.at(0, "file"));
    assert_eq!(a.ask("try f w 0 0"), "ok");
    assert_eq!(b.ask("try f w 0 0"), "EAGAIN");
    // A process loses its locks of a file when it closes any descriptor of that file.
    assert_eq!(a.ask("close g"), "ok");
    assert_eq!(b.ask("try f w 0 0"), "ok");
    assert_eq!(b.ask("try f u 0 0"), "ok");
    assert_eq!(a.ask("try f r 0 0"), "ok");
    let file = site.at(0, "file");
    assert_eq!(a.ask(&format!("open g {} r", file.display())), "ok");
    assert_eq!(b.ask("try f w 0 0"), "EAGAIN");
    assert_eq!(a.ask("close g"), "ok");
    assert_eq!(b.ask("try f w 0 0"), "ok", "of one that only reads, too");
    assert_eq!(b.ask("try f u 0 0"), "ok");
    // A flock ends with the last descriptor of its open file.
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("dup f g"), "ok");
    assert_eq!(a.ask("close f"), "ok");
    assert_eq!(b.ask("flock f ex try"), "EAGAIN");
    b.tell("flock f ex wait");
    assert_eq!(a.ask("close g"), "ok");
    assert_eq!(b.hear(), "ok");
    // It also ends with its process.
    let mut c = Locker::with(&file);
    c.tell("flock f ex wait");
    b.kill();
    assert_eq!(c.hear(), "ok");
    assert_eq!(c.ask("try f w 0 0"), "ok");
    let mut d = Locker::with(&site.at(1, "file"));
    assert_eq!(d.ask("try f r 0 0"), "EAGAIN");
    c.kill();
    assert_eq!(d.ask("wait f r 0 0"), "ok");
    assert_eq!(d.ask("flock f sh wait"), "ok");
}

#[test]
fn what_was_closed_is_free_for_the_next_on_the_same_mount() {
    let site = Site::pair();
    let [mut a, mut b] = [0, 0].map(|mount| Locker::with(&site.at(mount, "file")));
    for _ in 0..200 {
        a.open("g", &site.at(0, "file"));
        assert_eq!(a.ask("flock g ex try"), "ok");
        assert_eq!(a.ask("close g"), "ok");
        assert_eq!(b.ask("flock f ex try"), "ok");
        assert_eq!(b.ask("flock f un try"), "ok");
    }
}

#[test]
fn a_waiting_program_is_served_interrupted_or_killed_and_holds_up_no_other() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    for (take, wait, give) in [
        ("flock f ex try", "flock f ex wait", "flock f un try"),
        ("try f w 0 0", "wait f r 5 1", "try f u 0 0"),
        ("ofd-try f w 0 0", "ofd-wait f w 5 1", "ofd-try f u 0 0"),
    ] {
        assert_eq!(a.ask(take), "ok");
        let mut waiting: Vec<_> = (0..12).map(|_| Locker::with(&site.at(1, "file"))).collect();
        waiting.iter_mut().for_each(|waiter| waiter.tell(wait));
        // The mount answers other calls meanwhile.
        for n in 0..50 {
            fs::write(site.at(1, &format!("other-{n}")), "x").unwrap();
            fs::remove_file(site.at(1, &format!("other-{n}"))).unwrap();
        }
        assert!(waiting.iter().all(Locker::waits), "{wait}");
        b.tell(wait);
        // A signal that arrives before the call interrupts nothing.
        until("it is interrupted", || {
            b.signal(Signal::USR1);
            !b.waits()
        });
        assert_eq!(b.hear(), "EINTR");
        waiting.pop().unwrap().kill();
        assert!(waiting.iter().all(Locker::waits), "{wait}");
        assert_eq!(a.ask(give), "ok");
        // They get the lock one after the other, in any order.
        until("all are served", || {
            waiting.retain_mut(|waiter| {
                let waits = waiter.waits();
                assert!(waits || waiter.hear() == "ok");
                waits
            });
            waiting.is_empty()
        });
        assert_eq!(a.ask(take.replace("try", "wait").as_str()), "ok", "who was killed has nothing");
        assert_eq!(a.ask(give), "ok");
    }
}

#[test]
fn a_file_is_the_same_under_any_name_and_under_none() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("try f w 0 10"), "ok");
    let held = |mut other: Locker| {
        assert_eq!(other.ask("flock f sh try"), "EAGAIN");
        assert_eq!(other.ask("try f r 0 1"), "EAGAIN");
        assert_eq!(other.ask("try f r 10 1"), "ok");
    };
    fs::create_dir(site.at(0, "dir")).unwrap();
    fs::rename(site.at(1, "file"), site.at(1, "dir/renamed")).unwrap();
    held(Locker::with(&site.at(1, "dir/renamed")));
    fs::hard_link(site.at(0, "dir/renamed"), site.at(0, "linked")).unwrap();
    held(Locker::with(&site.at(1, "linked")));
    held(Locker::with(&site.at(0, "linked")));
    assert_eq!(b.ask("flock f sh try"), "EAGAIN");
    fs::remove_file(site.at(1, "linked")).unwrap();
    fs::remove_file(site.at(0, "dir/renamed")).unwrap();
    assert_eq!(b.ask("flock f sh try"), "EAGAIN");
    assert_eq!(b.ask("try f r 0 1"), "EAGAIN");
    assert_eq!(a.ask("flock f un try"), "ok");
    assert_eq!(b.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("flock f sh try"), "EAGAIN");
    // A new file of that name is another file.
    let mut new = Locker::with(&site.at(1, "dir/renamed"));
    assert_eq!(new.ask("flock f ex try"), "ok");
}

#[test]
fn what_cannot_be_locked_is_refused_as_linux_does() {
    let site = Site::pair();
    let [mut a, _] = pair(&site);
    assert_eq!(a.ask("try f w -1 0"), "EINVAL");
    assert_eq!(a.ask("try f w 5 -6"), "EINVAL");
    assert_eq!(a.ask("try f w 9223372036854775807 2"), "EOVERFLOW");
    assert_eq!(a.ask("try f w 9223372036854775807 1"), "ok");
    assert_eq!(a.ask("try f w 10 -5"), "ok", "backwards");
    assert_eq!(a.ask("try f u 0 0"), "ok");
    for nth in 0..1024 {
        assert_eq!(a.ask(&format!("try f w {} 1", 2 * nth)), "ok");
    }
    assert_eq!(a.ask("try f w 100000 1"), "ENOLCK");
    assert_eq!(a.ask("try f w 0 0"), "ok");
    assert_eq!(a.ask("try f u 0 0"), "ok");
}

#[test]
fn a_mount_that_is_killed_frees_what_it_locked_with_its_lease() {
    let mut site = Site::new(&["all"], &["--lease-ms", "700"]);
    let killed = site.mount(&[]);
    site.mount(&[]);
    let [mut a, mut b] = pair(&site);
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(a.ask("try f w 0 0"), "ok");
    assert_eq!(b.ask("flock f ex try"), "EAGAIN");
    b.tell("flock f ex wait");
    kill_process(killed, Signal::KILL).unwrap();
    assert_eq!(b.hear(), "ok");
    assert_eq!(b.ask("wait f w 0 0"), "ok");
}

#[test]
fn a_mount_that_ends_frees_what_it_locked() {
    let site = Site::pair();
    let [mut a, mut b] = pair(&site);
    assert_eq!(a.ask("flock f ex try"), "ok");
    b.tell("flock f ex wait");
    let mount = site.mounts[0].display().to_string();
    let ended = common::pando().args(["umount", "--force", &mount]).output().unwrap();
    assert!(ended.status.success(), "{}", common::all(&ended));
    drop(a);
    assert_eq!(b.hear(), "ok");
}

#[test]
fn locks_outlive_a_server_that_is_killed() {
    let mut site = Site::pair();
    let [mut a, mut b] = pair(&site);
    for round in 0..3 {
        assert_eq!(a.ask("flock f ex try"), "ok");
        assert_eq!(a.ask(&format!("try f w {round} 5")), "ok");
        b.tell("flock f ex wait");
        let server = site.processes.remove(0);
        kill_process(server, Signal::KILL).unwrap();
        let pid = site.serve("all", &["--split-threshold", "40"]);
        site.processes.retain(|other| *other != pid);
        site.processes.insert(0, pid);
        assert!(b.waits());
        let mut c = Locker::with(&site.at(1, "file"));
        assert_eq!(c.ask("flock f sh try"), "EAGAIN");
        assert_eq!(c.ask(&format!("get f w {round} 1")), format!("w {round} 5 0"));
        assert_eq!(a.ask("flock f un try"), "ok");
        assert_eq!(b.hear(), "ok");
        assert_eq!(b.ask("flock f un try"), "ok");
        assert_eq!(a.ask("try f u 0 0"), "ok");
    }
}

#[test]
fn mounts_of_a_volume_that_is_up_are_no_exception() {
    let volume = Volume::up(&[]);
    let second = volume.scratch().join("second");
    let mut command = common::pando();
    command.arg("mount").arg(&volume.folder).arg(&second).args(["-d", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", common::all(&output));
    fs::write(volume.mount.join("file"), "").unwrap();
    let [mut a, mut b] = [&volume.mount, &second].map(|mount| Locker::with(&mount.join("file")));
    assert_eq!(a.ask("flock f ex try"), "ok");
    assert_eq!(b.ask("flock f sh try"), "EAGAIN");
    assert_eq!(b.ask("try f w 0 10"), "ok");
    assert_eq!(a.ask("try f r 9 1"), "EAGAIN");
    b.tell("flock f sh wait");
    assert_eq!(a.ask("close f"), "ok");
    assert_eq!(b.hear(), "ok");
    drop((a, b));
    let ended = common::pando().arg("umount").arg(&second).output().unwrap();
    assert!(ended.status.success(), "{}", common::all(&ended));
}

#[test]
fn what_was_written_under_a_lock_is_read_under_the_next() {
    let site = Site::pair();
    for how in ["flock", "wait", "ofd-wait"] {
        fs::write(site.at(0, "file"), "0000000000").unwrap();
        let mut all: Vec<_> =
            [0, 1, 0, 1].map(|mount| Locker::with(&site.at(mount, "file"))).into();
        all.iter_mut().for_each(|locker| locker.tell(&format!("count f {how} 100")));
        for locker in &mut all {
            assert_eq!(locker.hear(), "ok");
        }
        assert_eq!(all[0].ask("flock f sh wait"), "ok");
        assert_eq!(all[0].ask("read f"), format!("{:010}", 400), "{how}");
    }
}

/// Writes rows from two mounts at one time, and checks that all of them exist.
fn written_by_sqlite(site: &Site) {
    let sqlite = |folder: &Path, script: &str| shell(folder, script);
    let here = &site.mounts[0];
    sqlite(here, "sqlite3 a.db 'create table t(id integer primary key, who int, n int);'");
    std::thread::scope(|scope| {
        for who in 0..4 {
            let folder = &site.mounts[who % 2];
            scope.spawn(move || {
                let script = format!(
                    "for n in $(seq 25); do echo 'begin immediate; insert into t(who, n) values({who}, '$n');
                     insert into t(who, n) select {who}, count(*) from t; commit;'; done |
                     sqlite3 -bail -cmd '.timeout 600000' a.db"
                );
                shell(folder, &script);
            });
        }
    });
    for folder in &site.mounts {
        let found = sqlite(
            folder,
            "sqlite3 -cmd '.timeout 600000' a.db 'pragma integrity_check; select count(*) from t;
             select count(*) from t where id % 2 = 0 and n <> id - 1;'",
        );
        assert_eq!(found, "ok\n200\n0\n");
    }
}

#[test]
fn what_a_lock_makes_out_of_date_is_dropped_by_another_process_which_ends_with_the_mount() {
    let mut site = Site::new(&["all"], &[]);
    let mount = site.mount(&[]);
    site.mount(&[]);
    let [mut a, mut b] = pair(&site);
    let droppers = || -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", mount.as_raw_nonzero())).unwrap();
        let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")));
        let children: Vec<String> = children.flatten().collect();
        let children = children.iter().flat_map(|list| list.split_whitespace());
        let is = |child: &&str| {
            let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.split(|&byte| byte == 0).nth(1) == Some(b"drop-pages")
        };
        children.filter(is).map(str::to_owned).collect()
    };
    assert!(droppers().is_empty(), "who never needs it has none");
    for text in ["one", "two"] {
        assert_eq!(b.ask("flock f ex wait"), "ok");
        assert_eq!(b.ask(&format!("write f {text}")), "ok");
        assert_eq!(b.ask("flock f un wait"), "ok");
        assert_eq!(a.ask("flock f ex wait"), "ok");
        assert_eq!(a.ask("read f"), text);
        assert_eq!(a.ask("flock f un wait"), "ok");
    }
    let droppers = droppers();
    assert_eq!(droppers.len(), 1, "{droppers:?}");
    kill_process(mount, Signal::KILL).unwrap();
    until("it ends with its mount", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", droppers[0]));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z"))
    });
}

#[test]
fn a_database_is_written_from_both_mounts_at_once() {
    written_by_sqlite(&Site::pair());
}

#[test]
fn a_database_is_written_from_mounts_of_several_servers() {
    let mut site = Site::new(&["0", "1", "2", "3"], &["--split-threshold", "40"]);
    site.mount(&[]);
    site.mount(&["--attr-timeout", "5"]);
    written_by_sqlite(&site);
}
