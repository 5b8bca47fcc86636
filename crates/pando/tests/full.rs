//! A volume on a disk that is full to the last byte, and killed there. It starts again, and
//! deletions make room.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Volume, all, pando};
use rustix::io::Errno;

const SIZES: [&str; 8] = [
    "--log-chunk-bytes",
    "262144",
    "--reserve-bytes",
    "131072",
    "--ballast-bytes",
    "1048576",
    "--checkpoint-bytes",
    "1048576",
];

fn is_full<T>(result: &std::io::Result<T>) -> bool {
    let Err(error) = result else { return false };
    let is_full = error.raw_os_error() == Some(Errno::NOSPC.raw_os_error());
    assert!(is_full, "{error}");
    true
}

/// Fills what is left of the disk with a file outside the volume.
fn take_the_rest(disk: &Path) {
    let mut file = File::options().append(true).create(true).open(disk.join("other")).unwrap();
    for piece in [64 << 10, 4096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
}

/// Retries until it is done, for ten seconds at most.
fn at_last(what: &str, mut is_done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still refused: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the volume with a full disk, and checks that it starts and has all these files. After half
/// of them are removed, there is room again.
fn comes_back(mut volume: Volume, mut paths: Vec<PathBuf>) {
    let disk = volume.folder.parent().unwrap().to_owned();
    for _ in 0..3 {
        take_the_rest(&disk);
        volume.kill();
        take_the_rest(&disk);
        let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        take_the_rest(&disk);
        volume.start(&SIZES);
    }
    assert!(paths.iter().all(|path| path.exists()));
    for path in paths.split_off(paths.len() / 2) {
        at_last("a deletion", || !is_full(&fs::remove_file(&path)));
    }
    let new = volume.mount.join("new");
    at_last("a new file", || !is_full(&fs::write(&new, "")));
    assert!(paths.iter().all(|path| path.exists()));
    let status = volume.status()["shards"].to_string();
    assert!(!status.contains("FAILED"), "{status}");
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    volume.start(&SIZES);
    assert!(new.exists() && paths.iter().all(|path| path.exists()));
}

#[test]
fn a_volume_whose_disk_data_has_filled_comes_back() {
    let mut volume = Volume::on_small_disk(32);
    volume.start(&SIZES);
    let mut paths = Vec::new();
    loop {
        let path = volume.mount.join(format!("data-{}", paths.len()));
        let stored = File::create(&path).and_then(|mut file| {
            file.write_all(&[7; 300_000])?;
            file.sync_all()
        });
        if is_full(&stored) {
            break;
        }
        paths.push(path);
        assert!(paths.len() < 1_000);
    }
    comes_back(volume, paths);
}

#[test]
fn a_volume_whose_disk_names_have_filled_comes_back() {
    let mut volume = Volume::on_small_disk(24);
    volume.start(&SIZES);
    let mut paths = Vec::new();
    let mut refused = 0;
    // A checkpoint may be about to make room after the first refusal.
    while refused < 20 {
        let path = volume.mount.join(format!("name-{:0>100}", paths.len()));
        if is_full(&File::create(&path)) {
            refused += 1;
            std::thread::sleep(Duration::from_millis(100));
        } else {
            paths.push(path);
        }
        assert!(paths.len() < 500_000);
    }
    assert!(paths.len() > 1_000, "{}", paths.len());
    comes_back(volume, paths);
}

/// What is known of a name after the process was killed.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Known {
    /// It is a file with these bytes, which were synced.
    Bytes(Vec<u8>),
    /// It is a file.
    Exists,
    /// It is a file, or does not exist.
    Maybe,
}

/// A load that fills the disk of its mount, with what must be there.
struct Load {
    random: fastrand::Rng,
    mount: PathBuf,
    disk: PathBuf,
    known: BTreeMap<String, Known>,
    made: u32,
    refused: u32,
}

impl Load {
    /// Makes one call, and notes what is known after it. False: the process is gone.
    fn step(&mut self) -> bool {
        let names: Vec<_> = self.known.keys().cloned().collect();
        let old = self.random.choice(&names).cloned();
        self.made += 1;
        let new = format!("file-{}", self.made);
        let (subject, then, done) = match (self.random.u64(..10), old) {
            (0..5, _) | (_, None) => {
                let len = [40, 3_000, 60_000, 400_000][self.random.usize(..4)];
                let bytes = vec![self.made as u8; len];
                let done = self.write(&new, &bytes);
                (new, Some(Known::Bytes(bytes)), done)
            }
            (5..7, Some(old)) => {
                let bytes = vec![self.made as u8; self.random.usize(..100_000)];
                let done = self.write(&old, &bytes);
                (old, Some(Known::Bytes(bytes)), done)
            }
            (7, Some(old)) => {
                let done = fs::rename(self.mount.join(&old), self.mount.join(&new));
                if done.is_ok() {
                    let was = self.known.remove(&old);
                    (new, was, done)
                } else {
                    self.known.insert(new, Known::Maybe);
                    let is_refused = done.as_ref().is_err_and(is_no_room);
                    let was = self.known.get(&old).cloned().filter(|_| is_refused);
                    (old, was.or(Some(Known::Maybe)), done)
                }
            }
            (8, Some(old)) => {
                let done = fs::remove_file(self.mount.join(&old));
                (old, None, done)
            }
            (_, _) => {
                self.disturb();
                return true;
            }
        };
        match (done, then) {
            (Ok(()), Some(then)) => drop(self.known.insert(subject, then)),
            (Ok(()), None) => drop(self.known.remove(&subject)),
            (Err(error), _) if is_no_room(&error) => self.refused(subject),
            // The file may have existed before or not: the answer settles it.
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {
                let known = self.known.remove(&subject);
                assert_eq!(known, Some(Known::Maybe), "{subject} is gone");
            }
            (Err(_), _) => {
                self.known.insert(subject, Known::Maybe);
                return false;
            }
        }
        true
    }

    /// A call found no room. The file that it was to fill may have been created or emptied.
    fn refused(&mut self, subject: String) {
        self.refused += 1;
        let known = self.known.entry(subject).or_insert(Known::Maybe);
        if matches!(known, Known::Bytes(_)) {
            *known = Known::Exists;
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(self.mount.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Another file takes all that is left of the disk, or gives some back.
    fn disturb(&mut self) {
        if self.random.u64(..3) > 0 {
            return take_the_rest(&self.disk);
        }
        if let Ok(file) = File::options().write(true).open(self.disk.join("other")) {
            let len = file.metadata().unwrap().len();
            file.set_len(len / 4 * self.random.u64(..4)).unwrap();
        }
    }

    fn check(&mut self) {
        let mut gone = Vec::new();
        for (name, known) in &self.known {
            match (fs::read(self.mount.join(name)), known) {
                (Ok(found), Known::Bytes(bytes)) => assert!(found == *bytes, "{name} is another"),
                (Ok(_), _) => {}
                (Err(error), Known::Maybe) if error.kind() == io::ErrorKind::NotFound => {
                    gone.push(name.clone());
                }
                (Err(error), known) => panic!("{name}: {error}, and was {known:.60?}"),
            }
        }
        gone.iter().for_each(|name| drop(self.known.remove(name)));
    }
}

fn is_no_room(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

/// The volume is killed several times, each time at a random call.
#[test]
fn a_volume_that_is_killed_while_its_disk_fills_and_empties_has_all_that_was_synced() {
    let (mut refused, mut made) = (0, 0);
    for seed in common::random::seeds("PANDO_FULL_SEED", 3) {
        eprintln!("seed {seed}");
        let mut volume = Volume::on_small_disk(24);
        volume.start(&SIZES);
        let (mount, disk) = (volume.mount.clone(), volume.folder.parent().unwrap().to_owned());
        let (random, known) = (fastrand::Rng::with_seed(seed), BTreeMap::new());
        let mut load = Load { random, mount, disk, known, made: 0, refused: 0 };
        for _ in 0..6 {
            for _ in 0..30 + load.random.u64(..150) {
                assert!(load.step(), "{}", volume.log());
            }
            let pause = Duration::from_micros(load.random.u64(..20_000));
            std::thread::scope(|scope| {
                let volume = &mut volume;
                scope.spawn(move || {
                    std::thread::sleep(pause);
                    volume.kill();
                });
                while load.step() {}
            });
            volume.start(&SIZES);
            load.check();
        }
        fs::remove_file(load.disk.join("other")).ok();
        at_last("a new file", || !is_full(&fs::write(load.mount.join("last"), "")));
        // Removes objects that were stored when the process was killed and that no file names.
        let output = pando().arg("gc").arg(&volume.folder).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        volume.stop();
        let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        (refused, made) = (refused + load.refused, made + load.made);
    }
    assert!(refused > 0 && made > 100, "no disk ever filled");
}
