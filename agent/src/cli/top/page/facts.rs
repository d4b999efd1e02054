//! What the kernel says of a cgroup: what it waits for, its pressure, limits and use. Pure.

use nodewarden_proto::nodewarden::v1::Cgroup;

use super::super::columns::Column;
use super::super::history::Figure;
use super::super::rates::Row;
use crate::cli::format::{bytes, nanos};

/// Keys and values; what is not known at all is left out.
pub fn facts(row: &Row, cgroup: &Cgroup) -> Vec<(&'static str, String)> {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.1}%", share * 100.0));
    let some = |pressure: Option<f64>| pressure.map(|share| format!("{share:.2}%"));
    let known = |parts: Vec<(&str, Option<String>)>| {
        let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let shares = |weight: Option<u64>| weight.map(|weight| weight.to_string());
    let of = |now: Option<u64>, most: Option<u64>| match (now, most) {
        (Some(now), Some(most)) => Some(format!("{now} of {most}")),
        (now, _) => shares(now),
    };
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{}/s", bytes(rate as u64)));
    let kills = row.oom_kills.map(|kills| if kills == 0 { "none".to_owned() } else { kills.to_string() });
    let mut facts = vec![
        (
            "Waits",
            known(vec![
                ("for a CPU", percent(row.wait)),
                ("p99", row.wait_p99_ns.map(nanos)),
                ("throttled in", row.throttled.map(|share| format!("{:.0}% of periods", share * 100.0))),
                ("reclaim", percent(row.reclaim)),
            ]),
        ),
        (
            // The share of the last ten seconds in which some task waited.
            "PSI 10s",
            known(vec![
                ("cpu", some(cgroup.cpu_pressure_some_avg10)),
                ("memory", some(cgroup.memory_pressure_some_avg10)),
                ("io", some(cgroup.io_pressure_some_avg10)),
            ]),
        ),
        (
            "CPU limit",
            known(vec![
                (
                    "cores",
                    Some(row.cpu_limit.map_or_else(|| "unlimited".to_owned(), |cores| format!("{cores:.2}"))),
                ),
                ("shares", shares(cgroup.cpu_shares)),
                ("weight", shares(cgroup.cpu_weight)),
            ]),
        ),
        (
            "Memory",
            known(vec![
                ("limit", Some(row.memory_limit.map_or_else(|| "unlimited".to_owned(), bytes))),
                ("anonymous", cgroup.memory_rss_bytes.map(bytes)),
                ("cache", cgroup.memory_cache_bytes.map(bytes)),
                ("swap", cgroup.memory_swap_bytes.map(bytes)),
                ("OOM kills", kills),
            ]),
        ),
        ("Threads", of(row.threads, cgroup.threads_max).unwrap_or_default()),
        ("Disk", known(vec![("read", rate(row.read)), ("write", rate(row.write))])),
        ("Network", known(vec![("received", rate(row.rx)), ("sent", rate(row.tx))])),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// The title of a chart: the figure now, what it may be, and its peak in the history.
pub fn chart(row: &Row, figure: Figure, values: &[Option<f64>]) -> String {
    let peak = values.iter().flatten().copied().reduce(f64::max);
    let (name, column, limit, peak) = match figure {
        Figure::Cpu => {
            let cores = |cores: f64| format!("{cores:.2}");
            ("CPU", Column::Cpu, row.cpu_limit.map(cores), peak.map(cores))
        }
        Figure::Memory => ("MEM", Column::Memory, row.memory_limit.map(bytes), peak.map(|n| bytes(n as u64))),
        Figure::Wait => ("WAIT", Column::Wait, None, peak.map(|share| format!("{:.0}%", share * 100.0))),
    };
    let limit = limit.map(|limit| format!("/{limit}")).unwrap_or_default();
    let peak = peak.map(|peak| format!(" peak {peak}")).unwrap_or_default();
    format!("{name} {}{limit}{peak}", column.cell(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_left_out() {
        let lines = |row: &Row, cgroup: &Cgroup| {
            let facts = facts(row, cgroup);
            facts.into_iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&Row::default(), &Cgroup::default()),
            ["CPU limit: cores unlimited", "Memory: limit unlimited"]
        );
        let row = Row {
            cpu_limit: Some(0.5),
            wait: Some(0.127),
            wait_p99_ns: Some(1 << 20),
            throttled: Some(0.25),
            memory_limit: Some(128 << 20),
            rx: Some(2048.0),
            threads: Some(3),
            oom_kills: Some(0),
            ..Row::default()
        };
        let cgroup = Cgroup {
            cpu_weight: Some(79),
            threads_max: Some(100),
            memory_pressure_some_avg10: Some(1.5),
            memory_cache_bytes: Some(4 << 20),
            ..Cgroup::default()
        };
        assert_eq!(
            lines(&row, &cgroup),
            [
                "Waits: for a CPU 12.7%, p99 1.0ms, throttled in 25% of periods",
                "PSI 10s: memory 1.50%",
                "CPU limit: cores 0.50, weight 79",
                "Memory: limit 128Mi, cache 4.00Mi, OOM kills none",
                "Threads: 3 of 100",
                "Network: received 2.00Ki/s",
            ]
        );
    }

    #[test]
    fn titles_of_charts() {
        let row = Row { cpu: Some(0.63), cpu_limit: Some(2.0), memory: Some(64 << 20), ..Row::default() };
        let values = [Some(1.0), None, Some(2.5), Some(0.63)];
        for (figure, values, expected) in [
            (Figure::Cpu, &values[..], "CPU 0.63/2.00 peak 2.50"),
            (Figure::Memory, &[Some(1024.0)], "MEM 64.0Mi peak 1.00Ki"),
            (Figure::Wait, &values, "WAIT - peak 250%"),
            (Figure::Wait, &[None], "WAIT -"),
        ] {
            assert_eq!(chart(&row, figure, values), expected);
        }
    }
}
