//! The operations that clients choose: anything, on few names in few directories, so that clients
//! meet.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{RenameFlags, XattrMode};
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr, TimeSet};

use crate::base::random::Random;
use crate::model::{Op, Outcome, Value};

/// Maximum number of directories that a client remembers.
const DIRS_MAX: usize = 8;
/// Maximum number of files that a client remembers.
const FILES_MAX: usize = 12;

/// The first name of files. The others are the letters after it.
const FIRST: u8 = b'a';

/// The inodes that a client has found, as its kernel would know them.
#[derive(Clone, Default, Debug)]
pub struct Known {
    names: u8,
    moves: u64,
    dirs: BTreeSet<Ino>,
    files: BTreeMap<Ino, FileKind>,
    opens: Vec<Ino>,
    /// Names that this client is creating or moving.
    making: Vec<(Ino, Name)>,
}

impl Known {
    /// The knowledge of a new client. It uses `names` file names, and `moves` percent of its
    /// operations by number make and move directories.
    #[must_use]
    pub fn new(names: u8, moves: u64) -> Self {
        Self { names, moves, ..Self::default() }
    }

    fn file_name(&self, random: &mut Random) -> Name {
        name_of(FIRST + random.below(self.names.into()) as u8)
    }

    fn any_name(&self, random: &mut Random) -> Name {
        if random.chance(1, 3) { dir_name(random) } else { self.file_name(random) }
    }

    /// Remembers what an operation returned.
    pub fn learn(&mut self, random: &mut Random, op: &Op, outcome: &Outcome) {
        let named = matches!(op, Op::Lookup(..) | Op::Create { .. } | Op::Mkdir(..) | Op::Link(..));
        match (op, outcome) {
            (_, Ok(Value::Stat(stat) | Value::Created(stat, _))) if named => {
                if stat.kind == FileKind::Directory {
                    if self.dirs.len() >= DIRS_MAX {
                        let old = *nth(random, self.dirs.iter());
                        self.dirs.remove(&old);
                    }
                    self.dirs.insert(stat.ino);
                } else {
                    if self.files.len() >= FILES_MAX {
                        let old = *nth(random, self.files.keys());
                        self.files.remove(&old);
                    }
                    self.files.insert(stat.ino, stat.kind);
                }
                if matches!(op, Op::Create { open: true, .. }) {
                    self.opens.push(stat.ino);
                }
            }
            (Op::Open { ino, .. }, Ok(_)) => self.opens.push(*ino),
            (_, Err(Errno::ESTALE)) => {
                for ino in inos(op) {
                    self.dirs.remove(&ino);
                    self.files.remove(&ino);
                }
            }
            _ => {}
        }
    }

    /// Takes one of the open files, for the caller to close it.
    pub fn take_open(&mut self) -> Option<Ino> {
        self.opens.pop()
    }

    /// Forgets that `ino` is open. Returns how many times it was.
    pub fn forget_opens(&mut self, ino: Ino) -> usize {
        let before = self.opens.len();
        self.opens.retain(|open| *open != ino);
        before - self.opens.len()
    }

    fn dir(&self, random: &mut Random) -> Ino {
        let root = random.below(self.dirs.len() as u64 + 2) < 2;
        if root { Ino::ROOT } else { *nth(random, self.dirs.iter()) }
    }

    fn file(&self, random: &mut Random) -> Option<(Ino, FileKind)> {
        if !self.opens.is_empty() && random.chance(1, 3) {
            return Some((*random.pick(&self.opens), FileKind::Regular));
        }
        let is_any = !self.files.is_empty();
        is_any.then(|| nth(random, self.files.iter())).map(|(ino, kind)| (*ino, *kind))
    }

    fn any(&self, random: &mut Random) -> Ino {
        let dir = self.dir(random);
        if random.chance(1, 3) { dir } else { self.file(random).map_or(dir, |(ino, _)| ino) }
    }

    /// Chooses the next operation, and the credentials of its caller.
    pub fn choose(&mut self, random: &mut Random, by_path: bool) -> (Credentials, Op) {
        let by = match random.below(10) {
            0 | 1 => Credentials::new(1000, 100, vec![1000]),
            2 => Credentials::new(1001, 100, Vec::new()),
            _ => Credentials::ROOT,
        };
        if by_path {
            return (by, self.by_path(random));
        }
        let op = match self.moves {
            0 => self.operation(random),
            moves if random.below(100) < moves => self.move_dirs(random),
            _ => self.operation(random),
        };
        // The kernel lets only one create or rename of a name run at a time.
        match given(&op) {
            Some(at) if self.making.contains(&at) => (by, Op::Lookup(at.0, at.1)),
            at => {
                self.making.extend(at);
                (by, op)
            }
        }
    }

    /// Chooses something to look at.
    pub fn look(&self, random: &mut Random) -> Op {
        let dir = self.dir(random);
        match random.below(10) {
            0..3 => Op::Lookup(dir, self.any_name(random)),
            3 | 4 => Op::ReadDir(dir),
            5 => Op::Parent(dir),
            6 => Op::GetAttr(dir),
            7 => Op::GetAttr(self.any(random)),
            8 => match self.file(random) {
                Some((ino, FileKind::Regular)) => Op::Open { ino, access: 4, truncate: false },
                _ => Op::GetAttr(dir),
            },
            _ => match self.opens.is_empty() {
                true => Op::GetAttr(dir),
                false => Op::Read(*random.pick(&self.opens), 0, 8),
            },
        }
    }

    /// A directory and a name for a directory in it.
    pub fn place(&self, random: &mut Random) -> (Ino, Name) {
        (self.dir(random), dir_name(random))
    }

    /// Whether `ino` is a directory that this client remembers.
    #[must_use]
    pub fn is_dir(&self, ino: Ino) -> bool {
        ino == Ino::ROOT || self.dirs.contains(&ino)
    }

    /// Notes that an operation has ended, with any outcome.
    pub fn ended(&mut self, op: &Op) {
        if let Some(at) = given(op) {
            let nth = self.making.iter().position(|made| *made == at);
            nth.map(|nth| self.making.swap_remove(nth));
        }
    }

    fn operation(&mut self, random: &mut Random) -> Op {
        let dir = self.dir(random);
        match random.below(100) {
            0..22 => self.create(dir, random),
            22..29 => Op::Mkdir(dir, dir_name(random), *random.pick(&[0o755, 0o777, 0o700])),
            29..38 => Op::Unlink(dir, self.file_name(random)),
            38..43 => Op::Rmdir(dir, dir_name(random)),
            43..49 => match self.file(random) {
                Some((ino, _)) => Op::Link(ino, dir, self.file_name(random)),
                None => self.create(dir, random),
            },
            49..57 => self.rename(dir, random, Self::file_name),
            57..64 => self.rename(dir, random, |_, random| dir_name(random)),
            64..74 => Op::Lookup(dir, self.any_name(random)),
            74..80 => Op::GetAttr(self.any(random)),
            80..83 => Op::SetAttr(dir, dir_change(random)),
            83..90 => self.file(random).map_or(Op::ReadDir(dir), |file| on_file(file, random)),
            90..92 => match self.opens.is_empty() {
                true => Op::Parent(dir),
                false => {
                    let nth = random.below(self.opens.len() as u64) as usize;
                    Op::Release(self.opens.swap_remove(nth))
                }
            },
            92..94 => on_xattr(self.any(random), random),
            _ => Op::ReadDir(dir),
        }
    }

    /// An operation that makes, looks up or moves a directory.
    fn move_dirs(&self, random: &mut Random) -> Op {
        let dir = self.dir(random);
        match random.below(4) {
            0 => Op::Mkdir(dir, dir_name(random), 0o777),
            1 => Op::Lookup(dir, dir_name(random)),
            _ => Op::Rename {
                from: dir,
                name: dir_name(random),
                to: self.dir(random),
                new_name: dir_name(random),
                flags: RenameFlags::default(),
            },
        }
    }

    /// An operation by path, on few directories that move all the time.
    fn by_path(&self, random: &mut Random) -> Op {
        let (path, to_path) = (some_path(random), some_path(random));
        let dir = Ino(0);
        let op = match random.below(100) {
            0..18 => Op::Create {
                dir,
                name: self.file_name(random),
                kind: FileKind::Regular,
                mode: 0o644,
                symlink: Vec::new(),
                exclusive: true,
                open: false,
            },
            18..38 => Op::Mkdir(dir, path_name(random), *random.pick(&[0o755, 0o777, 0o700])),
            38..46 => Op::Unlink(dir, self.file_name(random)),
            46..52 => Op::Rmdir(dir, path_name(random)),
            52..74 => {
                let exchange = random.chance(1, 8);
                Op::Rename {
                    from: dir,
                    name: path_name(random),
                    to: dir,
                    new_name: path_name(random),
                    flags: RenameFlags { exchange, no_replace: !exchange && random.chance(1, 6) },
                }
            }
            74..87 => Op::Lookup(dir, self.any_name(random)),
            87..93 => Op::SetAttr(dir, path_change(random)),
            _ => Op::ReadDir(dir),
        };
        Op::ByPath { path, to_path, op: Box::new(op) }
    }

    fn create(&self, dir: Ino, random: &mut Random) -> Op {
        let symlink = random.chance(1, 12);
        let exclusive = random.chance(2, 3);
        Op::Create {
            dir,
            name: if random.chance(1, 15) { dir_name(random) } else { self.file_name(random) },
            kind: if symlink { FileKind::Symlink } else { FileKind::Regular },
            mode: *random.pick(&[0o644, 0o600, 0o666, 0o6755]),
            symlink: if symlink { b"target".to_vec() } else { Vec::new() },
            exclusive,
            open: exclusive && !symlink && random.chance(1, 4),
        }
    }

    fn rename(&self, from: Ino, random: &mut Random, name: fn(&Self, &mut Random) -> Name) -> Op {
        let exchange = random.chance(1, 10);
        Op::Rename {
            from,
            name: name(self, random),
            to: if random.chance(1, 3) { from } else { self.dir(random) },
            new_name: if random.chance(1, 12) { self.any_name(random) } else { name(self, random) },
            flags: RenameFlags { exchange, no_replace: !exchange && random.chance(1, 6) },
        }
    }
}

/// The name that an operation creates or moves away.
fn given(op: &Op) -> Option<(Ino, Name)> {
    match op {
        Op::Create { dir, name, .. } => Some((*dir, name.clone())),
        Op::Rename { from, name, .. } => Some((*from, name.clone())),
        _ => None,
    }
}

/// A random element of `of`, which must not be empty.
fn nth<T>(random: &mut Random, of: impl ExactSizeIterator<Item = T> + Clone) -> T {
    let nth = random.below(of.len() as u64) as usize;
    of.clone().nth(nth).unwrap_or_else(|| panic!("{nth} of {}", of.len()))
}

fn on_file((ino, kind): (Ino, FileKind), random: &mut Random) -> Op {
    match random.below(8) {
        // The kernel never opens a symlink.
        0 | 1 if kind == FileKind::Regular => {
            Op::Open { ino, access: *random.pick(&[4, 6]), truncate: random.chance(1, 6) }
        }
        2 => Op::Read(ino, random.below(6), 8),
        3 | 4 => Op::Write(ino, random.below(6), vec![random.below(256) as u8; 3]),
        5 if kind == FileKind::Regular => Op::SetAttr(ino, file_change(random)),
        6 => Op::Readlink(ino),
        _ => Op::GetAttr(ino),
    }
}

fn on_xattr(ino: Ino, random: &mut Random) -> Op {
    let name = random.pick(&["user.a", "user.b"]).as_bytes().to_vec();
    match random.below(5) {
        0 => Op::GetXattr(ino, name),
        1 => Op::ListXattr(ino),
        2 => Op::RemoveXattr(ino, name),
        3 => Op::SetXattr(ino, name, vec![random.below(256) as u8], XattrMode::Any),
        _ => Op::SetXattr(
            ino,
            name,
            vec![random.below(256) as u8],
            *random.pick(&[XattrMode::Create, XattrMode::Replace]),
        ),
    }
}

fn dir_change(random: &mut Random) -> SetAttr {
    match random.below(5) {
        0 => SetAttr { gid: Some(*random.pick(&[0, 100, 1000])), ..SetAttr::default() },
        1 => SetAttr { uid: Some(*random.pick(&[0, 1000])), ..SetAttr::default() },
        2 => SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() },
        _ => {
            let modes = [0o777, 0o777, 0o777, 0o755, 0o1777, 0o2777, 0o700];
            SetAttr { mode: Some(*random.pick(&modes)), ..SetAttr::default() }
        }
    }
}

/// A change of a directory that closes a path to some users, or opens it again.
fn path_change(random: &mut Random) -> SetAttr {
    let modes = [0o777, 0o777, 0o755, 0o750, 0o700, 0o700];
    let mode = Some(*random.pick(&modes));
    match random.below(6) {
        0 => SetAttr { uid: Some(*random.pick(&[0, 1000, 1001])), ..SetAttr::default() },
        1 => SetAttr { gid: Some(*random.pick(&[0, 100, 1000])), ..SetAttr::default() },
        2 => SetAttr { mode, uid: Some(*random.pick(&[0, 1000])), ..SetAttr::default() },
        _ => SetAttr { mode, ..SetAttr::default() },
    }
}

fn file_change(random: &mut Random) -> SetAttr {
    match random.below(3) {
        0 => SetAttr { size: Some(random.below(10)), ..SetAttr::default() },
        1 => SetAttr { uid: Some(*random.pick(&[0, 1000])), ..SetAttr::default() },
        _ => {
            let modes = [0o644, 0o600, 0o666, 0o4755, 0o2777, 0o6766];
            SetAttr { mode: Some(*random.pick(&modes)), ..SetAttr::default() }
        }
    }
}

/// Creates that make a directory split, sometimes twice.
pub fn fill(dir: Ino, random: &mut Random, names: u8) -> Vec<Op> {
    let count = random.between(4, names.into()) as u8;
    let create = |nth| Op::Create {
        dir,
        name: name_of(FIRST + nth),
        kind: FileKind::Regular,
        mode: 0o644,
        symlink: Vec::new(),
        exclusive: true,
        open: false,
    };
    (0..count).map(create).collect()
}

/// Removals of all files that may be in a directory, in random order.
pub fn empty(dir: Ino, random: &mut Random, names: u8) -> Vec<Op> {
    let mut all: Vec<_> = (0..names).map(|nth| Op::Unlink(dir, name_of(FIRST + nth))).collect();
    for end in (1..all.len()).rev() {
        all.swap(end, random.below(end as u64 + 1) as usize);
    }
    all
}

/// All inos that an operation names.
fn inos(op: &Op) -> Vec<Ino> {
    match op {
        Op::Lookup(dir, _)
        | Op::Create { dir, .. }
        | Op::Mkdir(dir, ..)
        | Op::Unlink(dir, _)
        | Op::Rmdir(dir, _)
        | Op::ReadDir(dir)
        | Op::Parent(dir) => vec![*dir],
        Op::Link(ino, dir, _) => vec![*ino, *dir],
        Op::Rename { from, to, .. } => vec![*from, *to],
        op => crate::check::file_of(op).into_iter().collect(),
    }
}

/// A directory's name for operations by path. There are few names, so that paths exist.
fn path_name(random: &mut Random) -> Name {
    name_of(*random.pick(b"ABC"))
}

fn some_path(random: &mut Random) -> Vec<Name> {
    let depth = *random.pick(&[0, 1, 1, 2, 2, 3]);
    (0..depth).map(|_| path_name(random)).collect()
}

fn dir_name(random: &mut Random) -> Name {
    name_of(*random.pick(b"ABCDE"))
}

fn name_of(letter: u8) -> Name {
    Name::new(&[letter]).expect("a byte above the slash is a name")
}
