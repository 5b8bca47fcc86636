//! What may exist after a loss of power.
//!
//! A *slot* is a name in a directory, and a *node* is a file or directory that was made. Each slot
//! keeps the values that it had, and each file its contents. They begin with the last one that is
//! certainly on disk (the floor). The newest may be from a call that never returned.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub type Id = usize;
/// The node that has the names in the mount's root as its slots.
pub const ROOT: Id = 0;
/// Unit of the kernel's page cache, bytes.
const PAGE: usize = 4096;

pub type Key = (Id, String);

#[derive(Default, Debug)]
pub struct Node {
    pub is_dir: bool,
    /// Its inode number; `None`: the call that made the node did not return.
    pub ino: Option<u64>,
    /// Contents of a file, from the floor on.
    pub contents: Vec<Content>,
    /// Whether it ever had several names.
    pub is_linked: bool,
    /// Whether a name of it was removed or replaced.
    pub is_removed: bool,
}

#[derive(Clone, Default, Debug)]
pub struct Content {
    pub bytes: Vec<u8>,
    /// Whether a truncation has made it. The shard cuts the content that it has, and bytes that are
    /// not stored yet may be missing. Until they are stored, the content ends in zeros.
    pub is_cut: bool,
}

pub struct Model {
    pub nodes: Vec<Node>,
    /// Values of each name, from the floor on.
    pub slots: BTreeMap<Key, Vec<Option<Id>>>,
    /// Whether an acknowledged change is on disk.
    is_durable: bool,
}

/// Files that exist, but have lost their content with the power.
pub type Unreadable = Vec<PathBuf>;

impl Model {
    pub fn new(is_durable: bool) -> Self {
        let root = Node { is_dir: true, ..Node::default() };
        Self { nodes: vec![root], slots: BTreeMap::new(), is_durable }
    }

    pub fn make(&mut self, is_dir: bool) -> Id {
        let contents = if is_dir { Vec::new() } else { vec![Content::default()] };
        self.nodes.push(Node { is_dir, contents, ..Node::default() });
        self.nodes.len() - 1
    }

    /// The node under a name, if everything acknowledged is there.
    pub fn at(&self, key: &Key) -> Option<Id> {
        *self.slots.get(key)?.last()?
    }

    /// Names that exist, with their nodes.
    pub fn taken(&self) -> impl Iterator<Item = (&Key, Id)> {
        self.slots.iter().filter_map(|(key, values)| Some((key, (*values.last()?)?)))
    }

    pub fn set(&mut self, key: Key, value: Option<Id>) {
        self.slots.entry(key).or_insert_with(|| vec![None]).push(value);
    }

    /// A call that set these names has returned.
    pub fn acknowledged(&mut self, keys: &[Key]) {
        if self.is_durable {
            self.synced(keys);
        }
    }

    /// The present values of these names are on disk.
    pub fn synced(&mut self, keys: &[Key]) {
        for key in keys {
            if let Some(values) = self.slots.get_mut(key) {
                values.drain(..values.len() - 1);
            }
        }
    }

    /// A write begins. From the middle of a page it comes from the kernel in two requests, of which
    /// the first ends with the page. The power may be lost between them.
    pub fn writes(&mut self, file: Id, offset: u64, bytes: &[u8]) {
        let contents = &mut self.nodes[file].contents;
        let at = offset as usize;
        for part in [at.next_multiple_of(PAGE) - at, bytes.len()] {
            if part > 0 && part <= bytes.len() {
                let mut content = contents.last().map_or_else(Vec::new, |last| last.bytes.clone());
                content.resize(content.len().max(at + part), 0);
                content[at..at + part].copy_from_slice(&bytes[..part]);
                contents.push(Content { bytes: content, is_cut: false });
            }
        }
    }

    /// The present content of a file is on disk.
    pub fn content_synced(&mut self, file: Id) {
        let contents = &mut self.nodes[file].contents;
        contents.drain(..contents.len() - 1);
    }

    /// The present names and contents of all files are on disk.
    pub fn all_synced(&mut self) {
        let names: Vec<_> = self.slots.keys().cloned().collect();
        self.synced(&names);
        let files: Vec<_> = self.taken().map(|(_, id)| id).collect();
        for file in files {
            if !self.nodes[file].is_dir {
                self.content_synced(file);
            }
        }
    }

    /// A file was closed. If acknowledged changes are durable, its content is on disk.
    pub fn closed(&mut self, file: Id) {
        if self.is_durable {
            self.content_synced(file);
        }
    }

    pub fn names_of(&self, node: Id) -> Vec<Key> {
        self.taken().filter(|(_, id)| *id == node).map(|(key, _)| key.clone()).collect()
    }

    pub fn names_in(&self, dir: Id) -> Vec<Key> {
        self.slots.keys().filter(|(parent, _)| *parent == dir).cloned().collect()
    }

    /// Whether a node is the directory `dir`, or anywhere below it.
    pub fn is_beneath(&self, mut node: Id, dir: Id) -> bool {
        while node != dir {
            match self.names_of(node).first() {
                Some((parent, _)) => node = *parent,
                None => return false,
            }
        }
        true
    }

    pub fn path(&self, (dir, name): &Key, mount: &Path) -> PathBuf {
        let above = match self.names_of(*dir).first() {
            Some(key) => self.path(key, mount),
            None => mount.to_owned(),
        };
        above.join(name)
    }

    /// Compares the model with what exists, which then becomes the model. `may_lack`: contents that
    /// were not synced may be unreadable.
    pub fn check(&mut self, mount: &Path, top: &str, may_lack: bool) -> Result<Unreadable, String> {
        let mut found = Found::default();
        found.look(self, ROOT, mount, Some(top), may_lack)?;
        self.check_slots(&found)?;
        self.check_nodes(&found)?;
        *self = found.into_model(self.is_durable);
        Ok(found_unreadable(self))
    }

    fn check_slots(&self, found: &Found) -> Result<(), String> {
        for (key, allowed) in self.slots.iter().filter(|(key, _)| found.dirs.contains(&key.0)) {
            let value = found.slots.get(key).copied();
            if !allowed.contains(&value) {
                let path = self.path(key, Path::new(""));
                let path = path.display();
                return Err(format!("{path} is {value:?}, which may be one of {allowed:?}"));
            }
        }
        match found.slots.keys().find(|key| !self.slots.contains_key(key)) {
            Some(key) => Err(format!("{key:?} was never made")),
            None => Ok(()),
        }
    }

    /// Checks that renames have lost no node, and doubled none.
    fn check_nodes(&self, found: &Found) -> Result<(), String> {
        let mut counts = HashMap::new();
        found.slots.values().for_each(|id| *counts.entry(*id).or_insert(0) += 1);
        for (id, node) in self.nodes.iter().enumerate().skip(1) {
            let count = counts.get(&id).copied().unwrap_or(0);
            if count > 1 && !node.is_linked {
                return Err(format!("node {id} is there {count} times: {:?}", self.places(id)));
            }
            if count == 0 && self.is_certain(id, &mut HashSet::new()) {
                return Err(format!("node {id} is gone: it was at {:?}", self.places(id)));
            }
        }
        Ok(())
    }

    fn places(&self, node: Id) -> Vec<&Key> {
        let may_be = |values: &&Vec<Option<Id>>| values.contains(&Some(node));
        self.slots.iter().filter(|(_, values)| may_be(values)).map(|(key, _)| key).collect()
    }

    /// Whether a node must exist under some name.
    fn is_certain(&self, node: Id, seen: &mut HashSet<Id>) -> bool {
        if node == ROOT {
            return true;
        }
        let mut floors = self.slots.values().map(|values| values[0]);
        if self.nodes[node].is_removed
            || !floors.any(|floor| floor == Some(node))
            || !seen.insert(node)
        {
            return false;
        }
        let is_certain = self.places(node).iter().all(|(dir, _)| self.is_certain(*dir, seen));
        seen.remove(&node);
        is_certain
    }
}

/// What exists.
#[derive(Default)]
struct Found {
    slots: BTreeMap<Key, Id>,
    dirs: HashSet<Id>,
    nodes: HashMap<Id, (u64, Option<Vec<u8>>)>,
}

impl Found {
    fn look(
        &mut self,
        model: &mut Model,
        dir: Id,
        path: &Path,
        only: Option<&str>,
        may_lack: bool,
    ) -> Result<(), String> {
        let shown = path.display();
        self.dirs.insert(dir);
        let failed = |error| format!("{shown} cannot be listed: {error}");
        for entry in fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().into_string().unwrap();
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let path = path.join(&name);
            let stat = path.symlink_metadata();
            let stat = stat.map_err(|error| format!("{} is listed: {error}", path.display()))?;
            let key = (dir, name);
            let node = identify(model, &key, &stat).ok_or_else(|| {
                format!("{} is file {}, which is none of those", path.display(), stat.ino())
            })?;
            self.slots.insert(key, node);
            if stat.is_dir() {
                self.nodes.insert(node, (stat.ino(), None));
                if !self.dirs.contains(&node) {
                    self.look(model, node, &path, None, may_lack)?;
                }
            } else {
                let content = read(model, node, &path, stat.len(), may_lack)?;
                self.nodes.insert(node, (stat.ino(), content));
            }
        }
        Ok(())
    }

    fn into_model(self, is_durable: bool) -> Model {
        let mut model = Model::new(is_durable);
        let mut ids = HashMap::from([(ROOT, ROOT)]);
        for (old, (ino, content)) in &self.nodes {
            let is_dir = self.dirs.contains(old);
            let id = model.make(is_dir);
            let node = &mut model.nodes[id];
            node.ino = Some(*ino);
            if !is_dir {
                let known = content.clone().map(|bytes| Content { bytes, is_cut: false });
                node.contents = known.into_iter().collect();
            }
            ids.insert(*old, id);
        }
        for ((dir, name), node) in self.slots {
            let id = ids[&node];
            model.slots.insert((ids[&dir], name), vec![Some(id)]);
        }
        for id in 1..model.nodes.len() {
            model.nodes[id].is_linked = model.names_of(id).len() > 1;
        }
        model
    }
}

/// Files that exist and could not be read.
fn found_unreadable(model: &Model) -> Unreadable {
    let taken = model.taken();
    let lacking =
        taken.filter(|(_, id)| !model.nodes[*id].is_dir && model.nodes[*id].contents.is_empty());
    lacking.map(|(key, _)| model.path(key, Path::new(""))).collect()
}

/// The node that this is, by its inode number. If the call that made it did not return, it is found
/// by its place.
fn identify(model: &mut Model, key: &Key, stat: &fs::Metadata) -> Option<Id> {
    let known = model.nodes.iter().position(|node| node.ino == Some(stat.ino()));
    let allowed = model.slots.get(key)?;
    known.filter(|id| allowed.contains(&Some(*id))).or_else(|| {
        let mut unknown = allowed.iter().flatten().copied();
        let made = unknown.find(|id| {
            model.nodes[*id].ino.is_none() && model.nodes[*id].is_dir == stat.is_dir()
        })?;
        model.nodes[made].ino = Some(stat.ino());
        Some(made)
    })
}

/// The content of a file, if it is an allowed one. `None`: a part of it is lost.
fn read(
    model: &Model,
    node: Id,
    path: &Path,
    len: u64,
    may_lack: bool,
) -> Result<Option<Vec<u8>>, String> {
    let (shown, allowed) = (path.display(), &model.nodes[node].contents);
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
            return match may_lack && allowed.len() != 1 {
                true => Ok(None),
                false => Err(format!("{shown}, which is on disk, cannot be read: {error}")),
            };
        }
        Err(error) => return Err(format!("{shown} cannot be read: {error}")),
    };
    // The file could not be read after an earlier loss.
    if allowed.is_empty() {
        return Ok(None);
    }
    let lens: Vec<_> = allowed.iter().map(|content| content.bytes.len()).collect();
    if bytes.len() as u64 != len || !lens.contains(&bytes.len()) {
        let read = bytes.len();
        return Err(format!("{shown} has {len} bytes, {read} are read; it may have {lens:?}"));
    }
    match bytes.iter().enumerate().position(|(at, byte)| !may_be(allowed, at, *byte)) {
        Some(at) => Err(format!(
            "byte {at} of {} of {shown} ({node}) is {}; of contents with {lens:?} bytes, it may be {:?}",
            bytes.len(),
            bytes[at],
            allowed.iter().map(|content| content.bytes.get(at)).collect::<Vec<_>>()
        )),
        None => Ok(Some(bytes)),
    }
}

fn may_be(allowed: &[Content], at: usize, byte: u8) -> bool {
    if allowed.iter().any(|content| content.bytes.get(at) == Some(&byte)) {
        return true;
    }
    let mut is_short = false;
    byte == 0
        && allowed.iter().any(|content| {
            let has_byte = content.bytes.len() > at;
            is_short |= !has_byte;
            is_short && has_byte && content.is_cut
        })
}
