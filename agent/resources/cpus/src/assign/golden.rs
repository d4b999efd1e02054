//! Compares choosing CPUs with what a kubelet 1.36 chose (`resource_managers/cpu_assignment.json`).

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_testing::golden::are_our_own;
use nodewarden_topology::CpuTopology;
use nodewarden_topology::fixture::{list, load, number, text, topology};
use serde_json::Value;

use super::{NotEnough, Sorting, distributed, packed};

fn choose(topology: &CpuTopology, case: &Value) -> Result<CpuSet, NotEnough> {
    let free = CpuSet::parse(text(&case["available"])).expect("a list of CPUs");
    let sorting = if case["sorting"] == "spread" { Sorting::Spread } else { Sorting::Packed };
    let wanted = number(&case["wanted"]) as usize;
    match text(&case["function"]) {
        "packed" => packed(topology, &free, wanted, sorting, case["prefer_align_by_uncore_cache"] == true),
        _ => distributed(topology, &free, wanted, number(&case["cpu_group_size"]) as usize, sorting),
    }
}

/// What the kubelet answered.
fn recorded_answer(case: &Value) -> &str {
    let better = &case["result_without_shared_slices"];
    let answer = if better.is_string() { better } else { &case["result"] };
    if answer.is_string() { text(answer) } else { text(&case["error"]) }
}

fn answer(result: Result<CpuSet, NotEnough>) -> String {
    result.map_or_else(|error| error.to_string(), |cpus| cpus.to_string())
}

/// Every choice is the kubelet's, except by its faults, and never leaves the free CPUs.
///
/// - Fault 1: a unit counts as free by the machine's average. With the same averages the answer is the
///   kubelet's, and with the units' own sizes it stays among the free CPUs.
/// - Fault 2: the best combination is overwritten. Compared with `result_without_shared_slices`.
/// - Fault 3: the kubelet hangs. There is an answer.
#[test]
fn chosen_cpus_are_the_kubelets() {
    let Some(recorded) = load("cpu_assignment.json") else { return };
    let (mut equal, mut averages, mut slices, mut hangs) = (0, 0, 0, 0);
    for case in list(&recorded["cases"]) {
        let topology = topology(&recorded["topologies"][text(&case["topology"])]);
        let ours = choose(&topology, case);
        if let Ok(cpus) = &ours {
            let free = CpuSet::parse(text(&case["available"])).unwrap();
            assert!(cpus.is_subset(&free), "{cpus} is not in {free}: {case}");
            assert_eq!(cpus.len() as u64, number(&case["wanted"]), "{case}");
        }
        let ours = answer(ours);
        if case["hangs"] == true {
            hangs += 1;
        } else if ours == recorded_answer(case) {
            match case["result_without_shared_slices"].is_string() {
                true => slices += 1,
                false => equal += 1,
            }
        } else {
            let with_fault = answer(choose(&topology.with_average_sizes(), case));
            assert_eq!(with_fault, recorded_answer(case), "{ours} {case}");
            averages += 1;
        }
    }
    println!(
        "choices: {equal} equal, excepted: {averages} average sizes, {slices} shared slices, {hangs} hangs"
    );
    assert!(!are_our_own() || equal + averages + slices + hangs == list(&recorded["cases"]).len());
    assert!(!are_our_own() || (slices, hangs) == (3, 1), "{slices} {hangs}");
}
