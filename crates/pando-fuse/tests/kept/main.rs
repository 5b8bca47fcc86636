//! A mount behind a keeper, whose server process is killed while programs wait. Keeper, server
//! process and programs are this program, started once more. The tests fail if mounting is
//! impossible. They leave nothing mounted.

mod diary;
mod fixed;
mod scenes;
mod serve;
mod site;

use std::path::Path;
use std::process::exit;
use std::time::Duration;

use pando_keeper::{Plan, Planted};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["keep", lease, fault, ref rest @ ..] => keep(lease, fault, rest),
        ["serve", mountpoint, dir, mode, threads] => {
            exit(serve::serve(Path::new(mountpoint), Path::new(dir), mode, threads));
        }
        ["act", operation, path] => exit(site::act(operation, Path::new(path))),
        _ if arguments.iter().any(|argument| argument == "--list") => {}
        _ => scenes::all(),
    }
}

fn keep(lease: &str, fault: &str, rest: &[&str]) {
    Planted::plant(match fault {
        "resend-before-death" => Some(Planted::ResendBeforeDeath),
        "second-crash-not-resent" => Some(Planted::SecondCrashNotResent),
        _ => None,
    });
    let arguments = ["kept", "serve"].iter().chain(rest).map(Into::into).collect();
    let lease = Duration::from_millis(lease.parse().expect("a number of milliseconds"));
    exit(pando_keeper::keep(Plan { arguments, lease }).expect("a keeper starts").into());
}
