//! Limits against recorded cgroups and the kubelet's own figures.

use serde_json::Value;

use super::*;
use crate::cgroup::control::files::write::weight;
use nodewarden_testing::golden::load;

/// A recorded value in the format of its file.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Every cgroup that a real kubelet and runc created is read, and written again has the same content.
#[test]
fn recorded_cgroups_are_read_and_written_again() {
    for (file, interface) in
        [("kubelet-v1.json", v1()), ("kubelet-v2-cgroupfs.json", v2()), ("kubelet-v2-memqos.json", v2())]
    {
        let Some(recording) = load(file) else { return };
        let mut groups = 0;
        visit(&recording["batches"], &mut |group| {
            groups += 1;
            // Every recorded limit is read, and no other.
            let limits = interface.read::<NoValue>(|_, name| Ok(group.get(name).map(text))).unwrap();
            assert_eq!(interface.settled(&limits), limits);
            for write in interface.writes(&limits, &limits) {
                let name = &write.file;
                let recorded = match group.get(name) {
                    Some(recorded) => text(recorded),
                    None => {
                        assert!(name.contains(".rsvd."), "{name} is not recorded");
                        continue;
                    }
                };
                let same = write.text.trim() == recorded
                    || (write.text == "-1" && recorded.starts_with("92233720368547"));
                assert!(same, "{name}: {:?}, not {recorded}", write.text);
            }
        });
        assert!(groups > 0, "{file} has no cgroup");
    }
}

fn visit(value: &Value, see: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) if map.contains_key("cpu.shares") || map.contains_key("cpu.weight") => {
            see(map);
        }
        Value::Object(map) => map.values().for_each(|v| visit(v, see)),
        Value::Array(list) => list.iter().for_each(|v| visit(v, see)),
        _ => {}
    }
}

/// The same pods' shares on v1 and weights on v2.
#[test]
fn weights_are_the_kubelets() {
    let (Some(v1), Some(v2)) = (load("kubelet-v1.json"), load("kubelet-v2-cgroupfs.json")) else {
        return;
    };
    let mut compared = 0;
    let batches = v1["batches"].as_object().expect("batches");
    for (batch, pods) in batches.iter().map(|(name, b)| (name, b["pods"].as_object().expect("pods"))) {
        for (pod, recorded) in pods {
            let number = |v: &Value| v.as_u64();
            let on_v2 = &v2["batches"][batch]["pods"][pod]["pod"]["cpu.weight"];
            let (Some(shares), Some(expected)) = (number(&recorded["pod"]["cpu.shares"]), number(on_v2))
            else {
                continue;
            };
            assert_eq!(weight(CpuShare::Shares(shares)), expected, "{pod}");
            compared += 1;
        }
    }
    assert!(compared > 0, "no pod is in both recordings with its shares and its weight");
}
