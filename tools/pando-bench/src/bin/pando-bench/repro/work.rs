//! Measures the work of real shards for a directory: under each split policy (Figure 6), and for a
//! single shard (Figure 10).

use std::time::Instant;

use pando_bench::Watch;
use pando_bench::repro::Size;
use pando_bench::repro::local::{Backend, Tenths};
use pando_bench::repro::policies::MeasuredPolicy;

use super::shards::{Shards, Step};
use crate::output::failure::Failure;

/// The partitions per server that Figure 6 compares, and values between them.
const POLICIES: [u16; 5] = [1, 4, 16, 32, u16::MAX];

/// Fills a directory of 16 shards under each policy, all in this thread.
pub fn policies(size: Size, watch: &dyn Watch) -> Result<Vec<MeasuredPolicy>, Failure> {
    let (files, threshold) = match size {
        Size::Full => (240_000, 400),
        Size::Quick => (40_000, 100),
        Size::Tiny => (2_000, 10),
    };
    let mut all = Vec::new();
    for per_server in POLICIES {
        all.push(policy(16, per_server, threshold, files, watch)?);
    }
    Ok(all)
}

fn policy(
    count: u16,
    per_server: u16,
    threshold: u64,
    files: u64,
    watch: &dyn Watch,
) -> Result<MeasuredPolicy, Failure> {
    let mut shards = Shards::new(count, per_server, threshold)?;
    let mut known = shards.mkdir("big")?;
    let bytes = shards.sent.bytes;
    watch.begin("create", files);
    let begun = Instant::now();
    for number in 0..files {
        shards.create(&mut known, &format!("file.{number:08}"))?;
        // One message between shards for every fourth create, as much as eight processes leave time
        // for.
        if number % 4 == 0 {
            shards.deliver()?;
        }
        if number % 1024 == 0 {
            watch.advance(number);
            if watch.is_interrupted() {
                return Err(Failure::plain("interrupted"));
            }
        }
    }
    while shards.deliver()? {}
    let seconds = begun.elapsed().as_secs_f64();
    watch.end();
    Ok(MeasuredPolicy {
        shards: count,
        per_server,
        threshold,
        files,
        seconds,
        splits: [shards.sum(|n| n.splits_moved), shards.sum(|n| n.splits_local)],
        entries_moved: shards.sum(|n| n.entries_moved),
        bytes: shards.sent.bytes - bytes,
        astray: known.astray,
    })
}

/// Measures a single shard that keeps a directory in `partitions` partitions.
pub fn backend(
    partitions: u16,
    files: u64,
    threshold: u64,
    watch: &dyn Watch,
) -> Result<Backend, Failure> {
    let mut shards = Shards::new(1, partitions, threshold)?;
    let mut known = shards.mkdir("big")?;
    // Samples are kept for splits only. Splits are few, so the cost of keeping samples is small. It
    // makes the result slower, never faster.
    shards.samples = Some(Vec::new());
    let mut splitting = 0;
    watch.begin("create", files);
    let mut tenths = Tenths::begin(files);
    for number in 0..files {
        shards.create(&mut known, &format!("file.{number:08}"))?;
        tenths.made();
        for sample in shards.samples.iter_mut().flat_map(|samples| samples.drain(..)) {
            if sample.step == Step::SplitHere {
                splitting += sample.nanos;
            }
        }
        if number % 1024 == 0 {
            watch.advance(number);
            if watch.is_interrupted() {
                return Err(Failure::plain("interrupted"));
            }
        }
    }
    let (seconds, rates) = tenths.end();
    watch.end();
    Ok(Backend {
        keeps: "a shard of Pando (core and babu)".to_owned(),
        partitions,
        files,
        seconds,
        splits: shards.sum(|n| n.splits_local),
        splitting: splitting as f64 / 1e9,
        tenths: rates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_bench::Silent;

    /// GIGA+, §5.2, lesson 1, in entries: only entries that go to another shard are moved. So
    /// splitting without end moves hardly more of them.
    #[test]
    fn splitting_further_moves_hardly_more() {
        let all = policies(Size::Tiny, &Silent).unwrap();
        assert_eq!(all.len(), POLICIES.len());
        for run in &all {
            assert_eq!(run.splits[0], 15, "{run:?}");
            assert!(run.entries_moved < run.files && run.bytes > run.entries_moved * 50);
            assert!(run.astray > 0 && run.astray < run.files / 4, "{run:?}");
        }
        assert_eq!(all[0].splits[1], 0);
        assert!(all[4].splits[1] > 100, "{:?}", all[4]);
    }

    #[test]
    fn one_shard_keeps_a_directory_in_one_partition_or_in_16() {
        for partitions in [1, 16] {
            let run = backend(partitions, 2_000, 50, &Silent).unwrap();
            assert_eq!((run.splits, run.tenths.len()), (u64::from(partitions) - 1, 10));
            assert_eq!(run.splitting > 0.0, partitions > 1);
        }
    }
}
