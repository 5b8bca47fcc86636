//! A client beside a mount that is measured. It changes a file each second, so the mount's kernel
//! remembers nothing at any time. Else how much that kernel asks would depend on the time.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{Either, select};
use pando_client::net::{Net, NetOptions, Target};
use pando_client::{Client, IfThere, Then, Volume};
use pando_types::op::NewNode;
use pando_types::{Credentials, FileKind, Ino, Name, SetAttr};
use tokio::sync::oneshot;

use super::named::Named;
use crate::output::failure::Failure;

/// The file that is changed.
const NAME: &str = ".beside";
/// Sooner than a client goes quiet.
const EVERY: Duration = Duration::from_secs(1);

/// The client ends when this is dropped.
pub struct Beside {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Begins the client. It has changed something when this returns.
    pub fn start(named: &Named, key: &PathBuf) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::plain(format!("cannot begin a client beside the mount: {why}"))
        };
        let (target, options) = (named.target(), named.options(Some(key))?);
        let (begun, begins) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begun.send(Err(error.to_string()))),
            };
            let failed = runtime.block_on(async {
                let changing = pin!(change(&target, options, &begun));
                match select(changing, ended).await {
                    Either::Left((Err(why), _)) => Some(why),
                    _ => None,
                }
            });
            if let Some(why) = failed {
                let _ = begun.send(Err(why));
            }
        };
        let thread = std::thread::Builder::new()
            .name("bench-beside".to_owned())
            .spawn(body)
            .map_err(|error| failed(&error))?;
        begins.recv().map_err(|error| failed(&error))?.map_err(|why| failed(&why))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Changes a file each second, and says when it has begun. Ends only with an error.
async fn change(
    target: &Target,
    options: NetOptions,
    begun: &mpsc::Sender<Result<(), String>>,
) -> Result<(), String> {
    let connected = Net::connect(target, options).await;
    let (net, facts) = connected.map_err(|error| error.to_string())?;
    let client = Client::connect(net, Volume::from(&facts)).await;
    let client = client.map_err(|errno| errno.to_string())?;
    let mut maintaining = pin!(client.maintain());
    let mut changing = pin!(async {
        let (by, node) = (
            &Credentials::ROOT,
            NewNode { kind: FileKind::Regular, mode: 0o600, rdev: 0, symlink: Vec::new() },
        );
        let name = Name::new(NAME.as_bytes()).map_err(|error| format!("{error:?}"))?;
        let made = client.create(by, Ino::ROOT, &name, node, IfThere::Take, Then::Nothing).await;
        let (file, _) = made.map_err(|errno| errno.to_string())?;
        let _ = begun.send(Ok(()));
        for mode in [0o600, 0o640].into_iter().cycle() {
            tokio::time::sleep(EVERY).await;
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            client.setattr(by, file.ino, set).await.map_err(|errno| errno.to_string())?;
        }
        Ok(())
    });
    match select(&mut changing, &mut maintaining).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => Err("its connection has ended".to_owned()),
    }
}
