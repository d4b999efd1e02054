//! Kills the agent at every step of an allocation, a thousand times by default. No device may ever be
//! allocated to two pods, none may be lost, and each container must have the devices that the checkpoint
//! says.

mod trap;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::e2e::devices::checkpoint::owners;
use crate::e2e::devices::fixture::{DeviceFixture, full_name, limits, notes};
use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::pods::manifest::{STAY, merged, pod, shell};
use crate::e2e::support::eventually;
use crate::fixture::{DeviceNode, NativePlugin};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};
use trap::{Step, Trap};

const RESOURCE: &str = "soak";
const DEVICES: [&str; 8] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"];
/// Pods at the same time, and the most devices that one of them requests.
const PODS: usize = 4;
const WANTS: u64 = 3;
/// Interval of progress messages.
const REPORT: Duration = Duration::from_secs(10);
/// How long an allocation may take to reach its step, in seconds.
const STEP_S: u64 = 10;

/// Number of rounds, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    pub rounds: u64,
    pub seed: u64,
}

/// What was done in the rounds.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub rounds: u64,
    /// Number of kills at each step, in the order of `Step::ALL`.
    pub kills: [u64; 6],
    /// Number of kills while a pod's devices were being freed.
    pub at_release: u64,
    pub allocations: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: Vec<_> = Step::ALL
            .iter()
            .zip(self.kills)
            .map(|(step, kills)| format!("{}: {kills}", step.name()))
            .collect();
        write!(
            f,
            "{} rounds; the agent was killed at each step of an allocation ({}) and {} times while devices were freed; \
             the plugin got {} calls; no device was allocated twice or lost, and every container has its devices",
            self.rounds,
            kills.join(", "),
            self.at_release,
            self.allocations
        )
    }
}

/// Runs the rounds. `progress` is called with messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn allocations(context: &Context, plan: &Rounds, progress: impl Fn(&str)) -> Result<Tally, Failure> {
    progress(&format!("{} rounds, --seed {}", plan.rounds, plan.seed));
    let site = DeviceFixture::new(context, "")?;
    let trap = Trap::default();
    trap.watch(&site.dir())?;
    let mut behaviour = site.behaviour(RESOURCE, &DEVICES);
    behaviour.preferred_allocation = true;
    behaviour.per_device.push(DeviceNode {
        container_path: "/dev/soak/{id}".into(),
        host_path: "/dev/null".into(),
        permissions: "rw".into(),
    });
    let plugin = site.start_native(&behaviour, Some(trap.hook()))?;
    let evidence = context.temp.join("notes");
    let mut soak = Soak {
        context,
        site,
        trap,
        plugin,
        evidence,
        dice: Dice::new(plan.seed),
        pods: BTreeMap::new(),
        tally: Tally::default(),
    };
    let mut reported = Instant::now();
    for round in 0..plan.rounds {
        let step = Step::ALL[(round % Step::ALL.len() as u64) as usize];
        soak.round(round, step).map_err(|failure| {
            let log = soak.plugin.log();
            let last = &log[log.len().saturating_sub(6)..];
            let at = format!("round {round}, killed at {:?}", step.name());
            Failure::Unexpected(format!("{at}: {failure}; the plugin's last calls: {last:?}"))
        })?;
        if reported.elapsed() >= REPORT {
            progress(&format!("{} of {} rounds: all well", soak.tally.rounds, plan.rounds));
            reported = Instant::now();
        }
    }
    soak.end()
}

struct Soak<'c> {
    context: &'c Context,
    site: DeviceFixture<'c>,
    trap: Trap,
    plugin: NativePlugin,
    evidence: PathBuf,
    dice: Dice,
    /// Number of devices of each pod.
    pods: BTreeMap<String, u64>,
    tally: Tally,
}

impl Soak<'_> {
    /// Creates a pod and kills the agent at `step` of its allocation.
    fn round(&mut self, round: u64, step: Step) -> Result<(), Failure> {
        let taken = |soak: &Self| soak.pods.values().sum::<u64>();
        while self.pods.len() >= PODS || taken(self) >= DEVICES.len() as u64 {
            self.release()?;
        }
        let free = DEVICES.len() as u64 - taken(self);
        let wanted = 1 + self.dice.roll(WANTS.min(free));
        let name = format!("round{round}");
        let manifest = self.manifest(&name, wanted)?;
        self.trap.arm(step, self.site.pods.agent()?.pid());
        self.site.pods.put([manifest])?;
        self.pods.insert(name.clone(), wanted);
        self.wait_for(step, &name)?;
        self.trap.disarm();
        self.site.pods.kill_agent()?;
        let index = Step::ALL.iter().position(|one| *one == step).unwrap_or_default();
        self.tally.kills[index] += 1;
        // The checkpoint on disk is complete and has no device twice.
        if self.site.checkpoint().exists() {
            owners(&self.site.checkpoint())?;
        }
        self.site.pods.start_agent()?;
        self.site.pods.wait_up(&name)?;
        self.tally.rounds += 1;
        self.check_all()
    }

    /// Waits until the agent has been killed at its step.
    fn wait_for(&mut self, step: Step, name: &str) -> Result<(), Failure> {
        if step == Step::Anywhere {
            std::thread::sleep(Duration::from_millis(self.dice.roll(150)) * self.context.patience);
            self.trap.seen(step);
        }
        let deadline = Instant::now() + self.context.patiently(STEP_S);
        while !self.trap.has_killed() {
            if step == Step::Created {
                let containers = self.site.pods.cri().list_containers()?;
                let label = |labels: &std::collections::HashMap<String, String>| {
                    labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == name)
                };
                if containers.iter().any(|container| label(&container.labels)) {
                    self.trap.seen(step);
                }
            }
            ensure!(Instant::now() < deadline, "{name}: {:?} was not reached within {STEP_S} s", step.name());
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// Removes a pod, and sometimes kills the agent meanwhile.
    fn release(&mut self) -> Result<(), Failure> {
        let index = self.dice.roll(self.pods.len() as u64) as usize;
        let Some(name) = self.pods.keys().nth(index).cloned() else { return Ok(()) };
        self.pods.remove(&name);
        self.site.pods.remove(&name)?;
        if self.dice.roll(4) == 0 {
            std::thread::sleep(Duration::from_millis(self.dice.roll(200)) * self.context.patience);
            self.site.pods.kill_agent()?;
            self.site.pods.start_agent()?;
            self.tally.at_release += 1;
        }
        self.site.pods.wait_gone(&[&name])?;
        let live = self.uids()?;
        eventually(self.context.patiently(10), &format!("{name}'s devices are not freed"), || {
            let owners = owners(&self.site.checkpoint())?;
            Ok(owners.keys().all(|(uid, _)| live.contains(uid)).then_some(()))
        })
    }

    fn uids(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.site.pods.list_pods()?.iter().map(|pod| pod.uid().to_owned()).collect())
    }

    /// A pod that writes into its notes at each start which device nodes it finds.
    fn manifest(&self, name: &str, wanted: u64) -> Result<Value, Failure> {
        let (volumes, mount) = notes(&self.evidence)?;
        let script = format!("echo `ls /dev/soak` >> /notes/$UID; {STAY}");
        let uid = json!({ "env": [{ "name": "UID", "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }] });
        let wanted = u32::try_from(wanted).unwrap_or(1);
        let c = shell("c", &script, merged(merged(limits(&[(RESOURCE, wanted)]), mount), uid));
        Ok(pod(name, json!({ "volumes": volumes, "containers": [c] })))
    }

    /// Checks for every pod that the device nodes in its container, the checkpoint and PodResources agree.
    fn check_all(&self) -> Result<(), Failure> {
        let mut last = String::new();
        let well = eventually(self.context.patiently(10), "", || {
            match self.check_once() {
                Ok(()) => return Ok(Some(())),
                Err(failure) => last = failure.to_string(),
            }
            Ok(None)
        });
        well.map_err(|failure| Failure::Unexpected(format!("{last}{failure}")))
    }

    fn check_once(&self) -> Result<(), Failure> {
        let owners = owners(&self.site.checkpoint())?;
        let given = self.site.allocated()?;
        let pods = self.site.pods.list_pods()?;
        let names: BTreeSet<_> = pods.iter().map(|pod| pod.name().to_owned()).collect();
        ensure_eq!(names, self.pods.keys().cloned().collect(), "pods");
        ensure_eq!(owners.len(), self.pods.len(), "pods in the checkpoint");
        let mut all = BTreeSet::new();
        for pod in &pods {
            let (name, uid) = (pod.name(), pod.uid());
            ensure!(pod.is_up(), "{name} is not up: {}", pod.0["status"]);
            let ids = owners.get(&(uid.to_owned(), "c".to_owned())).cloned().unwrap_or_default();
            ensure_eq!(Some(&(ids.len() as u64)), self.pods.get(name), "number of {name}'s devices");
            ensure!(all.is_disjoint(&ids), "{name} has a device of another pod: {owners:?}");
            all.extend(ids.iter().cloned());
            let reported = given.get(name).and_then(|of_pod| of_pod.get(&full_name(RESOURCE)));
            ensure_eq!(reported, Some(&ids), "PodResources compared with the checkpoint of {name}");
            let path = self.evidence.join(uid);
            let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
            ensure!(!text.is_empty(), "{name} has not started");
            for start in text.lines() {
                let found: BTreeSet<_> = start.split_whitespace().map(str::to_owned).collect();
                ensure_eq!(found, ids, "device nodes in {name} compared with the checkpoint");
            }
        }
        Ok(())
    }

    /// Removes all pods, and checks that one pod can then have every device.
    fn end(mut self) -> Result<Tally, Failure> {
        while !self.pods.is_empty() {
            self.release()?;
        }
        let manifest = self.manifest("all", DEVICES.len() as u64)?;
        self.site.pods.put([manifest])?;
        self.pods.insert("all".to_owned(), DEVICES.len() as u64);
        self.site.pods.wait_up("all")?;
        self.check_all()?;
        let asked = self.plugin.log().iter().filter(|line| line["call"] == "Allocate").count();
        self.tally.allocations = asked as u64;
        self.site.pods.finish()?;
        Ok(self.tally)
    }
}
