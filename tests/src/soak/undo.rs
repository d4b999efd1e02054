//! Kills whatever writes beside a kubelet at every step of every write, then has `nodewarden undo` put
//! everything back, a thousand times by default. Every setting of every cgroup and every score has to be what
//! it was before.
//!
//! In three of four rounds a process that writes through the agent's own ledger, on real cgroups, kills
//! itself at a step: the first, the second, and so on until it survives its acts, then from the first step of
//! other acts. In each fourth round it is a whole agent, at any moment of its start and its first writes.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Rounds;
use crate::e2e::augment::fixture::{Augmented, features, is_possible};
use crate::e2e::hierarchy::pods::Dice;
use crate::fixture::{Agent, Worker};
use crate::harness::{Context, Failure};
use crate::worker::report::{LedgerAct, LedgerValue};
use crate::{ensure, ensure_eq};

/// Interval of progress messages.
const REPORT: Duration = Duration::from_secs(10);
/// A whole agent is killed in one of so many rounds.
const AGENT_EVERY: u64 = 4;
/// `undo` itself is killed in one of so many rounds.
const UNDO_EVERY: u64 = 3;
/// Within how many microseconds it is killed: it takes some milliseconds.
const UNDO_US: u64 = 8000;

/// What was done in the rounds.
#[derive(Debug, Default, Clone)]
pub struct Undone {
    pub rounds: u64,
    /// Rounds in which the ledger's process killed itself at a step, and in how many of them something had
    /// been written.
    pub steps: [u64; 2],
    /// The highest step of all.
    pub last_step: u64,
    /// Rounds in which an agent was killed, and in how many of them something had been written.
    pub agents: [u64; 2],
    /// How often `undo` was killed, and how often before it was done.
    pub undos: [u64; 2],
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, steps, last_step, agents, undos } = self;
        write!(
            f,
            "{rounds} rounds; the ledger was killed {} times at one of {} steps, one after the other ({} times with \
             something written), an agent {} times ({}), undo itself {} times ({} before it was done); every setting of \
             every cgroup and every score is as before",
            steps[0],
            last_step + 1,
            steps[1],
            agents[0],
            agents[1],
            undos[0],
            undos[1],
        )
    }
}

/// Runs the rounds. `progress` is called with messages for the user.
///
/// # Errors
/// Something is not as before, or a step fails.
pub fn undo(context: &Context, plan: &Rounds, progress: impl Fn(&str)) -> Result<Undone, Failure> {
    is_possible(context)?;
    progress(&format!("{} rounds, --seed {}", plan.rounds, plan.seed));
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let state = context.temp.join("state");
    let mut dice = Dice::new(plan.seed);
    let acts = acts(&node.ledger_values()?, &mut dice);
    let mut soak =
        Soak { context, node, before, state, dice, acts, step: 0, whole: None, done: Undone::default() };
    std::fs::create_dir_all(&soak.state).map_err(Failure::file(&soak.state))?;
    let mut reported = Instant::now();
    for round in 0..plan.rounds {
        let did =
            soak.round(round).map_err(|failure| Failure::Unexpected(format!("round {round}: {failure}")))?;
        soak.check(&did)
            .map_err(|failure| Failure::Unexpected(format!("round {round}, {did}: {failure}")))?;
        soak.done.rounds += 1;
        if reported.elapsed() >= REPORT {
            progress(&format!("{} of {} rounds: all as before", soak.done.rounds, plan.rounds));
            reported = Instant::now();
        }
    }
    let done = soak.done;
    ensure!(
        done.steps[1] * 4 >= done.steps[0],
        "something was written in {} of {} rounds only",
        done.steps[1],
        done.steps[0]
    );
    Ok(done)
}

struct Soak<'c> {
    context: &'c Context,
    node: Augmented<'c>,
    /// Every setting before the first round.
    before: BTreeMap<PathBuf, String>,
    state: PathBuf,
    dice: Dice,
    /// What the ledger's process does, and the step at which it is killed next.
    acts: Vec<LedgerAct>,
    step: u64,
    /// How long an agent takes until it has written everything.
    whole: Option<Duration>,
    done: Undone,
}

impl Soak<'_> {
    /// Has something killed while it writes. Returns what, for a message.
    fn round(&mut self, round: u64) -> Result<String, Failure> {
        if round % AGENT_EVERY == AGENT_EVERY - 1 { self.agent() } else { self.ledger() }
    }

    /// The ledger's process is killed at the next step.
    fn ledger(&mut self) -> Result<String, Failure> {
        let acts =
            serde_json::to_string(&self.acts).map_err(|error| Failure::Unexpected(error.to_string()))?;
        let (state, steps) = (self.state.display().to_string(), self.step.to_string());
        let arguments = ["ledger", "--state", &*state, "--steps", &*steps, "--acts", &*acts];
        let mut worker = Worker::start(self.context, None, &arguments)?;
        let status = worker.wait(self.context.patiently(20))?;
        let did = format!("killed at step {} of {acts}", self.step);
        if status.success() {
            // The worker survived all steps: the next round starts at the first step, with other acts.
            self.acts = self::acts(&self.node.ledger_values()?, &mut self.dice);
            self.step = 0;
            return Ok(did);
        }
        ensure_eq!(status.signal(), Some(Signal::SIGKILL as i32), "the signal that ended {did}");
        self.done.last_step = self.done.last_step.max(self.step);
        self.done.steps[0] += 1;
        self.done.steps[1] += u64::from(self.has_written()?);
        self.step += 1;
        Ok(did)
    }

    /// An agent is killed at any moment up to somewhat after its first writes.
    fn agent(&mut self) -> Result<String, Failure> {
        let whole = match self.whole {
            Some(whole) => whole,
            None => self.whole_start()?,
        };
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        // Nothing is written in the first half of a start.
        let moment = Duration::from_micros(micros / 2 + self.dice.roll(micros * 3 / 4));
        let mut agent = Agent::spawn(self.context, &self.node.options(&features("Enforce"), &self.state))?;
        std::thread::sleep(moment);
        agent.end(Signal::SIGKILL, self.node.wait(5))?;
        self.done.agents[0] += 1;
        self.done.agents[1] += u64::from(self.has_written()?);
        Ok(format!("an agent killed after {moment:?}"))
    }

    /// Measures how long an agent takes until everything is written; that one is killed, too.
    fn whole_start(&mut self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let mut agent = Agent::spawn(self.context, &self.node.options(&features("Enforce"), &self.state))?;
        self.node.wait_written()?;
        let whole = begun.elapsed();
        agent.end(Signal::SIGKILL, self.node.wait(5))?;
        self.whole = Some(whole);
        Ok(whole)
    }

    fn has_written(&self) -> Result<bool, Failure> {
        Ok(!Augmented::differences(&self.before, &self.node.settings()?).is_empty())
    }

    /// Undoes everything, in some rounds after an undo that was killed, and compares.
    fn check(&mut self, did: &str) -> Result<(), Failure> {
        let mut killed = String::new();
        if self.dice.roll(UNDO_EVERY) == 0 {
            killed = self.undo_killed()?;
        }
        let undone = self.node.undo(&self.state)?;
        said(&undone)?;
        let left = Augmented::differences(&self.before, &self.node.settings()?);
        ensure_eq!(left, [""; 0], "settings after undo{killed} ({did})");
        let again = said(&self.node.undo(&self.state)?)?;
        let is_done = again.contains("0 values were put back") || again.contains("nothing to put back");
        ensure!(is_done, "a second undo does something: {again}");
        Ok(())
    }

    /// Starts undo and kills it within some milliseconds.
    fn undo_killed(&mut self) -> Result<String, Failure> {
        let moment = Duration::from_micros(self.dice.roll(UNDO_US));
        let mut command = Command::new(&self.context.agent);
        command.args(["undo", "--state-dir"]).arg(&self.state);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Failure::file("nodewarden undo"))?;
        std::thread::sleep(moment);
        // It may have ended already.
        let _ = child.kill();
        let status = child.wait().map_err(Failure::file("nodewarden undo"))?;
        self.done.undos[0] += 1;
        self.done.undos[1] += u64::from(!status.success());
        Ok(format!(", killed once after {moment:?},"))
    }
}

/// What undo said.
fn said(output: &Output) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "undo: {text}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!text.contains("left alone"), "undo found what nothing else can have written: {text}");
    Ok(text)
}

/// Three to six acts at random. Each writes some of these values, or takes those of a pod back; the last one
/// often takes back everything.
fn acts(places: &[(LedgerValue, Vec<String>)], dice: &mut Dice) -> Vec<LedgerAct> {
    let mut acts = Vec::new();
    for _ in 0..3 + dice.roll(3) {
        let index = dice.roll(places.len() as u64) as usize;
        if dice.roll(4) == 0 {
            let pod = places.get(index).map(|(own, _)| own.pod.clone()).unwrap_or_default();
            acts.push(LedgerAct::Withdraw { pod });
            continue;
        }
        let mut values = Vec::new();
        for (own, choice) in places {
            let value = dice.roll(choice.len() as u64) as usize;
            if dice.roll(3) > 0
                && let Some(value) = choice.get(value)
            {
                values.push(LedgerValue { value: value.clone(), ..own.clone() });
            }
        }
        acts.push(LedgerAct::Write(values));
    }
    if dice.roll(2) == 0 {
        acts.push(LedgerAct::WithdrawAll);
    }
    acts
}
