//! Prints figures for people.

use pando_bench::repro::figure::{Figure, Nature};

use crate::output::print;
use crate::output::text::table;

pub fn show(figure: &Figure) {
    let nature = match figure.nature {
        Nature::Computed => "computed",
        Nature::Modelled => "modelled",
        Nature::Measured => "measured",
        Nature::Both => "measured and modelled",
    };
    print::line(&format!("== {}: {} [{nature}]", figure.name, figure.title));
    for part in &figure.tables {
        print::line(&format!("\n{}", part.caption));
        print::line(table(&part.rows).trim_end());
    }
    print::line(&format!("\nthe same:  {}", figure.same));
    print::line(&format!("different: {}\n", figure.different));
}
