use proptest::prelude::*;

use super::*;
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, CpuShare};

fn limits(quota: Bound, memory: Bound, min: u64) -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(100)),
        cpu_quota: Some(CpuQuota { quota_us: quota, period_us: 100_000 }),
        memory_max: Some(memory),
        memory_min: Some(min),
        ..Limits::default()
    }
}

fn tree(parent: Limits, child: Limits) -> ByPath {
    [("/k".into(), parent.into()), ("/k/p".into(), child.into())].into()
}

#[test]
fn equal_trees_need_no_steps() {
    let same = tree(limits(Bound::Max, Bound::Max, 0), limits(Bound::At(1000), Bound::At(4096), 0));
    assert_eq!(steps(&same, &same), []);
    let read = same.iter().map(|(path, limits)| (path.clone(), Arc::new(Limits::clone(limits)))).collect();
    assert_eq!(steps(&same, &read), []);
}

#[test]
fn missing_cgroups_are_created_from_the_top() {
    let wanted = tree(limits(Bound::Max, Bound::Max, 0), limits(Bound::At(1000), Bound::At(4096), 0));
    let made: Vec<_> = steps(&wanted, &ByPath::new()).iter().map(|s| s.path().to_string()).collect();
    assert_eq!(made, ["/k", "/k/p"]);
}

#[test]
fn limits_that_were_not_read_are_not_written() {
    let wanted = tree(limits(Bound::Max, Bound::Max, 0), limits(Bound::Max, Bound::Max, 0));
    let without = |limits: &Limits| Arc::new(Limits { memory_min: None, ..limits.clone() });
    let without_min: ByPath = wanted.iter().map(|(path, limits)| (path.clone(), without(limits))).collect();
    assert_eq!(steps(&wanted, &without_min), []);
}

#[test]
fn cgroups_that_are_not_wanted_are_left_alone() {
    let mut found = tree(limits(Bound::Max, Bound::Max, 0), limits(Bound::Max, Bound::Max, 0));
    let wanted = found.clone();
    found.insert("/k/foreign".into(), limits(Bound::At(5), Bound::At(5), 5).into());
    assert_eq!(steps(&wanted, &found), []);
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![(1u64..20).prop_map(Bound::At), Just(Bound::Max)]
}

/// A parent and three children, none above the parent.
fn ordered() -> impl Strategy<Value = ByPath> {
    (prop::collection::vec((bound(), bound(), 0u64..10), 3), bound(), bound(), 0u64..5).prop_map(
        |(children, quota, memory, more)| {
            let top = |own: Bound, child: fn(&(Bound, Bound, u64)) -> Bound| {
                children.iter().map(child).chain([own]).max().unwrap_or(own)
            };
            let min = children.iter().map(|c| c.2).max().unwrap_or(0) + more;
            let parent = limits(top(quota, |c| c.0), top(memory, |c| c.1), min);
            let mut tree = ByPath::from([("/k".into(), parent.into())]);
            for (i, (quota, memory, min)) in children.into_iter().enumerate() {
                tree.insert(format!("/k/{i}").into(), limits(quota, memory, min).into());
            }
            tree
        },
    )
}

fn holds(tree: &ByPath) -> bool {
    let parent = &tree["/k"];
    let children: Vec<_> = tree.iter().filter(|(p, _)| ***p != *"/k").map(|(_, l)| l).collect();
    let quota = |l: &Limits| l.cpu_quota.map(|q| q.quota_us);
    children.iter().all(|c| {
        quota(c) <= quota(parent) && c.memory_max <= parent.memory_max && c.memory_min <= parent.memory_min
    })
}

fn apply(tree: &mut ByPath, step: &Step) {
    match step {
        Step::Create { path, limits } => {
            tree.insert(path.clone(), limits.clone());
        }
        Step::Set { path, limits, .. } => {
            let at = Arc::make_mut(tree.get_mut(path).expect("only what exists is set"));
            at.cpu = limits.cpu.or(at.cpu);
            at.cpu_quota = limits.cpu_quota.or(at.cpu_quota);
            at.memory_max = limits.memory_max.or(at.memory_max);
            at.memory_min = limits.memory_min.or(at.memory_min);
        }
    }
}

proptest! {
    #[test]
    fn a_parent_is_never_below_its_children(wanted in ordered(), found in ordered(), gone in prop::collection::vec(any::<bool>(), 3)) {
        let mut now = found;
        for (i, gone) in gone.into_iter().enumerate() {
            if gone { now.remove(&*format!("/k/{i}")); }
        }
        prop_assert!(holds(&now));
        for step in steps(&wanted, &now.clone()) {
            apply(&mut now, &step);
            prop_assert!(holds(&now), "after {step:?}");
        }
        prop_assert_eq!(now, wanted);
    }
}

/// The kernel gives it the default weight; before that it shows the weight of the idle cgroup.
#[test]
fn a_cgroup_that_stops_being_idle_gets_its_weight() {
    let cpu = |weight, idle| Limits {
        cpu: Some(CpuShare::Weight(weight)),
        cpu_idle: Some(idle),
        ..Limits::default()
    };
    for shown in [1, 0, 3] {
        let found = ByPath::from([("/a".into(), cpu(shown, true).into())]);
        let wanted = ByPath::from([("/a".into(), cpu(1, false).into())]);
        let set = Step::Set { path: "/a".into(), limits: cpu(1, false).into(), pass: Pass::Grow };
        assert_eq!(steps(&wanted, &found), [set], "shown {shown}");
    }
}
