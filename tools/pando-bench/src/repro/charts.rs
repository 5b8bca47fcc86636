//! Draws charts as SVG, all in one style.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::figure::{Axis, Chart, Series};
use crate::BenchError;

const SIZE: (u32, u32) = (960, 440);
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 8] = [
    RGBColor(196, 78, 82),
    RGBColor(76, 114, 176),
    RGBColor(85, 168, 104),
    RGBColor(221, 132, 82),
    RGBColor(129, 114, 179),
    RGBColor(100, 181, 205),
    RGBColor(147, 120, 96),
    RGBColor(140, 140, 140),
];

/// Draws charts into a folder, which is made if it is missing. Returns the files.
pub fn draw(charts: &[Chart], folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
    let mut files = Vec::new();
    for chart in charts {
        let path = folder.join(format!("{}.svg", chart.file));
        fs::write(&path, svg(chart)).map_err(BenchError::io("write", &path))?;
        files.push(path);
    }
    Ok(files)
}

/// One chart as SVG.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        // Drawing into a string cannot fail.
        area.fill(&WHITE).expect("a string takes everything");
        let (x, y) = (span(chart, &chart.x, |p| p.0), span(chart, &chart.y, |p| p.1));
        match (chart.x.is_log, chart.y.is_log) {
            (false, false) => paint(chart, &area, x, y),
            (true, false) => paint(chart, &area, x.log_scale(), y),
            (false, true) => paint(chart, &area, x, y.log_scale()),
            (true, true) => paint(chart, &area, x.log_scale(), y.log_scale()),
        }
        area.present().expect("a string takes everything");
    }
    text
}

/// The range that an axis shows.
fn span(chart: &Chart, axis: &Axis, of: impl Fn(&(f64, f64)) -> f64) -> Range<f64> {
    let all = chart.series.iter().flat_map(|series| series.points.iter()).map(of);
    let drawn: Vec<f64> = all.filter(|at| at.is_finite() && (!axis.is_log || *at > 0.0)).collect();
    let high = drawn.iter().copied().fold(f64::MIN, f64::max);
    let low = drawn.iter().copied().fold(f64::MAX, f64::min);
    match (drawn.is_empty(), axis.is_log) {
        (true, true) => 1.0..10.0,
        (true, false) => 0.0..1.0,
        (false, true) => low / 1.3..high * 1.3,
        (false, false) => low.min(0.0)..high.max(low.min(0.0) + 1e-9) * 1.05,
    }
}

fn paint<X, Y>(
    chart: &Chart,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    x: impl AsRangedCoord<CoordDescType = X, Value = f64>,
    y: impl AsRangedCoord<CoordDescType = Y, Value = f64>,
) where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut builder = ChartBuilder::on(area);
    builder.caption(&chart.title, (FONT, 17)).margin(10);
    let mut context = builder
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .expect("a string takes everything");
    context
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(&chart.x.label)
        .y_desc(&chart.y.label)
        .x_label_formatter(&|at| short(*at))
        .y_label_formatter(&|at| short(*at))
        .draw()
        .expect("a string takes everything");
    for (series, position) in chart.series.iter().zip(0..) {
        let color = COLORS[position % COLORS.len()];
        let points = drawn(chart, series);
        let drawn = if series.is_dotted {
            let dots = points.into_iter().map(|at| Circle::new(at, 3, color.mix(0.8).filled()));
            context.draw_series(dots)
        } else {
            context.draw_series(LineSeries::new(points, color.stroke_width(2)))
        };
        drawn
            .expect("a string takes everything")
            .label(&series.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    context
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font((FONT, 12))
        .draw()
        .expect("a string takes everything");
}

/// The points of a series that the axes can show.
fn drawn(chart: &Chart, series: &Series) -> Vec<(f64, f64)> {
    let fits = |axis: &Axis, at: f64| at.is_finite() && (!axis.is_log || at > 0.0);
    series.points.iter().copied().filter(|p| fits(&chart.x, p.0) && fits(&chart.y, p.1)).collect()
}

fn short(figure: f64) -> String {
    match figure.abs() {
        1e6.. => format!("{} M", trimmed(figure / 1e6)),
        1e3.. => format!("{} k", trimmed(figure / 1e3)),
        _ => trimmed(figure),
    }
}

fn trimmed(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_log: bool) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), is_log };
        Chart {
            file: "a".to_owned(),
            title: "A <title>".to_owned(),
            x: axis("servers"),
            y: axis("creates/s"),
            series: vec![
                Series::line("one", [(0.0, 0.0), (1.0, 10.0), (2.0, f64::NAN), (3.0, 5.0)]),
                Series::dots("two", []),
            ],
        }
    }

    #[test]
    fn a_chart_is_the_same_each_time_and_shows_what_its_axes_can() {
        for is_log in [false, true] {
            let text = svg(&chart(is_log));
            assert_eq!(text, svg(&chart(is_log)));
            assert!(text.contains("servers") && text.contains("one") && !text.contains("NaN"));
        }
        let nothing = Chart { series: Vec::new(), ..chart(true) };
        assert!(svg(&nothing).contains("</svg>"));
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.0, 0.25, 1.0, 1_500.0, 2e6].map(short), ["0", "0.25", "1", "1.5 k", "2 M"]);
    }
}
