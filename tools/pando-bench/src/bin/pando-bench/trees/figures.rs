//! Figures of all rounds, and what they come to: medians, ranges, ratios to a floor.

use pando_bench::pairs::Spread;
use serde::Serialize;
use serde_json::{Value, json};

use super::bar::{bar, floor};
use super::row::{Figure, Row, System};
use crate::output::failure::Failure;

/// A figure, with where and when it was taken.
struct Taken {
    round: u32,
    system: System,
    figure: Figure,
}

/// A row that could not be measured on a system, which is not tried again.
#[derive(Serialize)]
pub struct Failed {
    pub row: String,
    pub system: System,
    pub round: u32,
    pub message: String,
}

#[derive(Default)]
pub struct Figures {
    taken: Vec<Taken>,
    pub failed: Vec<Failed>,
}

/// One row of the report.
#[derive(Serialize)]
pub struct Line {
    pub row: Row,
    pub part: Option<&'static str>,
    pub unit: &'static str,
    pub system: System,
    pub figures: Vec<f64>,
    pub spread: Spread,
    pub floor: Option<System>,
    /// Round by round: figures of one round are compared.
    pub ratio: Option<Spread>,
    pub bar: Option<String>,
    pub met: Option<bool>,
}

impl Figures {
    pub fn add(&mut self, round: u32, system: System, figures: impl IntoIterator<Item = Figure>) {
        self.taken.extend(figures.into_iter().map(|figure| Taken { round, system, figure }));
    }

    pub fn fail(&mut self, round: u32, system: System, row: String, why: &Failure) {
        self.failed.push(Failed { row, system, round, message: why.to_string() });
    }

    pub fn has_failed(&self, row: &str, system: System) -> bool {
        self.failed.iter().any(|failed| failed.row == row && failed.system == system)
    }

    /// A line for each row, part and system, in this order.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in Row::ALL {
            let mut parts: Vec<_> = Vec::new();
            for taken in self.taken.iter().filter(|taken| taken.figure.row == row) {
                if !parts.contains(&taken.figure.part) {
                    parts.push(taken.figure.part);
                }
            }
            for part in parts {
                let line = |system| self.line(row, part, system);
                lines.extend(System::ALL.into_iter().filter_map(line));
            }
        }
        lines
    }

    /// The figures of a row on a system, with their rounds.
    fn of(&self, row: Row, part: Option<&'static str>, system: System) -> Vec<(u32, f64)> {
        let is_meant = |taken: &&Taken| {
            (taken.figure.row, taken.figure.part, taken.system) == (row, part, system)
        };
        self.taken.iter().filter(is_meant).map(|taken| (taken.round, taken.figure.value)).collect()
    }

    fn line(&self, row: Row, part: Option<&'static str>, system: System) -> Option<Line> {
        let own = self.of(row, part, system);
        if own.is_empty() {
            return None;
        }
        let (bar, floor) = (bar(row, part, system), floor(row).filter(|&floor| floor != system));
        // Nothing is asked of floors.
        let is_asked = system.is_pando();
        let floors = floor.map(|floor| self.of(row, part, floor)).unwrap_or_default();
        let ratios: Vec<f64> = own
            .iter()
            .filter_map(|&(round, figure)| {
                let (_, floor) = floors.iter().find(|(of, _)| *of == round)?;
                Some(bar.ratio(figure, *floor))
            })
            .collect();
        let ratio = (!ratios.is_empty()).then(|| Spread::of(&ratios));
        let figures: Vec<f64> = own.into_iter().map(|(_, figure)| figure).collect();
        let spread = Spread::of(&figures);
        Some(Line {
            row,
            part,
            unit: row.unit(),
            system,
            figures: figures.into_iter().map(rounded).collect(),
            met: is_asked
                .then(|| bar.is_met(spread.median, ratio.map(|ratio| ratio.median)))
                .flatten(),
            spread: tidy(spread),
            floor,
            ratio: ratio.map(tidy),
            bar: is_asked.then(|| bar.words(row)),
        })
    }

    pub fn json(&self) -> Value {
        json!({ "rows": self.lines(), "failed": self.failed })
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

fn tidy(spread: Spread) -> Spread {
    let Spread { min, median, max } = spread;
    Spread { min: rounded(min), median: rounded(median), max: rounded(max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of: &[(u32, System, f64)]) -> Figures {
        let mut figures = Figures::default();
        for &(round, system, value) in of {
            figures.add(round, system, [Figure { row: Row::Extract, part: None, value }]);
        }
        figures
    }

    #[test]
    fn figures_of_one_round_are_compared() {
        let (tcp, null) = (System::Tcp, System::Null);
        let taken =
            [(1, tcp, 10.0), (1, null, 8.0), (2, tcp, 100.0), (2, null, 50.0), (3, tcp, 1.0)];
        let lines = figures(&taken).lines();
        assert_eq!(lines.iter().map(|line| line.system).collect::<Vec<_>>(), [tcp, null]);
        let ratio = lines[0].ratio.unwrap();
        assert_eq!((ratio.min, ratio.max, lines[0].spread.median), (0.5, 0.8, 10.0));
        assert_eq!((lines[0].met, lines[1].met, lines[1].ratio), (Some(true), None, None));
    }

    #[test]
    fn without_a_floor_nothing_is_judged() {
        let lines = figures(&[(1, System::Up, 3.0)]).lines();
        assert_eq!((lines[0].met, lines[0].ratio), (None, None));
        assert!(lines[0].bar.is_some());
    }
}
