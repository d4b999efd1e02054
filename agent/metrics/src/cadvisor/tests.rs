use proptest::prelude::*;

use super::*;
use crate::exposition::to_vec;
use crate::{fixture, parsed};
use nodewarden_model::{Identity, MemoryUsage, Usage};

fn text(snapshot: &Snapshot) -> String {
    String::from_utf8(to_vec(|e| write(e, snapshot))).unwrap()
}

/// Value and time of the only sample of `family` whose path is `id` and that contains `also`.
fn sample(text: &str, family: &str, id: &str, also: &str) -> Option<String> {
    let (start, id) = (format!("{family}{{"), format!("id=\"{id}\""));
    let mut found = text.lines().filter(|l| l.starts_with(&start) && l.contains(&id) && l.contains(also));
    let line = found.next()?;
    assert!(found.next().is_none(), "two samples of {family} {id} {also}");
    Some(line.rsplit_once("} ").unwrap().1.to_owned())
}

fn app(snapshot: &mut Snapshot) -> &mut nodewarden_model::GroupView {
    let id = fixture::container_id(0);
    snapshot.groups.iter_mut().find(|g| g.path.ends_with(&id)).unwrap()
}

#[test]
fn the_pieces_of_a_document_are_the_whole() {
    let snapshot = fixture::snapshot(3);
    let (mut document, mut all, mut pieces) = (Document::new(Arc::new(snapshot.clone())), Vec::new(), 0);
    loop {
        let before = all.len();
        if !document.write_next(&mut all) {
            break;
        }
        assert!(all.len() == before || all.ends_with(b"\n"), "a piece ends with a line");
        pieces += 1;
    }
    assert!(pieces > 10, "{pieces}");
    assert_eq!(String::from_utf8(all).unwrap(), text(&snapshot));
}

#[test]
fn samples_have_the_expected_values_units_and_times() {
    let mut snapshot = fixture::snapshot(1);
    let path = app(&mut snapshot).path.to_string();
    let shown = text(&snapshot);
    let ms = fixture::READ_MILLIS;
    let cases = [
        ("container_cpu_usage_seconds_total", r#"cpu="total""#, format!("0.021473214 {ms}")),
        ("container_cpu_user_seconds_total", "", format!("0.007157738 {ms}")),
        ("container_cpu_cfs_throttled_seconds_total", "", format!("0.35 {ms}")),
        ("container_memory_working_set_bytes", "", format!("212992 {ms}")),
        ("container_pressure_memory_waiting_seconds_total", "", format!("2.05 {ms}")),
        ("container_pressure_memory_stalled_seconds_total", "", format!("0.05 {ms}")),
        ("container_threads_max", "", format!("0 {ms}")),
        ("container_oom_events_total", "", format!("1 {ms}")),
        ("container_spec_cpu_shares", "", "2046".to_owned()),
        ("container_spec_cpu_quota", "", "50000".to_owned()),
        ("container_spec_memory_limit_bytes", "", "20971520".to_owned()),
        ("container_spec_memory_reservation_limit_bytes", "", "0".to_owned()),
        ("container_start_time_seconds", "", "1700000100".to_owned()),
        ("container_last_seen", "", format!("1700000500 {ms}")),
        ("container_fs_reads_total", r#"device="/dev/vda""#, format!("1 {ms}")),
        ("container_fs_writes_bytes_total", r#"device="7:1""#, format!("2 {ms}")),
        (
            "container_blkio_device_usage_total",
            r#"device="",major="7",minor="1",operation="Write""#,
            format!("2 {ms}"),
        ),
    ];
    for (family, also, want) in cases {
        assert_eq!(sample(&shown, family, &path, also).as_deref(), Some(&*want), "{family}");
    }
}

#[test]
fn the_root_has_the_machines_limits_and_totals() {
    let shown = text(&fixture::snapshot(1));
    let ms = fixture::READ_MILLIS;
    let cases = [
        ("container_cpu_usage_seconds_total", format!("4288.423535628 {ms}")),
        ("container_spec_memory_limit_bytes", "25000000000".to_owned()),
        ("container_spec_memory_swap_limit_bytes", "1000000".to_owned()),
    ];
    for (family, want) in cases {
        assert_eq!(sample(&shown, family, "/", "").as_deref(), Some(&*want), "{family}");
    }
    assert!(shown.contains("machine_cpu_cores{boot_id=\"b\",machine_id=\"m\",system_uuid=\"s\"} 2\n"));
    assert!(shown.contains(r#"osVersion="Debian \"12\"\\bookworm""#));
}

#[test]
fn unknown_values_are_left_out() {
    let mut snapshot = fixture::snapshot(1);
    let group = app(&mut snapshot);
    let path = group.path.to_string();
    group.kernel = Default::default();
    group.usage = Usage { memory: Some(MemoryUsage::default()), ..Usage::default() };
    let shown = text(&snapshot);
    let about: Vec<&str> = shown
        .lines()
        .filter(|l| l.contains(&format!("id=\"{path}\"")))
        .map(|l| l.split('{').next().unwrap())
        .collect();
    assert_eq!(
        about,
        [
            "container_memory_usage_bytes",
            "container_memory_working_set_bytes",
            "container_spec_memory_limit_bytes",
            "container_spec_memory_reservation_limit_bytes",
            "container_start_time_seconds",
            "container_last_seen",
        ]
    );
}

#[test]
fn cfs_families_are_left_out_without_a_quota() {
    let mut snapshot = fixture::snapshot(1);
    let group = app(&mut snapshot);
    let path = group.path.to_string();
    group.usage.cpu.as_mut().unwrap().quota_us = None;
    let shown = text(&snapshot);
    for family in [
        "container_cpu_cfs_periods_total",
        "container_cpu_cfs_throttled_seconds_total",
        "container_spec_cpu_quota",
    ] {
        assert_eq!(sample(&shown, family, &path, ""), None, "{family}");
    }
    assert!(sample(&shown, "container_spec_cpu_period", &path, "").is_some());
}

#[test]
fn scope_container_is_the_count_without_children() {
    let mut snapshot = fixture::snapshot(1);
    let path = app(&mut snapshot).path.to_string();
    let fault = |shown: &str, id: &str, scope: &str| {
        let also = format!(r#"failure_type="pgfault",scope="{scope}""#);
        sample(shown, "container_memory_failures_total", id, &also)
            .map(|v| v.split(' ').next().unwrap().to_owned())
    };
    let shown = text(&snapshot);
    assert_eq!(fault(&shown, &path, "hierarchy").as_deref(), Some("796"));
    assert_eq!(
        fault(&shown, &path, "container"),
        None,
        "it has a child, and v2 has no count without descendants"
    );
    assert_eq!(fault(&shown, &format!("{path}/inner"), "container").as_deref(), Some("796"), "a leaf");
    app(&mut snapshot).usage.memory.as_mut().unwrap().own_page_faults = Some(5);
    assert_eq!(fault(&text(&snapshot), &path, "container").as_deref(), Some("5"), "v1 has it");
}

#[test]
fn oom_events_come_from_the_programs_else_from_the_file() {
    let mut snapshot = fixture::snapshot(1);
    let path = app(&mut snapshot).path.to_string();
    for (kernel, file, want) in [
        (Some(4), Some(9), Some("4")),
        (None, Some(9), Some("9")),
        (Some(0), None, Some("0")),
        (None, None, None),
    ] {
        let group = app(&mut snapshot);
        group.kernel.oom_kills = kernel;
        group.usage.memory.as_mut().unwrap().events.oom_kill = file;
        let found = sample(&text(&snapshot), "container_oom_events_total", &path, "");
        assert_eq!(found.as_deref().map(|v| v.split(' ').next().unwrap()), want);
    }
}

#[test]
fn a_removed_cgroup_keeps_only_its_counters_and_times() {
    let mut snapshot = fixture::snapshot(1);
    let removed = snapshot.time - std::time::Duration::from_secs(100);
    let group = app(&mut snapshot);
    let path = group.path.to_string();
    group.removed = Some(removed);
    let shown = text(&snapshot);
    let kinds = parsed::families(shown.as_bytes());
    for family in shown.lines().filter(|l| l.contains(&format!("id=\"{path}\""))) {
        let name = family.split('{').next().unwrap();
        let stays = ["container_start_time_seconds", "container_last_seen"].contains(&name);
        assert!(stays || kinds[name].kind == "counter", "{name}");
    }
    assert!(sample(&shown, "container_cpu_usage_seconds_total", &path, "").is_some());
    let seen = sample(&shown, "container_last_seen", &path, "").unwrap();
    assert!(seen.starts_with("1700000400 "), "{seen}");
}

#[test]
fn weights_are_converted_to_shares_as_in_cadvisor() {
    for (weight, want) in [
        (0, None),
        (1, Some(2)),
        (79, Some(2046)),
        (100, Some(2597)),
        (10_000, Some(262_144)),
        (10_001, None),
    ] {
        assert_eq!(columns::shares_of_weight(weight), want, "{weight}");
    }
}

proptest! {
    /// The document can be parsed whatever characters a path contains.
    #[test]
    fn any_path_gives_a_well_formed_document(path in "/[^\0]{0,40}") {
        let mut snapshot = fixture::snapshot(1);
        snapshot.groups.push(fixture::group(&path, Identity::Other));
        parsed::families(&to_vec(|e| write(e, &snapshot)));
    }
}
