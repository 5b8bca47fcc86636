//! A mount that is killed while it waits for a page that only it could bring. Each mount is a
//! process of its own: this program, started once more. The tests fail if mounting is impossible.
//! They leave nothing mounted.

mod gated;
mod ways;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gated::Gated;
use pando_fuse::Options;
use pando_fuse::mount_filesystem;
use rustix::mount::{UnmountFlags, unmount};

/// Far more time than anything here needs.
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mount", path, how] => serve(Path::new(path), how == "with-dropper"),
        ["drop-pages"] => {
            let (device, mount) = (std::io::stdin(), std::io::stdout());
            let [device, mount] = [device.as_fd(), mount.as_fd()];
            pando_fuse::drop_pages(
                device.try_clone_to_owned().unwrap(),
                mount.try_clone_to_owned().unwrap(),
            );
        }
        _ if arguments.iter().any(|argument| argument == "--list") => {}
        _ => {
            it_ends_where_another_process_drops_its_pages();
            it_ends_once_its_connection_is_aborted();
            ways::again_by_device("");
            println!("ok");
        }
    }
}

/// Serves a mount with one file that is never read to the end. Once a program reads it, the page is
/// to be dropped.
fn serve(path: &Path, has_dropper: bool) {
    let mut options = Options { threads: 1, ..Options::default() };
    if has_dropper {
        let own = std::env::current_exe().unwrap();
        options.dropper = vec![own.into(), "drop-pages".into()];
    }
    let gated = Gated::default();
    gated.hold("read");
    let mounted = mount_filesystem(Arc::new(gated.clone()), path, &options)
        .unwrap_or_else(|error| panic!("this test needs to mount: {error}"));
    ways::check(&mounted);
    println!("ready");
    gated.until("somebody reads", |counts| counts.waiting == 1);
    let _ = mounted.notifier().drop_pages(2);
    panic!("the page is dropped that is being read");
}

/// A mount that waits for its own page, and the program that reads the page.
struct Stuck {
    path: PathBuf,
    mount: Child,
    reader: Child,
    /// Threads of the mount and of its dropper.
    tasks: Vec<PathBuf>,
}

impl Stuck {
    fn new(how: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("pando-unkillable-{how}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap();
        let mut mount = Command::new(std::env::current_exe().unwrap());
        mount.arg("mount").arg(&path).arg(how).stdout(Stdio::piped());
        let mut mount = mount.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(mount.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let mut reader = Command::new("cat");
        reader.arg(path.join("file")).stdout(Stdio::null()).stderr(Stdio::piped());
        let reader = reader.spawn().unwrap();
        let mut stuck = Self { path, mount, reader, tasks: Vec::new() };
        until("somebody waits for the page", || {
            stuck.tasks = tasks(stuck.mount.id());
            stuck.is_waiting()
        });
        stuck
    }

    /// Whether a thread waits for the page in the kernel, where no signal reaches it. Threads wait
    /// like this for other things, too, for a moment only.
    fn is_waiting(&self) -> bool {
        self.tasks.iter().any(|task| waits_for_page(task) && state(task) == Some('D'))
    }

    /// Whether all these threads have ended.
    fn is_gone(&self) -> bool {
        self.tasks.iter().all(|task| matches!(state(task), None | Some('Z' | 'X')))
    }

    fn has_ended(mut self) {
        until("it ends", || self.is_gone());
        let mut said = String::new();
        self.reader.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!self.reader.wait().unwrap().success(), "{said}");
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.mount.kill();
        // Frees the programs that still wait.
        let _ = unmount(&self.path, UnmountFlags::FORCE);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = (self.mount.wait(), self.reader.wait());
        let _ = fs::remove_dir(&self.path);
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Threads of a process and of its children.
fn tasks(process: u32) -> Vec<PathBuf> {
    let of = |pid: &str| -> Vec<PathBuf> {
        let list = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        list.flatten().map(|task| task.path()).collect()
    };
    let own = of(&process.to_string());
    let children = own.iter().filter_map(|task| fs::read_to_string(task.join("children")).ok());
    let children: Vec<PathBuf> = children
        .flat_map(|list| list.split_whitespace().flat_map(of).collect::<Vec<_>>())
        .collect();
    own.into_iter().chain(children).collect()
}

/// State of a thread; `None` if it does not exist any more.
fn state(task: &Path) -> Option<char> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    // The state is after the name in parentheses.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the function in which the kernel has the thread wait is one that locks a page:
/// `__folio_lock`, before Linux 5.16 `__lock_page`. A kernel that does not tell says "0".
fn waits_for_page(task: &Path) -> bool {
    let told = fs::read_to_string(task.join("wchan")).unwrap_or_default();
    ["0", "__folio_lock", "__lock_page"].contains(&&*told)
}

fn it_ends_where_another_process_drops_its_pages() {
    let mut stuck = Stuck::new("with-dropper");
    stuck.mount.kill().unwrap();
    stuck.mount.wait().unwrap();
    stuck.has_ended();
}

/// As if the dropper was killed along with the mount.
fn it_ends_once_its_connection_is_aborted() {
    let mut stuck = Stuck::new("alone");
    stuck.mount.kill().unwrap();
    until("only who waits is left", || {
        let states = stuck.tasks.iter().filter_map(|task| state(task));
        states.filter(|state| !matches!(state, 'Z' | 'X')).eq(['D'])
    });
    pando_fuse::abort_at(&stuck.path);
    stuck.has_ended();
}
