//! One walk along a path.
//!
//! What is still to be walked is a stack of texts: the path at the bottom, above it the targets of symlinks that were
//! met, the latest on top. The walk goes on in the text below when one is used up.

use pando_types::op::{FileAt, FileRef};
use pando_types::reply::Found;
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name};

use crate::client::Client;
use crate::names::Entry;
use crate::nodes::Spot;

/// Longest path, bytes, as Linux: `PATH_MAX` counts the final NUL.
const PATH_LEN_MAX: usize = 4095;
/// Most symlinks followed in one walk, as Linux.
const SYMLINKS_MAX: u32 = 40;
const SEARCH: u8 = 1;

/// Where a walk has come to.
pub(super) enum Here {
    Dir(DirRef),
    File(FileRef, Attr),
}

/// The last component of a path, not yet looked at.
pub(super) struct Last {
    pub(super) name: Name,
    /// Whether slashes follow it, so that only a directory will do.
    pub(super) is_dir: bool,
}

impl Last {
    /// Its name, of something that is no directory; `errno` if slashes follow.
    pub(super) fn file(self, errno: Errno) -> Result<Name, Errno> {
        if self.is_dir { Err(errno) } else { Ok(self.name) }
    }
}

/// A walk: where it is, and what is ahead.
pub(super) struct Walk<'a> {
    client: &'a Client,
    by: &'a Credentials,
    at: DirRef,
    ahead: Vec<Text>,
    symlinks: u32,
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
    pub(super) const fn new(client: &'a Client, by: &'a Credentials) -> Self {
        Self { client, by, at: DirRef::ROOT, ahead: Vec::new(), symlinks: 0 }
    }

    /// Walks to what `path` names; with `follow`, through a symlink at its end too.
    pub(super) async fn end_of(mut self, path: &[u8], follow: bool) -> Result<Here, Errno> {
        let mut next = self.last_of(path).await?;
        loop {
            let Some((dir, Last { name, is_dir })) = next else { return Ok(Here::Dir(self.at)) };
            let (file, attr) = match self.look(dir, &name).await? {
                Here::Dir(dir) => return Ok(Here::Dir(dir)),
                Here::File(file, attr) => (file, attr),
            };
            let follow = follow || is_dir;
            if attr.kind != FileKind::Symlink || !follow {
                return if is_dir { Err(Errno::ENOTDIR) } else { Ok(Here::File(file, attr)) };
            }
            next = self.through(dir, file.ino, file.at).await?;
            if let Some((_, last)) = &mut next {
                last.is_dir |= is_dir;
            }
        }
    }

    /// Walks to the directory of the last component; `None` if the path ends in a directory without naming it (the
    /// root, `.`, `..`).
    pub(super) async fn last_of(&mut self, path: &[u8]) -> Result<Option<(DirRef, Last)>, Errno> {
        self.push(path.to_vec())?;
        self.run().await
    }

    /// Goes on through a symlink that is the last component, in `dir`.
    pub(super) async fn through(
        &mut self,
        dir: DirRef,
        ino: Ino,
        at: FileAt,
    ) -> Result<Option<(DirRef, Last)>, Errno> {
        self.at = dir;
        self.follow(FileRef { ino, at }).await?;
        self.run().await
    }

    async fn run(&mut self) -> Result<Option<(DirRef, Last)>, Errno> {
        while let Some(step) = self.step()? {
            let name = match step {
                Step::Stay => continue,
                Step::Up => {
                    self.client.dir_access(self.by, self.at, SEARCH).await?;
                    self.at = self.client.parent_of(self.at).await?;
                    continue;
                }
                Step::Down(name) => name,
            };
            if let Some(is_dir) = self.is_last() {
                self.ahead.clear();
                return Ok(Some((self.at, Last { name, is_dir })));
            }
            match self.look(self.at, &name).await? {
                Here::Dir(dir) => self.at = dir,
                Here::File(file, attr) if attr.kind == FileKind::Symlink => {
                    self.follow(file).await?;
                }
                Here::File(..) => return Err(Errno::ENOTDIR),
            }
        }
        Ok(None)
    }

    /// What `name` leads to; a directory without its attributes, which cost messages of their own.
    async fn look(&self, dir: DirRef, name: &Name) -> Result<Here, Errno> {
        let file = |attr: Attr, at| Here::File(FileRef { ino: attr.ino, at }, attr);
        match self.client.found(self.by, dir, name).await? {
            Found::Dir(access) => Ok(Here::Dir(access.dir)),
            Found::File(attr) => Ok(file(attr, FileAt::Name(dir, name.clone()))),
            Found::Linked(..) => match self.client.entry(self.by, dir, name).await? {
                Entry { spot: Spot::Dir(dir), .. } => Ok(Here::Dir(dir)),
                Entry { spot: Spot::File(at), attr } => Ok(file(attr, at)),
            },
        }
    }

    async fn follow(&mut self, link: FileRef) -> Result<(), Errno> {
        self.symlinks += 1;
        if self.symlinks > SYMLINKS_MAX {
            return Err(Errno::ELOOP);
        }
        let target = self.client.readlink_at(self.by, link).await?;
        if target.first() == Some(&b'/') {
            self.at = DirRef::ROOT;
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

    /// The next component.
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

    /// Whether only slashes are ahead, and if so, whether there are any.
    fn is_last(&self) -> Option<bool> {
        let mut rest = self.ahead.iter().flat_map(|text| &text.bytes[text.next..]).peekable();
        let any = rest.peek().is_some();
        rest.all(|byte| *byte == b'/').then_some(any)
    }
}
