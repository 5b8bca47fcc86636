//! The kernel's memory of directories, kept true.
//!
//! The kernel may remember for as long as it likes which directory a name leads to, so that a path of any depth costs as many
//! requests as one name. Nobody tells a mount when a directory is renamed or closed to others. Instead each request about a
//! directory carries the way by which the kernel came there, and the shard that runs it refuses one whose way has changed
//! ([`pando_types::Trail`]). Names on the way that are in doubt are then asked for once more; if one does not lead to what the kernel
//! takes it for, the answer is `ESTALE`, upon which Linux walks the path again and asks for each component of it.
//!
//! ```text
//!   path of the caller      kernel              here                                     shard
//!   /a/b/c/file      ─►  a, b, c known
//!                        LOOKUP(c, file) ─►  table: c is `c` in b, in a, in /  ─trail─►  a was renamed: refused, with news
//!                                       ◄─ ESTALE       a is in doubt
//!                        LOOKUP(/, a)    ─►  walks: this thread walks again     ───────►  what is there now
//!                        LOOKUP(a', b) …
//! ```
//!
//! - [`table`]: what the kernel was told, node by node. *A node number stands for a directory at one place.* Found elsewhere,
//!   the directory gets another number, so a request never leaves it open by which way the kernel came.
//! - [`walks`]: who was told `ESTALE` and walks again. He is served by what he has asked for in this very call, so that whoever
//!   began in the middle of the tree (a working directory, a descriptor) goes on wherever that was moved, as on Linux.
//! - [`call`]: which system call a thread is in, for what the protocol does not tell: where its path begins, and calls that
//!   Linux does not repeat. Looked at only where somebody is about to be refused.
//!
//! Invariants:
//! 1. A request is run by a trail that names all directories from the root to its own, each known to be where the kernel thinks it
//!    is up to the trail's version, and searchable by the caller; or its caller holds a directory, and has walked from there
//!    within the call.
//! 2. Of all nodes of one directory at most one is sure, the newest.
//! 3. The kernel is never told anything of its own accord. `INVAL_ENTRY` and `EXPIRE_ENTRY` wait for the lock of the directory,
//!    which a caller of ours may hold, and nothing can end that: a mount that is killed meanwhile would stay for ever, with all
//!    its callers. (Tried: it happens.)

mod call;
mod table;
mod walks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pando_client::OnPath;
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Name, News, Trail};

use self::call::{Call, Kind};
use self::table::{Doubtful, Place, Table, Way};
use self::walks::{Walk, Walks};
use super::credentials::credentials_of;
use crate::device::{self, Counts};
use crate::namespace::{By, Namespace};

/// What a request does with directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Asks what a name leads to.
    Look(u64, Name),
    /// Makes or removes a name.
    Name(u64, Name),
    /// Moves a name.
    Move((u64, Name), (u64, Name)),
    /// Something of the node itself.
    Node(u64),
}

impl Step {
    /// The directories whose way matters.
    fn nodes(&self) -> impl Iterator<Item = u64> {
        let (first, second) = match self {
            Self::Look(dir, _) | Self::Name(dir, _) | Self::Node(dir) => (*dir, None),
            Self::Move((from, _), (to, _)) => (*from, (from != to).then_some(*to)),
        };
        [Some(first), second].into_iter().flatten()
    }
}

/// See the module.
pub(super) struct Ways {
    table: Arc<Table>,
    /// Of the mount, as `/proc/*/mountinfo` has it.
    device: OnceLock<Vec<u8>>,
    walks: Walks,
    refused: AtomicU64,
    by_id: AtomicU64,
}

impl Ways {
    /// Hears of changes from now on.
    pub(super) fn new(namespace: &dyn Namespace) -> Arc<Self> {
        let ways = Arc::new(Self {
            table: Arc::default(),
            device: OnceLock::new(),
            walks: Walks::default(),
            refused: AtomicU64::new(0),
            by_id: AtomicU64::new(0),
        });
        let heard = Arc::downgrade(&ways);
        let version = namespace.watch(Box::new(move |news: &News| {
            if let Some(ways) = heard.upgrade() {
                ways.table.hear(news);
            }
        }));
        ways.table.begin(version);
        ways
    }

    /// It is mounted now, with this device.
    pub(super) fn mounted(&self, device: &[u8]) {
        let _ = self.device.set(device.to_owned());
    }

    /// The inode that a node stands for.
    pub(super) fn ino(&self, node: u64) -> Ino {
        self.table.ino(node)
    }

    /// How the caller of a request came to what it is about. What is in doubt is looked at by [`Passage::look_again`].
    pub(super) fn enter<'a>(
        &'a self,
        namespace: &'a dyn Namespace,
        caller: device::Caller,
        step: Step,
    ) -> Passage<'a> {
        let credentials = credentials_of(caller.uid, caller.gid, caller.pid);
        let mut passage = Passage {
            ways: self,
            namespace,
            thread: caller.pid,
            step,
            by: By { credentials, on: None },
            stand: Stand::ById,
            refusals: 0,
            errno: None,
        };
        let is_walking = self.walks.go_on(passage.thread, &passage.step, |node| self.ino(node));
        match self.table.way(passage.step.nodes(), &passage.by.credentials) {
            Way::OfNoDirectory => {}
            _ if is_walking => passage.go_by_id(),
            Way::Sure(trail) => passage.go_by(trail),
            Way::Unsure => passage.stand = Stand::InDoubt,
        }
        passage
    }

    /// A caller's path has led him to a file: what follows is of another call.
    pub(super) fn walked(&self, caller: device::Caller) {
        self.walks.end(caller.pid);
    }

    /// A lookup has found a directory: its node, and whether the kernel may remember that.
    pub(super) fn found(&self, passage: &Passage<'_>, attr: &Attr) -> (u64, bool) {
        let (Step::Look(parent, name), Some(on)) = (&passage.step, &passage.by.on) else {
            return (attr.ino.0, false);
        };
        self.table.found((*parent, name), attr, on.search(), on.version())
    }

    /// A lookup is answered with this node, or fails.
    pub(super) fn arrived(&self, passage: &Passage<'_>, node: Result<u64, Errno>) {
        let Step::Look(parent, name) = &passage.step else { return };
        // What other failures make of a name that the kernel has is its own affair.
        if matches!(node, Ok(_) | Err(Errno::ENOENT)) {
            self.table.answered((*parent, name), node.ok());
        }
        self.walks.arrived(passage.thread, (*parent, name), node.ok());
    }

    /// A directory was made: its node. The kernel is to ask for it once more, which tells who may come through its parent.
    pub(super) fn made(&self, at: (u64, &Name), attr: &Attr) -> u64 {
        self.table.made(at, attr.ino)
    }

    /// Attributes of a directory that the kernel knows were changed.
    pub(super) fn changed(&self, node: u64, attr: &Attr) {
        self.table.changed(node, attr);
    }

    /// A name was moved, and the kernel will move what it has there. Directories are asked for once more, so that they
    /// need not be when they are used; those are returned.
    pub(super) async fn renamed(
        &self,
        namespace: &dyn Namespace,
        from: (u64, &Name),
        to: (u64, &Name),
        is_exchange: bool,
    ) -> Vec<u64> {
        let moved = self.table.renamed(from, to, is_exchange);
        for (node, (parent, name)) in moved.iter().zip([to, from]) {
            let Some(node) = node else { continue };
            let by = self.by_id(Credentials::ROOT);
            let found = namespace.lookup_brief(&by, self.ino(parent), name).await;
            if let (Ok(attr), Some(on)) = (&found, &by.on) {
                self.table.confirm(*node, (parent, name), attr, on.search(), on.version());
                namespace.forget(attr.ino, 1);
            }
        }
        moved.into_iter().flatten().collect()
    }

    /// The kernel never heard that these were moved.
    pub(super) fn abandon(&self, nodes: &[u64]) {
        nodes.iter().for_each(|node| self.table.abandon(*node));
    }

    /// The kernel forgets `count` lookups of a node; which inode that is.
    pub(super) fn forget(&self, node: u64, count: u64) -> Ino {
        self.table.forget(node, count)
    }

    /// Counts since the mount began, but for the first, which is how many directories the kernel knows now.
    pub(super) fn counters(&self) -> Counts {
        vec![
            ("directories", self.table.len() as u64),
            ("ways_refused", self.refused.load(Ordering::Relaxed)),
            ("ways_by_id", self.by_id.load(Ordering::Relaxed)),
        ]
    }

    /// On whose behalf, by no way: what a shard knew when it answered is wanted nevertheless.
    fn by_id(&self, credentials: Credentials) -> By {
        let trail = Trail { version: self.table.version(), dirs: Vec::new() };
        By { credentials, on: Some(OnPath::new(trail)) }
    }
}

/// Refusals of one request after which its caller walks again, whatever his way looks like now.
const REFUSALS_MAX: u32 = 4;

/// What a request goes by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// By its way: a shard may refuse it because of that.
    ByWay,
    /// By what it is about, wherever that is.
    ById,
    /// By its way, of which something is in doubt.
    InDoubt,
}

/// A request on its way: as whom it is made, and what becomes of it if its way has changed.
pub(super) struct Passage<'a> {
    ways: &'a Ways,
    namespace: &'a dyn Namespace,
    thread: u32,
    pub(super) step: Step,
    by: By,
    stand: Stand,
    refusals: u32,
    /// It is not to be made at all.
    errno: Option<Errno>,
}

impl Passage<'_> {
    /// As whom the request is made.
    pub(super) fn by(&self) -> Result<&By, Errno> {
        self.errno.map_or(Ok(&self.by), Err)
    }

    /// What the caller is told; `None`: it is to be made once more.
    pub(super) fn settle<T>(&mut self, result: Result<T, Errno>) -> Option<Result<T, Errno>> {
        if self.stand != Stand::ByWay || !matches!(result, Err(Errno::ESTALE)) {
            return Some(result);
        }
        self.step.nodes().for_each(|node| self.ways.table.doubt(node));
        self.stand = Stand::InDoubt;
        self.refusals += 1;
        None
    }

    /// Names on the way that are in doubt are asked for, as the caller's kernel would if he were refused. Where all lead to
    /// what it takes them for, nobody need be: much is put in doubt that has not changed, by news of which some were missed or by
    /// a change of permissions that concerns others.
    pub(super) async fn look_again(&mut self) {
        if self.stand != Stand::InDoubt {
            return;
        }
        let table = &self.ways.table;
        if self.refusals < REFUSALS_MAX
            && let Some(doubtful) = table.doubtful(self.step.nodes())
        {
            for it in doubtful {
                match self.holds(&it).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    // He is told what his walk would be.
                    Err(errno) => {
                        self.errno = Some(errno);
                        return;
                    }
                }
            }
            if let Way::Sure(trail) = table.way(self.step.nodes(), &self.by.credentials) {
                return self.go_by(trail);
            }
        }
        self.turn_away();
    }

    /// Whether a name leads to what the kernel takes it for.
    async fn holds(&self, it: &Doubtful) -> Result<bool, Errno> {
        let Doubtful { node, place: (parent, name) } = it;
        let by = self.ways.by_id(Credentials::ROOT);
        let attr = match self.namespace.lookup_brief(&by, self.ways.ino(*parent), name).await {
            Ok(attr) => attr,
            Err(Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        if let Some(on) = by.on.as_ref().filter(|_| attr.kind == FileKind::Directory) {
            let table = &self.ways.table;
            table.confirm(*node, (*parent, name), &attr, on.search(), on.version());
        }
        self.namespace.forget(attr.ino, 1);
        Ok(attr.ino == self.ways.ino(*node))
    }

    fn go_by(&mut self, trail: Trail) {
        self.by.on = Some(OnPath::new(trail));
        self.stand = Stand::ByWay;
    }

    fn go_by_id(&mut self) {
        self.ways.by_id.fetch_add(1, Ordering::Relaxed);
        let credentials = std::mem::take(&mut self.by.credentials);
        self.by = self.ways.by_id(credentials);
        self.stand = Stand::ById;
    }

    /// The way is not what the kernel takes it for, or not known to be, or the caller may not take it.
    fn turn_away(&mut self) {
        self.ways.refused.fetch_add(1, Ordering::Relaxed);
        let ways = self.ways;
        let call = Call::of(self.thread);
        let device = ways.device.get().map_or(&[][..], Vec::as_slice);
        let starts = call.as_ref().map(|call| call.starts(self.thread, device)).unwrap_or_default();
        let begins = |dir: u64, name| starts.iter().any(|start| start.leads(ways.ino(dir), name));
        let edges = || self.step.nodes().flat_map(|node| ways.table.edges(node)).collect();
        match (call.as_ref().map(Call::kind), &self.step) {
            // He holds the directory itself, and Linux does not ask again.
            (Some(Kind::Descriptor), Step::Node(_)) => return self.go_by_id(),
            (_, Step::Node(dir)) if starts.iter().any(|start| start.is_at(ways.ino(*dir))) => {
                return self.go_by_id();
            }
            (_, Step::Look(dir, name)) if begins(*dir, name) => {
                let walk = Walk::new(self.step.clone(), edges(), starts, call);
                ways.walks.begin(self.thread, walk.held((*dir, name.clone())));
                return self.go_by_id();
            }
            // Here Linux does not ask again either, but it does when what follows is refused.
            (Some(Kind::Make(path)), Step::Look(dir, name))
                if is_last_only(&path, name, &ways.table.edges(*dir), !starts.is_empty()) =>
            {
                self.errno = Some(Errno::ENOENT);
                return;
            }
            // By which path he comes cannot be seen, but the kernel has none any more.
            _ if !call.as_ref().is_some_and(Call::has_paths)
                && ways.table.is_adrift(self.step.nodes()) =>
            {
                return self.go_by_id();
            }
            _ => {}
        }
        self.errno = Some(Errno::ESTALE);
        let walk = Walk::new(self.step.clone(), edges(), starts, call);
        ways.walks.begin(self.thread, walk);
    }
}

/// Whether a lookup of `name` in a directory to which `edges` lead, the last one first, can only be that of a path's last
/// component. `is_elsewhere`: the path does not begin in that directory.
fn is_last_only(path: &[u8], name: &Name, edges: &[Place], is_elsewhere: bool) -> bool {
    let is_elsewhere = is_elsewhere || path.starts_with(b"/") && !edges.is_empty();
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    // Through what is before it, as far as the kernel has names of both.
    let may_be = |at: usize| {
        let before = parts[..at].iter().rev();
        let is_known = !parts[..at].contains(&&b".."[..]);
        !is_known || before.zip(edges).all(|(part, (_, name))| *part == name.as_bytes())
    };
    let first = usize::from(is_elsewhere);
    let mut found = (first..parts.len()).filter(|at| parts[*at] == name.as_bytes() && may_be(*at));
    found.next() == parts.len().checked_sub(1) && !parts.is_empty()
}

/// Makes a request until it is settled: `$work` is an expression of `Result` that may use `$by`.
macro_rules! passing {
    ($passage:expr, |$by:ident| $work:expr) => {
        loop {
            $passage.look_again().await;
            let result = match $passage.by() {
                Ok($by) => $work,
                Err(errno) => break Err(errno),
            };
            if let Some(result) = $passage.settle(result) {
                break result;
            }
        }
    };
}
pub(super) use passing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_component_is_the_last() {
        let name = Name::new(b"x").expect("valid");
        let edges = |names: &[&str]| -> Vec<Place> {
            names.iter().map(|name| (0, Name::new(name.as_bytes()).expect("valid"))).collect()
        };
        for (path, way, is_elsewhere, is_last) in [
            ("/a/x", &["a"][..], false, true),
            ("x//", &["a"], false, true),
            ("a/x/y", &["a"], true, false),
            ("", &["a"], false, false),
            // Which of two it is, the names before tell.
            ("/x/a/x", &["a", "x"], false, true),
            ("/x/a/x", &[], false, false),
            ("./b/x/a/x", &["a", "x", "b", "c"], false, true),
            ("./b/x/a/x", &["b", "c"], true, false),
            ("x/x", &["x"], false, false),
            ("x/x", &["x"], true, true),
            // Through `..` anything may lead.
            ("x/b/../a/x", &["a"], false, false),
            ("../a/x", &["a"], true, true),
        ] {
            let edges = edges(way);
            let found = is_last_only(path.as_bytes(), &name, &edges, is_elsewhere);
            assert_eq!(found, is_last, "{path} {way:?}");
        }
    }
}
