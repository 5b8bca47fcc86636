//! What answers told of directories and of the names in them.

use std::collections::HashMap;

use pando_types::op::{FileAt, Op, Request};
use pando_types::reply::{Body, DirAttr, Found, Refusal};
use pando_types::{Credentials, DirId, Errno, Name};

/// Names, and entries of answers, that are remembered at most. Some 50 MB.
const MOST: usize = 131_072;
/// Answers of one directory that are remembered at most.
const ANSWERS: usize = 32;

/// What is known.
#[derive(Default)]
pub(super) struct Facts {
    dirs: HashMap<DirId, Dir>,
    size: usize,
}

/// What is known of one directory.
#[derive(Default)]
struct Dir {
    /// Answers about the directory itself, and pages of its listing.
    answers: Vec<(Op, Credentials, Body)>,
    /// What names lead to. `None`: nowhere.
    names: HashMap<Name, Option<Found>>,
    /// Callers that may look names up.
    searchers: Vec<Credentials>,
    size: usize,
}

/// The directory that an operation is about, if its answer may be remembered. What one partition
/// counts is not: a split moves names between partitions, and each would be counted at its time.
pub(super) fn dir_of(op: &Op) -> Option<DirId> {
    match op {
        Op::DirGetAttr(dir)
        | Op::DirAccess(dir, _)
        | Op::ReadDir { dir, .. }
        | Op::Parent(dir)
        | Op::Lookup(dir, _) => Some(dir.id),
        Op::GetAttr(file) => match &file.at {
            FileAt::Name(dir, _) => Some(dir.id),
            FileAt::Link => None,
        },
        _ => None,
    }
}

impl Facts {
    pub(super) fn clear(&mut self) {
        self.dirs.clear();
        self.size = 0;
    }

    /// Drops what is known of a directory.
    pub(super) fn drop_dir(&mut self, dir: DirId) {
        self.size -= self.dirs.remove(&dir).map_or(0, |dir| dir.size);
    }

    /// The answer to a request about a directory, if it is known.
    pub(super) fn answer(&self, dir: DirId, request: &Request) -> Option<Result<Body, Refusal>> {
        let dir = self.dirs.get(&dir)?;
        match &request.op {
            Op::Lookup(_, name) if dir.searchers.contains(&request.credentials) => {
                match dir.names.get(name)? {
                    Some(found) => Some(Ok(Body::Found(found.clone()))),
                    None => Some(Err(Refusal::Errno(Errno::ENOENT))),
                }
            }
            Op::Lookup(..) => None,
            Op::GetAttr(file) => {
                let FileAt::Name(_, name) = &file.at else { return None };
                match dir.names.get(name)? {
                    Some(Found::File(attr)) if attr.ino == file.ino => {
                        Some(Ok(Body::Attr(attr.clone())))
                    }
                    _ => None,
                }
            }
            op => {
                let is_it = |(asked, by, _): &&(Op, Credentials, Body)| {
                    *asked == *op && *by == request.credentials
                };
                dir.answers.iter().find(is_it).map(|(_, _, body)| Ok(body.clone()))
            }
        }
    }

    /// Remembers an answer about a directory.
    pub(super) fn learn(&mut self, dir: DirId, request: &Request, result: &Result<Body, Refusal>) {
        if self.size > MOST {
            self.clear();
        }
        let dir = self.dirs.entry(dir).or_default();
        let before = dir.size;
        dir.learn(request, result);
        self.size += dir.size - before;
    }
}

/// Whether all that counts for these attributes is in them: the directory is not split.
fn is_whole(attr: &DirAttr) -> bool {
    attr.deltas.len() == 1 && attr.history.leaves.len() <= 1
}

impl Dir {
    fn learn(&mut self, request: &Request, result: &Result<Body, Refusal>) {
        match (&request.op, result) {
            (Op::Lookup(_, name), Ok(Body::Found(found))) => {
                self.searched_by(&request.credentials);
                self.knows(name, Some(found));
            }
            (Op::Lookup(_, name), Err(Refusal::Errno(Errno::ENOENT))) => {
                self.searched_by(&request.credentials);
                self.knows(name, None);
            }
            (Op::GetAttr(file), Ok(Body::Attr(attr))) => {
                if let FileAt::Name(_, name) = &file.at {
                    self.knows(name, Some(&Found::File(attr.clone())));
                }
            }
            (Op::Lookup(..) | Op::GetAttr(_), _) | (_, Err(_)) => {}
            // The same.
            (Op::DirGetAttr(_), Ok(Body::Dir(attr))) if !is_whole(attr) => {}
            (op, Ok(body)) => {
                if let Body::Page(entries, _) = body {
                    for entry in entries {
                        self.knows(&entry.name, Some(&entry.found));
                    }
                    self.size += entries.len();
                }
                if self.answers.len() < ANSWERS {
                    self.answers.push((op.clone(), request.credentials.clone(), body.clone()));
                    self.size += 1;
                }
            }
        }
    }

    fn searched_by(&mut self, caller: &Credentials) {
        if self.searchers.len() < ANSWERS && !self.searchers.contains(caller) {
            self.searchers.push(caller.clone());
            self.size += 1;
        }
    }

    /// Notes what a name leads to. Not of a file with its inode at the link shard: another
    /// directory's change may bring it back into this entry.
    fn knows(&mut self, name: &Name, found: Option<&Found>) {
        if matches!(found, Some(Found::Linked(..))) {
            return;
        }
        let is_new = self.names.insert(name.clone(), found.cloned()).is_none();
        self.size += usize::from(is_new);
    }
}
