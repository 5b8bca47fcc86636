//! Listing and removing directories that are large and split, through a mount.

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::site::Site;
use common::{Volume, pando, shell};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

/// Size of a buffer for a few dozen entries, so that a listing takes many requests.
const SMALL: usize = 1024;

/// The two ways to reach shards: in the mount's process, and over sockets.
enum Place {
    Near(Volume),
    Far(Site),
}

impl Place {
    /// Both places, with this number of entries as the threshold of splits.
    fn both(threshold: &str) -> [Self; 2] {
        Self::both_with(threshold, &[])
    }

    /// Both places, of which shards answer every request: nothing is lent to the mount.
    fn of_shards(threshold: &str) -> [Self; 2] {
        Self::both_with(threshold, &["--sync-metadata"])
    }

    fn both_with(threshold: &str, mount: &[&str]) -> [Self; 2] {
        let sizes = ["--split-threshold", threshold];
        let near = Volume::up(&sizes);
        let mut far = Site::new(&["all"], &sizes);
        far.mount(mount);
        [Self::Near(near), Self::Far(far)]
    }

    fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Near(volume) => volume.mount.join(name),
            Self::Far(site) => site.at(0, name),
        }
    }

    /// Number of pages that the shards were asked for so far.
    fn pages(&self) -> u64 {
        let statuses = match self {
            Self::Near(volume) => vec![volume.status()],
            Self::Far(site) => site.statuses(),
        };
        let shards = statuses.iter().flat_map(|status| status["shards"].as_array().unwrap());
        let ops = shards.flat_map(|shard| shard["latencies"].as_array().unwrap());
        ops.filter(|op| op["op"] == "ReadDir").map(|op| op["count"].as_u64().unwrap()).sum()
    }

    /// Number of inodes that the mount remembers.
    fn known_inodes(&self) -> u64 {
        let output = pando().arg("status").arg(self.path("")).arg("--json").output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["known_inodes"].as_u64().unwrap()
    }

    /// A directory with files `0`, `1`, ….
    fn fill(&self, count: usize) -> PathBuf {
        let path = self.path("d");
        fs::create_dir(&path).unwrap();
        make(&path, "", 0..count);
        path
    }
}

fn make(dir: &Path, prefix: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        File::create_new(dir.join(format!("{prefix}{number}"))).unwrap();
    }
}

/// Names from the present position of `dir` on, in order, without "." and "..". Each has the
/// position after it.
fn names(dir: &File, mut between: impl FnMut(usize)) -> Vec<(String, u64)> {
    let mut buffer = [MaybeUninit::uninit(); SMALL];
    let mut listing = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        let position = entry.next_entry_cookie();
        if !name.starts_with('.') {
            names.push((name, position));
            between(names.len());
        }
    }
    names
}

fn open(dir: &Path) -> File {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    File::from(rustix::fs::open(dir, flags, Mode::empty()).unwrap())
}

/// How often each name occurs.
fn counts(names: &[(String, u64)]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for (name, _) in names {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

/// `ls -U | head` begins like this: one read with the C library's buffer size, and sometimes
/// another.
#[test]
fn the_first_names_take_one_page_whatever_the_size() {
    for place in Place::of_shards("500") {
        let dir = place.fill(3000);
        let known = place.known_inodes();
        let opened = open(&dir);
        let mut buffer = [MaybeUninit::uninit(); 32 << 10];
        let before = place.pages();
        assert!(RawDir::new(&opened, &mut buffer).next().is_some());
        assert_eq!(place.pages() - before, 1, "nothing is asked ahead of the second read");
        // The second read fetches what fits the buffer, partition by partition, and four pages
        // ahead.
        assert!(RawDir::new(&opened, &mut buffer).next().is_some());
        let two = place.pages() - before;
        assert!((2..=9).contains(&two), "{two} pages");
        drop(opened);
        let before = place.pages();
        assert_eq!(names(&open(&dir), |_| ()).len(), 3000);
        let all = place.pages() - before;
        assert!((4..60).contains(&all), "{all} pages");
        assert!(place.known_inodes() <= known, "a listing leaves nothing in the node table");
    }
}

#[test]
fn a_small_directory_takes_one_page() {
    for place in Place::of_shards("1000") {
        let dir = place.fill(20);
        let before = place.pages();
        assert_eq!(names(&open(&dir), |_| ()).len(), 20);
        assert_eq!(place.pages() - before, 1);
    }
}

#[test]
fn positions_stay_valid_while_the_directory_splits() {
    for place in Place::both("100") {
        let dir = place.fill(90);
        let listed = names(&open(&dir), |_| ());
        let opened = open(&dir);
        assert_eq!(names(&opened, |_| ()), listed);
        make(&dir, "new", 0..600);
        for (index, (name, position)) in listed.iter().enumerate() {
            rustix::fs::seek(&opened, SeekFrom::Start(*position)).unwrap();
            let rest = names(&opened, |_| ());
            let rest = counts(&rest);
            for (other, _) in &listed[..=index] {
                assert_eq!(rest.get(other.as_str()), None, "{other} is before {name}");
            }
            for (other, _) in &listed[index + 1..] {
                assert_eq!(rest.get(other.as_str()), Some(&1), "{other} is after {name}");
            }
        }
        rustix::fs::seek(&opened, SeekFrom::Start(0)).unwrap();
        assert_eq!(names(&opened, |_| ()).len(), 690, "from the beginning all there is now");
    }
}

#[test]
fn what_was_there_is_listed_once_while_the_directory_grows() {
    for place in Place::both("100") {
        let dir = place.fill(400);
        let grown = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..1500 {
                    make(&dir, "new", number..number + 1);
                    grown.store(number + 1, Ordering::Relaxed);
                }
            });
            let mut passes = 0;
            // The directory grows to several times its size, and splits all the while.
            while passes < 3 || grown.load(Ordering::Relaxed) < 1500 {
                passes += 1;
                // A pause now and then lets much happen meanwhile.
                let listed = names(&open(&dir), |count| {
                    if count % 100 == 0 {
                        fs::metadata(&dir).unwrap();
                    }
                });
                let counts = counts(&listed);
                assert!(counts.values().all(|count| *count == 1), "a name is listed twice");
                let is_listed = |number: &usize| counts.contains_key(number.to_string().as_str());
                assert_eq!((0..400).filter(is_listed).count(), 400);
            }
        });
    }
}

#[test]
fn all_is_removed_while_it_is_listed() {
    for place in Place::both("100") {
        let dir = place.fill(1000);
        let opened = open(&dir);
        let mut buffer = [MaybeUninit::uninit(); SMALL];
        let mut listing = RawDir::new(&opened, &mut buffer);
        let mut removed = 0;
        while let Some(entry) = listing.next() {
            let name = entry.unwrap().file_name().to_str().unwrap().to_owned();
            if !name.starts_with('.') {
                fs::remove_file(dir.join(name)).unwrap();
                removed += 1;
            }
        }
        assert_eq!(removed, 1000);
        fs::remove_dir(&dir).unwrap();
        place.fill(1000);
        let around = dir.parent().unwrap();
        shell(around, "rm -rf d & first=$!; rm -rf d; wait $first; test ! -e d");
    }
}

#[test]
fn a_directorys_own_attributes_add_up_over_its_partitions() {
    for place in Place::both("50") {
        let dir = place.fill(500);
        let made: Vec<_> = (0..30).map(|number| dir.join(format!("sub{number}"))).collect();
        made.iter().for_each(|path| fs::create_dir(path).unwrap());
        let stat = |field: &str| shell(&dir, &format!("stat -c {field} ."));
        assert_eq!((stat("%h").trim(), stat("%s").trim()), ("32", "530"));
        made[..10].iter().for_each(|path| fs::remove_dir(path).unwrap());
        assert_eq!((stat("%h").trim(), stat("%s").trim()), ("22", "520"));
        // The last change counts, in any partition. A time that was set counts until the next
        // change.
        for name in ["500", "501", "502", "503", "504", "505"] {
            let before = fs::metadata(&dir).unwrap().modified().unwrap();
            make(&dir, "", name.parse().unwrap()..name.parse::<usize>().unwrap() + 1);
            let file = fs::metadata(dir.join(name)).unwrap().modified().unwrap();
            let after = fs::metadata(&dir).unwrap().modified().unwrap();
            assert!(before < after && after == file, "{before:?} {after:?} {file:?}");
            shell(&dir, "touch -d '2001-02-03 04:05:06 UTC' . && test $(stat -c %Y .) = 981173106");
        }
    }
}
