//! `pando down`: stops the processes that serve a volume's folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use pando_server::Folder;
use pando_server::admin::Answer;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Address, Ask, Told as wire};

use crate::admin::asking::{self, IN_TIME};
use crate::admin::protocol::Query;
use crate::admin::silent::{is_hanging_up, not_answering, suspended, suspended_of};
use crate::console::output;
use crate::failure::{Failure, IN_USE, NOT_RUNNING};
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// Unmount a volume and stop its process, or its servers on this machine
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando down ~/volume")]
pub struct DownArgs {
    /// Folder of the volume
    pub folder: PathBuf,
    /// Detach the mount even if files are open, and stop
    #[arg(long)]
    pub force: bool,
}

/// Time that the process has to end after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(60);
/// A server that is not suspended has received its stop request by then.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// Time to wait for the end of a server whose stop request failed: it may be ending already.
const REFUSED_FOR: Duration = Duration::from_secs(3);

pub fn run(args: &DownArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    folder.read()?;
    let Some(pid) = folder.holder()? else {
        let has_shards = !folder.shard_holders()?.is_empty();
        if has_shards {
            stop_servers(&folder)?;
        }
        if stop_empty(&folder)? || has_shards {
            return Ok(ExitCode::SUCCESS);
        }
        return Err(Failure::new(
            NOT_RUNNING,
            format!("{} is not running", folder.path().display()),
        ));
    };
    let shown = folder.path().display();
    let query = Query::Down { force: args.force };
    match asking::ask(&folder.socket(), &query, IN_TIME) {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        // The process may end before it sends its answer.
        Err(error) if is_hanging_up(&error) => {}
        Err(error) => return Err(not_answering(&folder, &pid, &error)),
    }
    let begun = Instant::now();
    while folder.holder()?.is_some() {
        if begun.elapsed() > END_WITHIN {
            return Err(Failure::plain(format!(
                "{shown} is unmounted, but process {pid} has not ended: see {}",
                folder.log().display()
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    output::line(&format!("{shown} is unmounted and stopped"));
    Ok(ExitCode::SUCCESS)
}

/// Stops servers of this folder that serve no shard. Returns whether there was one.
fn stop_empty(folder: &Folder) -> Result<bool, Failure> {
    let named = (0..SHARDS_MAX).map(|shard| folder.server_socket(shard));
    let mut is_any = false;
    for socket in named.chain([folder.empty_server_socket()]).filter(|socket| socket.exists()) {
        is_any |= stop_at(folder, &socket)?;
    }
    if is_any {
        let shown = folder.path().display();
        output::line(&format!("the server of {shown}, which has no shard, is stopped"));
    }
    Ok(is_any)
}

/// Stops the server that listens at this socket. Returns whether one did.
fn stop_at(folder: &Folder, socket: &Path) -> Result<bool, Failure> {
    let address = Address::Unix(socket.to_owned());
    let named = Named::Servers(vec![address.clone()]);
    let Ok(mut questioner) = Questioner::new(&named, None) else { return Ok(false) };
    if let Ok(wire::Failed(error)) = questioner.ask(&[address], Ask::Stop) {
        return Err(Failure::plain(error));
    }
    let begun = Instant::now();
    // A server removes its socket when it ends.
    while socket.exists() {
        if begun.elapsed() > END_WITHIN {
            let log = folder.log();
            return Err(Failure::plain(format!("its server has not ended: see {}", log.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

/// Stops all servers of this folder's shards.
fn stop_servers(folder: &Folder) -> Result<(), Failure> {
    let named = Named::Folder(folder.clone(), folder.read()?);
    let held = folder.shard_holders()?;
    let questioner = Questioner::new(&named, None).map_err(|failure| suspended(&held, failure))?;
    let is_here = |shards: &[ShardIndex]| {
        shards.iter().any(|shard| held.iter().any(|(here, _)| *here == shard.0))
    };
    let near = |addresses: Vec<Address>| {
        addresses.into_iter().filter(|at| matches!(at, Address::Unix(_))).collect()
    };
    let here = questioner.processes().into_iter().filter(|(_, shards)| is_here(shards));
    let here: Vec<Vec<Address>> = here.map(|(addresses, _)| near(addresses)).collect();
    let mut refused = None;
    for told in questioner.ask_each(&here, &Ask::Stop, STOP_WITHIN) {
        match told {
            Ok(wire::Failed(error)) => refused = Some(error),
            Ok(_) => {}
            // The server may end before it sends its answer. The loop below finds out whether it
            // has ended.
            Err(error) => refused = Some(error.to_string()),
        }
    }
    let begun = Instant::now();
    loop {
        let left = folder.shard_holders()?;
        let Some((shard, pid)) = left.first() else { break };
        if let Some(pid) = suspended_of(&left) {
            return Err(Failure::plain(format!("not all servers have ended: {pid}")));
        }
        if begun.elapsed() > END_WITHIN || (refused.is_some() && begun.elapsed() > REFUSED_FOR) {
            return Err(Failure::plain(format!(
                "the server of shard {shard} (process {pid}) has not ended{}: see {}",
                refused.map_or_else(String::new, |why| format!(" ({why})")),
                folder.log().display()
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    output::line(&format!("the servers of {} are stopped", folder.path().display()));
    Ok(())
}
