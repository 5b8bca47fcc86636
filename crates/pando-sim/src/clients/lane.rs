//! The lanes of a client: one operation after another, from the first to the last.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_client::{Client, Transport as _};
use pando_types::Credentials;

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::clients::client::ClientRun;
use crate::clients::programs::keeping::Keeper;
use crate::clients::workload::{empty, fill};
use crate::model::{Op, Value};

impl ClientRun {
    /// Runs one lane. The last lane that ends closes the client.
    pub async fn lane(self: Arc<Self>, mut random: Random) {
        let client = self.connected().await;
        let mut lanes = self.new_lanes();
        let mut keeper = Keeper::new(lanes.0);
        if self.shared.holds {
            self.look_on(&client, &mut lanes, &mut random).await;
        }
        for _ in 0..self.operations {
            self.left.fetch_sub(1, Ordering::Relaxed);
            if random.chance(2, 3) {
                self.shared.mail.sleep(random.below(3 * MILLISECOND)).await;
            }
            if self.shared.keeping > 0 && random.chance(1, self.shared.keeping) {
                self.keep(&client, &mut keeper, &mut random).await;
            }
            if self.shared.locking > 0 && random.chance(1, self.shared.locking) {
                self.use_lock(&client, &mut lanes, &mut random).await;
            }
            let every = self.shared.objects.as_ref().map_or(0, |objects| objects.every);
            if every > 0 && random.chance(1, every) {
                self.use_objects(&client, &mut lanes, &mut random).await;
            }
            if random.chance(1, self.shared.churn) {
                self.churn(&client, &mut lanes, &mut random).await;
            }
            let by_path = random.chance(self.shared.by_path, 100);
            let (credentials, op) = lock(&self.known).choose(&mut random, by_path);
            let follow = match &op {
                Op::Mkdir(dir, name, _) => Some(Op::Lookup(*dir, name.clone())),
                _ => None,
            };
            let outcome = self.perform(&client, &mut lanes, &mut random, credentials, op).await;
            if let (Some(op), Ok(_)) = (follow, outcome) {
                self.perform(&client, &mut lanes, &mut random, Credentials::ROOT, op).await.ok();
            }
        }
        if self.lanes_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.finish(&client, &mut lanes, &mut random).await;
        }
    }

    /// Makes, fills and empties a directory. Then it removes the directory, and makes it again
    /// under that name at once.
    async fn churn(&self, client: &Arc<Client>, lanes: &mut (usize, usize), random: &mut Random) {
        let (parent, name) = lock(&self.known).place(random);
        let root = Credentials::ROOT;
        for round in 0..3 {
            let make = Op::Mkdir(parent, name.clone(), 0o777);
            let made = self.perform(client, lanes, random, root.clone(), make).await;
            let Ok(Value::Stat(stat)) = made else { return };
            let look = Op::Lookup(parent, name.clone());
            self.perform(client, lanes, random, root.clone(), look).await.ok();
            for ebb in 0.. {
                for op in fill(stat.ino, random, self.shared.names) {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
                if round == 2 && ebb == self.shared.ebbs {
                    return;
                }
                for op in empty(stat.ino, random, self.shared.names) {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
                if ebb == self.shared.ebbs {
                    break;
                }
                // Meanwhile, or while the directory is filled again, its partitions are given back.
                self.shared.mail.sleep(random.below(60 * MILLISECOND)).await;
                for op in [Op::ReadDir(stat.ino), Op::GetAttr(stat.ino)] {
                    self.perform(client, lanes, random, root.clone(), op).await.ok();
                }
            }
            let remove = Op::Rmdir(parent, name.clone());
            if self.perform(client, lanes, random, root.clone(), remove).await.is_err() {
                return;
            }
        }
    }

    pub(crate) async fn finish(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
    ) {
        while random.chance(2, 3) {
            let Some(ino) = lock(&self.known).take_open() else { break };
            self.perform(client, lanes, random, Credentials::ROOT, Op::Release(ino)).await.ok();
        }
        self.leave_objects(client).await;
        {
            let (counts, mut history) = (client.counters(), lock(&self.shared.history));
            history.loans.untold.0 += counts.opens_untold();
            history.loans.untold.1 += counts.opens_told();
        }
        while !self.notice_losses(client, None).await {
            self.shared.mail.sleep(MILLISECOND).await;
        }
        // Shards hear of the end one after another. The session may also have ended unnoticed
        // before.
        {
            let mut history = lock(&self.shared.history);
            let since = history.last_alive(client.session());
            history.gone(self.who, since);
        }
        while client.close().await.is_err() {
            self.shared.mail.sleep(10 * MILLISECOND).await;
        }
        self.end_notes();
    }
}
