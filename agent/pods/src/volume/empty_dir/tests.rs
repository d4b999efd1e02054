use super::*;
use crate::spec::fixture::{Fixture, pod};

const MIB: u64 = 1 << 20;

fn wanted(spec: &str) -> Result<Wanted, VolumeError> {
    let fixture = Fixture::new();
    let pod = pod(spec);
    let spec = pod.spec();
    let volume = &spec.volumes.as_ref().unwrap()[0];
    Wanted::of(volume.empty_dir.as_ref(), &pod, fixture.node())
}

#[test]
fn the_medium_is_parsed() {
    assert_eq!(Medium::parse(""), Some(Medium::Disk));
    assert_eq!(Medium::parse("Memory"), Some(Medium::Memory));
    assert_eq!(Medium::parse("HugePages"), Some(Medium::HugePages(None)));
    assert_eq!(Medium::parse("HugePages-2Mi"), Some(Medium::HugePages(Some(2 * MIB))));
    for bad in ["memory", "Disk", "HugePages-", "HugePages-x"] {
        assert_eq!(Medium::parse(bad), None, "{bad}");
    }
}

/// The node has 8 GiB allocatable.
#[test]
fn the_size_is_the_minimum_of_three() {
    let size = |limit: &str, container: &str| {
        let spec = format!(
            "volumes: [{{name: v, emptyDir: {{medium: Memory, {limit}}}}}]\ncontainers: [{{name: c, {container}}}]"
        );
        match wanted(&spec).unwrap().backing {
            Backing::Memory { size } => size / MIB,
            other => panic!("{other:?}"),
        }
    };
    let limited = "resources: {limits: {memory: 512Mi}}";
    assert_eq!(size("", ""), 8192);
    assert_eq!(size("", limited), 512);
    assert_eq!(size("sizeLimit: 64Mi", ""), 64);
    assert_eq!(size("sizeLimit: 64Mi", limited), 64);
    assert_eq!(size("sizeLimit: 1Gi", limited), 512);
    assert_eq!(size("sizeLimit: 100Gi", ""), 8192);
    assert_eq!(size("sizeLimit: 0", limited), 512);
}

#[test]
fn all_huge_pages_must_have_the_same_size() {
    let spec = |limits: &str| {
        format!(
            "volumes: [{{name: v, emptyDir: {{medium: HugePages}}}}]\ncontainers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]"
        )
    };
    let page = |limits: &str| wanted(&spec(limits)).map(|wanted| wanted.backing);
    assert_eq!(page("hugepages-2Mi: 4Mi").unwrap(), Backing::HugePages { page: 2 * MIB });
    assert!(matches!(page("hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi"), Err(VolumeError::PageSize)));
    assert!(matches!(page("cpu: 1"), Err(VolumeError::PageSize)));
    let own = "volumes: [{name: v, emptyDir: {medium: HugePages-1Gi}}]\ncontainers: [{name: c}]";
    assert_eq!(wanted(own).unwrap().backing, Backing::HugePages { page: 1024 * MIB });
}
