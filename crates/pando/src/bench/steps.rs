//! What each step does with its threads.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::args::BenchArgs;
use super::calls::{self, Call, fill};
use super::measured::{Done, MIB, Measured, Step};
use crate::console::text::bytes;
use crate::failure::Failure;

/// A run in a folder of its own.
pub struct Work<'a> {
    pub args: &'a BenchArgs,
    pub folder: &'a Path,
    /// The user wants the run to end.
    pub interrupted: &'a AtomicBool,
    /// A thread has failed, so the others need not go on.
    pub failed: AtomicBool,
}

impl Work<'_> {
    /// Does one step by all threads at once.
    pub fn step(&self, step: Step) -> Result<Measured, Failure> {
        let threads = if step == Step::List { 1 } else { self.args.threads };
        let part = |thread| {
            let done = self.part(step, thread);
            self.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        let part = &part;
        let begun = Instant::now();
        let done = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(join).collect::<Result<Vec<Done>, Failure>>()
        });
        let time = begun.elapsed();
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::plain("interrupted; what was made is removed again"));
        }
        Ok(Measured::new(step, time, done?))
    }

    fn part(&self, step: Step, thread: u32) -> Result<Done, Failure> {
        let size = u64::from(self.args.file_size);
        match step {
            Step::Create => self.small("create", size, thread, calls::create),
            Step::Stat => self.small("look at", 0, thread, calls::stat),
            Step::Read => self.small("read", size, thread, calls::read),
            Step::Remove => self.small("remove", 0, thread, calls::remove),
            Step::List => self.list(),
            Step::WriteLarge => self.write_large(thread),
            Step::ReadLarge => self.read_large(thread),
        }
    }

    fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// One call for each small file of a thread. Each call moves `bytes`.
    fn small(&self, what: &str, bytes: u64, thread: u32, call: Call) -> Result<Done, Failure> {
        let (files, threads) = (self.args.files, u64::from(self.args.threads));
        let first = |thread: u64| files * thread / threads;
        let mut content = vec![0; self.args.file_size as usize];
        let mut done = Done::default();
        for file in first(thread.into())..first(u64::from(thread) + 1) {
            if self.is_over() {
                break;
            }
            let path = self.folder.join(format!("file-{file:08}"));
            fill(&mut content, file);
            let begun = Instant::now();
            let is_right = call(&path, &content);
            done.add(begun.elapsed(), 1, bytes);
            self.check(what, &path, is_right)?;
        }
        Ok(done)
    }

    fn list(&self) -> Result<Done, Failure> {
        let begun = Instant::now();
        let count = || {
            let mut names = 0;
            for entry in fs::read_dir(self.folder)? {
                entry?;
                names += 1;
            }
            Ok(names)
        };
        let listed: io::Result<u64> = count();
        let mut done = Done::default();
        done.add(begun.elapsed(), self.args.files, 0);
        self.check("list", self.folder, listed.map(|names| names == self.args.files))?;
        Ok(done)
    }

    fn write_large(&self, thread: u32) -> Result<Done, Failure> {
        let path = self.folder.join(format!("large-{thread}"));
        let mut file = calls::new(&path).map_err(|error| self.failure("create", &path, &error))?;
        let done = self.blocks("write", &path, thread, |block| {
            file.write_all(block)?;
            Ok(true)
        })?;
        self.check("fsync", &path, file.sync_all().map(|()| true))?;
        Ok(done)
    }

    fn read_large(&self, thread: u32) -> Result<Done, Failure> {
        let path = self.folder.join(format!("large-{thread}"));
        let mut file = calls::open(&path).map_err(|error| self.failure("open", &path, &error))?;
        let mut found = vec![0; MIB as usize];
        self.blocks("read", &path, thread, |block| {
            file.read_exact(&mut found)?;
            Ok(found == block)
        })
    }

    /// Calls `act` with each block of a thread's large file.
    fn blocks(
        &self,
        what: &str,
        path: &Path,
        thread: u32,
        mut act: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<Done, Failure> {
        let (mut done, mut block) = (Done::default(), vec![0; MIB as usize]);
        fill(&mut block, thread.into());
        for number in 0..self.args.large {
            if self.is_over() {
                break;
            }
            block[..4].copy_from_slice(&number.to_le_bytes());
            let begun = Instant::now();
            let is_right = act(&block);
            done.add(begun.elapsed(), 1, MIB);
            self.check(what, path, is_right)?;
        }
        Ok(done)
    }

    fn check(&self, what: &str, path: &Path, is_right: io::Result<bool>) -> Result<(), Failure> {
        match is_right {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::plain(format!(
                "WRONG ANSWER to {what} {}: not what was written there",
                path.display()
            ))),
            Err(error) => Err(self.failure(what, path, &error)),
        }
    }

    fn failure(&self, what: &str, path: &Path, error: &io::Error) -> Failure {
        let BenchArgs { files, file_size, large, threads, .. } = *self.args;
        let small = files * u64::from(file_size);
        let most = small.max(u64::from(large) * u64::from(threads) * MIB);
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
                ": the run needs {} of space; smaller --files, --file-size or --large need less",
                bytes(most)
            ),
            _ => "; what was made is removed again".to_owned(),
        };
        Failure::plain(format!("cannot {what} {}: {error}{advice}", path.display()))
    }
}
