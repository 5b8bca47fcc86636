//! The directories above those of the hands: makes them, and removes everything at the end.

use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pando_client::Client;
use pando_client::path::Paths;
use pando_types::{Credentials, Errno, FileKind};

use super::Mix;
use crate::{BenchError, names};

/// Removals in flight, at most.
const WIDTH: usize = 16;

pub(super) struct Tree {
    /// The run's own directory, then the steps below it.
    steps: Vec<Vec<u8>>,
    hands: Vec<Vec<u8>>,
}

impl Tree {
    pub(super) async fn make(client: &Client, mix: &Mix) -> Result<Self, BenchError> {
        let mut path = format!("/{}", names::run_name()).into_bytes();
        let mut steps = vec![path.clone()];
        for _ in Mix::DEPTH_MIN..mix.depth {
            path.extend_from_slice(b"/d");
            steps.push(path.clone());
        }
        let hand = |number: u64| [&path[..], format!("/h{number:04}").as_bytes()].concat();
        let tree = Self { steps, hands: (0..mix.hands()).map(hand).collect() };
        let paths = Paths::new(client, Credentials::ROOT);
        for (made, path) in tree.steps.iter().chain(&tree.hands).enumerate() {
            let Err(errno) = paths.mkdir(path, 0o755).await else { continue };
            let cause = BenchError::operation("mkdir", path)(errno);
            if made == 0 || tree.clear(client).await.is_ok() {
                return Err(cause);
            }
            return Err(BenchError::LeftBehind { cause: Box::new(cause), left: tree.shown() });
        }
        Ok(tree)
    }

    /// The directory of hand `number`.
    pub(super) fn hand(&self, number: u64) -> &[u8] {
        &self.hands[number as usize]
    }

    /// Description of the run's own directory, for messages.
    pub(super) fn shown(&self) -> String {
        format!("{} in the volume", self.steps[0].escape_ascii())
    }

    /// Removes everything that exists.
    pub(super) async fn clear(&self, client: &Client) -> Result<(), BenchError> {
        let paths = Paths::new(client, Credentials::ROOT);
        let mut waiting = self.hands.iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < WIDTH
                && let Some(path) = waiting.next()
            {
                under_way.push(remove(&paths, path.clone()));
            }
            match under_way.next().await {
                Some(removed) => removed?,
                None => break,
            }
        }
        for path in self.steps.iter().rev() {
            gone(paths.rmdir(path).await, "rmdir", path)?;
        }
        Ok(())
    }
}

type Removing<'a> = Pin<Box<dyn Future<Output = Result<(), BenchError>> + 'a>>;

/// Removes a directory with everything in it.
fn remove<'a>(paths: &'a Paths<'a>, path: Vec<u8>) -> Removing<'a> {
    Box::pin(async move {
        let entries = match paths.readdir(&path).await {
            Err(Errno::ENOENT) => return Ok(()),
            entries => entries.map_err(BenchError::operation("readdir", &path))?,
        };
        for entry in entries {
            let below = [&path[..], b"/", entry.name.as_bytes()].concat();
            match entry.kind {
                FileKind::Directory => remove(paths, below).await?,
                _ => gone(paths.unlink(&below).await, "unlink", &below)?,
            }
        }
        gone(paths.rmdir(&path).await, "rmdir", &path)
    })
}

/// Treats a missing object as removed.
fn gone(result: Result<(), Errno>, what: &'static str, path: &[u8]) -> Result<(), BenchError> {
    match result {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(BenchError::operation(what, path)(errno)),
    }
}
