//! A machine with power that can be cut: the forgetful disk, and the processes of one volume on it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pando_fuse::Mounted;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;

use super::common::{Scratch, all, pando};
use super::ext4::{self, Ext4};
use super::served::{Kept, Served};

/// A time longer than any wait of this test.
const LIMIT: Duration = Duration::from_secs(120);

/// How the volume is run.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub is_durable: bool,
    /// Whether a server and a mount run, instead of `pando up`.
    pub is_split: bool,
    pub shards: u64,
    pub checkpoint_bytes: u64,
    pub split_threshold: u64,
    /// Whether ext4 is between the volume and the disk, as on a block device.
    pub has_ext4: bool,
}

pub struct Machine {
    pub disk: Served,
    pub folder: PathBuf,
    pub mount: PathBuf,
    way: Way,
    mounted: Option<Mounted>,
    ext4: Option<Ext4>,
    programs: Vec<Child>,
    // Dropped last: the folder is removed after everything else is gone.
    scratch: Scratch,
}

/// The power was lost meanwhile.
#[derive(Debug)]
pub struct Cut;

impl Machine {
    pub fn new(way: Way) -> Self {
        let (scratch, disk) = (Scratch::new(), Served::new());
        let at = |name: &str| scratch.path().join(name);
        ["disk", "ext4"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
        let folder = at(if way.has_ext4 { "ext4/volume" } else { "disk/volume" });
        let (mount, mounted) = (at("mnt"), Some(disk.mount(&at("disk"))));
        if way.has_ext4 {
            ext4::make(&at("disk/image"));
        }
        let (ext4, programs) = (None, Vec::new());
        let mut machine = Self { disk, folder, mount, way, mounted, ext4, programs, scratch };
        machine.mount_ext4();
        machine
    }

    fn mount_ext4(&mut self) {
        let at = |name: &str| self.scratch.path().join(name);
        self.ext4 = self.way.has_ext4.then(|| Ext4::mount(&at("disk/image"), &at("ext4")));
    }

    /// Starts the processes, and returns when the volume is mounted.
    pub fn start(&mut self) -> Result<(), Cut> {
        let (folder, mount) = (self.folder.clone(), self.mount.clone());
        let durability = if self.way.is_durable { "disk" } else { "os" };
        let shards = self.way.shards.to_string();
        let checkpoint = self.way.checkpoint_bytes.to_string();
        let threshold = self.way.split_threshold.to_string();
        let sizes = ["--checkpoint-bytes", &checkpoint, "--split-threshold", &threshold];
        if self.way.is_split {
            self.format(&shards)?;
            let mut server = pando();
            server.arg("server").arg(folder).args(["--shard", "all", "--durability", durability]);
            self.run(server.args(sizes))?;
            let mut mounting = pando();
            self.run(mounting.arg("mount").arg(&self.folder).arg(mount))
        } else {
            let mut up = pando();
            up.arg("up").arg(&folder).arg("--mount").arg(mount).args(["--durability", durability]);
            if !folder.join("superblock").exists() {
                up.args(["--shards", &shards]);
            }
            self.run(up.args(sizes))
        }
    }

    fn format(&mut self, shards: &str) -> Result<(), Cut> {
        if self.folder.join("superblock").exists() {
            return Ok(());
        }
        let mut format = pando();
        format.arg("format").arg(&self.folder).args(["--shards", shards]);
        self.spawn(&mut format);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.programs[0].try_wait().unwrap() {
                assert!(status.success() || self.disk.is_gone(), "{status}\n{}", self.log());
                self.programs.clear();
                return if status.success() { Ok(()) } else { Err(Cut) };
            }
            if self.disk.await_gone(Duration::from_millis(5)) {
                return Err(Cut);
            }
            assert!(begun.elapsed() < LIMIT, "format takes for ever\n{}", self.log());
        }
    }

    fn spawn(&mut self, command: &mut Command) -> &mut Child {
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        self.programs.push(child.spawn().unwrap());
        self.programs.last_mut().unwrap()
    }

    /// Starts a program, and returns when it says that it is ready.
    fn run(&mut self, command: &mut Command) -> Result<(), Cut> {
        let stdout = self.spawn(command.arg("--json")).stdout.take().unwrap();
        let (says, said) = channel();
        // The thread ends with the process.
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = says.send(line);
        });
        let begun = Instant::now();
        loop {
            match said.recv_timeout(Duration::from_millis(5)) {
                Ok(line) if serde_json::from_str::<Value>(&line).is_ok() => return Ok(()),
                Ok(_) if self.disk.is_gone() => return Err(Cut),
                Ok(line) => panic!("it does not start: {line}\n{}", self.log()),
                Err(RecvTimeoutError::Timeout) if self.disk.is_gone() => return Err(Cut),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the reader's thread is gone"),
            }
            assert!(begun.elapsed() < LIMIT, "it takes for ever to start\n{}", self.log());
        }
    }

    /// Cuts the power, and kills all processes. Programs that wait for the volume get an error.
    pub fn lose_power(&mut self) {
        self.disk.pull_after(0);
        for program in &mut self.programs {
            program.kill().unwrap();
        }
        self.disk.switch_off();
        self.bury();
    }

    /// Restores the power, with what the disk has not forgotten.
    pub fn regain_power(&mut self, random: &mut fastrand::Rng, kept: Kept) {
        let _ = unmount(&self.mount, UnmountFlags::DETACH);
        self.ext4 = None;
        self.disk.unmount(self.mounted.take().unwrap());
        self.disk.switch_on(random, kept);
        self.mounted = Some(self.disk.mount(&self.scratch.path().join("disk")));
        self.mount_ext4();
    }

    fn bury(&mut self) {
        let begun = Instant::now();
        for program in &mut self.programs {
            while program.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < LIMIT, "a process does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.programs.clear();
    }

    /// Ends all processes in the ordinary way.
    pub fn stop(&mut self) {
        if self.way.is_split {
            self.tool(&["umount".as_ref(), self.mount.as_os_str()]);
        }
        self.tool(&["down".as_ref(), self.folder.as_os_str()]);
        self.bury();
    }

    fn tool(&self, arguments: &[&std::ffi::OsStr]) -> Output {
        let output = pando().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}\n{}", all(&output), self.log());
        output
    }

    /// What `pando fsck` finds, except for unnamed objects, which only take space. `may_lack`:
    /// missing objects are excepted, too.
    pub fn damage(&self, may_lack: bool) -> Vec<String> {
        let output = pando().arg("fsck").arg(&self.folder).arg("--json").output().unwrap();
        let Ok(said) = serde_json::from_slice::<Value>(&output.stdout) else {
            panic!("{}\n{}", all(&output), self.log());
        };
        let is_fine = |finding: &&Value| match finding["code"].as_str() {
            Some("object-unnamed") => true,
            Some("object-missing" | "object-too-short") => may_lack,
            _ => false,
        };
        let findings = said["findings"].as_array().unwrap().iter();
        findings.filter(|finding| !is_fine(finding)).map(ToString::to_string).collect()
    }

    fn log_file(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    pub fn log(&self) -> String {
        tail(&self.log_file())
    }
}

fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the processes said last:\n{}", self.log());
        }
        for program in &mut self.programs {
            let _ = program.kill();
        }
        self.disk.pull_after(0);
        self.disk.switch_off();
        for program in &mut self.programs {
            let _ = program.wait();
        }
        let _ = unmount(&self.mount, UnmountFlags::DETACH);
    }
}
