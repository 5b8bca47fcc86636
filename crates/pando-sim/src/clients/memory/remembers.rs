//! Clients that remember what they have read, while no other one changes anything
//! (docs/design/holds.md).

use std::sync::Arc;

use pando_client::{Client, Transport as _};
use pando_types::Credentials;

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::base::time::{MILLISECOND, SECOND};
use crate::clients::client::ClientRun;
use crate::model::Op;

/// How long only one client changes anything.
const TURN: u64 = 2 * SECOND;
/// Pause between two questions whether a client may remember.
const ASK_EVERY: u64 = 300 * MILLISECOND;
/// The longest pause between two looks.
const PAUSE: u64 = 40 * MILLISECOND;

impl ClientRun {
    /// Asks shard 0 whether no other client changes anything, and gives way when one wants to. So
    /// does a mount. Never ready.
    pub(crate) async fn hold(&self, client: &Client) {
        if !self.shared.holds {
            return std::future::pending().await;
        }
        loop {
            while client.ask_to_hold().await == Ok(true) {
                if client.is_recalled().await != Ok(false) {
                    break;
                }
            }
            // If it is not heard, shard 0 goes by the time.
            client.end_hold().await.ok();
            self.shared.mail.sleep(ASK_EVERY).await;
        }
    }

    /// Looks at what others do, until it is this client's turn.
    pub(crate) async fn look_on(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
    ) {
        while self.shared.mail.now_nanos() < u64::from(self.who) * TURN {
            self.shared.mail.sleep(random.below(PAUSE)).await;
            // What is looked at twice may be remembered.
            let op = lock(&self.known).look(random);
            for _ in 0..random.between(1, 3) {
                self.perform(client, lanes, random, Credentials::ROOT, op.clone()).await.ok();
            }
            let closes = random.chance(1, 8);
            let open = closes.then(|| lock(&self.known).take_open()).flatten();
            if let Some(ino) = open {
                self.perform(client, lanes, random, Credentials::ROOT, Op::Release(ino)).await.ok();
            }
        }
    }
}
