//! Throws mutated and random bytes at a decoder, which must refuse or accept them, and never panic.
//!
//! A run has a given number of rounds, from a fixed seed. The long form runs by the clock, from a
//! new seed, which it prints:
//!
//! | variable | |
//! |---|---|
//! | `PANDO_LONG` | the long form, 20 seconds for each decoder |
//! | `BABU_FUZZ_SECONDS=N` | the long form, N seconds; 0: without end |
//! | `BABU_FUZZ_SEED=N` | repeats the run of that seed |

use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const LONG_SECONDS: u64 = 20;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Calls `each` with the number of the round, `count` times or as long as the variables say.
pub(crate) fn rounds(count: u64, mut each: impl FnMut(u64, &mut Rng)) {
    let seconds = variable("BABU_FUZZ_SECONDS")
        .or_else(|| std::env::var_os("PANDO_LONG").map(|_| LONG_SECONDS));
    let seed = match (variable("BABU_FUZZ_SEED"), seconds) {
        (Some(seed), _) => seed,
        (None, None) => SEED,
        (None, Some(_)) => {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(SEED, |since| since.as_nanos() as u64)
        }
    };
    let mut random = Rng::with_seed(seed);
    let Some(seconds) = seconds else {
        return (0..count).for_each(|round| each(round, &mut random));
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("fuzzing");
    eprintln!("{test}: BABU_FUZZ_SEED={seed}");
    let end = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
    let mut round = 0;
    // Run at least `count` rounds, as tests rely on what happens in them.
    while round < count || end.is_none_or(|end| Instant::now() < end) {
        each(round, &mut random);
        round += 1;
    }
}

/// Changes some bytes: gives other values, inserts, removes, or cuts.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..=random.u8(..3) {
        let at = random.usize(..bytes.len().max(1));
        // Small numbers, the largest, and single bits are hardest for decoders.
        let byte = match random.u8(..4) {
            0 => random.u8(..4),
            1 => 0xff - random.u8(..2),
            2 => bytes.get(at).copied().unwrap_or_default() ^ 1 << random.u8(..8),
            _ => random.u8(..),
        };
        match random.u8(..8) {
            0 => bytes.insert(at, byte),
            1 if !bytes.is_empty() => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            _ => {
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
            }
        }
    }
}

/// Calls `decode` with variations of `sample`: bytes changed, inserted, removed or cut, and pure
/// noise.
pub(crate) fn mutations(sample: &[u8], mut decode: impl FnMut(&[u8])) {
    rounds(30_000, |round, random| {
        let mut bytes = match round % 16 {
            0 => {
                let len = random.usize(..sample.len() * 2);
                (0..len).map(|_| random.u8(..)).collect()
            }
            _ => sample.to_vec(),
        };
        mutate(&mut bytes, random);
        decode(&bytes);
    });
}
