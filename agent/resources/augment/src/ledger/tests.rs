//! The ledger over a real directory in which cgroups are plain directories, with the end of the process at
//! any step.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::machine::{Files, Machine};
use super::{Ledger, LedgerError, Undone, Written};
use crate::table::{Refusal, Writer};
use crate::wanted::{Feature, Level, Place, Wanted};

/// What a process that is killed leaves its function with.
struct Killed;

/// Plain files with what the kernel does to the weight of an idle cgroup, and the end of the process at a
/// step.
#[derive(Debug, Default)]
struct Fake {
    steps_left: Cell<Option<u32>>,
    refuses: Cell<bool>,
}

impl Fake {
    fn dying_after(steps: u32) -> Self {
        Self { steps_left: Cell::new(Some(steps)), refuses: Cell::default() }
    }

    fn step(&self) {
        match self.steps_left.get() {
            Some(0) => resume_unwind(Box::new(Killed)),
            left => self.steps_left.set(left.map(|left| left - 1)),
        }
    }
}

impl Machine for Fake {
    fn read(&self, place: &Place) -> io::Result<Option<(String, u64)>> {
        self.step();
        Files.read(place)
    }

    fn write(&self, place: &Place, identity: u64, value: &str) -> io::Result<bool> {
        self.step();
        if self.refuses.get() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let directory = &place.directory;
        let is_there = Files.read(place)?.is_some_and(|(_, found)| found == identity);
        if is_there {
            // O_TRUNC, which cgroups do not need.
            std::fs::write(place.path(), value)?;
            if place.file == "cpu.idle" {
                std::fs::write(directory.join("cpu.weight"), if value == "1" { "0" } else { "100" })?;
            }
        }
        self.step();
        Ok(is_there)
    }

    fn recording(&self) {
        self.step();
    }
}

/// A tree of cgroups and a state directory.
struct Tree {
    root: TempDir,
}

const FILES: [(&str, &str, Feature); 3] = [
    ("memory.high", "max", Feature::MemoryHigh),
    ("cpu.max.burst", "0", Feature::CpuBurst),
    ("cpu.idle", "0", Feature::CpuIdle),
];
const GROUPS: usize = 3;

impl Tree {
    fn new() -> Self {
        // In memory where there is such a file system: thousands of rounds, each with many syncs.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let tree = Self { root };
        std::fs::create_dir(tree.state()).unwrap();
        (0..GROUPS).for_each(|group| tree.make(group));
        tree
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn group(&self, group: usize) -> PathBuf {
        self.root.path().join(format!("pod{group}"))
    }

    fn make(&self, group: usize) {
        let directory = self.group(group);
        std::fs::create_dir(&directory).unwrap();
        for (file, value, _) in FILES {
            std::fs::write(directory.join(file), value).unwrap();
        }
        std::fs::write(directory.join("cpu.weight"), "1").unwrap();
    }

    fn place(&self, group: usize, file: usize) -> Place {
        Place::new(&self.group(group), FILES[file].0)
    }

    fn wanted(&self, group: usize, file: usize, value: u32) -> Wanted {
        let (name, old, feature) = FILES[file];
        let is_idle = name == "cpu.idle";
        Wanted {
            feature,
            level: Level::Pod,
            place: self.place(group, file),
            value: if is_idle { "1".into() } else { (value + 1000).to_string() },
            instead_of: match old {
                "max" => &["max"],
                _ => &["0"],
            },
            companion: is_idle.then_some(("cpu.weight", "100")),
            pod: group.to_string(),
        }
    }

    fn ledger(&self, machine: Fake) -> Ledger<Fake> {
        Ledger::open(&self.state(), machine).unwrap()
    }

    /// Every file of every cgroup.
    fn read(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for group in 0..GROUPS {
            for file in FILES.iter().map(|(file, ..)| *file).chain(["cpu.weight"]) {
                let path = self.group(group).join(file);
                all.insert(path.clone(), std::fs::read_to_string(path).unwrap());
            }
        }
        all
    }

    fn undo(&self) -> Vec<Undone> {
        let results = self.ledger(Fake::default()).withdraw(|_| true).unwrap();
        results.into_iter().map(|(_, undone)| undone).collect()
    }
}

/// Runs until it is killed, if it is.
fn until_killed(act: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(()) => false,
        Err(payload) if payload.is::<Killed>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

#[test]
fn everything_is_put_back_once() {
    let tree = Tree::new();
    let before = tree.read();
    let all: Vec<Wanted> = (0..3)
        .flat_map(|group| (0..3).map(move |file| (group, file)))
        .map(|(g, f)| tree.wanted(g, f, 1))
        .collect();
    let mut ledger = tree.ledger(Fake::default());
    let results = ledger.write(&all).unwrap();
    assert!(results.iter().all(|result| matches!(result, Written::Set { .. })), "{results:?}");
    assert!(ledger.write(&all).unwrap().iter().all(|result| *result == Written::Unchanged));
    assert_eq!(ledger.entries().count(), 9);
    assert_ne!(tree.read(), before);
    drop(ledger);
    assert_eq!(tree.undo(), vec![Undone::Restored; 9]);
    assert_eq!(tree.read(), before);
    assert_eq!(tree.undo(), [], "the second time nothing is left to do");
}

#[test]
fn one_process_at_a_time_uses_it() {
    let tree = Tree::new();
    let held = tree.ledger(Fake::default());
    let second = Ledger::open(&tree.state(), Fake::default());
    assert!(matches!(second, Err(LedgerError::InUse(_))), "{second:?}");
    drop(held);
    tree.ledger(Fake::default());
}

#[test]
fn a_cgroup_made_again_gets_no_old_value() {
    let tree = Tree::new();
    let mut ledger = tree.ledger(Fake::default());
    ledger.write(&[tree.wanted(0, 0, 1)]).unwrap();
    // Kept, so that its number is not used again.
    std::fs::rename(tree.group(0), tree.root.path().join("former")).unwrap();
    tree.make(0);
    std::fs::write(tree.place(0, 0).path(), "1001").unwrap();
    assert_eq!(ledger.withdraw(|_| true).unwrap()[0].1, Undone::Nothing);
    assert_eq!(std::fs::read_to_string(tree.place(0, 0).path()).unwrap(), "1001");
}

#[test]
fn what_somebody_else_writes_stays_and_is_not_written_again() {
    let tree = Tree::new();
    let path = tree.place(0, 0).path();
    let mut ledger = tree.ledger(Fake::default());
    ledger.write(&[tree.wanted(0, 0, 1)]).unwrap();
    std::fs::write(&path, "5").unwrap();
    for _ in 0..2 {
        let result = ledger.write(&[tree.wanted(0, 0, 2)]).unwrap();
        assert_eq!(result, [Written::LeftAlone { found: "5".into() }]);
    }
    assert_eq!(ledger.withdraw(|_| true).unwrap(), []);
    drop(ledger);
    let mut next = tree.ledger(Fake::default());
    let result = next.write(&[tree.wanted(0, 0, 2)]).unwrap();
    assert_eq!(result, [Written::LeftAlone { found: "5".into() }], "it is not the kernel's default");
    next.write(&[tree.wanted(1, 0, 1)]).unwrap();
    std::fs::write(tree.place(1, 0).path(), "6").unwrap();
    assert_eq!(next.withdraw(|_| true).unwrap()[0].1, Undone::LeftAlone { found: "6".into() });
    assert_eq!(std::fs::read_to_string(tree.place(1, 0).path()).unwrap(), "6");
}

#[test]
fn what_the_kernel_refuses_is_not_kept() {
    let tree = Tree::new();
    let mut ledger = tree.ledger(Fake::default());
    ledger.machine.refuses.set(true);
    let results = ledger.write(&[tree.wanted(0, 0, 1)]).unwrap();
    assert!(matches!(&results[..], [Written::Failed(_)]), "{results:?}");
    assert_eq!(ledger.entries().count(), 0);
    ledger.machine.refuses.set(false);
    ledger.write(&[tree.wanted(0, 0, 1)]).unwrap();
    ledger.machine.refuses.set(true);
    ledger.write(&[tree.wanted(0, 0, 2)]).unwrap();
    let undone = ledger.withdraw(|_| true).unwrap();
    assert!(matches!(undone[0].1, Undone::Failed(_)), "{undone:?}");
    assert_eq!(ledger.entries().count(), 1, "to be tried again");
}

#[test]
fn a_file_of_the_kubelet_is_never_written() {
    let tree = Tree::new();
    let before = tree.read();
    let mut ledger = tree.ledger(Fake::default());
    let mut weight = tree.wanted(0, 0, 1);
    weight.place.file = "cpu.weight".into();
    let mut level = tree.wanted(0, 2, 1);
    level.level = Level::Qos;
    let mut other = tree.wanted(0, 0, 1);
    other.place.file = "io.max".into();
    let results = ledger.write(&[weight, level, other]).unwrap();
    let kubelets = Written::Refused(Refusal::Foreign(Writer::Kubelet));
    assert_eq!(results, [kubelets.clone(), kubelets, Written::Refused(Refusal::Unknown)]);
    assert_eq!(tree.read(), before);
}

#[test]
fn nothing_is_written_when_the_ledger_cannot_be() {
    let tree = Tree::new();
    let before = tree.read();
    let mut ledger = tree.ledger(Fake::default());
    std::fs::remove_dir_all(tree.state()).unwrap();
    assert!(ledger.write(&[tree.wanted(0, 0, 1)]).is_err());
    assert_eq!(tree.read(), before);
    assert_eq!(ledger.entries().count(), 0);
}

/// What happens in a round: writes by us, values of ours put back, a write by another program, or a cgroup
/// made again.
#[derive(Debug, Clone)]
enum Act {
    Write(Vec<(usize, usize, u32)>),
    Withdraw(usize),
    Foreign(usize, usize),
    Again(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let one = || (0..GROUPS, 0..FILES.len(), 0..4_u32);
    prop_oneof![
        4 => prop::collection::vec(one(), 1..6).prop_map(Act::Write),
        1 => (0..GROUPS).prop_map(Act::Withdraw),
        // Not cpu.idle, which has two values only.
        1 => (0..GROUPS, 0..2_usize).prop_map(|(group, file)| Act::Foreign(group, file)),
        1 => (0..GROUPS).prop_map(Act::Again),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// The process is killed at any step of any write, and again at any step of putting back; afterwards
    /// everything is as before, but for what another program wrote.
    #[test]
    fn whatever_step_is_the_last_everything_is_put_back(
        acts in prop::collection::vec(act(), 1..5),
        kill in 0..60_u32,
        kill_again in 0..40_u32,
    ) {
        let tree = Tree::new();
        let mut expected = tree.read();
        until_killed(|| {
            let mut ledger = tree.ledger(Fake::dying_after(kill));
            for (number, act) in acts.iter().enumerate() {
                match act {
                    Act::Write(all) => {
                        let mut seen = std::collections::BTreeSet::new();
                        let all = all.iter().filter(|(group, file, _)| seen.insert((*group, *file)));
                        let all: Vec<_> = all.map(|(group, file, value)| tree.wanted(*group, *file, *value)).collect();
                        ledger.write(&all).unwrap();
                    }
                    Act::Withdraw(group) => {
                        let group = group.to_string();
                        ledger.withdraw(|entry| entry.pod == group).unwrap();
                    }
                    Act::Foreign(group, file) => {
                        let (path, value) = (tree.place(*group, *file).path(), format!("foreign {number}"));
                        std::fs::write(&path, &value).unwrap();
                        expected.insert(path, value);
                    }
                    Act::Again(group) => {
                        let former = tree.root.path().join(format!("former {number}"));
                        std::fs::rename(tree.group(*group), former).unwrap();
                        tree.make(*group);
                        for (path, value) in tree.read() {
                            if path.starts_with(tree.group(*group)) {
                                expected.insert(path, value);
                            }
                        }
                    }
                }
            }
        });
        until_killed(|| {
            let mut ledger = tree.ledger(Fake::dying_after(kill_again));
            ledger.withdraw(|_| true).unwrap();
        });
        tree.undo();
        prop_assert_eq!(tree.read(), expected);
        prop_assert_eq!(tree.undo(), []);
    }
}
