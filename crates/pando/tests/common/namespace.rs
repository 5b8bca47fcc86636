//! A mount namespace with folders of its own in place of the machine's. It ends with all that runs
//! in it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub struct Namespace {
    /// Keeps the namespace, and does nothing else.
    holder: Child,
}

impl Namespace {
    /// Starts `unshare` so that `script` makes mounts in a namespace of its own, with these
    /// arguments from `$1` on. `unshare` may come with a network of its own.
    pub fn new<T: AsRef<OsStr>>(mut unshare: Command, script: &str, arguments: &[T]) -> Self {
        unshare.args(["--mount", "sh", "-euc"]);
        unshare.arg(format!("{script}\necho ready; exec sleep infinity > /dev/null"));
        unshare.arg("sh").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut holder = unshare.spawn().expect("`unshare` is needed");
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "no namespace (this test needs root): {script}");
        Self { holder }
    }

    /// The process that keeps the namespace.
    pub fn id(&self) -> u32 {
        self.holder.id()
    }

    /// A program within the namespace, and in its network.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.id().to_string(), "--mount", "--net", "--", program]);
        command
    }

    /// The processes within the namespace, but for its keeper.
    pub fn processes(&self) -> Vec<Pid> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let own = self.id().to_string();
        let wanted = namespace(&own);
        let all = fs::read_dir("/proc").unwrap().flatten();
        let names = all.filter_map(|entry| entry.file_name().into_string().ok());
        let inside = names.filter(|pid| pid.starts_with(|digit: char| digit.is_ascii_digit()));
        let inside = inside.filter(|pid| *pid != own && namespace(pid) == wanted);
        inside.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The namespace, with its mounts, ends with its last process. A process that is being
        // killed may still write, and so hinder that its folder is removed.
        let begun = Instant::now();
        while let inside = self.processes()
            && !inside.is_empty()
            && begun.elapsed() < Duration::from_secs(30)
        {
            for process in inside {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
