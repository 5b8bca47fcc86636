//! A shard's own thread: it serves all connections to the shard, and runs the shard.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pando_net::{Closed, Inbound, Outbound, READ_MAX};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use crate::host::shards::Host;
use crate::net::bounds::budget::Budget;
use crate::net::bounds::limits::Limits;
use crate::net::bounds::murmur::Murmur;

/// Memory of all connections of the process: clients' and peers' apart.
#[derive(Clone)]
pub(crate) struct Budgets {
    pub(crate) clients: Arc<Budget>,
    pub(crate) peers: Arc<Budget>,
}

/// What the connections of a shard share.
pub(crate) struct Worker {
    pub(crate) host: Arc<Host>,
    pub(crate) limits: Limits,
    pub(crate) budgets: Budgets,
    pub(crate) writes: Arc<AtomicU64>,
    pub(crate) murmur: Arc<Murmur>,
    pub(crate) buffer: RefCell<Vec<u8>>,
    pub(crate) run: Notify,
}

/// The tasks that write a connection. They end when this is dropped.
pub(crate) struct Writing(AbortHandle, AbortHandle);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.abort();
        self.1.abort();
    }
}

impl Worker {
    /// Makes the thread run the shard once it has read everything at hand.
    pub(crate) fn run_soon(&self) {
        self.run.notify_one();
    }

    /// Waits for bytes of a connection and takes them. Takes few at once while memory is short.
    pub(crate) async fn fill(&self, inbound: &mut Inbound, budget: &Budget) -> Result<(), Closed> {
        loop {
            inbound.stream().readable().await?;
            let mut buffer = self.buffer.borrow_mut();
            let most = if budget.is_exceeded() { budget.part().max(1) } else { READ_MAX };
            if inbound.fill_now(&mut buffer[..most.min(READ_MAX)])? {
                return Ok(());
            }
        }
    }

    /// Begins to write waiting replies. Ends the connection if the other side takes no bytes for
    /// too long.
    pub(crate) fn watch(self: &Rc<Self>, out: Arc<Outbound>, from: String) -> Writing {
        let driven = out.clone();
        let drive = spawn_local(async move { driven.drive().await });
        let (stall, murmur) = (self.limits.stall, self.murmur.clone());
        let watch = spawn_local(async move {
            let (mut taken, mut idle) = (out.taken(), Duration::ZERO);
            let step = stall / 8;
            while !out.is_closed() {
                tokio::time::sleep(step).await;
                if out.waiting() == 0 || out.taken() != taken {
                    (taken, idle) = (out.taken(), Duration::ZERO);
                    continue;
                }
                idle += step;
                if idle >= stall {
                    murmur.say(&format!(
                        "closed the connection from {from}: it has read none of its {} waiting bytes for {} s",
                        out.waiting(),
                        stall.as_secs()
                    ));
                    out.close();
                }
            }
        });
        Writing(drive.abort_handle(), watch.abort_handle())
    }
}
