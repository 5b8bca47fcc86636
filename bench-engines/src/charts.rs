//! Draws the results as charts.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::prelude::*;

use crate::job::Data;
use crate::report::{Results, Row};

const SIZE: (u32, u32) = (1100, 420);
const COLORS: [RGBColor; 7] = [
    RGBColor(196, 78, 82),
    RGBColor(76, 114, 176),
    RGBColor(100, 149, 190),
    RGBColor(150, 180, 210),
    RGBColor(85, 168, 104),
    RGBColor(221, 132, 82),
    RGBColor(129, 114, 179),
];

/// Draws a chart for trees and one for mixed data into a folder. Each shows the rates of all
/// engines on a logarithmic axis.
pub fn draw(results: &Results, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for data in [Data::Trees, Data::Mixed] {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.data == data).collect();
        if rows.is_empty() {
            continue;
        }
        let path = folder.join(format!("engines-{}.svg", data.name()));
        chart(&rows, data, &path).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}

fn chart(rows: &[&Row], data: Data, path: &Path) -> Result<()> {
    let workloads = distinct(rows.iter().map(|row| row.workload.as_str()));
    let engines = distinct(rows.iter().map(|row| row.engine.as_str()));
    let highest = rows.iter().map(|row| row.ops_per_s).fold(1e3, f64::max) * 1.5;
    let lowest = rows.iter().map(|row| row.ops_per_s).fold(1e5, f64::min).max(1.0) / 1.5;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let title = match data {
        Data::Trees => "operations/s, all data in trees",
        Data::Mixed => "operations/s, half of the data in index files",
    };
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..workloads.len() as f64, (lowest..highest).log_scale())?;
    let label = |x: &f64| workloads.get(x.floor() as usize).copied().unwrap_or_default().to_owned();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_label_formatter(&|rate| rate_label(*rate))
        .draw()?;
    let width = 0.84 / engines.len() as f64;
    for (position, engine) in engines.iter().enumerate() {
        let color = COLORS[position % COLORS.len()];
        let bars = rows.iter().filter(|row| row.engine == *engine).map(|row| {
            let slot = workloads.iter().position(|name| *name == row.workload).unwrap_or(0);
            let left = slot as f64 + 0.08 + position as f64 * width;
            Rectangle::new([(left, lowest), (left + width * 0.92, row.ops_per_s)], color.filled())
        });
        chart
            .draw_series(bars)?
            .label(*engine)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    for slot in 0..workloads.len() {
        let middle = chart.backend_coord(&(slot as f64 + 0.5, lowest));
        let style = ("sans-serif", 11).into_text_style(&area);
        let drop = if slot % 2 == 0 { 6 } else { 20 };
        let text = label(&(slot as f64));
        let left = middle.0 - (text.len() as i32 * 3);
        area.draw_text(&text, &style, (left, middle.1 + drop))?;
    }
    area.present()?;
    Ok(())
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

fn rate_label(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.0} M", rate / 1e6),
        1e3.. => format!("{:.0} k", rate / 1e3),
        _ => format!("{rate:.0}"),
    }
}
