//! Bounds on source files that neither rustfmt nor clippy checks: the width of comments and the length of a
//! file.

use std::fs;
use std::path::{Path, PathBuf};

/// Columns at which the lines of comments end; rustfmt's `max_width` is for code only.
const COLUMNS: usize = 110;
/// Lines of the longest file.
const LINES: usize = 800;

/// Every Rust source of the workspace.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = ["agent", "ebpf", "proto", "tests", "xtask"].map(|f| root.join(f)).into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a line is a comment that is too wide. A row of a table cannot be broken.
fn is_too_wide(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let text = comment.trim_start_matches(['/', '!']).trim_start();
    line.chars().count() > COLUMNS && !text.starts_with('|') && text.contains(' ')
}

#[test]
fn comments_end_at_110_columns_and_files_at_800_lines() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let wide = text.lines().enumerate().filter(|(_, line)| is_too_wide(line));
        wrong.extend(wide.map(|(n, _)| format!("{}:{}: over {COLUMNS} columns", path.display(), n + 1)));
        if text.lines().count() > LINES {
            wrong.push(format!("{}: over {LINES} lines", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wide_lines_of_code_and_rows_of_tables_are_not_comments_to_wrap() {
    let wide = "word ".repeat(COLUMNS / 5 + 1);
    assert!(is_too_wide(&format!("    /// {wide}")) && is_too_wide(&format!("//! {wide}")));
    assert!(!is_too_wide(&wide) && !is_too_wide(&format!("//! | {wide}|")));
    assert!(!is_too_wide(&format!("// {}", "x".repeat(COLUMNS))));
    assert!(!is_too_wide("/// short"));
}
