//! The table as plain text for a pipe: all columns, full names. Pure.

use super::columns::Column;
use super::rates::Row;
use crate::cli::format::printable;
use crate::cli::table::{Align, table};

pub fn text(rows: &[&Row]) -> String {
    let head = std::iter::once("NAME").chain(Column::ALL.map(Column::title)).map(str::to_owned).collect();
    let mut lines: Vec<Vec<String>> = vec![head];
    lines.extend(
        rows.iter().map(|row| {
            std::iter::once(printable(&row.name)).chain(Column::ALL.map(|c| c.cell(row))).collect()
        }),
    );
    let aligns: Vec<Align> = std::iter::once(Align::Left).chain(Column::ALL.map(|_| Align::Right)).collect();
    table(&lines, &aligns)
}
