//! Seeds of random tests.

/// The seed in the environment variable, to repeat one run. Without it, the first `few` seeds, or
/// with `PANDO_LONG` a hundred times as many.
pub fn seeds(variable: &str, few: u64) -> std::ops::Range<u64> {
    if let Some(seed) = std::env::var(variable).ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    let is_long = std::env::var_os("PANDO_LONG").is_some();
    1..1 + few * if is_long { 100 } else { 1 }
}
