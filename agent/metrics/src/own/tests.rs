use super::*;
use crate::exposition::to_vec;
use crate::{fixture, parsed};
use nodewarden_model::{Topic, WAIT_BUCKETS};

fn text() -> String {
    String::from_utf8(to_vec(|e| fixture::write_own(e, 2))).unwrap()
}

#[test]
fn every_family_is_written_with_its_type_and_labels() {
    let shown = parsed::families(text().as_bytes());
    let own = Own::ALL.iter().filter(|f| !Own::FACADE.contains(f)).map(|f| f.desc());
    let topics = Topic::ALL.into_iter().flat_map(|topic| topic.spec().families).map(|f| &f.desc);
    let expected: Vec<_> = own.chain(topics).collect();
    assert_eq!(shown.len(), expected.len());
    for desc in expected {
        let found = shown.get(desc.name).unwrap_or_else(|| panic!("{} is not shown", desc.name));
        assert_eq!(found.kind, desc.kind.name(), "{}", desc.name);
        assert!(desc.labels.is_sorted(), "label keys of {} are in order", desc.name);
        assert!(found.label_sets.contains(&desc.labels.join(",")), "{}: {:?}", desc.name, found.label_sets);
    }
}

#[test]
fn a_topic_that_never_counted_is_left_out_except_oom() {
    let shown = text();
    let of_levels: Vec<&str> = shown.lines().filter(|l| l.contains(r#"id="/kubepods""#)).collect();
    assert_eq!(
        of_levels,
        [r#"nodewarden_cgroup_oom_kills_total{container="",id="/kubepods",namespace="",pod=""} 0"#]
    );
    assert!(!shown.contains(r#"operation="write""#), "an empty histogram");
}

#[test]
fn a_histogram_has_all_its_buckets() {
    let shown = text();
    let id = fixture::container_id(1);
    let lines = |start: &str| {
        shown.lines().filter(|l| l.starts_with(start) && l.contains(&format!("{id}\""))).count()
    };
    assert_eq!(lines("nodewarden_cgroup_cpu_wait_seconds_bucket{"), WAIT_BUCKETS);
    assert_eq!(lines("nodewarden_cgroup_cpu_wait_seconds_sum{"), 1);
    assert_eq!(lines("nodewarden_cgroup_cpu_wait_seconds_count{"), 1);
    assert_eq!(lines("nodewarden_cgroup_block_latency_seconds_bucket{"), WAIT_BUCKETS);
}

#[test]
fn topics_have_one_state_and_no_reason() {
    let shown = text();
    for (state, want) in [("on", 1), ("partial", 0), ("off", 0)] {
        assert!(
            shown.contains(&format!("nodewarden_topic_state{{topic=\"cpu\",state=\"{state}\"}} {want}\n"))
        );
    }
    assert!(!shown.contains("EPERM"));
}

#[test]
fn times_are_in_seconds() {
    let shown = text();
    assert!(shown.contains(
        "nodewarden_program_run_seconds_total{program=\"on_switch\",hook=\"tp_btf/sched_switch\"} 0.00009\n"
    ));
    assert!(shown.contains("kind=\"memcg\"} 0.0015\n"));
    assert!(shown.contains("process_cpu_seconds_total 1.25\n"));
}

#[test]
fn pods_and_containers_are_written() {
    let shown = text();
    let labels = r#"container="web",namespace="shop",pod="cart-5d9c",uid="8c5e""#;
    for line in [
        r#"nodewarden_pods{phase="Running"} 1"#,
        r#"nodewarden_pods{phase="Failed"} 0"#,
        "kubelet_running_pods 1",
        r#"kubelet_running_containers{container_state="running"} 1"#,
        r#"kubelet_running_containers{container_state="exited"} 1"#,
        &format!("nodewarden_container_restarts_total{{{labels}}} 2"),
        // The newest victim: the one of the present run.
        &format!("nodewarden_container_oom_kill_timestamp_seconds{{{labels}}} 1700000070"),
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} in {shown}");
    }
}

#[test]
fn exclusive_cpus_are_written_by_user() {
    let shown = text();
    for line in [
        r#"nodewarden_exclusive_cpu_owner{cpu="2",container="web",uid="8c5e"} 1"#,
        r#"nodewarden_exclusive_cpu_seconds_total{cpu="2",by="owner"} 9"#,
        r#"nodewarden_exclusive_cpu_seconds_total{cpu="2",by="other"} 0.25"#,
        r#"nodewarden_exclusive_cpu_switches_total{cpu="2",by="kernel_thread"} 2"#,
        r#"nodewarden_exclusive_cpu_longest_seconds{cpu="2",by="other"} 0.002"#,
        r#"nodewarden_exclusive_cpu_longest_seconds{cpu="2",by="interrupt"} 0"#,
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} in {shown}");
    }
    assert!(!shown.contains(r#"nodewarden_exclusive_cpu_longest_seconds{cpu="2",by="owner"}"#));
    let mut unknown = ExclusiveCpusView::example();
    unknown.cpus[0].used = None;
    unknown.cpus[0].longest.clear();
    let shown = String::from_utf8(to_vec(|e| exclusive_cpus::write(e, &unknown))).unwrap();
    assert_eq!(shown.lines().filter(|line| !line.starts_with('#')).count(), 1, "{shown}");
}

#[test]
fn images_are_counted_by_what_keeps_them() {
    let shown = text();
    for line in [
        r#"nodewarden_images{state="removable"} 2"#,
        r#"nodewarden_images{state="container"} 1"#,
        r#"nodewarden_images{state="pinned"} 0"#,
        &format!(r#"nodewarden_image_bytes{{state="removable"}} {}"#, 200u64 << 20),
        &format!("nodewarden_image_filesystem_available_bytes {}", 2u64 << 30),
        &format!("nodewarden_gc_wanted_bytes {}", 2u64 << 30),
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} in {shown}");
    }
}

#[test]
fn unknown_images_are_left_out_instead_of_zero() {
    let view = ImagesView { problem: "the runtime is away".into(), ..ImagesView::default() };
    assert_eq!(String::from_utf8(to_vec(|e| images::write(e, &view))).unwrap(), "");
    let none = String::from_utf8(to_vec(|e| images::write(e, &ImagesView::default()))).unwrap();
    assert!(none.contains("nodewarden_images{state=\"container\"} 0\n"), "{none}");
}

#[test]
fn conditions_and_signals_are_written_once_each() {
    let shown = text();
    for line in [
        r#"nodewarden_node_condition{condition="DiskPressure"} 1"#,
        r#"nodewarden_node_condition{condition="MemoryPressure"} 0"#,
        &format!(r#"nodewarden_eviction_signal_available{{signal="memory.available"}} {}"#, 21u64 << 30),
        r#"nodewarden_eviction_signal_capacity{signal="nodefs.inodesFree"} 1000000"#,
        &format!(
            r#"nodewarden_eviction_signal_threshold{{kind="hard",signal="memory.available"}} {}"#,
            100 << 20
        ),
        &format!(
            r#"nodewarden_eviction_signal_threshold{{kind="soft",signal="memory.available"}} {}"#,
            1 << 30
        ),
        r#"nodewarden_admission_waiting_pods{reason="OutOfcpu"} 1"#,
    ] {
        assert_eq!(shown.lines().filter(|own| *own == line).count(), 1, "{line} in {shown}");
    }
    let of_memory = |line: &&str| line.starts_with("nodewarden_eviction_signal_available{signal=\"memory");
    assert_eq!(shown.lines().filter(of_memory).count(), 1);
}
