//! Tables of plain text with aligned columns. Pure.

/// Alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// The lines of a table, with two spaces between columns and no trailing ones. The first row is the header.
pub fn table(rows: &[Vec<String>], aligns: &[Align]) -> String {
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, ((cell, width), align)) in row.iter().zip(&widths).zip(aligns).enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["NAME", "CPU"], ["a", "1.25"], ["longer é", "0"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            table(&rows, &[Align::Left, Align::Right]),
            "NAME       CPU\na         1.25\nlonger é     0\n"
        );
    }
}
