//! A sparkline of one line as text, for cells of a table. Pure.

use ratatui::symbols::bar;

/// From nothing to all: what is known and nothing has a bar too, unlike what is unknown, and the highest
/// leaves a gap to the line above.
const LEVELS: [&str; 7] = [
    bar::ONE_EIGHTH,
    bar::ONE_QUARTER,
    bar::THREE_EIGHTHS,
    bar::HALF,
    bar::FIVE_EIGHTHS,
    bar::THREE_QUARTERS,
    bar::SEVEN_EIGHTHS,
];

/// The last `width` values with the newest at the right end; a bar of `top` or more is full.
pub fn text(values: &[Option<f64>], top: f64, width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let mut out = " ".repeat(width - shown.len());
    for value in shown {
        out.push_str(value.map_or(" ", |value| LEVELS[level(value, top)]));
    }
    out
}

fn level(value: f64, top: f64) -> usize {
    let most = LEVELS.len() - 1;
    // Casts of what is no number or too large end at a bound.
    ((value / top * most as f64).round() as usize).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_at_the_right() {
        let values = [Some(9.0), None, Some(0.0), Some(0.5), Some(1.0), Some(7.0)];
        for (width, expected) in [(0, ""), (1, "▇"), (4, "▁▄▇▇"), (6, "▇ ▁▄▇▇"), (8, "  ▇ ▁▄▇▇")]
        {
            assert_eq!(text(&values, 1.0, width), expected);
        }
        assert_eq!(text(&[], 1.0, 3), "   ");
        assert_eq!(text(&[Some(f64::NAN), Some(-1.0), Some(1.0)], 0.0, 3), "▁▁▇");
    }
}
