//! `O_TRUNC` of an open file, while earlier writes are on their way to the shard.

mod common;

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{Setup, setup};
use pando_client::block_on;
use pando_fuse::OpenFlags;
use pando_types::{Credentials, Ino, Name};

const READ_WRITE: OpenFlags = OpenFlags(2);
const CUT: OpenFlags = OpenFlags(0o1002);
/// How long a truncation may take to overtake a flush. One that waits for the flush does not end
/// within this time.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(300);

#[test]
fn what_was_written_before_a_cut_does_not_come_back() {
    let Setup { fs, memory, store } = setup();
    let by = Credentials::ROOT;
    let name = Name::new(b"file").unwrap();
    let made = block_on(fs.create(&by, Ino::ROOT, &name, 0o644, READ_WRITE)).unwrap();
    let ino = made.attr.ino;
    fs.write(ino, 0, &[1; 5000], None).unwrap();
    let (arrived, arrives) = channel();
    let (go, goes) = channel::<()>();
    let goes = Mutex::new(goes);
    *memory.shards.before_write.lock().unwrap() = Some(Box::new(move || {
        arrived.send(()).unwrap();
        let _ = goes.lock().unwrap().recv();
    }));
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| fs.flush(ino));
        arrives.recv().unwrap();
        let cut = scope.spawn(|| block_on(fs.open(&by, ino, CUT, None)));
        let began = Instant::now();
        while memory.opens.load(Ordering::Relaxed) == 1 && began.elapsed() < OVERTAKEN_WITHIN {
            std::thread::yield_now();
        }
        drop(go);
        flush.join().unwrap().unwrap();
        assert_eq!(cut.join().unwrap().unwrap().attr.size, 0);
    });
    assert_eq!(block_on(fs.getattr(ino)).unwrap().size, 0);
    assert_eq!(fs.read(ino, 0, 5000).unwrap(), Vec::<u8>::new());
    assert_eq!(store.puts.load(Ordering::Relaxed), 1, "what was cut was stored once");
    fs.write(ino, 0, b"new", None).unwrap();
    block_on(fs.release(ino));
    block_on(fs.release(ino));
    assert!(!fs.data().is_open(ino), "both opens were counted");
    assert_eq!(block_on(fs.getattr(ino)).unwrap().size, 3);
}
