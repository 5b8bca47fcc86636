//! Measures two directories in turn, A B A B …, and compares them pair by pair. So the comparison
//! holds although the machine's speed drifts. Documents quote figures of such runs.

use std::path::Path;

use serde::Serialize;

use crate::mount::{self, Workers};
use crate::report::rounded;
use crate::{BenchError, Phase, Report, Watch, Workload};

/// The result of all pairs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PairsReport {
    /// The workload that ran in each directory.
    pub workload: Workload,
    /// Number of pairs that count.
    pub pairs: u32,
    /// Results by phase, in the order of the phases.
    pub phases: Vec<PhasePairs>,
}

/// The result of one phase in all pairs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhasePairs {
    /// The phase.
    pub phase: Phase,
    /// Operations a second in directory A.
    pub a: Spread,
    /// Operations a second in directory B.
    pub b: Spread,
    /// A's rate divided by B's, pair by pair.
    pub ratio: Spread,
    /// The ratios, in the order of the pairs.
    pub ratios: Vec<f64>,
}

/// Minimum, median and maximum of some figures.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Spread {
    /// The lowest figure.
    pub min: f64,
    /// The median. For an even number of figures, the mean of the middle two.
    pub median: f64,
    /// The highest figure.
    pub max: f64,
}

impl Spread {
    /// The spread of these figures. All zero if there are none.
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

/// Measures `a` and `b` once each as a warm-up, then `pairs` times. It calls `told` with the number
/// of each pair that begins.
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
