//! Mounts the null file system. These tests fail where mounting is impossible. They leave no mount
//! behind.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use pando_bench::mount::{self, Workers};
use pando_bench::nullfs::{self, Behaviour};
use pando_bench::{Layout, Order, Phase, Silent, Workload};
use pando_fuse::is_mountpoint;
use pando_fuse::{Mounted, Options};

/// A directory with a null file system on it. It is unmounted and removed even if a test fails.
struct Mount {
    path: PathBuf,
    mounted: Option<Mounted>,
}

impl Mount {
    fn new(name: &str, options: &Options) -> Self {
        let path = std::env::temp_dir().join(format!("pando-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap();
        let mounted = nullfs::mount(&path, options, Behaviour::default())
            .unwrap_or_else(|error| panic!("this test needs to mount: {error}"));
        Self { path, mounted: Some(mounted) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.mounted.take());
        assert!(!is_mountpoint(&self.path).unwrap_or(true) || std::thread::panicking());
        let _ = fs::remove_dir(&self.path);
    }
}

#[test]
fn files_come_and_go() {
    let mount = Mount::new("nullfs", &Options::default());
    let path = |name: &str| mount.path.join(name);
    fs::create_dir(path("d")).unwrap();
    let mut file = fs::File::create_new(path("d/a")).unwrap();
    file.write_all(b"12345").unwrap();
    drop(file);
    assert_eq!(fs::metadata(path("d/a")).unwrap().len(), 5);
    assert_eq!(fs::File::create_new(path("d/a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::remove_dir(path("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    for index in 0..500 {
        fs::File::create_new(path(&format!("d/file{index}"))).unwrap();
    }
    assert_eq!(fs::read_dir(path("d")).unwrap().count(), 501);
    fs::remove_dir_all(path("d")).unwrap();
    assert_eq!(fs::metadata(path("d")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_bench_runs_in_one_and_in_many_directories() {
    let timeout = Duration::from_secs(1);
    let options = Options {
        clone_fd: true,
        entry_timeout: timeout,
        attr_timeout: timeout,
        ..Options::default()
    };
    let mount = Mount::new("bench", &options);
    for layout in [Layout::Shared, Layout::Unique] {
        let workload = Workload {
            clients: 2,
            files: 101,
            depth: 3,
            layout,
            phases: Phase::ALL.to_vec(),
            order: Order::Random,
            seed: 3,
        };
        let report = mount::run(&mount.path, &workload, Workers::Threads, &Silent).unwrap();
        assert!(Phase::ALL.into_iter().all(|phase| report.rate(phase) > 0.0));
        assert_eq!(fs::read_dir(&mount.path).unwrap().count(), 0);
    }
}

#[test]
fn a_mountpoint_in_use_is_refused_and_a_busy_mount_stays() {
    let mut mount = Mount::new("busy", &Options::default());
    let again = nullfs::mount(&mount.path, &Options::default(), Behaviour::default());
    assert_eq!(again.err().unwrap().kind(), ErrorKind::ResourceBusy);
    let open = fs::File::create_new(mount.path.join("open")).unwrap();
    let (error, mounted) = mount.mounted.take().unwrap().unmount().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    drop(open);
    mount.mounted = Some(mounted);
}
