//! Files that tell which process hosts each shard. There is one for each shard. Its server writes
//! it at each start, and so do other processes that hear of it.
//!
//! ```text
//! FOLDER/run/hosts/shard-0003:
//! epoch 17
//! host 0123456789abcdef0123456789abcdef
//! address unix:/srv/volume/run/server-0003.sock
//! address 10.0.0.3:7000
//! ```
//!
//! A file is replaced as a whole, and only by one of a higher epoch (or of an equal one, from the
//! same start). The process that replaces it holds `FOLDER/run/hosts/lock` (`flock`).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Address, Hosting};
use rustix::fs::{FlockOperation, flock};

/// The folder of those files.
#[derive(Clone, Debug)]
pub struct HostsFolder {
    path: PathBuf,
}

impl HostsFolder {
    /// The folder within `run`, where a volume's processes keep their files.
    #[must_use]
    pub fn new(run: &Path) -> Self {
        Self { path: run.join("hosts") }
    }

    fn file(&self, shard: ShardIndex) -> PathBuf {
        self.path.join(format!("shard-{:04}", shard.0))
    }

    /// All files that can be read. A malformed one is skipped, as the next start writes it anew.
    #[must_use]
    pub fn read(&self) -> Vec<Hosting> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let mut found: Vec<Hosting> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let shard = name.to_str()?.strip_prefix("shard-")?.parse().ok().map(ShardIndex)?;
                parse(shard, &fs::read_to_string(entry.path()).ok()?)
            })
            .collect();
        found.sort_by_key(|hosting| hosting.shard);
        found
    }

    /// Writes a shard's file, unless a newer one is there. Waits for other processes that write.
    pub fn write(&self, hosting: &Hosting) -> io::Result<()> {
        if self.is_needless(hosting) {
            return Ok(());
        }
        fs::create_dir_all(&self.path)?;
        let _lock = self.lock()?;
        if self.is_needless(hosting) {
            return Ok(());
        }
        let path = self.file(hosting.shard);
        let draft = path.with_extension(format!("new-{}", std::process::id()));
        fs::File::create(&draft)?.write_all(text(hosting).as_bytes())?;
        fs::rename(&draft, &path)
    }

    /// Whether an equal or a newer file is there.
    fn is_needless(&self, hosting: &Hosting) -> bool {
        let text = fs::read_to_string(self.file(hosting.shard)).ok();
        let known = text.and_then(|text| parse(hosting.shard, &text));
        known.is_some_and(|known| known.epoch > hosting.epoch || known == *hosting)
    }

    /// Locks the folder for a comparison and a replacement, until the returned file is closed.
    fn lock(&self) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(self.path.join("lock"))?;
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
        Ok(lock)
    }
}

fn text(hosting: &Hosting) -> String {
    let host: String = hosting.host.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!("epoch {}\nhost {host}\n", hosting.epoch.0);
    for address in &hosting.addresses {
        text.push_str(&format!("address {address}\n"));
    }
    text
}

fn parse(shard: ShardIndex, text: &str) -> Option<Hosting> {
    let (mut epoch, mut host, mut addresses) = (None, [0; 16], Vec::new());
    for line in text.lines() {
        match line.split_once(' ')? {
            ("epoch", number) => epoch = Some(Epoch(number.parse().ok()?)),
            ("host", digits) if digits.len() == 32 => {
                for (at, byte) in host.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
                }
            }
            ("address", address) => {
                address.parse::<Address>().ok()?;
                addresses.push(address.to_owned());
            }
            _ => return None,
        }
    }
    Some(Hosting { shard, epoch: epoch?, host, addresses })
}

/// Takes into `known`, which is sorted by shard, what `heard` has of further shards and of higher
/// epochs. Returns what was new.
pub fn newest(known: &mut Vec<Hosting>, heard: &[Hosting]) -> Vec<Hosting> {
    let mut new = Vec::new();
    for hosting in heard {
        match known.binary_search_by_key(&hosting.shard, |hosting| hosting.shard) {
            Ok(at) if known[at].epoch >= hosting.epoch => continue,
            Ok(at) => known[at] = hosting.clone(),
            Err(at) => known.insert(at, hosting.clone()),
        }
        new.push(hosting.clone());
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosting(shard: u16, epoch: u64, address: &str) -> Hosting {
        let addresses = vec![address.to_owned(), "unix:/a b/c".to_owned()];
        Hosting { shard: ShardIndex(shard), epoch: Epoch(epoch), host: [7; 16], addresses }
    }

    #[test]
    fn files_return_what_was_written_and_old_news_changes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let folder = HostsFolder::new(temp.path());
        assert!(folder.read().is_empty());
        let (one, two) = (hosting(0, 3, "h:1"), hosting(1, 1, "[::1]:2"));
        folder.write(&one).unwrap();
        folder.write(&two).unwrap();
        folder.write(&hosting(0, 2, "old:1")).unwrap();
        assert_eq!(folder.read(), [one, two.clone()]);
        fs::write(folder.file(ShardIndex(0)), "nonsense").unwrap();
        assert_eq!(folder.read(), [two]);
    }

    #[test]
    fn of_many_writers_the_newest_is_left() {
        let temp = tempfile::tempdir().unwrap();
        let folder = HostsFolder::new(temp.path());
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let folder = folder.clone();
                scope.spawn(move || {
                    for epoch in (writer..200).step_by(4) {
                        folder.write(&hosting(0, epoch, "h:1")).unwrap();
                        assert!(folder.read()[0].epoch.0 >= epoch);
                    }
                });
            }
        });
        assert_eq!(folder.read(), [hosting(0, 199, "h:1")]);
        let names = fs::read_dir(&folder.path).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["lock", "shard-0000"]);
    }

    #[test]
    fn the_higher_epoch_wins() {
        let mut known = Vec::new();
        assert_eq!(newest(&mut known, &[hosting(4, 2, "a:1"), hosting(1, 9, "b:1")]).len(), 2);
        assert!(newest(&mut known, &[hosting(4, 1, "c:1"), hosting(1, 9, "d:1")]).is_empty());
        assert_eq!(newest(&mut known, &[hosting(4, 3, "e:1")]), [hosting(4, 3, "e:1")]);
        assert_eq!(known, [hosting(1, 9, "b:1"), hosting(4, 3, "e:1")]);
    }
}
