//! The plot: pairs a second over clients, both by their logarithms.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Failed;
use crate::suite::Report;

const SIZE: (u32, u32) = (860, 480);
const FONT: &str = "sans-serif";
const NAME_HEIGHT: i32 = 16;

/// The contests that are points of a line, and the sides that are lines.
const CONTESTS: [&str; 4] = ["hot-1", "hot-8", "hot-64", "hot-512"];
const LINES: [(&str, &str, RGBColor); 4] = [
    ("redis", "Redis, no fsync", RGBColor(120, 120, 120)),
    ("lockhouse", "Lockhouse on MySQL", RGBColor(0, 90, 170)),
    (
        "redis-fsync",
        "Redis, appendfsync always",
        RGBColor(190, 120, 30),
    ),
    ("article", "the article's, on MySQL", RGBColor(180, 40, 60)),
];

/// One line of the plot.
struct Line {
    name: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

/// The picture, as SVG.
///
/// # Errors
/// When it can't be drawn.
pub fn plot(report: &Report) -> Result<String, Failed> {
    let lines: Vec<_> = LINES
        .iter()
        .map(|(side, name, color)| Line {
            name,
            color: *color,
            points: points(report, side),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let mut svg = String::new();
    draw(&mut svg, &lines).map_err(|error| format!("drawing the plot: {error}"))?;
    Ok(svg)
}

fn points(report: &Report, side: &str) -> Vec<(f64, f64)> {
    let points = CONTESTS.iter().filter_map(|contest| {
        let measured = report.side(contest, side)?;
        let clients = measured.rounds.first()?.shape.clients;
        Some((clients as f64, measured.median(|round| round.rate)?))
    });
    points.filter(|(_, rate)| *rate > 0.0).collect()
}

fn draw(svg: &mut String, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let all = || lines.iter().flat_map(|line| &line.points);
    let lowest = all().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    let highest = all().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let bottom = 10_f64.powf(lowest.min(highest).log10().floor());
    // To the right there is room for the names.
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_right(200)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(
            (1.0..512.0).log_scale(),
            (bottom..highest * 1.5).log_scale(),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc("clients")
        .y_desc("pairs/s")
        .x_label_formatter(&|clients| format!("{clients:.0}"))
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .label_style((FONT, 14))
        .draw()?;
    for line in lines {
        chart.draw_series(LineSeries::new(
            line.points.iter().copied(),
            line.color.stroke_width(2),
        ))?;
        let dots = line.points.iter();
        chart.draw_series(dots.map(|point| Circle::new(*point, 4, line.color.filled())))?;
    }
    let plotting = chart.plotting_area();
    let ends = lines.iter().filter_map(|line| {
        let last = *line.points.last()?;
        Some((plotting.map_coordinate(&last).1, last, line))
    });
    for (down, end, line) in apart(ends.collect()) {
        let style = (FONT, 14).into_font().color(&line.color);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let name = EmptyElement::at(end) + Text::new(line.name, (10, down), style);
        plotting.draw(&name)?;
    }
    area.present()?;
    drop(chart);
    Ok(())
}

/// Places labels: each with its height in pixels from the top, and how far down to move it so that
/// none covers another.
fn apart<P, L>(mut ends: Vec<(i32, P, L)>) -> Vec<(i32, P, L)> {
    ends.sort_by_key(|(height, ..)| *height);
    let mut free = i32::MIN;
    for (height, ..) in &mut ends {
        let at = free.max(*height);
        free = at + NAME_HEIGHT;
        *height = at - *height;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_that_end_together_are_apart() {
        let names = apart(vec![(100, (), "a"), (300, (), "c"), (102, (), "b")]);
        let down = names.iter().map(|(down, (), name)| (*name, *down));
        let down: Vec<_> = down.collect();
        assert_eq!(down, [("a", 0), ("b", 14), ("c", 0)]);
    }
}
