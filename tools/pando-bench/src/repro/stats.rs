//! Simple statistics.

/// Mean, and half the width of its 95 % confidence interval (normal approximation).
pub fn mean_ci95(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    if samples.is_empty() {
        return (0.0, 0.0);
    }
    let mean = samples.iter().sum::<f64>() / count;
    if samples.len() == 1 {
        return (mean, 0.0);
    }
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

/// The median. For an even number of samples, the upper of the middle two.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}

/// How many of `count` items fall to one of two halves, each by a fair coin.
pub fn half_of(count: u64, rng: &mut fastrand::Rng) -> u64 {
    let whole: u64 = (0..count / 64).map(|_| u64::from(rng.u64(..).count_ones())).sum();
    let rest = count % 64;
    whole + u64::from((rng.u64(..) & ((1 << rest) - 1)).count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_and_how_sure_it_is() {
        assert_eq!(mean_ci95(&[]), (0.0, 0.0));
        assert_eq!(mean_ci95(&[3.0]), (3.0, 0.0));
        let (mean, ci) = mean_ci95(&[1.0, 2.0, 3.0, 4.0]);
        assert!((mean - 2.5).abs() < 1e-12 && (ci - 1.265).abs() < 1e-3, "{mean} {ci}");
        assert_eq!(median(vec![5.0, 1.0, 3.0]), 3.0);
    }

    #[test]
    fn halves_are_halves() {
        let mut rng = fastrand::Rng::with_seed(1);
        for count in [0, 1, 63, 64, 65, 8_000] {
            let mean = (0..200).map(|_| half_of(count, &mut rng) as f64).sum::<f64>() / 200.0;
            assert!((mean - count as f64 / 2.0).abs() <= (count as f64).sqrt() / 4.0 + 1e-9);
            assert!((0..200).all(|_| half_of(count, &mut rng) <= count));
        }
    }
}
