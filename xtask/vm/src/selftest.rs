//! Tests of the harness itself: guests that must fail do, for the right reason, and an idle one is quick.

use std::path::Path;
use std::time::Duration;

use super::assets::Family;
use super::boot::{Order, Outcome};
use super::error::VmError;
use super::guest::Guest;
use super::initramfs::TESTED;
use super::machine::Emulation;
use super::site::Site;
use super::verdict::{Limit, Reason, Verdict};
use super::{matrix, refused};
use nodewarden_guest_job::{Fault, Layout, Task};
use xtask_common::tally::Tally;

/// What every test's name begins with.
const PREFIX: &str = "vm::selftest::";
/// Boots quickest of those on which every topic of the agent works.
const QUICK: Guest = Guest { family: Family::V6_12, layout: Layout::V2 };
/// A guest that does nothing takes no longer.
const NOOP_LIMIT: Duration = Duration::from_secs(10);
/// How often such a guest is booted at most: what else runs on this machine can make one slow.
const NOOP_ATTEMPTS: usize = 3;
/// How long the guest that hangs is waited for.
const HANG_LIMIT: Duration = Duration::from_secs(15);
/// The end-to-end test that a wrong offset of `run_delay` must fail.
const WAIT_TEST: &str = "cpu_wait";
/// The end-to-end test that a refused program must fail.
const TOPICS_TEST: &str = "topics_are_on";
/// The kernel program that is made unacceptable.
const PROGRAM: &str = "sched_switch";

/// A guest with a known fault, and what must come of it.
struct Case {
    order: Order,
    check: fn(&Outcome) -> Result<(), String>,
}

/// The guests that the tests boot.
pub fn guests() -> Vec<Guest> {
    [Family::V6_1, Family::V6_12, Family::V7].map(|family| Guest { family, layout: Layout::V2 }).to_vec()
}

/// Whether any test is called like that.
pub fn any_matches(filters: &[String]) -> bool {
    let noop = guests().into_iter().map(noop_name);
    NAMES.into_iter().map(str::to_owned).chain(noop).any(|name| matches(&name, filters))
}

const SOUND: &str = "a_sound_guest_passes";
const PANIC: &str = "a_panic_is_a_failure";
const OFFSET: &str = "a_wrong_offset_is_a_failure";
const REFUSED: &str = "a_refused_program_is_a_failure";
const HANG: &str = "a_guest_that_hangs_is_a_time_out";
const NAMES: [&str; 5] = [SOUND, PANIC, OFFSET, REFUSED, HANG];

/// Runs those that match, `jobs` guests at a time, but one alone where its time is measured.
///
/// # Errors
/// When a guest can't be booted at all.
pub fn run(site: &Site, filters: &[String], patience: u32, jobs: usize) -> Result<Tally, VmError> {
    let mut tally = Tally::default();
    for guest in guests() {
        let name = noop_name(guest);
        if matches(&name, filters) {
            let order = Order { emulation: Emulation::ThreadPerCpu, name, ..Order::noop(guest) };
            let outcome = quickest(site, &order)?;
            count(&mut tally, &order.name, quick(&outcome), &outcome);
        }
    }
    let mut cases = Vec::new();
    for name in NAMES {
        if matches(name, filters) {
            cases.push(case(name, site, patience)?);
        }
    }
    let orders = cases.iter().map(|case| case.order.clone()).collect::<Vec<_>>();
    for (case, outcome) in cases.iter().zip(boot_all(site, &orders, jobs)?) {
        count(&mut tally, &case.order.name, (case.check)(&outcome), &outcome);
    }
    Ok(tally)
}

/// The first boot that is quick enough or fails otherwise, or the last attempt.
fn quickest(site: &Site, order: &Order) -> Result<Outcome, VmError> {
    let mut outcome = boot_all(site, std::slice::from_ref(order), 1)?.remove(0);
    for _ in 1..NOOP_ATTEMPTS {
        if quick(&outcome).is_ok() || sound_verdict(&outcome).is_err() {
            break;
        }
        outcome = boot_all(site, std::slice::from_ref(order), 1)?.remove(0);
    }
    Ok(outcome)
}

fn boot_all(site: &Site, orders: &[Order], jobs: usize) -> Result<Vec<Outcome>, VmError> {
    if orders.is_empty() { Ok(Vec::new()) } else { matrix::run(site, orders, jobs) }
}

fn noop_name(guest: Guest) -> String {
    format!("noop_{}_is_quick", guest.family.name().replace('.', "_"))
}

fn matches(name: &str, filters: &[String]) -> bool {
    let name = format!("{PREFIX}{name}");
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter))
}

fn case(name: &str, site: &Site, patience: u32) -> Result<Case, VmError> {
    let noop = Order { name: name.to_owned(), patience, ..Order::noop(QUICK) };
    let tests = |filters: &[&str]| Order {
        task: Task::Test,
        filters: filters.iter().map(|&filter| filter.to_owned()).collect(),
        ..noop.clone()
    };
    let (order, check): (_, fn(&Outcome) -> _) = match name {
        SOUND => (tests(&[WAIT_TEST, TOPICS_TEST]), sound),
        PANIC => (Order { fault: Fault::Panic, ..noop }, panicked),
        OFFSET => (Order { fault: Fault::Offset, ..tests(&[WAIT_TEST]) }, wrong_offset),
        REFUSED => (Order { agent: Some(refused_agent(site)?), ..tests(&[TOPICS_TEST]) }, refused_program),
        _ => (Order { fault: Fault::Hang, limit: HANG_LIMIT, ..noop }, hung),
    };
    Ok(Case { order, check })
}

fn refused_agent(site: &Site) -> Result<std::path::PathBuf, VmError> {
    let agent = site.layout.program(TESTED, "nodewarden");
    let copy = site.temp().join("nodewarden-refused");
    refused::copy_with_refused(&agent, &site.layout.ebpf_object(), PROGRAM, Path::new(&copy))?;
    Ok(copy)
}

/// Counts one, and shows what the guest reported if the test fails.
fn count(tally: &mut Tally, name: &str, result: Result<(), String>, outcome: &Outcome) {
    let seconds = outcome.took.as_secs_f64();
    match result {
        Ok(()) => {
            println!("test {PREFIX}{name} ... ok ({seconds:.1} s)");
            tally.pass();
        }
        Err(why) => {
            println!("test {PREFIX}{name} ... FAILED ({seconds:.1} s)\n    {why}");
            outcome.console_end.iter().for_each(|line| println!("    console: {line}"));
            tally.fail(format!("{PREFIX}{name}"));
        }
    }
}

fn quick(outcome: &Outcome) -> Result<(), String> {
    sound_verdict(outcome)?;
    if outcome.took < NOOP_LIMIT {
        return Ok(());
    }
    Err(format!("it took {:.1} s, the limit is {} s", outcome.took.as_secs_f64(), NOOP_LIMIT.as_secs()))
}

/// Else the failures of the others could have another cause.
fn sound(outcome: &Outcome) -> Result<(), String> {
    sound_verdict(outcome)?;
    let passed = outcome.tally.counts.passed;
    if passed >= 2 { Ok(()) } else { Err(format!("only {passed} tests passed")) }
}

fn sound_verdict(outcome: &Outcome) -> Result<(), String> {
    match &outcome.verdict {
        Verdict::Passed => Ok(()),
        Verdict::Failed(reason) => Err(format!("it failed: {reason}")),
    }
}

fn panicked(outcome: &Outcome) -> Result<(), String> {
    let Verdict::Failed(Reason::Panic(line)) = &outcome.verdict else {
        return Err(format!("expected a kernel panic, found {:?}", outcome.verdict));
    };
    if outcome.console_end.iter().any(|shown| shown.contains(line.as_str())) {
        Ok(())
    } else {
        Err(format!("the console's end does not show {line:?}"))
    }
}

fn wrong_offset(outcome: &Outcome) -> Result<(), String> {
    failed_test(outcome, WAIT_TEST, "ns waited")
}

fn refused_program(outcome: &Outcome) -> Result<(), String> {
    failed_test(outcome, TOPICS_TEST, PROGRAM)
}

/// One test failed, its name has `test`, and the output says why with `word`.
fn failed_test(outcome: &Outcome, test: &str, word: &str) -> Result<(), String> {
    if outcome.verdict != Verdict::Failed(Reason::Tests(1)) {
        return Err(format!("expected one failed test, found {:?}", outcome.verdict));
    }
    if !outcome.tally.failed.iter().any(|name| name.contains(test)) {
        return Err(format!("expected {test} to fail, but it was {:?}", outcome.tally.failed));
    }
    if outcome.output.iter().any(|line| line.contains(word)) {
        Ok(())
    } else {
        Err(format!("the failure says nothing of {word:?}"))
    }
}

fn hung(outcome: &Outcome) -> Result<(), String> {
    match &outcome.verdict {
        Verdict::Failed(Reason::TimeOut(Limit::Whole(_))) => Ok(()),
        other => Err(format!("expected a time-out, found {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_choose_by_name() {
        let any = |filter: &str| any_matches(&[filter.to_owned()]);
        assert!(any_matches(&[]) && any("selftest") && any("noop_6_1_") && any("panic"));
        assert!(!any("oom_single"));
    }

    fn outcome(verdict: Verdict, failed: &[&str], output: &[&str]) -> Outcome {
        let mut tally = Tally::default();
        failed.iter().for_each(|name| tally.fail(*name));
        Outcome {
            guest: QUICK,
            name: String::new(),
            release: None,
            verdict,
            tally,
            features: Vec::new(),
            warnings: Vec::new(),
            output: output.iter().map(|&line| line.to_owned()).collect(),
            console_end: output.iter().map(|&line| line.to_owned()).collect(),
            took: Duration::from_secs(3),
        }
    }

    #[test]
    fn a_failure_must_be_the_expected_one() {
        let failed = |count| Verdict::Failed(Reason::Tests(count));
        let waited = "eBPF counts 1 ns waited";
        let name = "cpu_wait_matches_schedstat";
        assert_eq!(wrong_offset(&outcome(failed(1), &[name], &[waited])), Ok(()));
        for wrong in [
            outcome(Verdict::Passed, &[], &[waited]),
            outcome(failed(2), &[name, "x"], &[waited]),
            outcome(failed(1), &["x"], &[waited]),
            outcome(failed(1), &[name], &["the agent does not start"]),
        ] {
            assert!(wrong_offset(&wrong).is_err(), "{wrong:?}");
        }
        let panic = Verdict::Failed(Reason::Panic("Kernel panic - x".into()));
        assert_eq!(panicked(&outcome(panic.clone(), &[], &["[1] Kernel panic - x"])), Ok(()));
        assert!(panicked(&outcome(panic, &[], &[])).is_err());
        assert!(panicked(&outcome(Verdict::Failed(Reason::NoEnd), &[], &[])).is_err());
    }
}
