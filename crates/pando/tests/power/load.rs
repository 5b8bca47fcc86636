//! A program that works on the mount, and notes what was acknowledged.

use std::fs::{self, File};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::common::pando_within;
use super::model::{Content, Id, Key, Model, ROOT};
use super::served::Served;

const OPEN_MAX: usize = 3;
const NODES_MAX: usize = 80;
const DIRS_MAX: usize = 8;
const NAMES: u64 = 12;
/// Maximum length of contents that stay inline, bytes. Longer contents are objects.
const INLINE_MAX: u64 = 4096;

pub struct Worker {
    top: String,
    mount: PathBuf,
    disk: Served,
    random: fastrand::Rng,
    model: Model,
    open: Vec<(File, Id)>,
    acknowledged: u64,
}

/// The power was lost during a call.
struct Cut;

type Step = Result<(), Cut>;

impl Worker {
    pub fn new(number: u64, seed: u64, mount: &Path, disk: &Served, is_durable: bool) -> Self {
        Self {
            top: format!("w{number}"),
            mount: mount.to_owned(),
            disk: disk.clone(),
            random: fastrand::Rng::with_seed(seed * 100 + number + 7),
            model: Model::new(is_durable),
            open: Vec::new(),
            acknowledged: 0,
        }
    }

    /// Number of calls that have succeeded so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Works for `steps` steps, or until the power is lost.
    pub fn run(&mut self, steps: u64) {
        let mut done = self.begin();
        for _ in 0..steps {
            done = done.and_then(|()| self.step());
        }
    }

    /// Compares what exists with what may exist. Files that cannot be read any more are removed and
    /// returned.
    pub fn check(&mut self, may_lack: bool) -> Result<Vec<PathBuf>, String> {
        self.open.clear();
        let unreadable = self.model.check(&self.mount, &self.top, may_lack)?;
        for path in &unreadable {
            let key = self.model.taken().map(|(key, _)| key.clone());
            let key = key.into_iter().find(|key| self.model.path(key, Path::new("")) == *path);
            let key = key.unwrap();
            let removed = fs::remove_file(self.mount.join(path));
            removed.map_err(|error| format!("{} cannot be removed: {error}", path.display()))?;
            self.removed(&key);
            self.model.set(key.clone(), None);
            self.model.acknowledged(&[key]);
        }
        Ok(unreadable)
    }

    /// Takes the result of a call. A failure while there is power is a bug.
    fn told<T>(&mut self, what: &str, result: io::Result<T>) -> Result<T, Cut> {
        if std::env::var_os("PANDO_POWER_TRACE").is_some() {
            eprintln!("{} {}: {what} {:?}", self.top, self.disk.requests(), result.as_ref().err());
        }
        match result {
            Ok(value) => {
                self.acknowledged += 1;
                Ok(value)
            }
            Err(_) if self.disk.is_gone() => Err(Cut),
            Err(error) => panic!("{}: {what}: {error}", self.top),
        }
    }

    /// Makes a call that sets these names.
    fn change(
        &mut self,
        what: &str,
        names: &[(Key, Option<Id>)],
        call: impl FnOnce(&Self) -> io::Result<()>,
    ) -> Step {
        let result = call(self);
        for (key, value) in names {
            self.model.set(key.clone(), *value);
        }
        self.told(&format!("{what} {names:?}"), result)?;
        let keys: Vec<_> = names.iter().map(|(key, _)| key.clone()).collect();
        self.model.acknowledged(&keys);
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.model.path(key, &self.mount)
    }

    fn begin(&mut self) -> Step {
        let top = (ROOT, self.top.clone());
        if self.model.at(&top).is_none() {
            self.make_dir(top)?;
        }
        Ok(())
    }

    fn dirs(&self) -> Vec<Id> {
        self.model.taken().map(|(_, id)| id).filter(|id| self.model.nodes[*id].is_dir).collect()
    }

    fn files(&self) -> Vec<(Key, Id)> {
        let taken = self.model.taken().filter(|(_, id)| !self.model.nodes[*id].is_dir);
        taken.map(|(key, id)| (key.clone(), id)).collect()
    }

    fn some_name(&mut self, prefix: &str) -> Key {
        let dir = *self.random.choice(&self.dirs()).unwrap();
        (dir, format!("{prefix}{}", self.random.u64(..NAMES)))
    }

    fn some_file(&mut self) -> Option<(Key, Id)> {
        self.random.choice(&self.files()).cloned()
    }

    fn step(&mut self) -> Step {
        let is_full = self.model.taken().count() > NODES_MAX;
        match self.random.u64(..100) {
            0..=29 if !is_full => self.create(),
            0..=44 => self.write_file(),
            45..=54 => self.write_open(),
            55..=59 => self.sync_open(),
            60..=64 => self.close_open(),
            65..=74 => self.rename(),
            75..=79 => self.link(),
            80..=86 => self.unlink(),
            87..=90 if self.dirs().len() < DIRS_MAX => {
                let key = self.some_name("d");
                if self.model.at(&key).is_none() { self.make_dir(key) } else { Ok(()) }
            }
            87..=92 => self.remove_dir(),
            93 => self.write_many(),
            94 => self.sync_all(),
            _ => self.sync_dir(),
        }
    }

    fn make_dir(&mut self, key: Key) -> Step {
        let (path, made) = (self.path(&key), self.model.make(true));
        self.change("mkdir", &[(key, Some(made))], |_| fs::create_dir(&path))?;
        let stat = path.metadata();
        self.model.nodes[made].ino = Some(self.told("stat", stat)?.ino());
        Ok(())
    }

    fn create(&mut self) -> Step {
        let key = self.some_name("f");
        if self.model.at(&key).is_some() {
            return Ok(());
        }
        let (path, made) = (self.path(&key), self.model.make(false));
        let mut file = None;
        self.change("create", &[(key, Some(made))], |_| {
            file = Some(File::options().read(true).write(true).create_new(true).open(&path)?);
            Ok(())
        })?;
        let file = file.unwrap();
        let stat = file.metadata();
        self.model.nodes[made].ino = Some(self.told("fstat", stat)?.ino());
        self.use_file(file, made)
    }

    fn write_file(&mut self) -> Step {
        let Some((key, id)) = self.some_file() else { return Ok(()) };
        let opened = File::options().read(true).write(true).open(self.path(&key));
        let file = self.told(&format!("open of {id}"), opened)?;
        self.use_file(file, id)
    }

    fn use_file(&mut self, file: File, id: Id) -> Step {
        for _ in 0..self.random.u64(..3) {
            self.write(&file, id)?;
        }
        if self.random.u64(..3) == 0 {
            self.sync(&file, id)?;
        }
        if self.random.bool() && self.open.len() < OPEN_MAX {
            self.open.push((file, id));
            return Ok(());
        }
        self.close(file, id)
    }

    fn write_open(&mut self) -> Step {
        let Some((file, id)) = self.take_open() else { return Ok(()) };
        self.write(&file, id)?;
        self.open.push((file, id));
        Ok(())
    }

    fn sync_open(&mut self) -> Step {
        let Some((file, id)) = self.take_open() else { return Ok(()) };
        self.sync(&file, id)?;
        self.open.push((file, id));
        Ok(())
    }

    fn close_open(&mut self) -> Step {
        let Some((file, id)) = self.take_open() else { return Ok(()) };
        self.close(file, id)
    }

    fn take_open(&mut self) -> Option<(File, Id)> {
        let count = self.open.len();
        (count > 0).then(|| self.open.swap_remove(self.random.usize(..count)))
    }

    /// Makes more objects within a second than are synced one by one.
    fn write_many(&mut self) -> Step {
        let Some((key, id)) = self.some_file() else { return Ok(()) };
        let path = self.path(&key);
        for _ in 0..80 {
            let opened = File::options().write(true).open(&path);
            let file = self.told(&format!("open of {id}"), opened)?;
            let offset = self.model.nodes[id].contents.last().unwrap().bytes.len() as u64;
            let bytes = bytes(&mut self.random, INLINE_MAX + 1);
            self.model.writes(id, offset, &bytes);
            let result = file.write_all_at(&bytes, offset);
            self.told(&format!("write of {id} at {offset}"), result)?;
            self.close(file, id)?;
        }
        let opened = File::open(&path);
        let file = self.told("open", opened)?;
        self.sync(&file, id)?;
        self.close(file, id)
    }

    /// Changes the content in one of several ways.
    fn write(&mut self, file: &File, id: Id) -> Step {
        let mut content = self.model.nodes[id].contents.last().unwrap().bytes.clone();
        let len = content.len() as u64;
        let is_large = self.random.u64(..4) == 0;
        let most = if is_large { 150_000 } else { INLINE_MAX / 2 };
        let size = self.random.u64(1..=most);
        let offset = match self.random.u64(..4) {
            0 => {
                let size = self.random.u64(..=len);
                content.truncate(size as usize);
                self.model.nodes[id].contents.push(Content { bytes: content, is_cut: true });
                let result = file.set_len(size);
                return self.told(&format!("truncate of {id} from {len} to {size}"), result);
            }
            1 => 0,
            2 => self.random.u64(..=len),
            _ => len,
        };
        let bytes = bytes(&mut self.random, size);
        self.model.writes(id, offset, &bytes);
        let result = file.write_all_at(&bytes, offset);
        self.told(&format!("write of {id} at {offset}, {size} bytes"), result)
    }

    fn sync(&mut self, file: &File, id: Id) -> Step {
        let result = if self.random.bool() { file.sync_all() } else { file.sync_data() };
        self.told(&format!("fsync of {id}"), result)?;
        self.model.content_synced(id);
        let names = self.model.names_of(id);
        self.model.synced(&names);
        Ok(())
    }

    fn close(&mut self, file: File, id: Id) -> Step {
        // SAFETY: the descriptor was this file's, and nothing else uses it.
        let result = match unsafe { libc::close(file.into_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        self.told(&format!("close of {id}"), result)?;
        self.model.closed(id);
        Ok(())
    }

    fn rename(&mut self) -> Step {
        let taken: Vec<_> = self.model.taken().map(|(key, id)| (key.clone(), id)).collect();
        let Some((from, id)) = self.random.choice(&taken).cloned() else { return Ok(()) };
        let is_dir = self.model.nodes[id].is_dir;
        let to = self.some_name(if is_dir { "d" } else { "f" });
        let replaced = self.model.at(&to);
        // A rename between two names of one file does nothing, and directories replace nothing
        // here.
        let is_in_the_way = replaced.is_some() && (is_dir || replaced == Some(id));
        if from.0 == ROOT || is_in_the_way || is_dir && self.model.is_beneath(to.0, id) {
            return Ok(());
        }
        self.removed(&to);
        let (old, new) = (self.path(&from), self.path(&to));
        self.change("rename", &[(from, None), (to, Some(id))], |_| fs::rename(old, new))
    }

    fn link(&mut self) -> Step {
        let Some((from, id)) = self.some_file() else { return Ok(()) };
        let to = self.some_name("f");
        if self.model.at(&to).is_some() {
            return Ok(());
        }
        self.model.nodes[id].is_linked = true;
        let (old, new) = (self.path(&from), self.path(&to));
        self.change("link", &[(to, Some(id))], |_| fs::hard_link(old, new))
    }

    fn unlink(&mut self) -> Step {
        let Some((key, _)) = self.some_file() else { return Ok(()) };
        self.removed(&key);
        let path = self.path(&key);
        self.change("unlink", &[(key, None)], |_| fs::remove_file(path))
    }

    fn remove_dir(&mut self) -> Step {
        let taken: Vec<_> = self.model.taken().map(|(key, id)| (key.clone(), id)).collect();
        let is_empty = |id: Id| taken.iter().all(|((dir, _), _)| *dir != id);
        let empty = taken
            .iter()
            .filter(|(key, id)| key.0 != ROOT && self.model.nodes[*id].is_dir && is_empty(*id));
        let empty: Vec<_> = empty.map(|(key, _)| key.clone()).collect();
        let Some(key) = self.random.choice(&empty).cloned() else { return Ok(()) };
        self.removed(&key);
        let path = self.path(&key);
        self.change("rmdir", &[(key, None)], |_| fs::remove_dir(path))
    }

    fn removed(&mut self, key: &Key) {
        if let Some(id) = self.model.at(key) {
            self.model.nodes[id].is_removed = true;
        }
    }

    /// `pando sync`: all of the volume is on disk.
    fn sync_all(&mut self) -> Step {
        let output = pando_within(60).arg("sync").arg(&self.mount).output().unwrap();
        let synced = match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EIO)),
        };
        self.told("pando sync", synced)?;
        self.model.all_synced();
        Ok(())
    }

    fn sync_dir(&mut self) -> Step {
        let dir = *self.random.choice(&self.dirs()).unwrap();
        let key = self.model.names_of(dir).remove(0);
        let synced = File::open(self.path(&key)).and_then(|dir| dir.sync_all());
        self.told("fsync of a directory", synced)?;
        let names = self.model.names_in(dir);
        self.model.synced(&names);
        Ok(())
    }
}

fn bytes(random: &mut fastrand::Rng, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    random.fill(&mut bytes);
    bytes
}
