//! A table of all rows.

use pando_bench::pairs::Spread;

use super::figures::{Failed, Line};
use crate::output::text::table;

pub fn lines(lines: &[Line]) -> String {
    let heading = ["row", "system", "median (from – to)", "ratio (from – to)", "met", "bar"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for line in lines {
        let part = line.part.map_or_else(String::new, |part| format!(" {part}"));
        let unit = if line.unit == "ratio" { String::new() } else { format!(" {}", line.unit) };
        rows.push(vec![
            format!("{}{part}", line.row.name()),
            line.system.name().to_owned(),
            format!("{}{unit}", spread(line.spread)),
            line.ratio.map_or_else(String::new, spread),
            line.met.map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
            line.bar.clone().unwrap_or_default(),
        ]);
    }
    table(&rows)
}

pub fn failed(failed: &Failed) -> String {
    let Failed { row, system, round, message } = failed;
    format!("FAILED in round {round}: {row} on {}: {message}", system.name())
}

fn spread(spread: Spread) -> String {
    let Spread { min, median, max } = spread;
    format!("{} ({} – {})", short(median), short(min), short(max))
}

/// Three digits or more.
fn short(figure: f64) -> String {
    match figure {
        _ if figure >= 100.0 => format!("{figure:.0}"),
        _ if figure >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
