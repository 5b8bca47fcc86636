//! A kernel before a client: it remembers what it is told by grounds, until it is to forget
//! (docs/design/read-grants.md, "What kernels remember").
//!
//! It forgets what its own programs change, somewhat more of it than Linux does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_client::grounds::{KEPT_MAX, Watch};
use pando_client::{Client, Grounds, Transport as _};
use pando_types::{Errno, FileKind, Ino, Name};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::base::time::{MILLISECOND, SECOND};
use crate::clients::client::ClientRun;
use crate::clients::execute::{Executed, execute, to_stat};
use crate::clients::kernel::Changes;
use crate::model::{Call, Op, Value};

/// How long something is remembered at most of attributes of directories.
const DIR_MOST: u64 = SECOND;
/// How long it takes to forget, mostly.
const FORGETS: u64 = 3 * MILLISECOND;

/// A change that is under way.
struct Begun {
    dirs: Vec<Ino>,
    file: Option<Ino>,
    /// Entries that a file may leave.
    leaves: Vec<(Ino, u64)>,
    /// Names that change their places.
    moves: Vec<((Ino, Name), (Ino, Name))>,
}

impl ClientRun {
    /// Runs a call, or answers it as the kernel knows.
    pub(crate) async fn execute_by_kernel(
        &self,
        client: &Arc<Client>,
        call: &Call,
        page: u32,
    ) -> Executed {
        let Some(grounds) = client.grounds().filter(|_| self.shared.kernels).cloned() else {
            return execute(client, call, page).await;
        };
        if !matches!(call.op, Op::Lookup(..) | Op::GetAttr(_)) {
            let begun = self.change_begins(client, &grounds, &call.op);
            let executed = execute(client, call, page).await;
            self.change_ends(&grounds, begun, &executed);
            return executed;
        }
        let is_by_root = call.credentials.uid == 0;
        let known = lock(&self.kernel.facts).known(&call.op, self.shared.mail.now_nanos());
        if let Some(known) = known.filter(|_| is_by_root) {
            lock(&self.shared.history).loans.known_to_kernels += 1;
            let outcome = known.as_ref().map(|attr| Value::Stat(to_stat(attr)));
            let outcome = outcome.map_err(|errno| *errno);
            return Executed { outcome, is_loose: false, attr: known.ok() };
        }
        let request = self.kernel.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let before = lock(&self.kernel.facts).changes;
        let executed = execute(client, call, page).await;
        self.take_in(client, &grounds, &call.op, (request, before), &executed);
        executed
    }

    /// Remembers an answer, as long as the mount tells.
    fn take_in(
        &self,
        client: &Client,
        grounds: &Grounds,
        op: &Op,
        (request, before): (u64, Changes),
        executed: &Executed,
    ) {
        let now = self.shared.mail.now_nanos();
        let moments = (request, self.shared.mail.machine_nanos());
        let mut facts = lock(&self.kernel.facts);
        let is_still = facts.changes == before && before.under_way == 0;
        let of_files = |changes: Changes| (changes.of_files, changes.files_under_way);
        let files_are_still = of_files(facts.changes) == (before.of_files, 0);
        if let Some(attr) = &executed.attr {
            let time = match (attr.kind, client.lies_in(attr.ino)) {
                (FileKind::Directory, _) if is_still => {
                    grounds.tell_dir(attr.ino, moments, DIR_MOST)
                }
                (FileKind::Directory, _) => 0,
                (_, Some(entry)) if attr.nlink == 1 && files_are_still => {
                    grounds.tell_file(entry, attr.ino, moments, KEPT_MAX)
                }
                _ => 0,
            };
            facts.attrs.remove(&attr.ino);
            if time > 0 {
                facts.attrs.insert(attr.ino, (attr.clone(), now + time));
            }
        }
        let found = match (&executed.outcome, &executed.attr) {
            (Ok(_), Some(attr)) => Some(attr.ino),
            (Err(Errno::ENOENT), _) => None,
            _ => return,
        };
        let Op::Lookup(dir, name) = op else { return };
        if is_still {
            let time = grounds.tell_name(*dir, moments, KEPT_MAX);
            if time > 0 {
                facts.names.insert((*dir, name.clone()), (found, now + time));
            }
        }
    }

    fn change_begins(&self, client: &Client, grounds: &Grounds, op: &Op) -> Option<Begun> {
        let (mut dirs, mut file) = (Vec::new(), None);
        let (mut leaves, mut moves) = (Vec::new(), Vec::new());
        match op {
            Op::Create { dir, .. } | Op::Mkdir(dir, ..) => dirs.push(*dir),
            Op::Unlink(dir, name) | Op::Rmdir(dir, name) => {
                dirs.push(*dir);
                leaves.push((*dir, grounds.key(name)));
            }
            Op::Link(ino, dir, _) => {
                dirs.push(*dir);
                leaves.extend(client.lies_in(*ino));
            }
            Op::Rename { from, name, to, new_name, flags } => {
                dirs.extend([*from, *to]);
                leaves.extend([(*from, grounds.key(name)), (*to, grounds.key(new_name))]);
                let (old, new) = ((*from, name.clone()), (*to, new_name.clone()));
                if flags.exchange {
                    moves.push((new.clone(), old.clone()));
                }
                moves.push((old, new));
            }
            Op::SetAttr(ino, _)
            | Op::Write(ino, ..)
            | Op::SetXattr(ino, ..)
            | Op::RemoveXattr(ino, _)
            | Op::Open { ino, truncate: true, .. } => file = Some(*ino),
            _ => return None,
        }
        let mut facts = lock(&self.kernel.facts);
        facts.changes.all += 1;
        facts.changes.under_way += 1;
        if file.is_some() {
            facts.changes.of_files += 1;
            facts.changes.files_under_way += 1;
        }
        leaves.iter().for_each(|(dir, _)| grounds.change_begins(*dir));
        Some(Begun { dirs, file, leaves, moves })
    }

    fn change_ends(&self, grounds: &Grounds, begun: Option<Begun>, executed: &Executed) {
        let Some(Begun { dirs, file, leaves, moves }) = begun else { return };
        let is_known = !matches!(executed.outcome, Err(Errno::ETIMEDOUT | Errno::EIO));
        let mut facts = lock(&self.kernel.facts);
        facts.changes.all += 1;
        facts.changes.under_way -= 1;
        if let Some(file) = file {
            facts.changes.of_files += 1;
            facts.changes.files_under_way -= 1;
            facts.attrs.remove(&file);
        }
        // A name takes along what is remembered of it.
        let moved: Vec<_> = moves
            .into_iter()
            .filter_map(|(from, to)| Some((to, facts.names.remove(&from)?)))
            .collect();
        facts.names.retain(|(dir, _), _| !dirs.contains(dir));
        if executed.outcome.is_ok() {
            facts.names.extend(moved);
        }
        facts.attrs.retain(|ino, _| !dirs.contains(ino));
        for (dir, key) in leaves {
            for ino in grounds.change_ends(dir, key) {
                facts.attrs.remove(&ino);
            }
            grounds.change_ended(dir, key, is_known);
        }
        let is_across = dirs.len() == 2 && dirs[0] != dirs[1];
        if (is_across || !is_known) && grounds.names_leave(&dirs) > 0 {
            facts.names.clear();
            grounds.names_forgotten(&dirs);
        }
    }

    /// Lets the kernel of this client remember, if there is one.
    pub(crate) fn watch_grounds(&self, client: &Client) {
        if let Some(grounds) = client.grounds().filter(|_| self.shared.kernels) {
            let requests = Arc::clone(&self.kernel.requests);
            let newest = Box::new(move || requests.load(Ordering::SeqCst));
            let mail = self.shared.mail.clone();
            grounds.watch(Watch { newest, clock: Box::new(move || mail.now_nanos()) });
        }
    }

    /// Forgets what falls. Never ready.
    pub(crate) async fn forget(&self, client: &Client) {
        let Some(grounds) = client.grounds().filter(|_| self.shared.kernels) else {
            return std::future::pending().await;
        };
        let mut random = Random::new(u64::from(self.who) ^ 0xF0_4647);
        loop {
            grounds.falls().await;
            let falls = grounds.take_falls();
            // If something is mounted upon the mount, names are left to their time.
            let takes = match random.below(8) {
                0 => falls.names_left,
                _ => random.below(FORGETS),
            };
            if takes > 0 {
                self.shared.mail.sleep(takes).await;
            }
            let mut facts = lock(&self.kernel.facts);
            if falls.names_left > 0 {
                facts.names.clear();
            }
            facts.attrs.retain(|ino, _| !falls.nodes.contains(ino));
            drop(facts);
            grounds.forgotten(&falls.grants);
        }
    }
}
