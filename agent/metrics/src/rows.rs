//! The cgroups of a snapshot prepared for writing: names resolved, duplicates removed, labels rendered once.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::{push_label, push_stamp};
use nodewarden_model::{
    ContainerNames, CpuUsage, GroupView, Identity, IoUsage, MemoryUsage, PodNames, Pressures, ProcessUsage,
    Snapshot, Usage,
};

/// Which labels a sample of a cgroup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `container, id, image, name, namespace, pod`, as the kubelet's `containerPrometheusLabelsFunc` fills
    /// them.
    Cadvisor,
    /// `container, id, namespace, pod`, filled for everything from the pod down, nested cgroups included.
    Own,
}

/// One cgroup with the parts that all its samples share.
pub(super) struct Row<'a> {
    /// The cgroup.
    pub group: &'a GroupView,
    /// At the root the machine's if the cgroup has none; the same for the fields below.
    pub cpu: Option<&'a CpuUsage>,
    pub memory: Option<&'a MemoryUsage>,
    pub processes: Option<&'a ProcessUsage>,
    pub io: &'a [IoUsage],
    pub pressures: &'a Pressures,
    /// Whether the snapshot has no cgroup below it.
    pub leaf: bool,
    pub text: RowText<'a>,
}

/// The rendered parts of a row's lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowText<'a> {
    /// The label pairs, with the brace and the space after them.
    pub closed_labels: &'a [u8],
    /// What follows a value: a space and the time of the row's reading in milliseconds since 1970, if it was
    /// ever read, and the line feed.
    pub end: &'a [u8],
}

impl RowText<'_> {
    /// The label pairs.
    pub fn labels(&self) -> &[u8] {
        self.closed_labels.strip_suffix(CLOSE).unwrap_or(self.closed_labels)
    }
}

/// The rows of a snapshot, which is passed in again to read them, and the buffer that holds their labels.
pub(super) struct Rows {
    places: Vec<Place>,
    text: Vec<u8>,
}

/// Where the parts of a row are.
struct Place {
    /// In the snapshot's cgroups.
    group: u32,
    leaf: bool,
    /// In the text: the labels, and what follows a value.
    labels: Range<u32>,
    end: Range<u32>,
}

/// What follows the label pairs of a line.
const CLOSE: &[u8] = b"} ";

impl Rows {
    /// Renders the labels of every cgroup of `snapshot`.
    pub fn new(snapshot: &Snapshot, style: Style) -> Self {
        let all = &snapshot.groups;
        let order = current_places(all);
        let names = LazyCell::new(|| Names::of(order.iter().map(|at| &all[*at])));
        let mut text = Vec::with_capacity(order.len() * 320);
        // Texts of cgroups have far less than 4 GiB together.
        let here = |text: &Vec<u8>| text.len() as u32;
        let places = (0..order.len())
            .map(|at| {
                let group = &all[order[at]];
                let start = here(&text);
                match style {
                    Style::Cadvisor => cadvisor_labels(&mut text, group, &names),
                    Style::Own => own_labels(&mut text, group, &names),
                }
                text.extend_from_slice(CLOSE);
                let labels = start..here(&text);
                // The root's totals may be known only from /proc; then the machine's part of the snapshot has
                // them.
                let machine = machine_of(group, snapshot);
                let start = here(&text);
                let time = group.usage.time.or(machine.and_then(|m| m.time));
                if let Some(millis) = time.and_then(unix_millis) {
                    push_stamp(&mut text, millis);
                }
                text.push(b'\n');
                let following = order[at + 1..].iter().map(|at| &all[*at]);
                let leaf = machine.is_none() && !is_parent(&group.path, following);
                Place { group: order[at] as u32, leaf, labels, end: start..here(&text) }
            })
            .collect();
        Self { places, text }
    }

    /// The rows of `snapshot`, which is the one that they were made of.
    pub fn of<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Row<'a>> {
        self.places.iter().zip(self.texts()).filter_map(|(place, text)| {
            let group = snapshot.groups.get(place.group as usize)?;
            let (usage, machine) = (&group.usage, machine_of(group, snapshot));
            let pressures = machine.filter(|_| usage.pressures == Pressures::default());
            Some(Row {
                group,
                cpu: usage.cpu.as_ref().or(machine.and_then(|m| m.cpu.as_ref())),
                memory: usage.memory.as_ref().or(machine.and_then(|m| m.memory.as_ref())),
                processes: usage.processes.as_ref().or(machine.and_then(|m| m.processes.as_ref())),
                io: machine.filter(|_| usage.io.is_empty()).map_or(&usage.io, |m| &m.io),
                pressures: pressures.map_or(&usage.pressures, |m| &m.pressures),
                leaf: place.leaf,
                text,
            })
        })
    }

    /// The rendered parts of all rows, in their order.
    pub fn texts(&self) -> impl Iterator<Item = RowText<'_>> {
        let part = |range: &Range<u32>| &self.text[range.start as usize..range.end as usize];
        self.places
            .iter()
            .map(move |place| RowText { closed_labels: part(&place.labels), end: part(&place.end) })
    }
}

/// The machine's usage, for the root.
fn machine_of<'a>(group: &GroupView, snapshot: &'a Snapshot) -> Option<&'a Usage> {
    matches!(*group.identity, Identity::Root).then_some(&snapshot.machine.usage)
}

/// Milliseconds since 1970; `None` for an earlier time.
pub(super) fn unix_millis(time: SystemTime) -> Option<u64> {
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// One group per path, ordered by path, as those of a snapshot are. Of two of the same path, of which one was
/// removed, the existing one is taken, else the younger one: a series may occur only once.
pub(super) fn current(groups: &[GroupView]) -> Vec<&GroupView> {
    current_places(groups).into_iter().map(|at| &groups[at]).collect()
}

/// The places of those in `groups`.
fn current_places(groups: &[GroupView]) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..groups.len()).collect();
    if !groups.is_sorted_by(|a, b| a.path < b.path) {
        kept.sort_by(|a, b| groups[*a].path.cmp(&groups[*b].path));
        kept.dedup_by(|later, kept| {
            let same = groups[*later].path == groups[*kept].path;
            if same && succeeds(&groups[*later], &groups[*kept]) {
                *kept = *later;
            }
            same
        });
    }
    kept
}

/// Whether one of the groups that follow in the order of paths is below this path.
fn is_parent<'a>(path: &str, following: impl Iterator<Item = &'a GroupView>) -> bool {
    let mut begin_so = following.map_while(|group| group.path.strip_prefix(path));
    begin_so.any(|rest| rest.starts_with('/'))
}

/// Whether `a` takes precedence over `b` if both have the same path or labels.
pub(super) fn succeeds(a: &GroupView, b: &GroupView) -> bool {
    (a.removed.is_none(), a.created) > (b.removed.is_none(), b.created)
}

/// Names by uid and container id, collected from all cgroups.
pub(super) struct Names<'a> {
    pods: HashMap<&'a str, &'a PodNames>,
    containers: HashMap<&'a str, (bool, Option<&'a ContainerNames>)>,
}

/// The container label of a pod's sandbox, as cAdvisor sets it.
pub(super) const SANDBOX: &str = "POD";

impl<'a> Names<'a> {
    /// Collects the names known in `groups`.
    pub fn of(groups: impl Iterator<Item = &'a GroupView>) -> Self {
        let mut found = Self { pods: HashMap::new(), containers: HashMap::new() };
        for group in groups {
            match &*group.identity {
                Identity::Pod { uid, names: Some(names), .. } => {
                    found.pods.insert(uid, names);
                }
                Identity::Container { pod_uid, id, sandbox, pod, names, .. } => {
                    if let Some(pod) = pod {
                        found.pods.entry(pod_uid).or_insert(pod);
                    }
                    found.containers.insert(id, (*sandbox, names.as_deref()));
                }
                _ => {}
            }
        }
        found
    }

    /// Namespace and name of a pod, if the runtime reported them.
    pub fn pod(&self, uid: &str) -> Option<&'a PodNames> {
        self.pods.get(uid).copied()
    }

    /// Name of a container (`POD` for a sandbox), if the runtime reported it.
    pub fn container(&self, id: &str) -> Option<&'a str> {
        match self.containers.get(id)? {
            (true, _) => Some(SANDBOX),
            (false, names) => names.map(|n| n.name.as_str()),
        }
    }
}

/// As the kubelet's `containerPrometheusLabelsFunc`: pods and containers are named, `name` is the container's
/// id; levels above, nested cgroups and everything else have an `id` only.
fn cadvisor_labels<'a>(text: &mut Vec<u8>, group: &'a GroupView, names: &impl Deref<Target = Names<'a>>) {
    let (mut container, mut image, mut name, mut pod) = ("", "", "", None);
    match &*group.identity {
        Identity::Pod { uid, names: own, .. } => pod = own.as_deref().or_else(|| names.pod(uid)),
        Identity::Container { pod_uid, id, sandbox, pod: of_pod, names: own, .. } => {
            container = match own {
                Some(own) if !sandbox => &own.name,
                _ if *sandbox => SANDBOX,
                _ => names.container(id).unwrap_or(""),
            };
            image = own.as_ref().map_or("", |n| &n.image);
            name = id;
            pod = of_pod.as_deref().or_else(|| names.pod(pod_uid));
        }
        _ => {}
    }
    let pairs = [
        ("container", container),
        ("id", &*group.path),
        ("image", image),
        ("name", name),
        ("namespace", pod.map_or("", |p| &p.namespace)),
        ("pod", pod.map_or("", |p| &p.name)),
    ];
    push_all(text, &pairs);
}

fn own_labels<'a>(text: &mut Vec<u8>, group: &GroupView, names: &impl Deref<Target = Names<'a>>) {
    let pod = group.identity.pod_uid().and_then(|uid| names.pod(uid));
    let container = group.identity.container_id().and_then(|id| names.container(id));
    let pairs = [
        ("container", container.unwrap_or("")),
        ("id", &*group.path),
        ("namespace", pod.map_or("", |p| &p.namespace)),
        ("pod", pod.map_or("", |p| &p.name)),
    ];
    push_all(text, &pairs);
}

fn push_all(text: &mut Vec<u8>, pairs: &[(&str, &str)]) {
    let start = text.len();
    for (key, value) in pairs {
        push_label(text, start, key, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixture;

    fn labels_of(style: Style, path_end: &str) -> String {
        let snapshot = fixture::snapshot(1);
        let rows = Rows::new(&snapshot, style);
        let row = rows.of(&snapshot).find(|r| r.group.path.ends_with(path_end)).unwrap();
        String::from_utf8(row.text.labels().to_vec()).unwrap()
    }

    #[test]
    fn kubelet_labels_by_kind_of_cgroup() {
        let (pod, id) = (fixture::pod_uid(0), fixture::container_id(0));
        let place = format!("/kubepods/burstable/pod{pod}");
        let cases = [
            ("/".to_owned(), r#"container="",id="/",image="",name="",namespace="",pod="""#.to_owned()),
            (
                place.clone(),
                format!(r#"container="",id="{place}",image="",name="",namespace="default",pod="web-0""#),
            ),
            (
                format!("{place}/{id}"),
                format!(
                    r#"container="app",id="{place}/{id}",image="docker.io/library/app:1",name="{id}",namespace="default",pod="web-0""#
                ),
            ),
            (
                format!("{place}/{id}/inner"),
                format!(r#"container="",id="{place}/{id}/inner",image="",name="",namespace="",pod="""#),
            ),
        ];
        for (path, want) in cases {
            let snapshot = fixture::snapshot(1);
            let rows = Rows::new(&snapshot, Style::Cadvisor);
            let row = rows.of(&snapshot).find(|r| *r.group.path == *path).unwrap();
            assert_eq!(String::from_utf8_lossy(row.text.labels()), want);
        }
        let sandbox = labels_of(Style::Cadvisor, &fixture::sandbox_id(0));
        assert!(sandbox.starts_with(r#"container="POD","#), "{sandbox}");
    }

    #[test]
    fn nested_cgroups_have_the_labels_of_their_container() {
        let nested = labels_of(Style::Own, "/inner");
        assert!(nested.contains(r#"container="app""#) && nested.contains(r#"pod="web-0""#), "{nested}");
    }

    #[test]
    fn a_recreated_path_is_written_once() {
        let snapshot = fixture::snapshot(1);
        let old = GroupView { removed: Some(snapshot.time), ..snapshot.groups[3].clone() };
        let young = GroupView { created: old.created + Duration::from_secs(9), ..old.clone() };
        let living =
            GroupView { removed: None, created: old.created - Duration::from_secs(9), ..old.clone() };
        for order in [[&old, &young, &living], [&living, &young, &old], [&young, &living, &old]] {
            let groups: Vec<GroupView> = order.into_iter().cloned().collect();
            let kept = current(&groups);
            assert_eq!(kept.len(), 1);
            assert_eq!(kept[0].created, living.created);
        }
        assert_eq!(current(&[old, young.clone()])[0].created, young.created);
    }
}
