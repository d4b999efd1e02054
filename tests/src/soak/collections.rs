//! Collects unused images all the time while pods and images come and go at random, and while removals
//! fail, hang or are interrupted by killing the agent. No image in use may ever be removed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Rounds;
use crate::e2e::gc::fixture::{GcFixture, image, running_pod};
use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{PAUSE_IMAGE, RemovalAction};
use crate::harness::{Context, Failure};

/// Number of different images. The disk has room for all of them.
const IMAGES: u64 = 8;
/// Number of pods at the same time.
const PODS: usize = 4;
/// Interval of progress messages.
const REPORT: Duration = Duration::from_secs(10);
/// Time between the agent's last check of an image's users and its call to remove the image.
const UNDER_WAY: Duration = Duration::from_millis(50);
/// High and low threshold in percent, so low that every unused image is removed.
const THRESHOLDS: [u64; 2] = [2, 1];

/// What was done in the rounds.
#[derive(Debug, Default, Clone, Copy)]
pub struct Collected {
    pub rounds: u64,
    pub pods: u64,
    pub imports: u64,
    pub kills: u64,
    /// Number of removals, and of those that were refused or not answered.
    pub removals: usize,
    pub troubled: usize,
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds with {} pods and {} imports; {} removals of images, of which {} were refused or not answered; \
             the agent was killed {} times; no image in use was ever removed",
            self.rounds, self.pods, self.imports, self.removals, self.troubled, self.kills
        )
    }
}

/// Runs the rounds. `progress` is called with messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn collections(context: &Context, plan: &Rounds, progress: impl Fn(&str)) -> Result<Collected, Failure> {
    progress(&format!("{} rounds, --seed {}", plan.rounds, plan.seed));
    let kubelet = "runtimeRequestTimeout: 2s\n";
    let section = "crashLoopBackOffInitialSeconds: 1\ngc: {periodSeconds: 1}";
    let site = GcFixture::new(context, THRESHOLDS, kubelet, section)?;
    let mut soak = Soak {
        context,
        site,
        dice: Dice::new(plan.seed),
        pods: BTreeMap::new(),
        named: 0,
        judged: 0,
        done: Collected::default(),
    };
    let mut reported = Instant::now();
    for round in 0..plan.rounds {
        soak.round().map_err(|failure| Failure::Unexpected(format!("round {round}: {failure}")))?;
        if reported.elapsed() >= REPORT {
            progress(&format!("{} of {} rounds: all well", soak.done.rounds, plan.rounds));
            reported = Instant::now();
        }
    }
    soak.end()
}

struct Soak<'c> {
    context: &'c Context,
    site: GcFixture<'c>,
    dice: Dice,
    /// The pods by name: number of the image, and id of the container.
    pods: BTreeMap<String, (u64, String)>,
    /// Number of pods created so far, used for names.
    named: u64,
    /// Number of removals that have been checked.
    judged: usize,
    done: Collected,
}

impl Soak<'_> {
    fn round(&mut self) -> Result<(), Failure> {
        match self.dice.roll(8) {
            0..3 => self.add_pod()?,
            3 => self.remove_pod()?,
            4 => self.import()?,
            5 => self.kill_at_removal()?,
            6 => self.disturb_removals()?,
            _ => self.run_gc()?,
        }
        self.done.rounds += 1;
        self.check_all()
    }

    /// Creates a pod and imports its image at the same time or later. The image may not be removed in
    /// between.
    fn add_pod(&mut self) -> Result<(), Failure> {
        if self.pods.len() >= PODS {
            self.remove_pod()?;
        }
        let n = self.dice.roll(IMAGES);
        let name = format!("p{}", self.named);
        self.named += 1;
        self.site.pods.put([running_pod(&name, &image(n))])?;
        if self.dice.roll(2) == 0 {
            std::thread::sleep(Duration::from_millis(self.dice.roll(400)) * self.context.patience);
        }
        // Once the agent shows the pod, its image may not be removed; a removal begun just before may still
        // be in progress.
        self.site.pods.wait_until(&name, "known", 20, |_| true)?;
        std::thread::sleep(UNDER_WAY * self.context.patience);
        self.hold(n);
        self.site.import(n)?;
        self.done.imports += 1;
        let pod = self.site.pods.wait_until(&name, "up once its image is there", 60, ListedPod::is_up)?;
        self.pods.insert(name, (n, pod.container("c")?.id().to_owned()));
        self.done.pods += 1;
        Ok(())
    }

    fn remove_pod(&mut self) -> Result<(), Failure> {
        let index = self.dice.roll(self.pods.len() as u64) as usize;
        let Some(name) = self.pods.keys().nth(index).cloned() else { return Ok(()) };
        let Some((n, _)) = self.pods.remove(&name) else { return Ok(()) };
        if !self.pods.values().any(|(other, _)| *other == n) {
            self.site.runtime.proxy.release(&image(n));
        }
        self.site.pods.remove(&name)?;
        if self.dice.roll(2) == 0 {
            // Otherwise it ends during the next steps.
            self.site.pods.wait_gone(&[&name])?;
        }
        Ok(())
    }

    /// Imports images that no pod uses.
    fn import(&mut self) -> Result<(), Failure> {
        for _ in 0..=self.dice.roll(2) {
            let n = self.dice.roll(IMAGES);
            self.site.import(n)?;
            self.done.imports += 1;
        }
        Ok(())
    }

    /// Kills the agent while it removes an image, before or after the removal is carried out.
    fn kill_at_removal(&mut self) -> Result<(), Failure> {
        let struck = Arc::new(AtomicBool::new(false));
        let (agent, struck_by_call) =
            (Pid::from_raw(self.site.pods.agent()?.pid().cast_signed()), Arc::clone(&struck));
        // The process is not reaped before the next kill is prepared, so the pid cannot belong to another
        // process.
        let strike = move || struck_by_call.store(kill(agent, Signal::SIGKILL).is_ok(), Ordering::SeqCst);
        match self.dice.roll(3) {
            0 => self.site.runtime.proxy.rule(move |_, _| {
                strike();
                RemovalAction::Hang
            }),
            1 => self.site.runtime.proxy.rule(move |_, _| {
                strike();
                RemovalAction::Pass
            }),
            _ => self.site.runtime.proxy.when_done(move |_| strike()),
        }
        self.import()?;
        // Two periods and the minimum age. If all images are in use, there is nothing to remove.
        let deadline = Instant::now() + self.context.patiently(4);
        while !struck.load(Ordering::SeqCst) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.site.pods.kill_agent()?;
        self.done.kills += 1;
        self.reset_proxy();
        self.site.pods.start_agent()
    }

    /// Makes removals fail or stay unanswered for a while.
    fn disturb_removals(&mut self) -> Result<(), Failure> {
        let (action, every) = match self.dice.roll(3) {
            0 => (RemovalAction::Fail, 2),
            1 => (RemovalAction::Hang, 5),
            _ => (RemovalAction::NoAnswer, 5),
        };
        self.site
            .runtime
            .proxy
            .rule(move |number, _| if number % every == 0 { action } else { RemovalAction::Pass });
        self.import()?;
        self.add_pod()?;
        self.reset_proxy();
        Ok(())
    }

    /// Runs `nodewarden gc` while other collections run. Where removals fail, the command fails too.
    fn run_gc(&mut self) -> Result<(), Failure> {
        self.import()?;
        let arguments: &[&str] = if self.dice.roll(3) == 0 { &["gc", "--dry-run"] } else { &["gc"] };
        let _output = self.site.pods.command(arguments)?;
        Ok(())
    }

    fn reset_proxy(&self) {
        self.site.runtime.proxy.rule(|_, _| RemovalAction::Pass);
        self.site.runtime.proxy.when_done(|_| {});
    }

    fn hold(&self, n: u64) {
        self.site.runtime.proxy.hold(&image(n));
    }

    /// Checks that every pod still runs with its image, and that no image in use was removed.
    fn check_all(&mut self) -> Result<(), Failure> {
        let proxy = &self.site.runtime.proxy;
        let violations = proxy.violations();
        ensure!(violations.is_empty(), "removals of what is in use: {}", violations.join("; "));
        ensure!(proxy.most_at_once() <= 1, "{} removals at once", proxy.most_at_once());
        let images = self.site.pods.cri().list_images()?;
        let there = |name: &str| images.iter().any(|one| one.repo_tags.iter().any(|tag| tag == name));
        ensure!(there(PAUSE_IMAGE), "the sandboxes' image is gone");
        for (name, (n, container)) in &self.pods {
            ensure!(there(&image(*n)), "{} of pod {name} is gone", image(*n));
            let pod = self.site.pods.wait_until(name, "up", 20, ListedPod::is_up)?;
            let c = pod.container("c")?;
            ensure!(
                c.id() == container && c.restarts() == 0,
                "{name} was started again: {}",
                pod.0["status"]
            );
        }
        let removals = proxy.removals();
        let troubled =
            removals.iter().skip(self.judged).filter(|one| one.action != RemovalAction::Pass).count();
        self.done.troubled += troubled;
        self.done.removals = removals.len();
        self.judged = removals.len();
        Ok(())
    }

    /// Removes all pods, and waits until every image is removed except the one that the runtime itself needs.
    fn end(mut self) -> Result<Collected, Failure> {
        while !self.pods.is_empty() {
            self.remove_pod()?;
        }
        self.reset_proxy();
        let mut left = Vec::new();
        let gone = eventually(self.context.patiently(40), "", || {
            let images = self.site.pods.cri().list_images()?;
            left =
                images.into_iter().flat_map(|one| one.repo_tags).filter(|tag| tag != PAUSE_IMAGE).collect();
            Ok(left.is_empty().then_some(()))
        });
        gone.map_err(|failure| Failure::Unexpected(format!("unused images stay{failure}: {left:?}")))?;
        self.check_all()?;
        ensure!(self.done.removals > 0, "no image was ever removed");
        let done = self.done;
        self.site.pods.finish()?;
        Ok(done)
    }
}
