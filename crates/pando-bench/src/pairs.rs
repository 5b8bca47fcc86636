//! Two directories measured in turn, A B A B …, and compared pair by pair, so that the comparison
//! holds while the machine's speed drifts. What figures in documents are made of.

use std::path::Path;

use serde::Serialize;

use crate::mount::{self, Workers};
use crate::report::rounded;
use crate::{BenchError, Phase, Report, Watch, Workload};

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PairsReport {
    /// What was run on each.
    pub workload: Workload,
    /// How many pairs were counted.
    pub pairs: u32,
    /// In the order they ran.
    pub phases: Vec<PhasePairs>,
}

/// One phase in all pairs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhasePairs {
    /// Which.
    pub phase: Phase,
    /// Operations a second of the one.
    pub a: Spread,
    /// And of the other.
    pub b: Spread,
    /// The one by the other, pair by pair.
    pub ratio: Spread,
    /// The ratios, in the order of the pairs.
    pub ratios: Vec<f64>,
}

/// Middle and ends of some figures.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// The middle one; of an even number, the mean of the middle two.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of these; all zero if there are none.
    #[must_use]
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let middle = sorted.len() / 2;
        let below = if sorted.len().is_multiple_of(2) { middle - 1 } else { middle };
        Self { min, median: f64::midpoint(sorted[below], sorted[middle]), max }
    }
}

/// Measures `a` and `b` once each without counting, for caches and processes, then in `pairs`
/// pairs. `told` hears which pair begins.
pub fn run(
    a: &Path,
    b: &Path,
    workload: &Workload,
    pairs: u32,
    workers: Workers<'_>,
    watch: &dyn Watch,
    mut told: impl FnMut(u32),
) -> Result<PairsReport, BenchError> {
    let measure = |path| mount::run(path, workload, workers, watch);
    told(0);
    measure(a)?;
    measure(b)?;
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        told(pair);
        runs.push((measure(a)?, measure(b)?));
    }
    let phases = workload.phases.iter().map(|&phase| summary(phase, &runs)).collect();
    Ok(PairsReport { workload: workload.clone(), pairs, phases })
}

fn summary(phase: Phase, runs: &[(Report, Report)]) -> PhasePairs {
    let rates = |of: &dyn Fn(&(Report, Report)) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let ratios = rates(&|(a, b)| rounded(a.rate(phase) / b.rate(phase), 1000.0));
    PhasePairs {
        phase,
        a: Spread::of(&rates(&|(a, _)| a.rate(phase))),
        b: Spread::of(&rates(&|(_, b)| b.rate(phase))),
        ratio: Spread::of(&ratios),
        ratios,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (figures, min, median, max) in [
            (&[][..], 0.0, 0.0, 0.0),
            (&[3.0], 3.0, 3.0, 3.0),
            (&[4.0, 1.0], 1.0, 2.5, 4.0),
            (&[9.0, 1.0, 2.0], 1.0, 2.0, 9.0),
        ] {
            assert_eq!(Spread::of(figures), Spread { min, median, max });
        }
    }
}
