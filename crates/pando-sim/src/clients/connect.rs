//! How a client gets its session, and keeps it.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use pando_client::{Client, Options, Transport};

use crate::base::lock::lock;
use crate::base::time::MILLISECOND;
use crate::clients::client::ClientRun;
use crate::clients::local::Local;
use crate::clients::noted::Noted;

impl ClientRun {
    /// Opens a session, and retries until that succeeds.
    pub async fn connect(self: Arc<Self>) {
        loop {
            let mail = self.shared.mail.clone();
            let transport: Arc<dyn Transport> = match (self.shared.here.clone(), self.borrows()) {
                (Some(here), _) => Arc::new(Local { here, mail }),
                (None, Some(lender)) => {
                    let history = Arc::clone(&self.shared.history);
                    Arc::new(Noted { lender, mail, history })
                }
                (None, None) => Arc::new(mail),
            };
            // The client has few request slots, so that operations wait for them.
            let slots = self.lanes_wanted.max(2) as u16;
            let (patience, paths_bytes) = (self.shared.patience, self.shared.paths_bytes);
            let options = Options { slots, patience, paths_bytes, ..Options::default() };
            let volume = self.shared.volume.clone();
            match Client::connect_with(transport, volume, options).await {
                Ok(client) => {
                    self.watch_grounds(&client);
                    *lock(&self.sessions) = [client.session(); 2];
                    *lock(&self.client) = Some(Arc::new(client));
                    return;
                }
                Err(_) => self.shared.mail.sleep(10 * MILLISECOND).await,
            }
        }
    }

    /// Runs the client's own background work.
    pub async fn maintain(self: Arc<Self>) {
        let client = self.connected().await;
        let Some(lender) = self.lender() else { return client.maintain().await };
        // The client's work ends when it is closed.
        let (mut keeps, mut maintains) = (pin!(lender.keep()), pin!(client.maintain()));
        let mut holds = pin!(self.hold(&client));
        let mut forgets = pin!(self.forget(&client));
        let mut is_over = false;
        poll_fn(|context| {
            is_over = is_over || keeps.as_mut().poll(context).is_ready();
            let _ = holds.as_mut().poll(context);
            let _ = forgets.as_mut().poll(context);
            maintains.as_mut().poll(context)
        })
        .await;
    }

    pub(crate) async fn connected(&self) -> Arc<Client> {
        loop {
            if let Some(client) = self.client() {
                return client;
            }
            self.shared.mail.sleep(MILLISECOND).await;
        }
    }
}
