//! Unmounts a tree, and finds out whether all its data is stored.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use pando_server::admin::{self, Answer, SocketFile};

use super::args::UmountArgs;
use super::ending::{await_end, await_stored, left_behind};
use super::find::find;
use super::patience::Patience;
use super::unanswered::{other_process, suspended};
use crate::admin::protocol::{Query, Told};
use crate::admin::silent::is_hanging_up;
use crate::admin::sockets::socket;
use crate::console::output;
use crate::failure::{Failure, IN_USE};

pub fn run(args: &UmountArgs) -> Result<ExitCode, Failure> {
    let (begun, patience) = (Instant::now(), Patience::of(args));
    let (mount, volume) = find(&args.path, patience.found)?;
    let (path, shown) = (&mount.path, mount.path.display());
    let socket = socket(path)?;
    let noted = SocketFile::at(&socket).ok();
    // A suspended process would unmount when it resumes, after the user has given up. So a ping
    // comes first.
    let told = admin::ask_within::<_, Told>(&socket, &Query::Ping, patience.awake).and_then(|_| {
        let down = Query::Down { force: args.force };
        admin::ask_within::<_, Told>(&socket, &down, patience.unmounted)
    });
    match told {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        Err(error) if is_hanging_up(&error) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return suspended(args, path, &error);
        }
        Err(error) => return other_process(args, path, &volume, &error),
    }
    if let Some(noted) = noted {
        if args.force
            && let Some(left) = await_stored(path, &socket, &noted, begun)?
        {
            return left_behind(path, &left);
        }
        await_end(path, &socket, &noted)?;
    }
    output::line(&format!("{shown} is unmounted, all is stored"));
    Ok(ExitCode::SUCCESS)
}
