//! Graceful node shutdown with a real logind: `systemctl poweroff` is announced, pods end in the order of
//! their priority, and the shutdown goes on. Here it then fails, since its target is masked meanwhile, so
//! that the test can go on too.
//!
//! How a machine really goes down is in the tests of `cargo xtask vm cluster`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::pods::fixture::PodFixture;
use super::pods::manifest::{pod, shell};
use super::support::eventually;
use crate::fixture::{agent_delays_shutdowns, inhibitors, longest_shutdown_delay, systemctl};
use crate::harness::{Capability, Context, Failure, Problems, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("node_shutdown_is_delayed_for_pods", delayed).needs(NEEDS).timeout(180)];

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::OwnMachine,
    Capability::Systemd,
    Capability::MemoryV2,
    Capability::Btf,
    Capability::Cri,
];

/// More than logind's own 5 s.
const LINES: &str = "shutdownGracePeriodByPodPriority:\n\
                     - {priority: 1000, shutdownGracePeriodSeconds: 60}\n\
                     - {priority: 0, shutdownGracePeriodSeconds: 60}\n";
const DELAY_SECONDS: u64 = 120;
/// The agent's drop-in.
const DROP_IN: &str = "/etc/systemd/logind.conf.d/99-nodewarden.conf";
const TARGET: &str = "poweroff.target";
/// The pods with their priorities, in the order in which they end.
const PODS: [(&str, i32); 2] = [("low", 0), ("high", 1000)];

/// An inhibitor of the test's own: however soon the agent lets go of its own, the machine stays.
struct Holds(Child);

impl Holds {
    fn start() -> Result<Self, Failure> {
        let mut command = Command::new("systemd-inhibit");
        command.args([
            "--what=shutdown",
            "--mode=delay",
            "--who=test",
            "--why=to see what happens",
            "sleep",
            "600",
        ]);
        let child = command.stdin(Stdio::null()).spawn().map_err(Failure::file("systemd-inhibit"))?;
        Ok(Self(child))
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// The target of a shutdown cannot be started until this is dropped.
struct Masked(Problems);

impl Masked {
    fn new(context: &Context) -> Result<Self, Failure> {
        systemctl(&["mask", "--runtime", TARGET])?;
        Ok(Self(context.problems()))
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        if let Err(error) = systemctl(&["unmask", "--runtime", TARGET]) {
            self.0.add(error.to_string());
        }
    }
}

fn delayed(context: &Context) -> Result<(), Failure> {
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let mut fixture = PodFixture::with_config(context, LINES, "")?;
    wait_inhibited(context, true)?;
    let drop_in = fs::read_to_string(DROP_IN).map_err(Failure::file(DROP_IN))?;
    ensure!(drop_in.contains(&format!("InhibitDelayMaxSec={DELAY_SECONDS}\n")), "{DROP_IN}: {drop_in}");
    ensure_eq!(longest_shutdown_delay()?, DELAY_SECONDS * 1_000_000, "InhibitDelayMaxUSec");
    for (name, priority) in PODS {
        fixture.put([noting(name, priority, &notes)])?;
    }
    let before: Vec<_> = PODS.iter().map(|(name, _)| fixture.wait_up(name)).collect::<Result<_, _>>()?;

    let begun = SystemTime::now();
    let holds = Holds::start()?;
    eventually(context.patiently(10), "the test's own inhibitor is not listed", || {
        Ok(inhibitors()?.iter().any(|line| line.starts_with("test ")).then_some(()))
    })?;
    systemctl(&["poweroff"])?;
    for (name, _) in PODS {
        let ended = fixture.wait_phase(name, "Failed")?;
        ensure_eq!(ended.text("/status/reason"), "Terminated", "reason of {name}");
    }
    wait_inhibited(context, false)?;
    let path = notes.join("notes");
    let noted = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    ensure_eq!(noted, "low begins\nlow ends\nhigh begins\nhigh ends\n", "what the pods have noted");
    // One that comes now is not started.
    fixture.put([noting("late", 0, &notes)])?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(
        !fixture.pod("late")?.is_some_and(|pod| pod.is_up()),
        "a pod was started in spite of the shutdown"
    );

    let masked = Masked::new(context)?;
    drop(holds);
    // logind cannot start its target, and says that the shutdown is cancelled.
    wait_inhibited(context, true)?;
    drop(masked);
    fixture.wait_until("late", "up", 60, |pod| pod.is_up())?;
    for (pod, (name, _)) in before.iter().zip(PODS) {
        let again = fixture.wait_until(name, "up again", 60, |pod| pod.is_up())?;
        ensure!(again.container("c")?.id() != pod.container("c")?.id(), "{name} is the container of before");
    }
    let log = fixture.agent()?.log();
    ensure!(
        !log.contains("shutdowns of the machine are not delayed"),
        "the agent's log since {begun:?}: {log}"
    );
    fixture.finish()
}

/// A pod that notes on the machine when it is asked to end, and when it does.
fn noting(name: &str, priority: i32, notes: &Path) -> serde_json::Value {
    let note = |what: &str| format!("echo {name} {what} >> /notes/notes");
    let script = format!(
        "trap '{}; sleep 2; {}; exit 0' TERM; while true; do sleep 600 & wait $!; done",
        note("begins"),
        note("ends")
    );
    let mounts = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    let spec = json!({
        "priority": priority,
        "terminationGracePeriodSeconds": 60,
        "volumes": [{ "name": "notes", "hostPath": { "path": notes } }],
        "containers": [shell("c", &script, mounts)],
    });
    pod(name, spec)
}

/// Waits until the agent holds an inhibitor, or none.
fn wait_inhibited(context: &Context, wanted: bool) -> Result<(), Failure> {
    let mut last = Vec::new();
    let found = eventually(context.patiently(20), "", || {
        last = inhibitors()?;
        Ok((agent_delays_shutdowns(&last) == wanted).then_some(()))
    });
    found.map_err(|_| {
        Failure::Unexpected(format!("inhibitors of the agent: expected {wanted}, listed {last:?}"))
    })
}
