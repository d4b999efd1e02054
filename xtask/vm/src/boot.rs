//! One guest from its initramfs to its verdict.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::error::VmError;
use super::guest::Guest;
use super::machine::{Console, Emulation, MEMORY_MIB, Machine, Plan, Shape};
use super::oops;
use super::prepare::Prepared;
use super::received::{Feature, Received};
use super::site::Site;
use super::verdict::{Evidence, Exit, Limit, PANIC, Verdict, judge, warnings};
use super::{initramfs, interrupt};
use nodewarden_guest_job::{Fault, Job, Layout as CgroupLayout, Task};
use xtask_common::tally::Tally;

/// How many lines of a failed guest's console are shown.
const CONSOLE_LINES: usize = 40;
/// How often a waiting loop looks at the clock and for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(100);

/// One guest to boot.
#[derive(Debug, Clone)]
pub struct Order {
    /// Which.
    pub guest: Guest,
    /// Printed in front of each of its lines, to distinguish it from others.
    pub name: String,
    /// What it does.
    pub task: Task,
    /// For the tests: parts of names.
    pub filters: Vec<String>,
    /// For the tests and benches: the factor on every time-out.
    pub patience: u32,
    /// For the tests: how many that fail are run a second time.
    pub second_attempts: u32,
    /// Whether to ask what each feature does.
    pub features: bool,
    /// What is broken on purpose.
    pub fault: Fault,
    /// An agent other than the one that was built.
    pub agent: Option<PathBuf>,
    /// What it sees of memory, in MiB.
    pub memory_mib: u32,
    /// Its CPUs and NUMA nodes.
    pub shape: Shape,
    /// How its CPUs are emulated.
    pub emulation: Emulation,
    /// From the start to the beginning of the job.
    pub boot_limit: Duration,
    /// From the start to the end.
    pub limit: Duration,
    /// Longest time without a line of the job, once it has begun; `None`: no limit.
    pub silence: Option<Duration>,
}

impl Order {
    /// Boots `guest` and does nothing in it.
    pub fn noop(guest: Guest) -> Self {
        Self {
            guest,
            name: guest.to_string(),
            task: Task::Noop,
            filters: Vec::new(),
            patience: 1,
            second_attempts: 0,
            features: false,
            fault: Fault::None,
            agent: None,
            memory_mib: MEMORY_MIB,
            shape: Shape::Small,
            emulation: Emulation::default(),
            // Two seconds on an idle machine, and with systemd ten times as long.
            boot_limit: Duration::from_secs(240),
            limit: Duration::from_secs(300),
            silence: None,
        }
    }
}

/// How a guest ended.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub guest: Guest,
    /// What its lines began with.
    pub name: String,
    /// Its kernel, if it came so far.
    pub release: Option<String>,
    /// The judgement.
    pub verdict: Verdict,
    /// Its tests, by their own names. A guest that failed otherwise has that as a failed test.
    pub tally: Tally,
    /// What each feature does on its kernel.
    pub features: Vec<Feature>,
    /// What the kernel warned of.
    pub warnings: Vec<String>,
    /// What the tests printed.
    pub output: Vec<String>,
    /// The last lines of its console.
    pub console_end: Vec<String>,
    /// From packing to QEMU's end.
    pub took: Duration,
}

/// Boots one guest and waits for its end; `show` gets each line for the user.
///
/// # Errors
/// When it can't be packed or QEMU not be started, and when the user wants to stop.
pub fn boot(site: &Site, order: &Order, show: &dyn Fn(&str)) -> Result<Outcome, VmError> {
    let begun = Instant::now();
    let folder = site.temp().join(order.name.replace([' ', '/'], "-"));
    std::fs::create_dir_all(&folder).map_err(VmError::file("make", &folder))?;
    let kernel = &site.prepared.kernels[&order.guest.family];
    let job = Job {
        layout: order.guest.layout,
        task: order.task,
        filters: order.filters.clone(),
        patience: order.patience,
        second_attempts: order.second_attempts,
        features: order.features,
        fault: order.fault,
    };
    let archive =
        initramfs::initramfs(site.layout, kernel, &site.programs, &job, order.agent.as_deref(), &folder)?;
    let console = folder.join("console");
    let plan = Plan {
        qemu: &site.prepared.qemu,
        kernel: &kernel.vmlinux,
        initramfs: &archive,
        root: root_disk(order.guest, &site.prepared),
        node: None,
        scratch: Some(&site.prepared.scratch),
        memory_mib: order.memory_mib,
        shape: order.shape,
        emulation: order.emulation,
        console: Console::File(&console),
    };
    let (mut received, exit, timed_out) = attend(&plan, order, show)?;
    if order.emulation == Emulation::VirtualTime {
        // Its clock is one of its own.
        received.lasted = None;
    }

    let text = std::fs::read(&console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let evidence = Evidence { console: &text, received: &received, exit: &exit, timed_out };
    let verdict = judge(&evidence, order.task == Task::Test);
    let mut tally = received.counted();
    if let (Verdict::Failed(reason), 0) = (&verdict, tally.counts.failed) {
        tally.fail(reason.to_string());
    }
    // What a whole matrix leaves would add up in the meantime.
    std::fs::remove_dir_all(&folder).map_err(VmError::file("remove", &folder))?;
    Ok(Outcome {
        guest: order.guest,
        name: order.name.clone(),
        warnings: warnings(&text, &received),
        console_end: last_lines(&text),
        release: received.release,
        verdict,
        tally,
        features: received.features,
        output: received.output,
        took: begun.elapsed(),
    })
}

/// The Debian root of a guest that has one.
pub fn root_disk(guest: Guest, prepared: &Prepared) -> Option<&Path> {
    let root = prepared.root.as_ref().filter(|_| guest.layout == CgroupLayout::Systemd);
    root.map(|root| root.image.as_path())
}

/// Starts QEMU and listens until it ends or has to be ended.
fn attend(
    plan: &Plan,
    order: &Order,
    show: &dyn Fn(&str),
) -> Result<(Received, Exit, Option<Limit>), VmError> {
    let program = || PathBuf::from(plan.command().get_program());
    let failed = |action| move |source: io::Error| VmError::Qemu { action, path: program(), source };
    let begun = Instant::now();
    let machine = Machine::start(plan).map_err(failed("start"))?;
    let mut received = Received::default();
    let mut timed_out = None;
    let mut heard = Instant::now();
    loop {
        match machine.lines().recv_timeout(GLANCE) {
            Ok(line) => {
                heard = Instant::now();
                if let Some(line) = received.line(&line, begun.elapsed()) {
                    show(&line);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if interrupt::is_set() {
            return Err(VmError::Interrupted);
        }
        let started = received.release.is_some();
        timed_out = over(begun.elapsed(), started, order.boot_limit, order.limit)
            .or_else(|| silent(heard.elapsed(), started, order.silence));
        if timed_out.is_some() {
            break;
        }
    }
    let (status, errors) = machine.end(timed_out.is_some()).map_err(failed("await the end of"))?;
    Ok((received, exit(status, &errors, timed_out.is_some()), timed_out))
}

/// The limit that is over.
fn over(elapsed: Duration, started: bool, boot: Duration, whole: Duration) -> Option<Limit> {
    if elapsed >= whole {
        Some(Limit::Whole(whole))
    } else if !started && elapsed >= boot {
        Some(Limit::Boot(boot))
    } else {
        None
    }
}

/// The limit of silence, if it is over.
fn silent(elapsed: Duration, started: bool, longest: Option<Duration>) -> Option<Limit> {
    longest.filter(|longest| started && elapsed >= *longest).map(Limit::Silence)
}

fn exit(status: ExitStatus, errors: &str, killed: bool) -> Exit {
    if killed {
        Exit::Killed
    } else if status.success() {
        Exit::Clean
    } else {
        let words = errors.trim();
        Exit::Failed(if words.is_empty() { status.to_string() } else { format!("{words} ({status})") })
    }
}

/// The end of a console, without what terminals do with it. A panic is shown from the first line of the fault
/// that it is for, however long the traces are.
fn last_lines(console: &str) -> Vec<String> {
    let lines = console.lines().map(|line| line.replace('\x1b', "").trim_end().to_owned());
    let lines = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let end = lines.len().saturating_sub(CONSOLE_LINES);
    let panic = lines.iter().position(|line| line.contains(PANIC));
    let fault = panic.and_then(|panic| oops::first_line(lines[..panic].iter().map(String::as_str)));
    let begin = fault.or(panic).map_or(end, |first| first.min(end));
    lines[begin..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_has_a_limit_of_its_own() {
        let seconds = Duration::from_secs;
        let over = |elapsed, started| over(seconds(elapsed), started, seconds(10), seconds(60));
        assert_eq!(over(9, false), None);
        assert_eq!(over(10, false), Some(Limit::Boot(seconds(10))));
        assert_eq!(over(59, true), None);
        assert_eq!(over(60, true), Some(Limit::Whole(seconds(60))));
        assert_eq!(over(60, false), Some(Limit::Whole(seconds(60))));
    }

    #[test]
    fn silence_has_a_limit_once_the_job_has_begun() {
        let seconds = Duration::from_secs;
        assert_eq!(silent(seconds(9), true, Some(seconds(10))), None);
        assert_eq!(silent(seconds(10), false, Some(seconds(10))), None);
        assert_eq!(silent(seconds(10), true, None), None);
        assert_eq!(silent(seconds(10), true, Some(seconds(10))), Some(Limit::Silence(seconds(10))));
    }

    #[test]
    fn the_console_ends_with_its_last_lines() {
        let text = (0..100).map(|n| format!("line {n}\r\n\r\n")).collect::<String>();
        let lines = last_lines(&text);
        assert_eq!((lines.len(), lines[0].as_str()), (CONSOLE_LINES, "line 60"));
        assert_eq!(last_lines("\x1b[0m\n"), ["[0m"]);
        let panic = format!("[    1.9] {PANIC} - not syncing: why\n{text}");
        let lines = last_lines(&format!("{text}{panic}"));
        assert_eq!((lines.len(), lines[0].as_str()), (101, "[    1.9] Kernel panic - not syncing: why"));
        let fault = "[    1.8] int3: 0000 [#1] SMP";
        assert_eq!(last_lines(&format!("{text}{fault}\n{panic}"))[0], fault);
    }
}
