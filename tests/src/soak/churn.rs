//! The churn itself: what changes, when, and what must be true in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::evidence::{Claim, contradiction, repeated, starts};
use super::manifests::{Kind, Version, manifest, name};
use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::pods::seen::Seen;
use crate::e2e::pods::stage::Stage;
use crate::e2e::support::{eventually, since, was_cut_off};
use crate::ensure;
use crate::fixture::mounts_below;
use crate::harness::{Context, Failure};

/// How long, how many, and by which dice.
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
    /// Starts of containers that they themselves have told of.
    pub starts: u64,
    pub pods_in_the_end: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} manifests dropped, {} changed, {} resized, {} removed; the agent killed {} times, containerd \
             restarted {} times; {} containers began; {} pods in the end, all as their manifests say, nothing left",
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

/// Sets a stage, lets it churn, and looks at what has become of it.
///
/// # Errors
/// What is not as it must be.
pub fn churn(context: &Context, plan: &Plan, progress: impl Fn(&str)) -> Result<Summary, Failure> {
    progress(&format!("{} pods, {} s, --seed {}", plan.pods, plan.duration.as_secs(), plan.seed));
    let begin = SystemTime::now();
    // Journals of so long a time are large: nothing of it may be forgotten.
    let section = "crashLoopBackOffInitialSeconds: 1\njournal: {memoryEvents: 500000, memoryBytes: 268435456, fileBytes: 67108864, files: 10}";
    let kubelet = "maxPods: 500\nfeatureGates: {KubeletCrashLoopBackOffMax: true}\n\
                   crashLoopBackOff: {maxContainerRestartPeriod: 5s}\n";
    let stage = Stage::with(context, kubelet, section)?;
    let evidence = context.temp.join("evidence");
    std::fs::create_dir(&evidence).map_err(Failure::file(&evidence))?;
    let mut churn = Churn {
        context,
        plan,
        stage,
        evidence,
        dice: Dice::new(plan.seed),
        there: BTreeMap::new(),
        done: Summary::default(),
    };
    for number in 0..plan.pods {
        churn.drop_pod(number)?;
    }
    churn.play(&progress)?;
    progress(&format!("at rest: {} pods", churn.there.len()));
    churn.settle()?;
    churn.nothing_too_much()?;
    churn.no_start_without_a_cause(begin)?;
    progress("every manifest is removed");
    churn.done.pods_in_the_end = churn.there.len() as u64;
    let done = churn.done;
    churn.stage.finish()?;
    Ok(done)
}

struct Churn<'c> {
    context: &'c Context,
    plan: &'c Plan,
    stage: Stage<'c>,
    evidence: PathBuf,
    dice: Dice,
    there: BTreeMap<u64, Version>,
    done: Summary,
}

impl Churn<'_> {
    fn drop_pod(&mut self, number: u64) -> Result<(), Failure> {
        let version = Version { content: self.dice.roll(1 << 30), size: 0 };
        self.there.insert(number, version);
        self.done.dropped += 1;
        self.stage.put([manifest(number, version, &self.evidence)])
    }

    /// Changes at random until the time is over.
    fn play(&mut self, progress: &impl Fn(&str)) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut next_kill = Duration::from_secs(2);
        let mut next_told = Duration::from_secs(10);
        let mut restarts = 0;
        while begun.elapsed() < self.plan.duration {
            self.change()?;
            // The more pods, the more happens: each is changed every 20 seconds or so.
            let pause = 20_000 / self.plan.pods.max(1);
            std::thread::sleep(Duration::from_millis(self.dice.roll(2 * pause)) * self.context.patience);
            if begun.elapsed() >= next_kill {
                self.stage.kill_agent()?;
                std::thread::sleep(Duration::from_millis(self.dice.roll(300)));
                if self.dice.roll(3) == 0 {
                    // While nobody watches.
                    self.change()?;
                }
                self.stage.start_agent()?;
                self.done.kills += 1;
                next_kill = begun.elapsed()
                    + Duration::from_millis(1000 + self.dice.roll(5000)) * self.context.patience;
            }
            let due = self.plan.duration * (restarts + 1) / (self.plan.containerd_restarts + 1);
            if restarts < self.plan.containerd_restarts && begun.elapsed() >= due {
                progress("containerd restarts");
                self.stage.containerd_away(|_| {
                    std::thread::sleep(Duration::from_secs(2));
                    Ok(())
                })?;
                restarts += 1;
                self.done.containerd_restarts = restarts;
            }
            if begun.elapsed() >= next_told {
                let Summary { replaced, resized, removed, kills, .. } = self.done;
                progress(&format!(
                    "{} s: {} pods; {replaced} changed, {resized} resized, {removed} removed, {kills} kills",
                    begun.elapsed().as_secs(),
                    self.there.len()
                ));
                next_told += Duration::from_secs(10);
            }
        }
        Ok(())
    }

    /// One manifest comes, goes, or says something else.
    fn change(&mut self) -> Result<(), Failure> {
        let number = self.dice.roll(self.plan.pods);
        let Some(mut version) = self.there.get(&number).copied() else { return self.drop_pod(number) };
        match self.dice.roll(4) {
            0 => {
                self.there.remove(&number);
                self.done.removed += 1;
                return self.stage.remove(&name(number));
            }
            1 => {
                version.content = self.dice.roll(1 << 30);
                self.done.replaced += 1;
            }
            _ => {
                version.size += 1;
                self.done.resized += u64::from(Kind::of(number) == Kind::Sized);
            }
        }
        self.there.insert(number, version);
        self.stage.put([manifest(number, version, &self.evidence)])
    }

    /// Waits until exactly the manifests' pods run, each with its content.
    fn settle(&self) -> Result<(), Failure> {
        let limit = self.context.patiently(60 + 2 * self.plan.pods);
        let mut wrong = Vec::new();
        let settled = eventually(limit, "", || {
            wrong = self.wrong(&self.stage.pods()?)?;
            Ok(wrong.is_empty().then_some(()))
        });
        settled.map_err(|failure| {
            let first: Vec<_> = wrong.iter().take(5).cloned().collect();
            Failure::Unexpected(format!(
                "{} things are not as they must be{failure}: {}",
                wrong.len(),
                first.join("; ")
            ))
        })
    }

    fn wrong(&self, pods: &[Seen]) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        let wanted: BTreeSet<String> = self.there.keys().map(|number| name(*number)).collect();
        let names: Vec<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
        wrong.extend(
            names.iter().filter(|name| !wanted.contains(*name)).map(|name| format!("{name} is still there")),
        );
        let doubled = names.len() != names.iter().collect::<BTreeSet<_>>().len();
        wrong.extend(doubled.then(|| "a pod is there twice".to_owned()));
        for (number, version) in &self.there {
            let name = name(*number);
            let Some(pod) = pods.iter().find(|pod| pod.name() == name) else {
                wrong.push(format!("{name} is not there"));
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

    /// Sandboxes, containers, volumes and cgroups are those of the pods, one each.
    fn nothing_too_much(&self) -> Result<(), Failure> {
        let pods = self.stage.pods()?;
        let uids: BTreeSet<String> = pods.iter().map(|pod| pod.uid().to_owned()).collect();
        let mut last = Vec::new();
        let clean = eventually(self.context.patiently(30), "", || {
            last = self.surplus(&uids)?;
            Ok(last.is_empty().then_some(()))
        });
        clean.map_err(|_| Failure::Unexpected(format!("too much or too little: {}", last.join("; "))))
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
        let running: usize =
            self.there.keys().map(|n| Kind::of(*n)).filter(|k| *k != Kind::Failing).map(Kind::running).sum();
        let failing: BTreeSet<String> =
            self.there.keys().filter(|n| Kind::of(**n) == Kind::Failing).map(|n| name(*n)).collect();
        let of_failing = |labels: &std::collections::HashMap<String, String>| {
            labels.get("io.kubernetes.pod.name").is_some_and(|name| failing.contains(name))
        };
        let state: i32 = nodewarden_proto::runtime::v1::ContainerState::ContainerRunning.into();
        let containers = self.stage.cri().list_containers()?;
        let count = containers.iter().filter(|c| c.state == state && !of_failing(&c.labels)).count();
        if count != running {
            wrong.push(format!("{count} containers run, not {running}"));
        }
        let home = self.stage.agent()?.state().join("pods");
        for directory in std::fs::read_dir(&home).into_iter().flatten().flatten() {
            let name = directory.file_name().to_string_lossy().into_owned();
            if !uids.contains(&name) {
                wrong.push(format!("directory {} of no pod", directory.path().display()));
            }
        }
        let rich = self.there.keys().filter(|number| Kind::of(**number) == Kind::Rich).count();
        let mounts = mounts_below(&home);
        if mounts.len() != rich {
            wrong.push(format!("{} volumes in memory, not {rich}: {mounts:?}", mounts.len()));
        }
        Ok(wrong)
    }

    /// No container that does not end by itself began twice, of no pod that there ever was, and none is said to have been
    /// restarted, unless it is in the journal why.
    fn no_start_without_a_cause(&mut self, begin: SystemTime) -> Result<(), Failure> {
        // The stream ends by itself; reading so long a journal from disk takes a while.
        let quiet = self.context.patiently(60);
        let events = self.stage.agent()?.client()?.watch(since(begin, &["pod"]))?;
        let mut causes: BTreeSet<(String, String)> = BTreeSet::new();
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let events = events.collect(quiet, 2 * quiet, |_| true)?;
        let read = events.len();
        for received in events {
            let (Some(pod), Some(Detail::PodNote(note))) = (received.event.pod, received.event.detail) else {
                continue;
            };
            let line = format!("{}: {}: {:.80}", pod.container_name, note.reason, note.message);
            told.entry(pod.uid.clone()).or_default().push(line);
            // An end by the agent, a start that came to nothing, and an end that containerd was not there to see.
            let unseen = note.message.contains("Unknown, exit code 255");
            if note.reason == "Killing" || was_cut_off(&note) || unseen {
                causes.insert((pod.uid, pod.container_name));
            }
        }
        let explained = |uid: &str, container: &str| causes.contains(&(uid.to_owned(), container.to_owned()));
        let mut unexplained = Vec::new();
        for number in 0..self.plan.pods {
            let path = self.evidence.join(name(number));
            let starts = starts(&std::fs::read_to_string(&path).unwrap_or_default());
            self.done.starts += starts.values().map(|said| said.len() as u64).sum::<u64>();
            if Kind::of(number) != Kind::Failing {
                unexplained.extend(repeated(&starts, &explained));
            }
        }
        let failing = |pod: &str| self.there.keys().any(|n| Kind::of(*n) == Kind::Failing && name(*n) == pod);
        for pod in self.stage.pods()?.iter().filter(|pod| !failing(pod.name())) {
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
        let first = unexplained.first().map(|text| told.remove(&uid(text)).unwrap_or_default());
        ensure!(
            unexplained.is_empty(),
            "containers that began again without a cause: {}; of {read} events the journal says of the first: {}",
            unexplained.join(", "),
            first.unwrap_or_default().join("; ")
        );
        Ok(())
    }
}
