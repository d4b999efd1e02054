//! The table as plain text for a pipe: all columns that are text, full names. Pure.

use super::columns::Column;
use super::rates::Row;
use crate::cli::format::printable;
use crate::cli::table::{Align, table};

pub fn text(rows: &[&Row]) -> String {
    let columns = || Column::ALL.into_iter().filter(|&column| column != Column::History);
    let head = std::iter::once("NAME").chain(columns().map(Column::title)).map(str::to_owned).collect();
    let mut lines: Vec<Vec<String>> = vec![head];
    lines
        .extend(rows.iter().map(|row| {
            std::iter::once(printable(&row.name)).chain(columns().map(|c| c.cell(row))).collect()
        }));
    let aligns: Vec<Align> = std::iter::once(Align::Left).chain(columns().map(|_| Align::Right)).collect();
    table(&lines, &aligns)
}
