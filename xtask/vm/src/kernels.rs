//! docs/KERNELS.md: what each feature does on each kernel, as a run found it.

use std::fmt::Write;

use super::guest::{Guest, layout_name};
use super::received::{Feature, State};

/// What one guest found.
#[derive(Debug, Clone)]
pub struct Column {
    /// Which guest.
    pub guest: Guest,
    /// Its kernel.
    pub release: String,
    /// Each feature.
    pub features: Vec<Feature>,
}

/// The text of the page. `date` is the day of the run; `made_of` says what its guests were.
pub fn page(columns: &[Column], date: &str, made_of: &str) -> String {
    let mut text = format!(
        "# nodewarden on other kernels\n\n\
         What each feature does, as found by trying on each kernel: *works*, *falls back* (another way, or with less) \
         or *off*.\nWritten by `cargo xtask vm test --write-table` on {date}; do not edit.\nThe machines: {made_of}.\n\n"
    );
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let heads = columns.iter().map(|column| head(column.guest)).collect::<Vec<_>>();
    line(format!("| feature | {} |", heads.join(" | ")));
    line(format!("|---|{}", "---|".repeat(columns.len())));
    for name in names(columns) {
        let cells = columns
            .iter()
            .map(|column| find(column, name).map_or("not reported", |feature| word(feature.state)));
        line(format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | ")));
    }
    line(String::new());
    let reasons = reasons(columns);
    if !reasons.is_empty() {
        line("## Why\n".to_owned());
        reasons.into_iter().for_each(&mut line);
        line(String::new());
    }
    line("## The kernels\n".to_owned());
    line("| column | release | cgroups |\n|---|---|---|".to_owned());
    for column in columns {
        line(format!("| {} | {} | {} |", head(column.guest), column.release, cgroups(column.guest)));
    }
    text
}

fn head(guest: Guest) -> String {
    format!("{} {}", guest.family.name(), layout_name(guest.layout))
}

fn cgroups(guest: Guest) -> &'static str {
    use nodewarden_guest_job::Layout;
    match guest.layout {
        Layout::V2 => "one v2 tree with every controller",
        Layout::V1 => "every v1 controller mounted apart, no v2 tree",
        Layout::Systemd => "a Debian root whose systemd keeps the v2 tree",
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::FallsBack => "falls back",
        State::Off => "off",
    }
}

/// Every feature once, in the order in which the guests reported them.
fn names(columns: &[Column]) -> Vec<&str> {
    let mut names = Vec::new();
    for feature in columns.iter().flat_map(|column| &column.features) {
        if !names.contains(&feature.feature.as_str()) {
            names.push(&feature.feature);
        }
    }
    names
}

fn find<'a>(column: &'a Column, name: &str) -> Option<&'a Feature> {
    column.features.iter().find(|feature| feature.feature == name)
}

/// Each reason once, with the kernels it holds for.
fn reasons(columns: &[Column]) -> Vec<String> {
    let mut lines = Vec::new();
    for name in names(columns) {
        let mut known: Vec<(State, &str, Vec<String>)> = Vec::new();
        for column in columns {
            let Some(feature) = find(column, name).filter(|feature| feature.state != State::Works) else {
                continue;
            };
            match known
                .iter_mut()
                .find(|known| (known.0, known.1) == (feature.state, feature.reason.as_str()))
            {
                Some(known) => known.2.push(head(column.guest)),
                None => known.push((feature.state, &feature.reason, vec![head(column.guest)])),
            }
        }
        lines.extend(known.into_iter().map(|(state, reason, heads)| {
            let mut line = format!("- **{name}** {} on {}", word(state), heads.join(", "));
            // Writing into a String can't fail.
            let _ = if reason.is_empty() { write!(line, ".") } else { write!(line, ": {reason}") };
            line
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::guest::MATRIX;
    use super::*;

    fn column(index: usize, release: &str, features: &[(&str, State, &str)]) -> Column {
        let feature = |(name, state, reason): &(&str, State, &str)| Feature {
            feature: (*name).into(),
            state: *state,
            reason: (*reason).into(),
        };
        Column {
            guest: MATRIX[index],
            release: release.into(),
            features: features.iter().map(feature).collect(),
        }
    }

    #[test]
    fn cells_and_reasons() {
        let old = "mark_victim has no task before Linux 6.9";
        let columns = [
            column(1, "6.1.0-50", &[("cpu", State::Works, ""), ("oom", State::Off, old)]),
            column(
                2,
                "6.1.0-50",
                &[("cpu", State::Works, ""), ("oom", State::Off, old), ("network", State::Off, "no v2 tree")],
            ),
            column(4, "7.2.13", &[("cpu", State::Works, ""), ("oom", State::FallsBack, "")]),
        ];
        let page = page(&columns, "2026-01-31", "QEMU 10.0.2");
        for expected in [
            "on 2026-01-31; do not edit.\nThe machines: QEMU 10.0.2.\n",
            "| feature | 6.1 v2 | 6.1 v1 | 7 v2 |\n|---|---|---|---|\n| cpu | works | works | works |\n",
            "| oom | off | off | falls back |\n| network | not reported | off | not reported |\n\n## Why\n\n",
            "- **oom** off on 6.1 v2, 6.1 v1: mark_victim has no task before Linux 6.9\n- **oom** falls back on 7 v2.\n",
            "- **network** off on 6.1 v1: no v2 tree\n\n## The kernels\n",
            "| 7 v2 | 7.2.13 | one v2 tree with every controller |\n",
        ] {
            assert!(page.contains(expected), "{expected}\nin\n{page}");
        }
    }

    #[test]
    fn without_reasons_there_is_no_chapter_of_them() {
        let page = page(&[column(1, "6.1", &[("cpu", State::Works, "")])], "2026-01-31", "10");
        assert!(!page.contains("## Why"), "{page}");
    }
}
