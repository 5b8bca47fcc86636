//! Requests by rings of io_uring, beyond what the tests of mounts show. On a machine whose kernel
//! offers none, these tests show that a mount does without.

mod gated;
mod ways;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::scope;

use gated::Gated;
use pando_fuse::{Mounted, Options, mount_filesystem};

struct Mount {
    path: PathBuf,
    fs: Gated,
    mounted: Option<Mounted>,
}

impl Mount {
    fn new(name: &str, options: &Options) -> Self {
        let path = std::env::temp_dir().join(format!("pando-rings-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let (path, gated) = (path.canonicalize().unwrap(), Gated::default());
        let mounted = mount_filesystem(Arc::new(gated.clone()), &path, options)
            .unwrap_or_else(|error| panic!("this test needs to mount: {error}"));
        Self { path, fs: gated, mounted: Some(mounted) }
    }

    fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.mounted.take());
        let _ = fs::remove_dir(&self.path);
    }
}

#[test]
fn a_mount_has_rings_if_the_kernel_offers_them_and_nothing_forbids_them() {
    let way = if ways::rings_are_offered() { "by rings" } else { "by /dev/fuse" };
    ways::say(&format!("requests come {way}"));
    for (name, options, may_have) in [
        ("default", Options::default(), true),
        ("off", Options { rings: false, ..Options::default() }, false),
        ("kept", Options { is_kept: true, ..Options::default() }, false),
    ] {
        let mount = Mount::new(name, &options);
        assert_eq!(mount.mounted().has_rings(), may_have && ways::rings_are_offered(), "{name}");
        assert_eq!(fs::metadata(mount.path.join("file")).unwrap().size(), 5);
        assert_eq!(mount.mounted().has_rings(), may_have && ways::rings_are_offered(), "{name}");
    }
}

/// Many more requests wait than a queue has entries at first. None of them keeps others from being
/// answered, and each gets its answer from another thread.
#[test]
fn many_requests_wait_at_once_and_others_do_not() {
    const MANY: u64 = 300;
    let mount = Mount::new("many", &Options { threads: 1, ..Options::default() });
    let file = fs::File::open(mount.path.join("file")).unwrap();
    mount.fs.hold("getattr");
    scope(|scope| {
        let ask = |number| {
            let asking = scope.spawn(|| file.metadata().map(|attr| attr.size()));
            mount.fs.until("it waits", |counts| counts.waiting == number);
            asking
        };
        let asking: Vec<_> = (1..=MANY).map(ask).collect();
        let missing = fs::exists(mount.path.join("missing")).unwrap();
        assert!(!missing);
        mount.fs.open();
        for asking in asking {
            assert_eq!(asking.join().unwrap().unwrap(), 5);
        }
    });
    let (_, own) = mount.mounted().counters();
    assert!(own.contains(&("pending", 0)), "{own:?}");
}
