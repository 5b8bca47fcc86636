//! A figure with its tables, their meaning, and its charts.

use serde::Serialize;
use serde_json::Value;

/// The source of a figure's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    /// Computed by the placement rule, with random numbers from the seed.
    Computed,
    /// Results of the discrete-event model.
    Modelled,
    /// Measured on this machine.
    Measured,
    /// Some values are measured, and some modelled.
    Both,
}

/// A figure of a paper, with our values beside it.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// A short name, such as `figure-7`.
    pub name: String,
    /// What it shows, and its place in the paper.
    pub title: String,
    /// The source of our values.
    pub nature: Nature,
    /// Our values, beside those that the paper's text gives.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// One line that says where ours agrees with the paper.
    pub same: String,
    /// One line that says where ours differs from the paper.
    pub different: String,
    /// All values, for `--json`.
    pub data: Value,
    /// Charts of the values.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// A table of text. The first row is the heading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// A line above the table.
    pub caption: String,
    /// Rows of cells, with the heading first.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading and no other rows.
    #[must_use]
    pub fn new<const N: usize>(caption: impl Into<String>, heading: [&str; N]) -> Self {
        Self { caption: caption.into(), rows: vec![heading.map(str::to_owned).to_vec()] }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the row is not as long as the heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<_> = cells.into_iter().collect();
        assert_eq!(row.len(), self.rows[0].len(), "a row of {:?}", self.caption);
        self.rows.push(row);
    }
}

/// A chart with one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Name of its file, without the extension.
    pub file: String,
    /// Text above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines and dots.
    pub series: Vec<Series>,
}

/// One axis of a [`Chart`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Whether it is logarithmic. Only values above 0 are drawn then.
    pub is_log: bool,
}

impl Axis {
    /// An axis with equal steps.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: true }
    }
}

/// A line, or a set of dots.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Whether the points are drawn as dots and not as a line.
    pub is_dotted: bool,
    /// Pairs of x and y, ascending by x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series that is drawn as a line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), is_dotted: false, points: points.into_iter().collect() }
    }

    /// A series that is drawn as dots.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), is_dotted: true, points: points.into_iter().collect() }
    }
}

/// Formats 1234567 as `1,234,567`.
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

/// Formats a share as `12.3 %`.
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
