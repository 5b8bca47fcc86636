//! The directories of a run in a volume: makes, lists and removes them.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pando_client::Client;
use pando_client::path::Paths;
use pando_types::{Credentials, Errno, FileKind};

use crate::census::Census;
use crate::names;
use crate::{BenchError, Layout, Phase, Workload};

/// Removals in flight, at most.
const REMOVE_WIDTH: usize = 16;

/// Paths of the directories.
pub(super) struct Tree {
    /// The run's own directory, then the steps below it.
    steps: Vec<Vec<u8>>,
    /// Directories with files: one for each client, or one for all, as the layout says.
    with_files: Vec<Vec<u8>>,
    layout: Layout,
}

impl Tree {
    /// Makes the directories, below a new directory in the root.
    pub(super) async fn make(client: &Client, workload: &Workload) -> Result<Self, BenchError> {
        let mut path = format!("/{}", names::run_name()).into_bytes();
        let mut steps = vec![path.clone()];
        for _ in 0..workload.steps() {
            path.extend_from_slice(b"/d");
            steps.push(path.clone());
        }
        let with_files = match workload.layout {
            Layout::Shared => vec![path],
            Layout::Unique => workload
                .directories()
                .map(|client| [&path[..], format!("/c{client:04}").as_bytes()].concat())
                .collect(),
        };
        let tree = Self { steps, with_files, layout: workload.layout };
        let paths = Paths::new(client, Credentials::ROOT);
        for (made, path) in tree.all().enumerate() {
            let Err(errno) = paths.mkdir(path, 0o755).await else { continue };
            let cause = BenchError::operation("mkdir", path)(errno);
            if made == 0 || tree.clear(client).await.is_ok() {
                return Err(cause);
            }
            return Err(BenchError::LeftBehind { cause: Box::new(cause), left: tree.shown() });
        }
        Ok(tree)
    }

    /// The directory that holds the files of `client`.
    pub(super) fn of(&self, client: u32) -> &[u8] {
        match self.layout {
            Layout::Shared => &self.with_files[0],
            Layout::Unique => &self.with_files[client as usize],
        }
    }

    /// Description of the run's own directory, for messages.
    pub(super) fn shown(&self) -> String {
        format!("{} in the volume", self.steps[0].escape_ascii())
    }

    /// All directories from the top. With a shared layout, the last step also holds the files.
    fn all(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let own = match self.layout {
            Layout::Shared => &[],
            Layout::Unique => &self.with_files[..],
        };
        self.steps.iter().chain(own).map(Vec::as_slice)
    }

    /// Lists all directories. Returns the files' inode numbers, by client.
    pub(super) async fn census(
        &self,
        client: &Client,
        workload: &Workload,
        phase: Phase,
    ) -> Result<Vec<Vec<u64>>, BenchError> {
        let paths = Paths::new(client, Credentials::ROOT);
        let mut census = Census::new(workload, phase);
        for (path, owner) in self.with_files.iter().zip(0..) {
            let entries = paths.readdir(path).await;
            for entry in entries.map_err(BenchError::operation("readdir", path))? {
                census.see(owner, entry.name.as_bytes(), entry.ino.0)?;
                if entry.kind != FileKind::Regular {
                    let what = format!("{} is listed as {:?}", entry.name, entry.kind);
                    return Err(BenchError::Wrong { phase, what });
                }
            }
        }
        census.finish()
    }

    /// Removes all files and directories that exist.
    pub(super) async fn clear(&self, client: &Client) -> Result<(), BenchError> {
        let paths = Paths::new(client, Credentials::ROOT);
        for path in &self.with_files {
            remove_files(&paths, path).await?;
        }
        for path in self.all().rev() {
            gone(paths.rmdir(path).await).map_err(BenchError::operation("rmdir", path))?;
        }
        Ok(())
    }
}

async fn remove_files(paths: &Paths<'_>, path: &[u8]) -> Result<(), BenchError> {
    let entries = match paths.readdir(path).await {
        Err(Errno::ENOENT) => return Ok(()),
        entries => entries.map_err(BenchError::operation("readdir", path))?,
    };
    let dir = paths.dir(path).await.map_err(BenchError::operation("lookup", path))?;
    let mut waiting = entries.iter();
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < REMOVE_WIDTH
            && let Some(entry) = waiting.next()
        {
            let dir = &dir;
            under_way.push(async move { (entry, dir.unlink(&entry.name).await) });
        }
        let Some((entry, result)) = under_way.next().await else { return Ok(()) };
        gone(result).map_err(BenchError::operation("unlink", entry.name.as_bytes()))?;
    }
}

/// Treats a missing object as removed.
fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::ENOENT) => Ok(()),
        result => result,
    }
}
