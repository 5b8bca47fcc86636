//! What this mount knows of one open file.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use pando_types::reply::Layout;
use pando_types::{Attr, Errno, Ino, Timestamp};

use crate::dirty::Dirty;

/// An open file, shared by all its handles.
///
/// Whoever reads holds `state` shared, whoever writes or flushes holds it alone: so no flush comes between the layout a
/// reader asked for and the dirty bytes it lays over it.
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    pub(crate) state: RwLock<State>,
    pub(crate) layout: Mutex<Option<Arc<Window>>>,
}

/// A layout that was asked for, and for which bytes.
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) layout: Layout,
}

/// How a file's data is kept, as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Unknown,
    Inline,
    Objects,
}

pub(crate) struct State {
    pub(crate) dirty: Dirty,
    /// When the newest dirty byte was written.
    pub(crate) dirty_mtime: Timestamp,
    /// Whether a dirty byte was written by someone whose writes take the setuid and setgid bits off.
    pub(crate) dirty_kills: bool,
    /// When the file became dirty.
    pub(crate) dirty_since: Instant,
    /// Size as the shards last said.
    pub(crate) size: u64,
    /// Data version as the shards last said.
    pub(crate) version: u64,
    /// How the data is kept at that version.
    pub(crate) form: Form,
    /// A failure that cost data, and that nobody was told yet.
    pub(crate) error: Option<Errno>,
}

impl Inode {
    pub(crate) fn new(attr: &Attr, form: Form) -> Self {
        let state = State {
            dirty: Dirty::default(),
            dirty_mtime: attr.mtime,
            dirty_kills: false,
            dirty_since: Instant::now(),
            size: attr.size,
            version: attr.data_version,
            form,
            error: None,
        };
        Self { ino: attr.ino, state: RwLock::new(state), layout: Mutex::new(None) }
    }
}

impl State {
    /// Takes over what the shards say, if it is news.
    pub(crate) fn hear(&mut self, attr: &Attr) {
        if attr.data_version > self.version {
            self.form = Form::Unknown;
        }
        if attr.data_version >= self.version {
            self.version = attr.data_version;
            self.size = attr.size;
        }
    }

    /// Size that a program on this mount sees.
    pub(crate) fn visible_size(&self) -> u64 {
        self.size.max(self.dirty.end())
    }

    /// Shows unflushed writes in attributes that came from a shard.
    pub(crate) fn show(&self, attr: &mut Attr) {
        if !self.dirty.is_empty() {
            attr.size = attr.size.max(self.dirty.end());
            attr.mtime = self.dirty_mtime;
            attr.ctime = attr.ctime.max(self.dirty_mtime);
            if self.dirty_kills {
                attr.mode = killed(attr.mode);
            }
        }
    }
}

/// Permission bits after a write, truncation or change of owner: without setuid, and without setgid where it gives a
/// group's rights to whoever executes.
pub(crate) const fn killed(mode: u16) -> u16 {
    const SETUID: u16 = 0o4000;
    const SETGID: u16 = 0o2000;
    const GROUP_EXECUTE: u16 = 0o010;
    let mode = mode & !SETUID;
    if mode & GROUP_EXECUTE != 0 { mode & !SETGID } else { mode }
}
