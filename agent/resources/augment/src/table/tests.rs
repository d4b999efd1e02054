use strum::IntoEnumIterator;

use super::*;

#[test]
fn the_two_lists_never_meet() {
    for (level, file) in OWN {
        assert_eq!(permit(*level, file), Ok(()), "{level:?} {file}");
    }
    let some = |file: &str| file.replace('*', "x");
    for foreign in FOREIGN {
        assert_eq!(
            permit(foreign.level, &some(foreign.file)),
            Err(Refusal::Foreign(foreign.writer)),
            "{foreign:?}"
        );
    }
}

#[test]
fn nothing_of_a_level_is_written_and_nothing_that_is_not_known() {
    for file in ["cpu.idle", "memory.high", "memory.min", "cpu.max.burst"] {
        assert_eq!(permit(Level::Qos, file), Err(Refusal::Foreign(Writer::Kubelet)), "{file}");
    }
    for level in Level::iter().filter(|level| *level != Level::Qos) {
        assert_eq!(permit(level, "tasks"), Err(Refusal::Unknown), "{level:?}");
    }
    assert_eq!(
        permit(Level::Container, "memory.high"),
        Err(Refusal::Foreign(Writer::Runtime)),
        "MemoryQoS writes it"
    );
    assert_eq!(permit(Level::Container, "cpu.idle"), Err(Refusal::Foreign(Writer::Runtime)));
}

mod golden {
    use nodewarden_testing::golden::{are_our_own, load};
    use serde_json::Value;

    use super::*;

    const RECORDINGS: [&str; 4] =
        ["kubelet-v1.json", "kubelet-v2-cgroupfs.json", "kubelet-v2-systemd.json", "kubelet-v2-memqos.json"];

    /// What the kernel gives a new cgroup.
    fn default(file: &str) -> &'static [&'static str] {
        match file {
            "cpu.cfs_burst_us" | "cpu.idle" | "cpu.max.burst" | "memory.low" | "memory.min"
            | "memory.oom.group" => &["0"],
            "cpu.shares" => &["1024"],
            "cpu.weight" => &["100"],
            "cpu.cfs_quota_us" => &["-1"],
            "cpu.cfs_period_us" => &["100000"],
            "cpu.max" => &["max 100000"],
            "memory.limit_in_bytes" | "memory.memsw.limit_in_bytes" => &["9223372036854771712"],
            _ => &["max", ""],
        }
    }

    /// The recorded files of each pod and each of its containers.
    fn recorded(golden: &Value) -> Vec<(Level, String, String)> {
        let batches = golden["batches"].as_object().expect("batches").values();
        let mut all = Vec::new();
        let mut add = |level, files: &Value| {
            let files = files.as_object().into_iter().flatten();
            for (file, value) in
                files.filter(|(file, _)| file.contains('.') && *file != "cgroup.subtree_control")
            {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                all.push((level, file.clone(), text));
            }
        };
        for pod in batches.flat_map(|batch| batch["pods"].as_object().expect("pods").values()) {
            add(Level::Pod, &pod["pod"]);
            let containers = &pod["containers"];
            let list: Vec<&Value> = match containers {
                Value::Object(all) => all.values().collect(),
                Value::Array(all) => all.iter().collect(),
                _ => Vec::new(),
            };
            list.into_iter().for_each(|container| add(Level::Container, container));
        }
        all
    }

    /// What a real kubelet and its runtime made of each file: what has another value than a new cgroup is
    /// theirs, and what is ours they left as it was.
    #[test]
    fn every_file_that_a_real_kubelet_sets_is_refused() {
        for name in RECORDINGS {
            let Some(golden) = load(name) else { return };
            let recorded = recorded(&golden);
            assert!(!are_our_own() || recorded.len() > 50, "{name}: {}", recorded.len());
            for (level, file, value) in recorded {
                let is_set = !default(&file).contains(&&*value);
                if is_set {
                    let refused = permit(level, &file);
                    assert!(
                        matches!(refused, Err(Refusal::Foreign(_))),
                        "{name}: {level:?} {file} is {value}: {refused:?}"
                    );
                }
                assert!(!is_set || !OWN.contains(&(level, &file)), "{name}: {level:?} {file} is {value}");
            }
        }
    }
}
