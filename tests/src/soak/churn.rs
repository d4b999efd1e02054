//! Random changes of manifests and the checks at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::evidence::{Claim, contradiction, repeated, starts};
use super::manifests::{Kind, Version, manifest, name};
use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::{eventually, since, was_interrupted};
use crate::ensure;
use crate::fixture::mounts_below;
use crate::harness::{Context, Failure};

/// Number of pods, duration, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub pods: u64,
    pub duration: Duration,
    pub seed: u64,
    pub containerd_restarts: u32,
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Summary {
    pub dropped: u64,
    pub replaced: u64,
    pub resized: u64,
    pub removed: u64,
    pub kills: u64,
    pub containerd_restarts: u32,
    /// Number of container starts, as recorded by the containers.
    pub starts: u64,
    pub pods_in_the_end: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} manifests added, {} changed, {} resized, {} removed; the agent was killed {} times, containerd \
             restarted {} times; {} containers started; {} pods at the end, all as their manifests say, with no \
             surplus objects",
            self.dropped,
            self.replaced,
            self.resized,
            self.removed,
            self.kills,
            self.containerd_restarts,
            self.starts,
            self.pods_in_the_end
        )
    }
}

/// Changes manifests at random for the planned time, then checks the result. `progress` is called with
/// messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn churn(context: &Context, plan: &Plan, progress: impl Fn(&str)) -> Result<Summary, Failure> {
    progress(&format!("{} pods, {} s, --seed {}", plan.pods, plan.duration.as_secs(), plan.seed));
    let begin = SystemTime::now();
    // The journal must keep all events of the whole run.
    let section = "crashLoopBackOffInitialSeconds: 1\njournal: {memoryEvents: 500000, memoryBytes: 268435456, fileBytes: 67108864, files: 10}";
    let kubelet = "maxPods: 500\nfeatureGates: {KubeletCrashLoopBackOffMax: true}\n\
                   crashLoopBackOff: {maxContainerRestartPeriod: 5s}\n";
    let stage = PodFixture::with_config(context, kubelet, section)?;
    let evidence = context.temp.join("evidence");
    std::fs::create_dir(&evidence).map_err(Failure::file(&evidence))?;
    let mut churn = Churn {
        context,
        plan,
        stage,
        evidence,
        dice: Dice::new(plan.seed),
        wanted_pods: BTreeMap::new(),
        summary: Summary::default(),
    };
    for number in 0..plan.pods {
        churn.drop_pod(number)?;
    }
    churn.run(&progress)?;
    progress(&format!("waiting until {} pods are stable", churn.wanted_pods.len()));
    churn.settle()?;
    churn.check_leftovers()?;
    churn.check_causes_of_starts(begin)?;
    progress("removing every manifest");
    churn.summary.pods_in_the_end = churn.wanted_pods.len() as u64;
    let summary = churn.summary;
    churn.stage.finish()?;
    Ok(summary)
}

struct Churn<'c> {
    context: &'c Context,
    plan: &'c Plan,
    stage: PodFixture<'c>,
    evidence: PathBuf,
    dice: Dice,
    wanted_pods: BTreeMap<u64, Version>,
    summary: Summary,
}

impl Churn<'_> {
    fn drop_pod(&mut self, number: u64) -> Result<(), Failure> {
        let version = Version { content: self.dice.roll(1 << 30), size: 0 };
        self.wanted_pods.insert(number, version);
        self.summary.dropped += 1;
        self.stage.put([manifest(number, version, &self.evidence)])
    }

    /// Makes random changes until the time is over.
    fn run(&mut self, progress: &impl Fn(&str)) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut next_kill = Duration::from_secs(2);
        let mut next_report = Duration::from_secs(10);
        let mut restarts = 0;
        while begun.elapsed() < self.plan.duration {
            self.change()?;
            // More pods mean more changes: each pod is changed about every 20 seconds.
            let pause = 20_000 / self.plan.pods.max(1);
            std::thread::sleep(Duration::from_millis(self.dice.roll(2 * pause)) * self.context.patience);
            if begun.elapsed() >= next_kill {
                self.stage.kill_agent()?;
                std::thread::sleep(Duration::from_millis(self.dice.roll(300)));
                if self.dice.roll(3) == 0 {
                    // A change while no agent runs.
                    self.change()?;
                }
                self.stage.start_agent()?;
                self.summary.kills += 1;
                next_kill = begun.elapsed()
                    + Duration::from_millis(1000 + self.dice.roll(5000)) * self.context.patience;
            }
            let due = self.plan.duration * (restarts + 1) / (self.plan.containerd_restarts + 1);
            if restarts < self.plan.containerd_restarts && begun.elapsed() >= due {
                progress("containerd restarts");
                self.stage.without_containerd(|_| {
                    std::thread::sleep(Duration::from_secs(2));
                    Ok(())
                })?;
                restarts += 1;
                self.summary.containerd_restarts = restarts;
            }
            if begun.elapsed() >= next_report {
                let Summary { replaced, resized, removed, kills, .. } = self.summary;
                progress(&format!(
                    "{} s: {} pods; {replaced} changed, {resized} resized, {removed} removed, {kills} kills",
                    begun.elapsed().as_secs(),
                    self.wanted_pods.len()
                ));
                next_report += Duration::from_secs(10);
            }
        }
        Ok(())
    }

    /// Adds, removes or changes a manifest.
    fn change(&mut self) -> Result<(), Failure> {
        let number = self.dice.roll(self.plan.pods);
        let Some(mut version) = self.wanted_pods.get(&number).copied() else { return self.drop_pod(number) };
        match self.dice.roll(4) {
            0 => {
                self.wanted_pods.remove(&number);
                self.summary.removed += 1;
                return self.stage.remove(&name(number));
            }
            1 => {
                version.content = self.dice.roll(1 << 30);
                self.summary.replaced += 1;
            }
            _ => {
                version.size += 1;
                self.summary.resized += u64::from(Kind::of(number) == Kind::Sized);
            }
        }
        self.wanted_pods.insert(number, version);
        self.stage.put([manifest(number, version, &self.evidence)])
    }

    /// Waits until exactly the pods of the manifests run, each with its current content.
    fn settle(&self) -> Result<(), Failure> {
        let limit = self.context.patiently(60 + 2 * self.plan.pods);
        let mut wrong = Vec::new();
        let settled = eventually(limit, "", || {
            wrong = self.wrong(&self.stage.list_pods()?)?;
            Ok(wrong.is_empty().then_some(()))
        });
        settled.map_err(|failure| {
            let first: Vec<_> = wrong.iter().take(5).cloned().collect();
            Failure::Unexpected(format!(
                "{} requirements are not met{failure}: {}",
                wrong.len(),
                first.join("; ")
            ))
        })
    }

    fn wrong(&self, pods: &[ListedPod]) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        let wanted: BTreeSet<String> = self.wanted_pods.keys().map(|number| name(*number)).collect();
        let names: Vec<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
        wrong.extend(
            names.iter().filter(|name| !wanted.contains(*name)).map(|name| format!("{name} still exists")),
        );
        let doubled = names.len() != names.iter().collect::<BTreeSet<_>>().len();
        wrong.extend(doubled.then(|| "a pod exists twice".to_owned()));
        for (number, version) in &self.wanted_pods {
            let name = name(*number);
            let Some(pod) = pods.iter().find(|pod| pod.name() == name) else {
                wrong.push(format!("{name} is missing"));
                continue;
            };
            let fails = Kind::of(*number) == Kind::Failing;
            if !fails && !pod.is_up() {
                wrong.push(format!("{name} is not up: {}", pod.0["status"]));
                continue;
            }
            let text = std::fs::read_to_string(self.evidence.join(&name)).unwrap_or_default();
            let starts = starts(&text);
            for status in pod.statuses() {
                let claim = Claim {
                    uid: pod.uid(),
                    container: status.name(),
                    content: version.content,
                    restarts: status.restarts(),
                    fails,
                };
                wrong.extend(contradiction(&claim, &starts).map(|text| format!("{name}: {text}")));
            }
        }
        Ok(wrong)
    }

    /// Checks that the existing sandboxes, containers, volumes and directories are exactly those of the pods.
    fn check_leftovers(&self) -> Result<(), Failure> {
        let pods = self.stage.list_pods()?;
        let uids: BTreeSet<String> = pods.iter().map(|pod| pod.uid().to_owned()).collect();
        let mut last = Vec::new();
        let clean = eventually(self.context.patiently(30), "", || {
            last = self.surplus(&uids)?;
            Ok(last.is_empty().then_some(()))
        });
        clean.map_err(|_| Failure::Unexpected(format!("surplus or missing objects: {}", last.join("; "))))
    }

    fn surplus(&self, uids: &BTreeSet<String>) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        let uid = |labels: &std::collections::HashMap<String, String>| {
            labels.get("io.kubernetes.pod.uid").cloned().unwrap_or_default()
        };
        let mut sandboxes: Vec<String> =
            self.stage.cri().list_sandboxes()?.iter().map(|s| uid(&s.labels)).collect();
        sandboxes.sort();
        let expected: Vec<String> = uids.iter().cloned().collect();
        if sandboxes != expected {
            wrong.push(format!("sandboxes of {sandboxes:?} for pods {expected:?}"));
        }
        let running: usize = self
            .wanted_pods
            .keys()
            .map(|n| Kind::of(*n))
            .filter(|k| *k != Kind::Failing)
            .map(Kind::running)
            .sum();
        let failing: BTreeSet<String> =
            self.wanted_pods.keys().filter(|n| Kind::of(**n) == Kind::Failing).map(|n| name(*n)).collect();
        let of_failing = |labels: &std::collections::HashMap<String, String>| {
            labels.get("io.kubernetes.pod.name").is_some_and(|name| failing.contains(name))
        };
        let state: i32 = nodewarden_proto::runtime::v1::ContainerState::ContainerRunning.into();
        let containers = self.stage.cri().list_containers()?;
        let count = containers.iter().filter(|c| c.state == state && !of_failing(&c.labels)).count();
        if count != running {
            wrong.push(format!("{count} containers run, not {running}"));
        }
        let pods_dir = self.stage.agent()?.state().join("pods");
        for directory in std::fs::read_dir(&pods_dir).into_iter().flatten().flatten() {
            let name = directory.file_name().to_string_lossy().into_owned();
            if !uids.contains(&name) {
                wrong.push(format!("directory {} belongs to no pod", directory.path().display()));
            }
        }
        let rich = self.wanted_pods.keys().filter(|number| Kind::of(**number) == Kind::Rich).count();
        let mounts = mounts_below(&pods_dir);
        if mounts.len() != rich {
            wrong.push(format!("{} volumes in memory, not {rich}: {mounts:?}", mounts.len()));
        }
        Ok(wrong)
    }

    /// Checks that each container start that was not expected has a cause in the journal. This covers
    /// containers that never end by themselves, of all pods that ever existed, and the restart counts that
    /// the agent reports.
    fn check_causes_of_starts(&mut self, begin: SystemTime) -> Result<(), Failure> {
        // The stream ends by itself, but reading a long journal from disk takes a while.
        let quiet = self.context.patiently(60);
        let events = self.stage.agent()?.client()?.watch(since(begin, &["pod"]))?;
        let mut causes: BTreeSet<(String, String)> = BTreeSet::new();
        let mut journal: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let events = events.collect(quiet, 2 * quiet, |_| true)?;
        let read = events.len();
        for received in events {
            let (Some(pod), Some(Detail::PodNote(note))) = (received.event.pod, received.event.detail) else {
                continue;
            };
            let line = format!("{}: {}: {:.80}", pod.container_name, note.reason, note.message);
            journal.entry(pod.uid.clone()).or_default().push(line);
            // The agent ended it, the start was interrupted, or it ended while containerd was not running.
            let unseen = note.message.contains("Unknown, exit code 255");
            if note.reason == "Killing" || was_interrupted(&note) || unseen {
                causes.insert((pod.uid, pod.container_name));
            }
        }
        let explained = |uid: &str, container: &str| causes.contains(&(uid.to_owned(), container.to_owned()));
        let mut unexplained = Vec::new();
        for number in 0..self.plan.pods {
            let path = self.evidence.join(name(number));
            let starts = starts(&std::fs::read_to_string(&path).unwrap_or_default());
            self.summary.starts += starts.values().map(|said| said.len() as u64).sum::<u64>();
            if Kind::of(number) != Kind::Failing {
                unexplained.extend(repeated(&starts, &explained));
            }
        }
        let failing =
            |pod: &str| self.wanted_pods.keys().any(|n| Kind::of(*n) == Kind::Failing && name(*n) == pod);
        for pod in self.stage.list_pods()?.iter().filter(|pod| !failing(pod.name())) {
            for status in pod.statuses().filter(|status| status.restarts() > 0) {
                if !explained(pod.uid(), status.name()) {
                    unexplained.push(format!(
                        "{} {}: {} restarts",
                        pod.uid(),
                        status.name(),
                        status.restarts()
                    ));
                }
            }
        }
        let uid = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
        let first = unexplained.first().map(|text| journal.remove(&uid(text)).unwrap_or_default());
        ensure!(
            unexplained.is_empty(),
            "containers that started again without a cause: {}; of the {read} events in the journal those of the first: {}",
            unexplained.join(", "),
            first.unwrap_or_default().join("; ")
        );
        Ok(())
    }
}
