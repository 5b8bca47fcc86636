//! A run: its world, and its clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use pando_client::Volume;
use pando_placement::{ClusterMap, Secrets};

use crate::base::executor::TaskIndex;
use crate::base::lock::lock;
use crate::base::random::Random;
use crate::clients::client::{ClientRun, Shared};
use crate::clients::local::Here;
use crate::config::parameters::SimConfig;
use crate::world::state::world::World;

pub(crate) struct Running {
    pub(crate) run: Arc<ClientRun>,
    pub(crate) tasks: Vec<TaskIndex>,
}

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) shared: Shared,
    pub(crate) clients: Vec<Running>,
    pub(crate) dead: Vec<Arc<ClientRun>>,
    pub(crate) others: Vec<TaskIndex>,
    /// Clients that stand still for long, each until when, and for how long its machine slept then.
    pub(crate) away: BTreeMap<u32, (u64, u64)>,
    /// Number of looks for a client to which something is to happen.
    pub(crate) looks: u32,
    pub(crate) random: Random,
    pub(crate) who: u32,
    /// The fault that was found so far.
    pub(crate) seen: Option<String>,
}

impl Run {
    pub(crate) fn new(config: SimConfig) -> Self {
        let mut random = Random::new(config.seed ^ 0xC11E_4175);
        let map = map(config.shards);
        let secrets = secrets(&mut random);
        let (history, patience) = (Arc::default(), config.patience);
        let (names, churn, ebbs, moves) = (config.names, config.churn, config.ebbs, config.moves);
        let (by_path, paths_bytes, keeping) = (config.by_path, config.paths_bytes, config.keeping);
        let (locking, lock_patience, locks) =
            (config.locking, config.lock_patience, Arc::default());
        let world = World::new(config, &map, &secrets, Arc::clone(&history), Arc::clone(&locks));
        let volume = Volume { id: [7; 16], secrets, map };
        let mail = world.mail.clone();
        if world.config.lends {
            mail.let_drift(world.config.drift);
        }
        let shared = Shared {
            mail,
            volume,
            history,
            patience,
            names,
            churn,
            ebbs,
            by_path,
            moves,
            paths_bytes,
            keeping,
            promises: Arc::default(),
            locking,
            lock_patience,
            locks,
            lends: world.config.lends,
            holds: world.config.holds,
            kernels: world.config.kernels,
            objects: world.objects.clone(),
            here: None,
        };
        let (clients, dead, others) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            world,
            shared,
            clients,
            dead,
            others,
            away: BTreeMap::new(),
            looks: 0,
            random,
            who: 0,
            seen: None,
        }
    }

    /// Begins another client, in the process of all shards or in its own. Each lane has
    /// `operations` operations.
    pub(crate) fn begin_client(&mut self, here: Option<&Arc<Here>>, operations: u64) {
        self.who += 1;
        let lanes = self.world.config.lanes;
        let shared = Shared { here: here.cloned(), ..self.shared.of(self.who) };
        let run = ClientRun::new(self.who, shared, lanes, operations);
        if self.world.config.lends && self.random.chance(1, 6) {
            run.let_journals_fail(self.random.between(2, 80));
        }
        let mut tasks = vec![self.world.executor.spawn(Arc::clone(&run).connect())];
        tasks.push(self.world.executor.spawn(Arc::clone(&run).maintain()));
        for _ in 0..lanes {
            let lane = Arc::clone(&run).lane(self.random.fork());
            tasks.push(self.world.executor.spawn(lane));
        }
        self.clients.push(Running { run, tasks });
    }
}

fn map(shards: u16) -> ClusterMap {
    static MAPS: OnceLock<Mutex<BTreeMap<u16, ClusterMap>>> = OnceLock::new();
    let mut maps = lock(MAPS.get_or_init(Mutex::default));
    maps.entry(shards).or_insert_with(|| ClusterMap::new(shards)).clone()
}

fn secrets(random: &mut Random) -> Secrets {
    let mut secrets = Secrets { dir: [0; 32], name: [0; 16] };
    secrets.dir.fill_with(|| random.draw() as u8);
    secrets.name.fill_with(|| random.draw() as u8);
    secrets
}
