//! One walk along a path.
//!
//! The part still to walk is a stack of texts. The path is at the bottom, and above it are the
//! targets of symlinks, the latest on top. When a text is used up, the walk goes on in the text
//! below.
//!
//! Every request of a walk carries its trail ([`Trail`]). A shard that runs it has compared the
//! trail with all known changes. So at that moment the whole path existed, and its user might walk
//! it.

use pando_types::op::{FileAt, FileRef, Op};
use pando_types::reply::Found;
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name, Trail};

use crate::cache::on_path::{At, OnPath};
use crate::calls::names::Entry;
use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::nodes::table::Spot;
use crate::path::guess::{Guessed, Round};

/// Longest path in bytes, as in Linux: `PATH_MAX` counts the final NUL.
const PATH_LEN_MAX: usize = 4095;
/// Most symlinks followed in one walk, as in Linux.
const SYMLINKS_MAX: u32 = 40;
const SEARCH: u8 = 1;

/// Where a walk has come to.
pub(super) enum Here {
    Dir(DirRef),
    File(FileRef, Attr),
}

/// The last component of a path, not yet looked up.
pub(super) struct Last {
    pub(super) name: Name,
    /// Whether slashes follow it, so that it must be a directory.
    pub(super) is_dir: bool,
}

impl Last {
    /// The component's name, for something that is no directory; `errno` if slashes follow it.
    pub(super) fn file(self, errno: Errno) -> Result<Name, Errno> {
        if self.is_dir { Err(errno) } else { Ok(self.name) }
    }
}

/// What a walk does at a symlink that is the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtLink {
    /// It goes through the symlink.
    Follow,
    /// It ends at the symlink, unless slashes follow it.
    Stop,
}

/// What a walk knows beforehand, and whether its requests carry a trail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// The walk uses what is cached, and its requests carry a trail.
    Cached,
    /// The walk uses nothing cached, but its requests carry a trail.
    Trail,
    /// The walk uses nothing cached, and its requests carry no trail.
    None,
}

/// A walk: where it is, and what is ahead.
pub(super) struct Walk<'a> {
    client: &'a Client,
    credentials: &'a Credentials,
    memory: Memory,
    /// The directories from the root to where it is.
    path: Vec<DirRef>,
    /// All directories that it has come through, also those that it left by a symlink or `..`.
    trail: Trail,
    /// Components ahead that were guessed right, the next one last.
    guessed: Vec<(Name, DirRef)>,
    ahead: Vec<Text>,
    symlinks: u32,
    /// Whether the whole path existed when a shard last answered. False once a step comes from
    /// memory or a guess.
    is_sure: bool,
}

struct Text {
    bytes: Vec<u8>,
    next: usize,
}

/// One step of a walk.
enum Step {
    Stay,
    Up,
    Down(Name),
}

impl<'a> Walk<'a> {
    pub(super) fn new(client: &'a Client, credentials: &'a Credentials, memory: Memory) -> Self {
        let trail = Trail { version: client.paths.version(), dirs: vec![Ino::ROOT] };
        let (path, guessed, ahead) = (vec![DirRef::ROOT], Vec::new(), Vec::new());
        Self {
            client,
            credentials,
            memory,
            path,
            trail,
            guessed,
            ahead,
            symlinks: 0,
            is_sure: true,
        }
    }

    /// Begins at the root once more, for another path of this call. The trail keeps all directories
    /// that it has come through.
    pub(super) fn again(&mut self) {
        self.path.truncate(1);
        self.guessed.clear();
        self.ahead.clear();
        self.symlinks = 0;
    }

    /// Directories that it has come through, in the order in which it first came to them.
    pub(super) fn dirs(&self) -> &[Ino] {
        &self.trail.dirs
    }

    /// The trail for a request, unless this walk tells none.
    pub(super) fn on(&self) -> Option<OnPath> {
        let is_told = self.memory != Memory::None && self.trail.dirs.len() <= Trail::DIRS_MAX;
        is_told.then(|| OnPath::new(self.trail.clone()))
    }

    fn at(&self) -> DirRef {
        self.path.last().copied().unwrap_or(DirRef::ROOT)
    }

    /// Notes that a shard has judged the whole trail: nothing on it had changed up to the shard's
    /// version.
    fn verified(&mut self, on: Option<&OnPath>) {
        if let Some(on) = on {
            self.trail.version = on.version();
        }
        self.is_sure = true;
    }

    /// Makes sure that `dir`, where this walk has ended, exists at the end of its path. For a
    /// caller that asks the directory nothing.
    pub(super) async fn make_sure(&mut self, dir: DirRef) -> Result<(), Errno> {
        if !self.is_sure {
            let on = self.on();
            self.client.run_by(SYSTEM, &Op::Parent(dir), on.as_ref()).await?;
            self.verified(on.as_ref());
        }
        Ok(())
    }

    fn note(&mut self, dir: DirRef) {
        if !self.trail.dirs.contains(&dir.ino) {
            self.trail.dirs.push(dir.ino);
        }
    }

    fn enter(&mut self, dir: DirRef) {
        self.note(dir);
        self.path.push(dir);
    }

    /// Walks to what `path` names.
    pub(super) async fn end_of(&mut self, path: &[u8], at_link: AtLink) -> Result<Here, Errno> {
        let mut next = self.last_of(path).await?;
        loop {
            let Some((_, Last { name, is_dir })) = next else { return Ok(Here::Dir(self.at())) };
            let (file, attr) = match self.look(&name).await? {
                Here::Dir(dir) => return Ok(Here::Dir(dir)),
                Here::File(file, attr) => (file, attr),
            };
            let follow = at_link == AtLink::Follow || is_dir;
            if attr.kind != FileKind::Symlink || !follow {
                return if is_dir { Err(Errno::ENOTDIR) } else { Ok(Here::File(file, attr)) };
            }
            next = self.through(file).await?;
            if let Some((_, last)) = &mut next {
                last.is_dir |= is_dir;
            }
        }
    }

    /// Walks to the directory of the last component. `None` if the path ends in a directory without
    /// naming it (the root, `.`, `..`).
    pub(super) async fn last_of(&mut self, path: &[u8]) -> Result<Option<(DirRef, Last)>, Errno> {
        self.push(path.to_vec())?;
        self.run().await
    }

    /// Goes on through a symlink that is the last component.
    pub(super) async fn through(&mut self, link: FileRef) -> Result<Option<(DirRef, Last)>, Errno> {
        self.follow(link).await?;
        self.run().await
    }

    async fn run(&mut self) -> Result<Option<(DirRef, Last)>, Errno> {
        while let Some(step) = self.step()? {
            let name = match step {
                Step::Stay => continue,
                Step::Up => {
                    self.up().await?;
                    continue;
                }
                Step::Down(name) => name,
            };
            if let Some(is_dir) = self.is_last() {
                self.ahead.clear();
                return Ok(Some((self.at(), Last { name, is_dir })));
            }
            match self.look_ahead(&name).await? {
                Here::Dir(dir) => self.enter(dir),
                Here::File(file, attr) if attr.kind == FileKind::Symlink => {
                    self.follow(file).await?;
                }
                Here::File(..) => return Err(Errno::ENOTDIR),
            }
        }
        Ok(None)
    }

    /// Goes to the parent directory. With a trail, the shard's answer proves that the present
    /// directory is still in it.
    async fn up(&mut self) -> Result<(), Errno> {
        let (at, on) = (self.at(), self.on());
        self.client.dir_access(self.credentials, At { dir: at, on: on.as_ref() }, SEARCH).await?;
        self.verified(on.as_ref());
        if on.is_some() {
            self.path.truncate(self.path.len().saturating_sub(1).max(1));
        } else {
            let parent = self.client.parent_of(at).await?;
            self.path = vec![parent];
        }
        Ok(())
    }

    /// What `name` leads to, which is not the last component.
    async fn look_ahead(&mut self, name: &Name) -> Result<Here, Errno> {
        if self.guessed.is_empty() {
            if let Some(dir) = self.cached(name) {
                return Ok(Here::Dir(dir));
            }
            let may_guess = self.client.options.guesses && self.memory != Memory::None;
            let dirs = if may_guess { self.dirs_ahead() } else { Vec::new() };
            if !dirs.is_empty() {
                self.guess(name, dirs).await?;
            }
        }
        match self.guessed.pop() {
            Some((guessed, dir)) if guessed == *name => return Ok(Here::Dir(dir)),
            // A symlink led elsewhere.
            _ => self.guessed.clear(),
        }
        self.ask(name).await
    }

    fn cached(&mut self, name: &Name) -> Option<DirRef> {
        if self.memory != Memory::Cached {
            return None;
        }
        let access = self.client.paths.step(self.credentials, self.at().ino, name)?;
        self.is_sure = false;
        Some(access.dir)
    }

    /// What `name` leads to. A directory comes without its attributes, which cost messages of their
    /// own.
    pub(super) async fn look(&mut self, name: &Name) -> Result<Here, Errno> {
        if let Some(dir) = self.cached(name) {
            self.note(dir);
            return Ok(Here::Dir(dir));
        }
        self.ask(name).await
    }

    /// Asks the shard that has `name` what it leads to.
    async fn ask(&mut self, name: &Name) -> Result<Here, Errno> {
        let (dir, on) = (self.at(), self.on());
        let found = self.client.found(self.credentials, &At { dir, on: on.as_ref() }, name).await?;
        self.verified(on.as_ref());
        let file = |attr: Attr, at| Here::File(FileRef { ino: attr.ino, at }, attr);
        let pointer = match found {
            Found::Dir(access) => {
                self.note(access.dir);
                return Ok(Here::Dir(access.dir));
            }
            Found::File(attr) => return Ok(file(attr, FileAt::Name(dir, name.clone()))),
            pointer => pointer,
        };
        let entry = match self.client.behind(pointer).await {
            // The inode is gone: looks the name up again, with this trail.
            Err(Errno::ESTALE) => {
                let at = At { dir, on: on.as_ref() };
                let entry = self.client.entry(self.credentials, at, name).await;
                self.verified(on.as_ref());
                entry
            }
            entry => entry,
        };
        match entry? {
            Entry { spot: Spot::Dir(dir), .. } => {
                self.note(dir);
                Ok(Here::Dir(dir))
            }
            Entry { spot: Spot::File(at), attr } => Ok(file(attr, at)),
        }
    }

    /// Names ahead, beyond the next, that only directories and symlinks can have. It stops before a
    /// `..`.
    fn dirs_ahead(&self) -> Vec<Name> {
        let Some(text) = self.ahead.last() else { return Vec::new() };
        let mut names = Vec::new();
        for part in text.bytes[text.next..].split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return names,
                part => match Name::new(part) {
                    Ok(name) => names.push(name),
                    Err(_) => return names,
                },
            }
        }
        if self.ahead.len() == 1 {
            names.pop();
        }
        names
    }

    /// Guesses the ids of the directories ahead, and asks for all of them at once.
    async fn guess(&mut self, name: &Name, dirs: Vec<Name>) -> Result<(), Errno> {
        let names: Vec<Name> = [name.clone()].into_iter().chain(dirs).collect();
        let round = Round::new(self.client, self.at(), names);
        let Some(on) = self.on() else { return Ok(()) };
        let right = round.ask(self.client, self.credentials, &on.trail).await?;
        for (name, Guessed { dir, version }) in right.into_iter().rev() {
            self.trail.version = self.trail.version.min(version);
            self.guessed.push((name, dir));
            self.is_sure = false;
        }
        Ok(())
    }

    async fn follow(&mut self, link: FileRef) -> Result<(), Errno> {
        self.symlinks += 1;
        if self.symlinks > SYMLINKS_MAX {
            return Err(Errno::ELOOP);
        }
        let target = self.client.readlink_at(self.credentials, link).await?;
        if target.first() == Some(&b'/') {
            self.path.truncate(1);
        }
        self.push(target)
    }

    fn push(&mut self, bytes: Vec<u8>) -> Result<(), Errno> {
        match bytes.len() {
            0 => Err(Errno::ENOENT),
            1..=PATH_LEN_MAX => {
                self.ahead.push(Text { bytes, next: 0 });
                Ok(())
            }
            _ => Err(Errno::ENAMETOOLONG),
        }
    }

    /// The next step.
    fn step(&mut self) -> Result<Option<Step>, Errno> {
        while let Some(text) = self.ahead.last_mut() {
            let rest = &text.bytes[text.next..];
            let begin = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
            let rest = &rest[begin..];
            if rest.is_empty() {
                self.ahead.pop();
                continue;
            }
            let len = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let step = match &rest[..len] {
                b"." => Step::Stay,
                b".." => Step::Up,
                name => Step::Down(Name::new(name)?),
            };
            text.next += begin + len;
            return Ok(Some(step));
        }
        Ok(None)
    }

    /// Whether only slashes are ahead, and if so, whether there are any. `None` if more components
    /// follow.
    fn is_last(&self) -> Option<bool> {
        let mut rest = self.ahead.iter().flat_map(|text| &text.bytes[text.next..]).peekable();
        let any = rest.peek().is_some();
        rest.all(|byte| *byte == b'/').then_some(any)
    }
}
