//! Real cgroups.

use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_manifest::QosClass;
use serde_json::json;

use super::super::SeenContainer;
use super::*;

fn pod(cpu: &str) -> Arc<Pod> {
    let web = json!({"name": "web", "image": "i", "resources": {"limits": {"cpu": cpu}}});
    let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"containers": [web]}});
    Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap())
}

fn seen(tree: &TestTree, pod: &Arc<Pod>, age: Duration) -> SeenPod {
    let container = SeenContainer { name: "web".into(), id: "c".into(), cgroup: tree.group("pod/web"), age };
    let containers = vec![container];
    SeenPod { pod: pod.clone(), qos: QosClass::Burstable, cgroup: tree.group("pod"), age, containers }
}

#[test]
fn every_reading_is_as_one_of_all_files() {
    let Some(tree) = TestTree::make("limits") else { return };
    let version = |controller| tree.layout.hierarchy(controller).map(|own| own.version);
    let (Some(memory), Some(cpu)) = (version(Controller::Memory), version(Controller::Cpu)) else {
        return nodewarden_testing::skip("there is no controller of memory or CPU time");
    };
    let memory_file = if memory == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" };
    let quota = |micros: u64| match cpu {
        Version::V1 => micros.to_string(),
        Version::V2 => format!("{micros} 100000"),
    };
    let (old, new) = (pod("500m"), pod("700m"));
    let mut files = LimitFiles::default();
    let mut check = |pod: &Arc<Pod>, age: u64| {
        let pods = [seen(&tree, pod, Duration::from_secs(age))];
        let found = files.read(&tree.layout, &pods);
        assert_eq!(found, LimitFiles::default().read(&tree.layout, &pods));
        let of = |container: &str, of_memory: bool| {
            let is_it =
                |own: &&Limit| own.container == container && own.file.starts_with("memory.") == of_memory;
            found.iter().find(is_it).unwrap().clone()
        };
        (of("", true), of("web", true), of("web", false))
    };
    let (of_pod, of_web, quota_of_web) = check(&old, 1);
    assert_eq!((of_pod.value, of_web.value, quota_of_web.value), (None, None, None));
    assert!(of_pod.is_new && of_web.is_new);
    assert_eq!(quota_of_web.by_spec, Some(Some(50_000)));
    tree.write(Controller::Memory, "pod", memory_file, "67108864");
    tree.write(Controller::Cpu, "pod/web", quota_file(cpu), &quota(50_000));
    let (of_pod, of_web, quota_of_web) = check(&old, 11);
    assert_eq!((of_pod.value, of_web.value, quota_of_web.value), (Some(64 << 20), None, Some(50_000)));
    assert!(!of_pod.is_new && !of_web.is_new);
    assert_eq!(check(&old, 12).2.spec, quota_of_web.spec);
    let resized = check(&new, 13).2;
    assert_eq!((resized.value, resized.by_spec), (Some(50_000), Some(Some(70_000))));
    assert_ne!(resized.spec, quota_of_web.spec);
    tree.write(Controller::Cpu, "pod/web", quota_file(cpu), &quota(70_000));
    assert_eq!(check(&new, 14).2.value, Some(70_000));
}

#[test]
fn what_has_gone_has_no_limits() {
    let Some(tree) = TestTree::make("no-limits") else { return };
    let mut files = LimitFiles::default();
    let pods = [seen(&tree, &pod("1"), Duration::ZERO)];
    assert!(!files.has(&pods));
    let with_container = files.read(&tree.layout, &pods).len();
    assert!(files.has(&pods) && files.has(&[]));
    tree.remove("pod/web");
    assert_eq!(files.read(&tree.layout, &pods).len(), with_container / 2);
    assert_eq!(files.read(&tree.layout, &[]), []);
    assert!(files.0.is_empty() && !files.has(&pods));
}
