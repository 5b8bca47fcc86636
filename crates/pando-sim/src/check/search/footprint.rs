//! What an operation may read and change, for any tree at its time. It tells the search which
//! operations have nothing to do with each other.
//!
//! A footprint that is too wide costs search steps. One that is too narrow may hide an order. It
//! cannot lead to a wrong order, since each operation of an order is tried on the model.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use pando_types::{Errno, Ino, Name};

use crate::check::agree::file_of;
use crate::check::event::reads;
use crate::check::history::created;
use crate::check::{Event, Fate, History};
use crate::model::{Node, Op, Tree, Value, Who};

/// What an operation may read and change. "Any inode" does not include the root, which no operation
/// removes.
#[derive(Clone, Default, Debug)]
pub struct Footprint {
    /// Names in a directory. `None` is any directory, for operations by path.
    names: Vec<(Option<Ino>, Name)>,
    changes_names: bool,
    /// Whether it reads if any directory except the root is empty. `empty` lists single directories
    /// for which it does.
    reads_emptiness: bool,
    empty: Vec<Ino>,
    reads: Vec<Ino>,
    changes: Vec<Ino>,
    reads_any: bool,
    changes_any: bool,
    /// Directories of which it reads all names: the size and the link count tell their number.
    lists: Vec<Ino>,
}

impl Footprint {
    /// The footprint of each event.
    pub fn all(history: &History) -> Vec<Self> {
        let opened = opened(history);
        history.events().iter().map(|event| Self::of(event, &opened)).collect()
    }

    fn of(event: &Event, opened: &BTreeMap<Who, BTreeSet<Ino>>) -> Self {
        if let Some(sight) = &event.sight {
            let names = vec![(Some(sight.dir), sight.name.clone())];
            return Self { names, ..Self::default() };
        }
        let mut print = Self { ..Self::default() };
        let op = &event.call.op;
        print.add(op);
        if let Op::GetAttr(ino) | Op::ReadDir(ino) = op
            && event.exact
        {
            print.lists.push(*ino);
        }
        match op {
            Op::EndSession | Op::Linger(_) => {
                let of = opened.get(&event.call.who).into_iter().flatten();
                print.changes.extend(of.flat_map(|ino| all_of(*ino)));
            }
            Op::Create { .. } | Op::Mkdir(..) => match made(event) {
                Some(ino) => print.changes.extend(all_of(ino)),
                // Without an answer, it may have made any inode that was seen and has no known
                // maker.
                None if event.ended().is_none() => print.changes_any = true,
                None => {}
            },
            _ => {}
        }
        // Whether a handle may dangle depends on which clients have the file open.
        if matches!(event.returned, Some((_, Err(Errno::ESTALE)))) {
            print.reads.extend(file_of(op).map(opens));
        }
        let failed = matches!(event.returned, Some((_, Err(_))));
        if failed || reads(op.inner()) {
            print.reads.append(&mut print.changes);
            print.reads_any |= take(&mut print.changes_any);
            print.changes_names = false;
        }
        print
    }

    fn add(&mut self, op: &Op) {
        self.changes_names = true;
        match op {
            Op::Lookup(dir, name) | Op::Mkdir(dir, name, _) => self.name(*dir, name),
            Op::Create { dir, name, exclusive, open, .. } => {
                self.name(*dir, name);
                self.changes_any |= *open && !*exclusive;
            }
            Op::Unlink(dir, name) => {
                self.name(*dir, name);
                self.changes_any = true;
            }
            Op::Rmdir(dir, name) => {
                self.name(*dir, name);
                (self.changes_any, self.reads_emptiness) = (true, true);
            }
            Op::Link(ino, dir, name) => {
                self.name(*dir, name);
                self.changes.push(*ino);
                self.reads.push(data(*ino));
            }
            Op::Rename { from, name, to, new_name, .. } => {
                self.name(*from, name);
                self.name(*to, new_name);
                (self.changes_any, self.reads_emptiness) = (true, true);
            }
            Op::GetAttr(ino) | Op::Readlink(ino) | Op::Read(ino, ..) => {
                self.reads.extend([*ino, data(*ino)]);
            }
            Op::Access(ino, _)
            | Op::GetXattr(ino, _)
            | Op::ListXattr(ino)
            | Op::ReadDir(ino)
            | Op::Parent(ino) => self.reads.push(*ino),
            Op::Open { ino, truncate, .. } => {
                self.changes.push(opens(*ino));
                // A truncation may clear setuid and setgid.
                let of = if *truncate { &mut self.changes } else { &mut self.reads };
                of.extend([data(*ino), *ino]);
            }
            Op::Release(ino) => self.changes.extend(all_of(*ino)),
            Op::SetAttr(ino, set) => {
                self.changes.push(*ino);
                // The answer tells the size, too.
                let of = if set.size.is_some() { &mut self.changes } else { &mut self.reads };
                of.push(data(*ino));
            }
            Op::Write(ino, ..) => {
                self.changes.extend([data(*ino), *ino]);
            }
            Op::SetXattr(ino, ..) | Op::RemoveXattr(ino, _) => self.changes.push(*ino),
            Op::EndSession | Op::Linger(_) => {}
            Op::ByPath { path, to_path, op } => {
                self.add(op);
                // By path, inode numbers in the operation mean nothing.
                (self.reads, self.changes) = (vec![Ino::ROOT], Vec::new());
                self.names.iter_mut().for_each(|(dir, _)| *dir = None);
                for path in [path, to_path] {
                    for (depth, name) in path.iter().enumerate() {
                        self.names.push(((depth == 0).then_some(Ino::ROOT), name.clone()));
                    }
                }
                self.changes_any = true;
            }
        }
    }

    fn name(&mut self, dir: Ino, name: &Name) {
        self.names.push((Some(dir), name.clone()));
        self.reads.push(dir);
    }

    /// The footprint of an operation that is taken, which leads from one tree to another. By path,
    /// it is that of the inodes that the path leads to. Its changes are only the actual ones.
    pub fn taken(event: &Event, print: &Self, (before, after): (&Tree, &Tree)) -> Self {
        let resolved = match (&event.call.op, before.resolved(&event.call)) {
            (Op::ByPath { .. }, Ok(call)) => {
                Some(Self::of(&Event { call, ..event.clone() }, &BTreeMap::new()))
            }
            _ => None,
        };
        let mut print = resolved.as_ref().unwrap_or(print).at(before);
        let explicit = take(&mut print.changes);
        if !matches!(event.call.op, Op::EndSession | Op::Linger(_)) {
            print.reads.extend(explicit);
        }
        if take(&mut print.reads_emptiness) {
            print.empty = print.leads_to(before);
        }
        for (a, b) in [(before, after), (after, before)] {
            for (ino, node) in a.nodes() {
                match b.node(ino) {
                    Ok(other) if other == node => {}
                    Ok(other) => print.differs(ino, node, other),
                    Err(_) => print.changes.extend(all_of(ino)),
                }
            }
        }
        print
    }

    fn differs(&mut self, ino: Ino, a: &Node, b: &Node) {
        if (&a.opens, a.is_moved) != (&b.opens, b.is_moved) {
            self.changes.push(opens(ino));
        }
        if a.data != b.data {
            self.changes.push(data(ino));
        }
        let attributes = |n: &Node| (n.mode, n.uid, n.gid, n.parent);
        let counts = |n: &Node| if n.is_dir() { 0 } else { n.nlink };
        if attributes(a) != attributes(b) || counts(a) != counts(b) || a.xattrs != b.xattrs {
            self.changes.push(ino);
        }
    }

    /// The footprint if no other operation touches its names before it comes. Then it affects the
    /// inodes that the names lead to now.
    pub fn settled(&self, tree: &Tree) -> Self {
        if self.reads_emptiness { self.clone() } else { self.at(tree) }
    }

    fn at(&self, tree: &Tree) -> Self {
        let mut print = self.clone();
        if print.names.iter().all(|(dir, _)| dir.is_some()) {
            let inos = print.leads_to(tree);
            match (take(&mut print.changes_any), take(&mut print.reads_any)) {
                (true, _) => print.changes.extend(inos.iter().flat_map(|ino| [*ino, opens(*ino)])),
                (false, true) => print.reads.extend(inos),
                (false, false) => {}
            }
        }
        print
    }

    /// The inodes that its names lead to.
    fn leads_to(&self, tree: &Tree) -> Vec<Ino> {
        let at = |(dir, name): &(Option<Ino>, Name)| {
            tree.node((*dir)?).ok()?.entries.get(name).map(|(ino, _)| *ino)
        };
        self.names.iter().filter_map(at).collect()
    }

    /// Whether the order of the two operations may matter.
    pub fn meets(&self, other: &Self) -> bool {
        self.disturbs(other) || other.disturbs(self)
    }

    /// Whether the other operation may notice this one.
    fn disturbs(&self, other: &Self) -> bool {
        let is_other = |ino: &Ino| *ino != Ino::ROOT;
        let touches = |ino: &Ino| other.reads.contains(ino) || other.changes.contains(ino);
        if self.changes.iter().any(touches) {
            return true;
        }
        let has_any = other.reads_any || other.changes_any;
        if has_any && self.changes.iter().any(is_other) {
            return true;
        }
        if self.changes_any && (has_any || other.reads.iter().chain(&other.changes).any(is_other)) {
            return true;
        }
        if !self.changes_names {
            return false;
        }
        let is_listed =
            |(dir, _): &(Option<Ino>, Name)| dir.is_none_or(|dir| other.lists.contains(&dir));
        if !other.lists.is_empty() && self.names.iter().any(is_listed) {
            return true;
        }
        let is_below = |(dir, _): &(Option<Ino>, Name)| *dir != Some(Ino::ROOT);
        let is_in =
            |(dir, _): &(Option<Ino>, Name)| dir.is_none_or(|dir| other.empty.contains(&dir));
        if self.names.iter().any(is_in) && !other.empty.is_empty() {
            return true;
        }
        if other.reads_emptiness && self.names.iter().any(is_below) {
            return true;
        }
        let is_one = |a: &(Option<Ino>, Name), b: &(Option<Ino>, Name)| {
            a.1 == b.1 && (a.0 == b.0 || a.0.is_none() || b.0.is_none())
        };
        self.names.iter().any(|a| other.names.iter().any(|b| is_one(a, b)))
    }
}

/// Stands for the handles of an inode: which clients have it open, and whether a name of it has
/// moved. No inode has this number.
const fn opens(ino: Ino) -> Ino {
    Ino(ino.0 | 1 << 63)
}

/// Stands for the contents of an inode. No inode has this number.
const fn data(ino: Ino) -> Ino {
    Ino(ino.0 | 1 << 62)
}

/// Everything that comes or goes with an inode.
const fn all_of(ino: Ino) -> [Ino; 3] {
    [ino, opens(ino), data(ino)]
}

/// The inode that an operation is known to have made.
fn made(event: &Event) -> Option<Ino> {
    match (&event.returned, event.fate) {
        (Some((_, Ok(value))), _) => created(event.call.op.inner(), value),
        (None, Fate::Ran(_, made)) => made,
        _ => None,
    }
}

/// The inodes that each client may have had open at some time.
fn opened(history: &History) -> BTreeMap<Who, BTreeSet<Ino>> {
    let mut opened: BTreeMap<Who, BTreeSet<Ino>> = BTreeMap::new();
    for event in history.events() {
        let of = opened.entry(event.call.who).or_default();
        match (&event.call.op, &event.returned) {
            (Op::Open { ino, .. }, _) => drop(of.insert(*ino)),
            (Op::Create { open: true, .. }, Some((_, Ok(Value::Created(stat, _))))) => {
                of.insert(stat.ino);
            }
            (Op::Create { open: true, .. }, _) => of.extend(made(event)),
            _ => {}
        }
    }
    for event in history.events() {
        if let Op::Linger(other) = event.call.op {
            let of = opened.get(&event.call.who).cloned().unwrap_or_default();
            opened.insert(other, of);
        }
    }
    opened
}
