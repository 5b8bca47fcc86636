//! One figure, ready to be shown: tables, what they mean, and what is drawn of them.

use serde::Serialize;
use serde_json::Value;

/// How its values came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    /// By the rule itself, with random numbers from the seed.
    Computed,
    /// By the discrete-event model.
    Modelled,
    /// On this machine, by the clock.
    Measured,
    /// Some of it by the clock, some by the model.
    Both,
}

/// A figure of a paper, ours beside it.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Short: `figure-7`.
    pub name: String,
    /// What it shows, and where in the paper it is.
    pub title: String,
    /// How our values came about.
    pub nature: Nature,
    /// Ours, with the paper's beside it where its text has them.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// One line.
    pub same: String,
    /// One line.
    pub different: String,
    /// All values.
    pub data: Value,
    /// Pictures of them.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// Rows of cells; the first row is the heading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// A line above it.
    pub caption: String,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new<const N: usize>(caption: impl Into<String>, heading: [&str; N]) -> Self {
        Self { caption: caption.into(), rows: vec![heading.map(str::to_owned).to_vec()] }
    }

    /// One row more.
    ///
    /// # Panics
    ///
    /// If it is not as long as the heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<_> = cells.into_iter().collect();
        assert_eq!(row.len(), self.rows[0].len(), "a row of {:?}", self.caption);
        self.rows.push(row);
    }
}

/// Lines over one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Name of its file, without the ending.
    pub file: String,
    /// Above it.
    pub title: String,
    /// Under it.
    pub x: Axis,
    /// Beside it.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// One axis of a [`Chart`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// What it counts.
    pub label: String,
    /// Logarithmic: only what is above 0 is drawn.
    pub is_log: bool,
}

impl Axis {
    /// An axis with equal steps.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false }
    }

    /// A logarithmic one.
    #[must_use]
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: true }
    }
}

/// Points that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// As dots, rather than as a line.
    pub is_dotted: bool,
    /// Ascending by the first.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), is_dotted: false, points: points.into_iter().collect() }
    }

    /// Dots.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), is_dotted: true, points: points.into_iter().collect() }
    }
}

/// 1234567 as `1,234,567`.
#[must_use]
pub fn whole(figure: f64) -> String {
    let digits = format!("{:.0}", figure.abs());
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if figure <= -0.5 { format!("-{text}") } else { text }
}

/// A share as `12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(
            [0.4, 999.0, 1_000.0, 1_234_567.2, -1_000.0].map(whole),
            ["0", "999", "1,000", "1,234,567", "-1,000"]
        );
        assert_eq!(percent(0.1234), "12.3 %");
    }

    #[test]
    #[should_panic(expected = "a row of")]
    fn a_row_is_as_long_as_the_heading() {
        Table::new("of two", ["a", "b"]).row(["only one".to_owned()]);
    }
}
