//! Any limits, written to a cgroup in memory and read back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A cgroup in memory that takes writes as the kernel does: numbers rounded to pages.
#[derive(Default)]
struct Fake(BTreeMap<(Controller, String), String>);

impl Fake {
    fn apply(&mut self, writes: Vec<Write>, unit: impl Fn(&str) -> u64) {
        for write in writes {
            let text = match (write.text.parse::<u64>(), unit(&write.file)) {
                (Ok(n), unit) if unit > 1 && n >= i64::MAX as u64 / unit * unit => "max".to_owned(),
                (Ok(n), unit) => (n / unit * unit).to_string(),
                (Err(_), _) => write.text.clone(),
            };
            self.0.insert((write.controller, write.file), text);
        }
    }

    fn read(&self, interface: &Interface) -> Limits {
        interface.read::<NoValue>(|c, file| Ok(self.0.get(&(c, file.to_owned())).cloned())).unwrap()
    }
}

fn unit(file: &str) -> u64 {
    match file {
        _ if file.starts_with("hugetlb.2MB") => 2 << 20,
        _ if file.starts_with("hugetlb.1GB") => 1 << 30,
        "memory.oom.group" => 1,
        _ if file.starts_with("memory.") => 4096,
        _ => 1,
    }
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![Just(Bound::Max), any::<u64>().prop_map(Bound::At), (0u64..1 << 40).prop_map(Bound::At)]
}

fn limits() -> impl Strategy<Value = Limits> {
    let opt = proptest::option::of::<BoxedStrategy<Bound>>;
    let share = prop_oneof![any::<u64>().prop_map(CpuShare::Shares), any::<u64>().prop_map(CpuShare::Weight)];
    let numbers = (
        proptest::option::of(share),
        proptest::option::of((bound(), 1000u64..1_000_000)),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<bool>()),
    );
    let bounds = (
        opt(bound().boxed()),
        opt(bound().boxed()),
        opt(bound().boxed()),
        opt(bound().boxed()),
        opt(bound().boxed()),
    );
    let pages = proptest::collection::btree_map(prop_oneof![Just(MIB2), Just(GIB)], bound(), 0..3);
    (numbers, bounds, pages).prop_map(|(n, b, hugetlb)| Limits {
        cpu: n.0,
        cpu_quota: n.1.map(|(quota_us, period_us)| CpuQuota { quota_us, period_us }),
        cpu_idle: n.2,
        cpuset_cpus: None,
        memory_min: n.3,
        memory_low: n.4,
        oom_group: n.5,
        memory_max: b.0,
        memory_high: b.1,
        swap_max: b.2,
        memsw_max: b.3,
        pids_max: b.4,
        hugetlb: hugetlb.into_iter().collect(),
    })
}

proptest! {
    #[test]
    fn limits_are_read_back_as_they_were_settled(limits in limits()) {
        for interface in [v1(), v2()] {
            let mut fake = Fake::default();
            fake.apply(interface.writes(&limits, &Limits::default()), unit);
            prop_assert_eq!(fake.read(&interface), interface.settled(&limits));
        }
    }

    #[test]
    fn settled_limits_settle_to_themselves(limits in limits()) {
        for interface in [v1(), v2()] {
            let settled = interface.settled(&limits);
            prop_assert_eq!(&interface.settled(&settled), &settled);
        }
    }
}

#[test]
fn huge_page_limits_of_use_and_reservation_that_differ_equal_no_limit_value() {
    let mut fake = Fake::default();
    fake.apply(v2().writes(&pod(), &Limits::default()), unit);
    assert_eq!(fake.read(&v2()).hugetlb.get(MIB2), Some(Bound::At(4 << 20)));
    fake.0.insert((Controller::Hugetlb, "hugetlb.2MB.rsvd.max".to_owned()), "max".to_owned());
    assert_eq!(fake.read(&v2()).hugetlb.get(MIB2), Some(Bound::At(u64::MAX)));
    // Older kernels limit no reservation.
    fake.0.remove(&(Controller::Hugetlb, "hugetlb.2MB.rsvd.max".to_owned()));
    assert_eq!(fake.read(&v2()).hugetlb.get(MIB2), Some(Bound::At(4 << 20)));
}
