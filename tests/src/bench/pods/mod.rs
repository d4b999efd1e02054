//! Pods: what the agent adds to the container runtime's own time, and what it takes while nothing happens.

mod bare;
mod idle;
mod latency;
mod mark;
mod scale;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Bench, Figure, Run};
use crate::e2e::pods::manifest::pod;
use crate::e2e::pods::stage::Stage;
use crate::fixture::{BUSYBOX_IMAGE, PAUSE};
use crate::harness::Failure;

pub struct Pods;

const BENCH: &str = "pods";

impl Bench for Pods {
    fn name(&self) -> &'static str {
        BENCH
    }

    fn about(&self) -> &'static str {
        "manifest to first instruction and to cgroup gone beside bare CRI calls; 0 to 100 pods and back; idle pods' cost"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let folder = run.context.temp.join("measured");
        std::fs::create_dir(&folder).map_err(Failure::file(&folder))?;
        let program = folder.join(PROGRAM);
        std::fs::write(&program, PAUSE).map_err(Failure::file(&program))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).map_err(Failure::file(&program))?;
        let mut bench = Measured { stage: Stage::with(run.context, "maxPods: 500\n", "")?, folder };
        let mut figures = latency::measure(run, &mut bench)?;
        figures.extend(scale::measure(run, &mut bench)?);
        figures.extend(idle::measure(run, &mut bench)?);
        bench.stage.finish()?;
        Ok(figures)
    }
}

/// The program of measured containers (`pause/pause.rs`), and where they see it.
const PROGRAM: &str = "first";
const INSIDE: &str = "/measured";

/// What is measured with.
struct Measured<'c> {
    stage: Stage<'c>,
    /// The program and the marks that containers make.
    folder: PathBuf,
}

impl Measured<'_> {
    /// The container's command: it marks the time of its first instruction.
    fn command(name: &str) -> [String; 2] {
        [format!("{INSIDE}/{PROGRAM}"), format!("{INSIDE}/{name}")]
    }

    /// A pod as small as can be, on the machine's network.
    fn manifest(&self, name: &str) -> Value {
        let container = json!({
            "name": "c",
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": Self::command(name),
            "volumeMounts": [{ "name": "measured", "mountPath": INSIDE }],
        });
        let volume = json!({ "name": "measured", "hostPath": { "path": self.folder } });
        pod(name, json!({ "volumes": [volume], "containers": [container] }))
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
