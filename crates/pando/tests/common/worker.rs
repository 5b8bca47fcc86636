//! A source of load that knows what its part of the tree must look like.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::model::{self, Node, Tree};

const SHARED: &str = "shared";
/// Number of nodes above which it removes rather than creates.
const OBJECTS_MAX: usize = 250;
/// Number of directories above which it creates no more. They are removed more slowly than files,
/// and would fill the tree in a long run.
const DIRECTORIES_MAX: usize = 60;

pub struct Worker {
    number: u64,
    random: fastrand::Rng,
    mount: PathBuf,
    tree: Tree,
    /// The tree as it is if the call that failed has happened.
    maybe: Option<Tree>,
    made: u64,
    acknowledged: u64,
}

impl Worker {
    pub fn new(number: u64, seed: u64, mount: &Path) -> Self {
        let mut worker = Self {
            number,
            random: fastrand::Rng::with_seed(seed * 1000 + number + 1),
            mount: mount.to_owned(),
            tree: Tree::new(),
            maybe: None,
            made: 0,
            acknowledged: 0,
        };
        let _ = fs::create_dir(mount.join(SHARED));
        let own = worker.own();
        worker.attempt(
            |mount| fs::create_dir(mount.join(&own)),
            |tree| {
                tree.insert(own.clone(), Node::Dir { mode: 0o755 });
            },
        );
        worker
    }

    /// Works until a call fails because the process is gone, or until `stop`.
    pub fn run(&mut self, stop: &AtomicBool) {
        while self.maybe.is_none() && !stop.load(Ordering::Relaxed) {
            self.step();
        }
    }

    /// Whether the last call may have happened or not. Then the tree must be checked before work
    /// goes on.
    pub fn is_in_doubt(&self) -> bool {
        self.maybe.is_some()
    }

    /// Number of operations acknowledged since the last call.
    pub fn take_acknowledged(&mut self) -> u64 {
        std::mem::take(&mut self.acknowledged)
    }

    /// Compares the tree at `mount` with the tree that is expected.
    pub fn check(&mut self, mount: &Path, round: u64) {
        let mut found = Tree::new();
        model::read(mount, &self.own(), &mut found).unwrap();
        let mut shared = Tree::new();
        model::read(mount, Path::new(SHARED), &mut shared).unwrap();
        let own = |path: &Path| path.strip_prefix(SHARED).is_ok_and(|rest| self.is_mine(rest));
        found.extend(shared.into_iter().filter(|(path, _)| own(path)));
        let without = model::differences(&self.tree, &found);
        if let Some(maybe) = self.maybe.take()
            && maybe == found
        {
            self.tree = maybe;
            return;
        }
        assert!(
            without.is_empty(),
            "round {round}, worker {}: the tree is not what was acknowledged:\n{}",
            self.number,
            without.join("\n")
        );
    }

    /// Removes everything that the worker has made.
    pub fn remove_all(&mut self) {
        fs::remove_dir_all(self.mount.join(self.own())).unwrap();
        let shared = self.mount.join(SHARED);
        let listed = match fs::read_dir(&shared) {
            // Another worker, which ended before, found the directory empty and removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let own = self.tree.keys().filter(|path| path.starts_with(SHARED)).count();
                assert_eq!(own, 0, "worker {}: `{SHARED}` is gone with its names", self.number);
                return;
            }
            listed => listed.unwrap(),
        };
        for entry in listed {
            let path = entry.unwrap().path();
            if self.is_mine(Path::new(path.file_name().unwrap())) {
                fs::remove_file(path).unwrap();
            }
        }
        let _ = fs::remove_dir(shared);
    }

    fn own(&self) -> PathBuf {
        PathBuf::from(format!("worker-{}", self.number))
    }

    fn is_mine(&self, name: &Path) -> bool {
        name.to_string_lossy().starts_with(&format!("w{}-", self.number))
    }

    /// Makes a call. If it succeeds, it counts. If the process is gone, it may have happened or
    /// not.
    fn attempt(
        &mut self,
        call: impl FnOnce(&Path) -> io::Result<()>,
        apply: impl FnOnce(&mut Tree),
    ) {
        let result = call(&self.mount);
        let mut after = self.tree.clone();
        apply(&mut after);
        match result {
            Ok(()) => {
                self.tree = after;
                self.acknowledged += 1;
            }
            Err(error) if is_gone(&error) => self.maybe = Some(after),
            Err(error) => panic!("worker {}: {error}", self.number),
        }
    }

    fn step(&mut self) {
        let full = self.tree.len() > OBJECTS_MAX;
        let directories = self.tree.values().filter(|node| matches!(node, Node::Dir { .. }));
        let branched = full || directories.count() > DIRECTORIES_MAX;
        match self.random.u64(..100) {
            0..=34 if !full => self.create(),
            35..=44 if !branched => self.make_directory(),
            35..=44 if !full => self.remove_directory(),
            45..=49 if !full => self.symlink(),
            50..=57 if !full => self.link(),
            58..=66 => self.append(),
            67..=84 => self.rename(),
            85..=89 => self.chmod(),
            90..=91 => self.remove_directory(),
            _ => self.unlink(),
        }
    }

    fn create(&mut self) {
        let path = self.new_path(true);
        let mode = 0o600 + self.random.u32(..8);
        let options = || {
            use std::os::unix::fs::OpenOptionsExt;
            let mut options = File::options();
            options.write(true).create_new(true).mode(mode);
            options
        };
        let node = Node::File { mode: mode & !0o022, content: Vec::new(), links: 1 };
        let at = path.clone();
        self.attempt(
            |mount| options().open(mount.join(&at)).map(drop),
            |tree| {
                tree.insert(path, node);
            },
        );
    }

    /// Appends to a file. Short contents stay inline, long ones go to an object.
    fn append(&mut self) {
        let Some(path) = self.pick(|node| matches!(node, Node::File { .. })) else { return };
        let len = if self.random.u64(..4) == 0 { 9_000 } else { 40 };
        let bytes = vec![self.random.u8(..); len];
        let Some(Node::File { content, .. }) = self.tree.get(&path) else { return };
        if content.len() > 40_000 {
            return;
        }
        let names = self.names_of(&path);
        let added = bytes.clone();
        self.attempt(
            |mount| {
                let mut file = File::options().append(true).open(mount.join(&path))?;
                file.write_all(&bytes)?;
                // Bytes that are not fsynced may be lost. `sync_data` tells whether they are
                // stored.
                file.sync_data()
            },
            |tree| {
                for name in names {
                    if let Some(Node::File { content, .. }) = tree.get_mut(&name) {
                        content.extend_from_slice(&added);
                    }
                }
            },
        );
    }

    fn make_directory(&mut self) {
        let path = self.new_path(false);
        let at = path.clone();
        self.attempt(
            |mount| fs::create_dir(mount.join(&at)),
            |tree| {
                tree.insert(path, Node::Dir { mode: 0o755 });
            },
        );
    }

    fn symlink(&mut self) {
        let path = self.new_path(true);
        let target = PathBuf::from(format!("target-{}", self.made));
        let (at, to) = (path.clone(), target.clone());
        self.attempt(
            |mount| std::os::unix::fs::symlink(to, mount.join(at)),
            |tree| {
                tree.insert(path, Node::Link { target });
            },
        );
    }

    fn link(&mut self) {
        let Some(old) = self.pick(|node| matches!(node, Node::File { .. })) else { return };
        let path = self.new_path(true);
        let mut names = self.names_of(&old);
        names.push(path.clone());
        let (from, at) = (old.clone(), path.clone());
        self.attempt(
            |mount| fs::hard_link(mount.join(from), mount.join(at)),
            |tree| {
                let node = tree[&old].clone();
                tree.insert(path, node);
                recount(tree, &names);
            },
        );
    }

    fn unlink(&mut self) {
        let Some(path) = self.pick(|node| !matches!(node, Node::Dir { .. })) else { return };
        let mut names = self.names_of(&path);
        names.retain(|name| *name != path);
        let at = path.clone();
        self.attempt(
            |mount| fs::remove_file(mount.join(at)),
            |tree| {
                tree.remove(&path);
                recount(tree, &names);
            },
        );
    }

    fn remove_directory(&mut self) {
        let own = self.own();
        let tree = &self.tree;
        let empty = |path: &Path| tree.keys().filter(|other| other.starts_with(path)).count() == 1;
        let empty: Vec<PathBuf> = tree
            .iter()
            .filter(|(path, node)| matches!(node, Node::Dir { .. }) && **path != own && empty(path))
            .map(|(path, _)| path.clone())
            .collect();
        let Some(path) = self.random.choice(&empty).cloned() else { return };
        let at = path.clone();
        self.attempt(
            |mount| fs::remove_dir(mount.join(at)),
            |tree| {
                tree.remove(&path);
            },
        );
    }

    /// Renames a file or directory, to a new name or over an old one.
    fn rename(&mut self) {
        let own = self.own();
        let Some(from) = self.pick(|_| true).filter(|path| *path != own) else { return };
        let is_dir = matches!(self.tree[&from], Node::Dir { .. });
        let over = self.random.u64(..4) == 0 && !is_dir;
        let over = over.then(|| self.pick(|node| !matches!(node, Node::Dir { .. }))).flatten();
        let to = over.unwrap_or_else(|| self.new_path(!is_dir));
        let same_file = self.names_of(&from).contains(&to);
        if to.starts_with(&from) || same_file {
            return;
        }
        let mut replaced = self.names_of(&to);
        replaced.retain(|name| *name != to);
        let (old, new) = (from.clone(), to.clone());
        self.attempt(
            |mount| fs::rename(mount.join(old), mount.join(new)),
            |tree| {
                model::rename(tree, &from, &to);
                recount(tree, &replaced);
            },
        );
    }

    fn chmod(&mut self) {
        let Some(path) = self.pick(|node| !matches!(node, Node::Link { .. })) else { return };
        let new = 0o700 + self.random.u32(..64);
        let names = self.names_of(&path);
        let at = path.clone();
        self.attempt(
            |mount| fs::set_permissions(mount.join(at), fs::Permissions::from_mode(new)),
            |tree| {
                for name in names.iter().chain([&path]) {
                    if let Some(Node::Dir { mode } | Node::File { mode, .. }) = tree.get_mut(name) {
                        *mode = new;
                    }
                }
            },
        );
    }

    fn pick(&mut self, want: impl Fn(&Node) -> bool) -> Option<PathBuf> {
        let paths: Vec<&PathBuf> =
            self.tree.iter().filter(|(_, node)| want(node)).map(|(path, _)| path).collect();
        self.random.choice(&paths).map(|path| (*path).clone())
    }

    /// A name that was never used, in one of the worker's directories. Files are sometimes put into
    /// the shared directory.
    fn new_path(&mut self, may_share: bool) -> PathBuf {
        self.made += 1;
        let name = format!("w{}-{}", self.number, self.made);
        if may_share && self.random.u64(..3) == 0 {
            return Path::new(SHARED).join(name);
        }
        // Now and then one directory is filled, so that it splits.
        let hot = self.made / 60;
        let dirs: Vec<PathBuf> = self
            .tree
            .iter()
            .filter(|(_, node)| matches!(node, Node::Dir { .. }))
            .map(|(path, _)| path.clone())
            .collect();
        let index = if self.random.bool() { hot } else { self.random.u64(..) };
        dirs[(index % dirs.len() as u64) as usize].join(name)
    }

    /// All names of the file at `path`, found by the inode number.
    fn names_of(&self, path: &Path) -> Vec<PathBuf> {
        use std::os::unix::fs::MetadataExt;
        let Some(Node::File { links, .. }) = self.tree.get(path) else { return Vec::new() };
        if *links == 1 {
            return vec![path.to_owned()];
        }
        let ino = |path: &Path| self.mount.join(path).symlink_metadata().map(|m| m.ino());
        let Ok(wanted) = ino(path) else { return vec![path.to_owned()] };
        let linked = self
            .tree
            .iter()
            .filter(|(_, node)| matches!(node, Node::File { links, .. } if *links > 1));
        linked
            .filter(|(path, _)| ino(path).is_ok_and(|found| found == wanted))
            .map(|(path, _)| path.clone())
            .collect()
    }
}

/// Sets the link count of these names, which are all names of one file.
fn recount(tree: &mut Tree, names: &[PathBuf]) {
    for name in names {
        if let Some(Node::File { links, .. }) = tree.get_mut(name) {
            *links = names.len() as u64;
        }
    }
}

/// Whether the call failed because no process answers the kernel any more.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::NOTCONN, Errno::CONNABORTED];
    gone.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
