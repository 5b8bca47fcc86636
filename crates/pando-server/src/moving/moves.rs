//! All moves from and to a process: begun, answered, ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use pando_net::Keys;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Ask, MoveAsk, MoveStage, Told};
use parking_lot::{Condvar, Mutex};

use crate::common::log::say;
use crate::common::options::HostOptions;
use crate::folder::layout::Folder;
use crate::folder::lock::FolderLock;
use crate::folder::move_notes::{Coming, Given};
use crate::folder::superblock::Superblock;
use crate::founding::Site;
use crate::host::shards::Host;
use crate::moving::faults::Faults;
use crate::moving::shared::Shared;
use crate::moving::{giving, source, taking};
use crate::net::server::Server;

/// What a process needs to move shards from and to it.
pub struct Parts {
    /// The volume's folder in this process.
    pub folder: Folder,
    /// Superblock of the volume.
    pub superblock: Superblock,
    /// How shards are run.
    pub options: HostOptions,
    /// Keys by which this process may ask other servers. `None`: it may ask over Unix sockets only.
    pub keys: Option<Keys>,
    /// The host that runs the shards of this process.
    pub host: Arc<Host>,
    /// The lock on these shards.
    pub lock: FolderLock,
    /// Faults at points of a move, for tests.
    pub faults: Faults,
}

/// All moves from and to this process.
pub struct Moves {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held while a shard is given away: one at a time.
    giving: Mutex<()>,
}

impl Moves {
    /// Makes an object without any move.
    pub fn new(parts: Parts) -> Self {
        let Parts { folder, superblock, options, keys, host, lock, faults } = parts;
        let shared = Shared {
            folder,
            superblock,
            options,
            keys,
            host,
            lock: Mutex::new(lock),
            faults,
            hosts: OnceLock::new(),
            server: OnceLock::new(),
            coming: Mutex::default(),
            going: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            stopping: Condvar::new(),
            waiting: Mutex::default(),
        };
        Self { shared: Arc::new(shared), threads: Mutex::default(), giving: Mutex::default() }
    }

    /// Resumes the moves that an earlier process of this folder has begun.
    pub fn begin(&self, server: &Arc<Server>) {
        let _ = self.shared.hosts.set(server.hosts().clone());
        let _ = self.shared.server.set(Arc::downgrade(server));
        for shard in (0..SHARDS_MAX).map(ShardIndex) {
            if let Ok(Some(given)) = Given::read(&self.shared.folder, shard.0) {
                server.hosts().learn(&[given.to]);
                let is_put_aside = source::is_put_aside(&self.shared.folder, shard);
                if is_put_aside || self.shared.folder.shard(shard.0).exists() {
                    self.clear(shard);
                }
            }
            match Coming::read(&self.shared.folder, shard.0) {
                Ok(Some(coming)) => self.spawn(shard, move |shared| {
                    taking::resume(shared, shard, coming);
                }),
                Ok(None) => self.shared.forget_copy(shard),
                Err(error) => say(&format!("shard {shard}: its move cannot be resumed: {error}")),
            }
        }
    }

    /// Answers a question about moves. `None`: the question is about something else.
    pub fn answer(&self, ask: &Ask) -> Option<Told> {
        Some(match ask {
            Ask::Moves => Told::Moves(self.shared.all_moves()),
            Ask::Adopt(shard, rate) => match self.adopt(*shard, *rate) {
                Ok(()) => Told::Adopting,
                Err(why) => Told::Failed(why),
            },
            Ask::Found(shard) => match self.found(*shard) {
                Ok(()) => Told::Founded,
                Err(why) => Told::Failed(why),
            },
            Ask::Move(shard, token, ask) => {
                // A repeated question on another thread would write the same file at the same
                // moment.
                let _giving = matches!(ask, MoveAsk::GiveAway { .. }).then(|| self.giving.lock());
                let (told, is_given) = source::answer(&*self.shared, *shard, *token, ask);
                if is_given {
                    self.clear(*shard);
                }
                Told::Move(told)
            }
            _ => return None,
        })
    }

    fn adopt(&self, shard: ShardIndex, rate: u64) -> Result<(), String> {
        let shared = &self.shared;
        let known = shared.hosts.get().and_then(|hosts| hosts.get(shard));
        if shard.0 >= shared.superblock.shards && known.is_none() {
            let added = shared.hosts.get().map_or_else(Vec::new, |hosts| hosts.all());
            let added = added.iter().map(|hosting| hosting.shard.0).max();
            let last = added.unwrap_or(0).max(shared.superblock.shards - 1);
            return Err(format!(
                "there is no shard {shard}: the volume has shards 0 to {last}, as far as this server knows; \
                 `pando shard list` shows them, `pando shard add` makes the next"
            ));
        }
        if shared.coming.lock().get(&shard).is_some_and(|moving| moving.stage.is_under_way()) {
            return Ok(());
        }
        if shared.host.epoch(shard).is_some() {
            shared.note(shard, |moving| moving.stage = MoveStage::Done);
            return Ok(());
        }
        let given = Given::read(&shared.folder, shard.0).map_err(|error| error.to_string())?;
        let own = shared.folder.shard(shard.0);
        if given.is_none() && own.exists() {
            return Err(format!(
                "{} is there already: another process serves the shard from this folder. Move it \
                 to a server of another folder",
                own.display()
            ));
        }
        let source = known.ok_or_else(|| {
            format!(
                "no server of shard {shard} is known here: start one (`pando server FOLDER --shard {shard}`), and run this again"
            )
        })?;
        shared.lock.lock().add(&shared.folder, shard.0).map_err(|error| error.to_string())?;
        shared.note(shard, |moving| {
            (moving.stage, moving.copied, moving.total) = (MoveStage::Copying, 0, 0);
            moving.from.clone_from(&source.addresses);
        });
        self.spawn(shard, move |shared| taking::adopt(shared, shard, source, rate));
        Ok(())
    }

    /// Makes a new shard, and serves it.
    fn found(&self, shard: ShardIndex) -> Result<(), String> {
        let shared = &self.shared;
        let server = shared.server.get().and_then(Weak::upgrade).ok_or("the server is stopping")?;
        let mut lock = shared.lock.lock();
        let site = Site {
            folder: &shared.folder,
            superblock: &shared.superblock,
            options: &shared.options,
            host: &shared.host,
            server: &server,
        };
        site.found(shard, |folder| lock.add(folder, shard.0))
    }

    /// Removes the old copy of a shard that was given away, once its new host is known.
    fn clear(&self, shard: ShardIndex) {
        self.spawn(shard, move |shared| giving::clear(&shared, shard));
    }

    fn spawn(&self, shard: ShardIndex, body: impl FnOnce(Arc<Shared>) + Send + 'static) {
        let shared = self.shared.clone();
        let name = format!("pando-move-{shard}");
        match std::thread::Builder::new().name(name).spawn(move || body(shared)) {
            Ok(thread) => {
                let mut threads = self.threads.lock();
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) => {
                let why = format!("cannot start a thread: {error}");
                say(&format!("shard {shard}: {why}"));
                self.shared.note(shard, |moving| moving.stage = MoveStage::Failed(why));
            }
        }
    }

    /// Stops all threads of moves. A later process of this folder resumes the moves.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        drop(self.shared.waiting.lock());
        self.shared.stopping.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        self.stop();
    }
}
