//! The first call of a second mount in a directory that only the first has used.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

use crate::output::failure::Failure;
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row, System};
use crate::trees::system::Pair;

/// Files that the first mount makes in a directory. It is lent by then.
const FILES: usize = 10;

pub fn recall(system: System, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let mut pair = Pair::start(system, kit.args)?;
    let second = pair.second()?.join("recalls");
    let first = pair.first().join("recalls");
    fs::create_dir(&first).map_err(failed("make", &first))?;
    let mut millis = Vec::new();
    for number in 0..kit.args.recalls {
        kit.programs.go_on()?;
        let name = format!("lent{number}");
        let (own, others) = (first.join(&name), second.join(&name));
        fill(&own).map_err(failed("fill", &own))?;
        let begun = Instant::now();
        enter(&others, number).map_err(failed("enter", &others))?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
        check(&others, number).map_err(failed("list", &others))?;
    }
    millis.sort_by(f64::total_cmp);
    let part = |name, percent| Figure::part(Row::Recall, name, percentile(&millis, percent));
    Ok(vec![part("p50", 50), part("p99", 99)])
}

fn fill(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    (0..FILES).try_for_each(|file| File::create_new(folder.join(format!("own{file}"))).map(drop))
}

fn is_create(number: u32) -> bool {
    number.is_multiple_of(2)
}

/// The call that is measured: a create or a stat, in turn.
fn enter(folder: &Path, number: u32) -> io::Result<()> {
    if is_create(number) {
        return File::create_new(folder.join("other")).map(drop);
    }
    fs::metadata(folder.join(format!("own{}", FILES - 1))).map(drop)
}

/// The second mount sees all that both have made.
fn check(folder: &Path, number: u32) -> io::Result<()> {
    let (found, wanted) = (fs::read_dir(folder)?.count(), FILES + usize::from(is_create(number)));
    if found == wanted {
        return Ok(());
    }
    Err(io::Error::other(format!("WRONG ANSWER: {found} names instead of {wanted}")))
}

/// The lowest of sorted figures that this part of them does not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures_that_were_there() {
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&figures, 50), percentile(&figures, 99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 50), percentile(&[7.0], 99)), (7.0, 7.0));
    }
}
