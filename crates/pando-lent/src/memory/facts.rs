//! What answers told of directories and of the names in them.

use std::collections::HashMap;

use pando_types::op::{AccessMask, FileAt, Op, Request};
use pando_types::reply::{Body, DirAttr, Found, Layout, Refusal, Slice};
use pando_types::{Attr, Credentials, DirId, DirRef, Errno, Ino, Judge, Name, Order};

/// Names, and entries of answers, that are remembered at most. Some 50 MB.
pub(super) const MOST: usize = 131_072;
/// Answers of one directory that are remembered at most.
const ANSWERS: usize = 32;
/// Names of a listing up to which contents are asked for from the first one on.
const FEW: usize = 256;
/// Bytes of contents that take the room of a name.
const NAME_BYTES: usize = 256;

/// What is known.
#[derive(Default)]
pub(super) struct Facts {
    dirs: HashMap<DirId, Dir>,
    /// Where directories were found. What it says counts only if it is known of the parent, too.
    places: HashMap<DirId, (DirId, Name)>,
    size: usize,
}

/// What is known of one directory.
struct Dir {
    /// Its inode number. A directory that was removed has the id of the one that is made anew at
    /// its place.
    ino: Ino,
    /// Answers about the directory itself, and pages of its listing.
    answers: Vec<(Op, Credentials, Body)>,
    /// What names lead to. `None`: nowhere.
    names: HashMap<Name, Option<Found>>,
    /// Callers that may look names up.
    searchers: Vec<Credentials>,
    contents: Contents,
    size: usize,
}

/// Where the bytes of files are.
#[derive(Default)]
struct Contents {
    files: HashMap<Name, Layout>,
    /// By whose permission shards told these.
    by: Option<Credentials>,
    /// Files before this order were asked for, from some order on.
    until: Option<Order>,
}

/// The directory that an operation is about, if its answer may be remembered. What one partition
/// counts is not: a split moves names between partitions, and each would be counted at its time.
pub(super) fn dir_of(op: &Op) -> Option<DirRef> {
    match op {
        Op::DirGetAttr(dir)
        | Op::DirAccess(dir, _)
        | Op::ReadDir { dir, .. }
        | Op::ReadFiles { dir, .. }
        | Op::Parent(dir)
        | Op::Lookup(dir, _) => Some(*dir),
        Op::GetAttr(file) | Op::ReadData { file, .. } => match &file.at {
            FileAt::Name(dir, _) => Some(*dir),
            FileAt::Link => None,
        },
        _ => None,
    }
}

impl Facts {
    #[cfg(test)]
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    pub(super) fn clear(&mut self) {
        self.dirs.clear();
        self.places.clear();
        self.size = 0;
    }

    /// Drops what is known of a directory.
    pub(super) fn drop_dir(&mut self, dir: DirId) {
        self.size -= self.dirs.remove(&dir).map_or(0, |dir| dir.size);
    }

    /// The answer to a request about a directory, if it is known.
    pub(super) fn answer(&self, of: DirRef, request: &Request) -> Option<Result<Body, Refusal>> {
        let dir = self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?;
        match &request.op {
            Op::Lookup(_, name) if dir.searchers.contains(&request.credentials) => dir.leads(name),
            Op::Lookup(..) => None,
            Op::GetAttr(file) => {
                let FileAt::Name(_, name) = &file.at else { return None };
                dir.file(name, file.ino).map(|attr| Ok(Body::Attr(attr.clone())))
            }
            Op::ReadData { file, .. } => {
                let FileAt::Name(_, name) = &file.at else { return None };
                let contents = &dir.contents;
                let by = contents.by.as_ref().filter(|by| **by == request.credentials);
                let layout = by.and_then(|_| contents.files.get(name));
                let layout = layout.filter(|layout| layout.attr.ino == file.ino);
                layout.map(|layout| Ok(Body::Layout(layout.clone())))
            }
            op => {
                let is_it = |(asked, by, _): &&(Op, Credentials, Body)| {
                    *asked == *op && *by == request.credentials
                };
                dir.answers.iter().find(is_it).map(|(_, _, body)| Ok(body.clone()))
            }
        }
    }

    /// Parent and name of a directory, if they are known.
    pub(super) fn place(&self, of: DirRef) -> Option<(DirRef, Name)> {
        let (parent, name) = self.places.get(&of.id)?;
        let dir = self.dirs.get(parent)?;
        let is_it = |found: &Found| matches!(found, Found::Dir(access) if access.dir == of);
        let has_it = dir.names.get(name)?.as_ref().is_some_and(is_it);
        has_it.then(|| (DirRef { id: *parent, ino: dir.ino }, name.clone()))
    }

    /// The answer to a lookup by a caller who may search the directory, if it is known.
    pub(super) fn leads(&self, of: DirRef, name: &Name) -> Option<Result<Body, Refusal>> {
        self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?.leads(name)
    }

    /// The directory to which a name leads, if that is known.
    pub(super) fn child(&self, of: DirRef, name: &Name) -> Option<DirId> {
        let dir = self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?;
        match dir.names.get(name)? {
            Some(Found::Dir(access)) => Some(access.dir.id),
            _ => None,
        }
    }

    /// Whether a caller may use a directory so, by its attributes. `None`: they are not known.
    pub(super) fn may_use(
        &self,
        of: DirRef,
        caller: &Credentials,
        access: AccessMask,
    ) -> Option<bool> {
        let dir = self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?;
        let attr = dir.answers.iter().find_map(|(_, _, body)| match body {
            Body::Dir(attr) => Some(&attr.base),
            _ => None,
        });
        attr.map(|attr| pando_core::may(attr, caller, access))
    }

    /// From where on contents are to be asked for, as a file of a directory is read of which they
    /// are not known. `order` is that of the file's name. `None`: they were asked for, or nobody
    /// has listed the directory.
    pub(super) fn contents_from(&self, of: DirRef, order: Order) -> Option<Order> {
        let dir = self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?;
        let is_listed = dir.answers.iter().any(|(_, _, body)| matches!(body, Body::Page(..)));
        // Else partitions may be elsewhere.
        let is_whole = dir.answers.iter().any(|(_, _, body)| matches!(body, Body::Dir(_)));
        match dir.contents.until {
            Some(until) => (order >= until).then_some(if is_whole { until } else { order }),
            None if !is_listed => None,
            None => Some(if is_whole && dir.names.len() <= FEW { Order(0) } else { order }),
        }
    }

    /// The attributes of a file in its entry, if they are known.
    pub(super) fn file(&self, of: DirRef, name: &Name, ino: Ino) -> Option<&Attr> {
        self.dirs.get(&of.id).filter(|dir| dir.ino == of.ino)?.file(name, ino)
    }

    /// Remembers an answer about a directory.
    pub(super) fn learn(&mut self, of: DirRef, request: &Request, result: &Result<Body, Refusal>) {
        if !is_fact(&request.op, result) {
            return;
        }
        if self.size > MOST || self.places.len() > MOST {
            self.clear();
        }
        if self.dirs.get(&of.id).is_some_and(|dir| dir.ino != of.ino) {
            self.drop_dir(of.id);
        }
        let before = self.dirs.get(&of.id).map_or(0, |dir| dir.size);
        let dir = self.dirs.entry(of.id).or_insert_with(|| Dir::new(of.ino));
        dir.learn(request, result);
        self.size += dir.size - before;
        let mut place = |name: &Name, found: &Found| {
            if let Found::Dir(access) = found {
                self.places.insert(access.dir.id, (of.id, name.clone()));
            }
        };
        match (&request.op, result) {
            (Op::Lookup(_, name), Ok(Body::Found(found))) => place(name, found),
            (_, Ok(Body::Page(page, _))) => page.iter().for_each(|it| place(&it.name, &it.found)),
            _ => {}
        }
    }
}

/// Whether an answer stays true while nobody else changes the directory.
fn is_fact(op: &Op, result: &Result<Body, Refusal>) -> bool {
    match (op, result) {
        (_, Ok(Body::Dir(attr))) => is_whole(attr),
        (_, Ok(_)) => true,
        (Op::Lookup(..), Err(refusal)) => *refusal == Refusal::Errno(Errno::ENOENT),
        (_, Err(_)) => false,
    }
}

/// Whether all that counts for these attributes is in them: the directory is not split.
fn is_whole(attr: &DirAttr) -> bool {
    matches!(&attr.deltas[..], [only] if only.radix.0 == 0)
}

/// How much of the room a caller takes, in names.
fn weight_of(caller: &Credentials) -> usize {
    let groups = match &caller.judge {
        Judge::Shard(groups) => groups.len(),
        Judge::Kernel => 0,
        Judge::Powers(powers) => powers.groups.len(),
    };
    1 + groups / 64
}

/// How much of the room contents take, in names.
fn size_of_layout(layout: &Layout) -> usize {
    1 + (layout.inline.len() + layout.slices.len() * size_of::<Slice>()) / NAME_BYTES
}

impl Dir {
    fn new(ino: Ino) -> Self {
        let (answers, names, searchers, contents) = Default::default();
        Self { ino, answers, names, searchers, contents, size: 1 }
    }

    fn learn(&mut self, request: &Request, result: &Result<Body, Refusal>) {
        match (&request.op, result) {
            (Op::Lookup(_, name), Ok(Body::Found(found))) => {
                self.searched_by(&request.credentials);
                self.knows(name, Some(found));
            }
            (Op::Lookup(_, name), Err(_)) => {
                self.searched_by(&request.credentials);
                self.knows(name, None);
            }
            (Op::GetAttr(file), Ok(Body::Attr(attr))) => {
                if let FileAt::Name(_, name) = &file.at {
                    self.knows(name, Some(&Found::File(attr.clone())));
                }
            }
            (Op::ReadFiles { .. }, Ok(Body::Files(files, until))) => {
                self.contain(&request.credentials, files, *until);
            }
            (Op::Lookup(..) | Op::GetAttr(_) | Op::ReadData { .. } | Op::ReadFiles { .. }, _)
            | (_, Err(_)) => {}
            (op, Ok(body)) => self.answered(op, &request.credentials, body),
        }
    }

    fn answered(&mut self, op: &Op, caller: &Credentials, body: &Body) {
        let mut size = weight_of(caller);
        if let Body::Page(entries, _) = body {
            for entry in entries {
                self.knows(&entry.name, Some(&entry.found));
            }
            size += entries.len();
        }
        let is_known = self.answers.iter().any(|(asked, by, _)| asked == op && by == caller);
        if !is_known && self.answers.len() < ANSWERS {
            self.answers.push((op.clone(), caller.clone(), body.clone()));
            self.size += size;
        }
    }

    fn contain(&mut self, caller: &Credentials, files: &[(Name, Layout)], until: Order) {
        let contents = &mut self.contents;
        if contents.by.as_ref() != Some(caller) {
            self.size -= contents.files.values().map(size_of_layout).sum::<usize>();
            *contents = Contents { by: Some(caller.clone()), ..Contents::default() };
        }
        contents.until = Some(until);
        for (name, layout) in files {
            let before = contents.files.insert(name.clone(), layout.clone());
            self.size += size_of_layout(layout);
            self.size -= before.as_ref().map_or(0, size_of_layout);
        }
    }

    fn file(&self, name: &Name, ino: Ino) -> Option<&Attr> {
        match self.names.get(name)? {
            Some(Found::File(attr)) if attr.ino == ino => Some(attr),
            _ => None,
        }
    }

    fn leads(&self, name: &Name) -> Option<Result<Body, Refusal>> {
        match self.names.get(name)? {
            Some(found) => Some(Ok(Body::Found(found.clone()))),
            None => Some(Err(Refusal::Errno(Errno::ENOENT))),
        }
    }

    fn searched_by(&mut self, caller: &Credentials) {
        if self.searchers.len() < ANSWERS && !self.searchers.contains(caller) {
            self.size += weight_of(caller);
            self.searchers.push(caller.clone());
        }
    }

    /// Notes what a name leads to. Not of a file with its inode at the link shard: changes by other
    /// names and in other directories concern it.
    fn knows(&mut self, name: &Name, found: Option<&Found>) {
        if matches!(found, Some(Found::Linked(..))) {
            return;
        }
        let is_new = self.names.insert(name.clone(), found.cloned()).is_none();
        self.size += usize::from(is_new);
    }
}
