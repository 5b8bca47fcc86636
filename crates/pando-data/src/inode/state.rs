//! An open file, its unflushed bytes, and what the shards have said of it.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use pando_types::op::INLINE_MAX;
use pando_types::reply::Layout;
use pando_types::{Attr, Ino, Kill, ShardIndex, Timestamp};

use crate::inode::dirty::Dirty;
use crate::inode::plan::{Form, Plan};

/// An open file, shared by all its handles.
///
/// A reader holds `state` shared; a writer or a flush holds it alone. So no flush comes between the
/// layout that a reader asked for and the dirty bytes that it lays over it.
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    pub(crate) state: RwLock<State>,
    pub(crate) layout: Mutex<Option<Arc<Window>>>,
}

/// A layout, and the range of bytes that it covers.
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) layout: Layout,
}

pub(crate) struct State {
    pub(crate) dirty: Dirty,
    /// When the newest dirty byte was written.
    pub(crate) dirty_mtime: Timestamp,
    /// The shard with the clock that stamps dirty bytes: it had the file when that became dirty.
    pub(crate) clock: ShardIndex,
    /// The set-id bits to clear when the dirty bytes are stored.
    pub(crate) dirty_kill: Option<Kill>,
    /// When the file became dirty.
    pub(crate) dirty_since: Instant,
    /// Size by the shards' last answer.
    pub(crate) size: u64,
    /// Data version by the shards' last answer.
    pub(crate) version: u64,
    /// How the data is kept at that version.
    pub(crate) form: Form,
    /// After a failed flush by maintenance: the time of its next try, and the length of the last
    /// pause.
    pub(crate) retry: Option<(Instant, Duration)>,
    /// The plan that was sent last, if a shard's log may have it.
    pub(crate) kept: Option<Box<Plan>>,
    /// A program was told that these dirty bytes could not be stored.
    pub(crate) is_told: bool,
}

impl Inode {
    pub(crate) fn new(attr: &Attr, form: Form) -> Self {
        let state = State {
            dirty: Dirty::default(),
            dirty_mtime: attr.mtime,
            clock: ShardIndex(0),
            dirty_kill: None,
            dirty_since: Instant::now(),
            size: attr.size,
            version: attr.data_version,
            form,
            retry: None,
            kept: None,
            is_told: false,
        };
        Self { ino: attr.ino, state: RwLock::new(state), layout: Mutex::new(None) }
    }
}

impl State {
    /// Takes in the shards' attributes, if they are not older than what is known.
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

    /// Whether dirty bytes, however few, become an object.
    pub(crate) fn overwrites_objects(&self) -> bool {
        let is_in_objects = match self.form {
            Form::Objects => true,
            Form::Unknown => self.size > INLINE_MAX,
            Form::Inline => false,
        };
        is_in_objects && !self.dirty.is_empty()
    }

    /// Adds to the set-id bits that the dirty bytes clear.
    pub(crate) fn add_kill(&mut self, kill: Option<Kill>) {
        self.dirty_kill = merged(self.dirty_kill, kill);
    }

    /// Whether the file still has set-id bits that the unflushed writes clear.
    pub(crate) fn is_to_kill(&self, attr: &Attr) -> bool {
        self.dirty_kill.is_some_and(|kill| kill.left(attr.mode, attr.gid) != attr.mode)
    }

    /// Shows unflushed writes in attributes that came from a shard.
    pub(crate) fn show(&self, attr: &mut Attr) {
        if !self.dirty.is_empty() {
            attr.size = attr.size.max(self.dirty.end());
            attr.mtime = self.dirty_mtime;
            attr.ctime = attr.ctime.max(self.dirty_mtime);
        }
    }
}

/// The set-id bits that two changes clear together.
pub(crate) fn merged(one: Option<Kill>, other: Option<Kill>) -> Option<Kill> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}
