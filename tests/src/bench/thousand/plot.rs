//! The growth of every figure as a plot: SVG, both axes logarithmic, each figure as a multiple of what it is
//! with the fewest pods.

use plotters::prelude::*;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 560);

/// A figure by its name, and its values by the number of pods.
pub type Line = (String, Vec<(usize, f64)>);

/// The plot as SVG, with a line of the power of one to compare.
///
/// # Errors
/// There is nothing to draw. Text for users.
pub fn svg(lines: &[Line]) -> Result<String, String> {
    let relative: Vec<(&str, Vec<(f64, f64)>)> = lines.iter().filter_map(relative).collect();
    let points = || relative.iter().flat_map(|(_, points)| points);
    let fewest = points().map(|(pods, _)| *pods).reduce(f64::min).ok_or("no figure has two values")?;
    let most = points().map(|(pods, _)| *pods).fold(fewest, f64::max);
    let highest = points().map(|(_, value)| *value).fold(most / fewest, f64::max);
    let lowest = points().map(|(_, value)| *value).fold(1.0, f64::min);
    let mut text = String::new();
    draw(&mut text, &relative, (fewest, most), (lowest * 0.8, highest * 1.2))
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// Each value as a multiple of the first; `None` for a figure that has no two, or begins with nothing.
fn relative((name, values): &Line) -> Option<(&str, Vec<(f64, f64)>)> {
    let [(_, first), _, ..] = values[..] else { return None };
    let points = values.iter().map(|(pods, value)| (*pods as f64, value / first));
    let points: Vec<_> = points.filter(|(_, value)| value.is_finite() && *value > 0.0).collect();
    (points.len() >= 2).then_some((name.as_str(), points))
}

fn draw(
    text: &mut String,
    lines: &[(&str, Vec<(f64, f64)>)],
    (fewest, most): (f64, f64),
    (lowest, highest): (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Growth with the number of pods", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d((fewest..most).log_scale(), (lowest..highest).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("pods")
        .y_desc(format!("times the figure with {fewest} pods"))
        .disable_mesh()
        .draw()?;
    let linear = [(fewest, 1.0), (most, most / fewest)];
    chart
        .draw_series(LineSeries::new(linear, BLACK.mix(0.3).stroke_width(4)))?
        .label("in proportion")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK.mix(0.3).stroke_width(4)));
    for (at, (name, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(at).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    let labels = chart.configure_series_labels();
    let mut labels = labels;
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.9)).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_with_two_values_is_a_line_with_its_name() {
        let line = |name: &str, values: &[(usize, f64)]| (name.to_owned(), values.to_vec());
        let lines = [
            line("memory", &[(10, 11.0), (100, 20.0), (1000, 95.0)]),
            line("idle CPU", &[(10, 0.02), (100, 0.05), (1000, 0.3)]),
            line("once", &[(10, 1.0)]),
            line("nothing at first", &[(10, 0.0), (100, 1.0)]),
        ];
        let svg = svg(&lines).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for name in ["memory", "idle CPU", "in proportion"] {
            assert!(svg.contains(name), "{name}");
        }
        for name in ["once", "nothing at first"] {
            assert!(!svg.contains(name), "{name}");
        }
        // The line to compare and the two figures, each also in the legend.
        let strokes = |width: &str| svg.matches(&format!("stroke-width=\"{width}\"")).count();
        assert_eq!((strokes("4"), strokes("2")), (2, 4), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(svg(&[]).is_err());
    }
}
