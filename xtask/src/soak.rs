//! `cargo xtask soak`: runs the release build through hours of changes or a thousand ends, and then checks
//! its state.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use thiserror::Error;

use crate::build::{self, BuildError, Programs};
use crate::setup::{self, Purpose, SetupError};
use crate::vm;
use nodewarden_vm::{KernelChoice, VmError};
use xtask_common::layout::{self, Layout, Profile};

/// Arguments of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Pods dropped at once, changed and removed at random while the agent is killed and containerd restarted
    Pods(PodsArgs),
    /// The agent killed at every step of an allocation of devices: none is given twice, none lost
    Devices(DevicesArgs),
    /// Images collected all the time while pods use them and the agent is killed: none in use ever goes
    Gc(GcArgs),
    /// Mode augment beside a real kubelet whose pods come and go, while both are killed in turn: no file of a
    /// cgroup is written by both, and every setting is put back
    Augment(GuestArgs),
    /// Mode augment killed at every step of every write, and undone: every setting is what it was before
    Undo(UndoArgs),
    /// Deployments, Jobs and config maps of a real cluster changed at random while agent, runtime and API
    /// server are killed in turn: API, runtime and cgroups agree, and no pod's status goes backwards
    Cluster(RoundArgs),
    /// Memory, disks, inodes and pids used up while the agent, its runtime, a file system or the clock fails:
    /// the pod that the kernel's own figures name is evicted, and no other
    Pressure(GuestArgs),
}

#[derive(Debug, clap::Args)]
struct PodsArgs {
    /// How many manifests there are at most
    #[arg(long, default_value_t = 100)]
    pods: u64,
    /// How long things change
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The same seed makes the same changes; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct DevicesArgs {
    /// How often
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// The same seed wants the same devices; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct GcArgs {
    /// How often something changes
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// The same seed makes the same changes; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct UndoArgs {
    /// How often
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// The same seed makes the same writes; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

/// Their names for `nodewarden-stage soak`.
const PRESSURE: &str = "pressure";
const AUGMENT: &str = "augment";

/// Of a soak that begins rounds for some time.
#[derive(Debug, clap::Args)]
struct RoundArgs {
    /// How long rounds are begun
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The same seed makes the same rounds; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
    /// Only the round with this seed, as its line has it
    #[arg(long)]
    round: Option<u64>,
}

/// Of one that can run in a virtual machine.
#[derive(Debug, clap::Args)]
struct GuestArgs {
    #[command(flatten)]
    rounds: RoundArgs,
    /// In a virtual machine with this kernel and systemd, which is reloaded, and whose clock is set, if the
    /// soak does so; needs no root
    #[arg(long, value_name = "KERNEL")]
    vm: Option<KernelChoice>,
}

impl RoundArgs {
    /// As `nodewarden-stage soak` takes them for the soak `what`.
    fn words(&self, what: &str) -> Vec<String> {
        let mut words = vec![what.to_owned(), "--minutes".into(), self.minutes.to_string()];
        for (name, value) in [("--seed", self.seed), ("--round", self.round)] {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_string()]));
        }
        words
    }
}

/// The soak could not be run.
#[derive(Debug, Error)]
pub enum SoakError {
    /// The agent loads kernel programs and makes containers.
    #[error("the agent needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask soak`, or log in as root")]
    NotRoot,
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The program could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The virtual machine could not be booted.
    #[error(transparent)]
    Vm(#[from] VmError),
}

/// `cargo xtask soak`: becomes the program that does it, so that Ctrl-C and its exit status are its own.
///
/// # Errors
/// When it can't be built or started.
pub fn run(layout: &Layout, args: &Args) -> Result<ExitCode, SoakError> {
    let (in_guest, cluster) = match &args.what {
        What::Pressure(args) => (args.vm.map(|kernel| (kernel, args.rounds.words(PRESSURE), args)), false),
        What::Augment(args) => (args.vm.map(|kernel| (kernel, args.rounds.words(AUGMENT), args)), true),
        _ => (None, false),
    };
    if let Some((kernel, words, args)) = in_guest {
        if cluster {
            setup::ensure(layout, Purpose::Conformance)?;
        }
        vm::build(layout, Programs::Measured)?;
        let limit = Duration::from_secs_f64(args.rounds.minutes.max(0.0) * 60.0);
        return Ok(nodewarden_vm::soak(layout, kernel, &words, limit, cluster)?);
    }
    if !layout::is_root() {
        return Err(SoakError::NotRoot);
    }
    let purpose = match args.what {
        What::Cluster(_) => Purpose::Cluster,
        What::Augment(_) => Purpose::Conformance,
        _ => Purpose::Bench,
    };
    setup::ensure(layout, purpose)?;
    build::kernel_programs(layout, true)?;
    build::host_programs(layout, Programs::Measured, false)?;
    let stage = layout.program(Profile::Release, "nodewarden-stage");
    let mut command = layout.command(&stage);
    command.arg("--agent").arg(layout.program(Profile::Release, "nodewarden")).arg("soak");
    let seed = match &args.what {
        What::Pods(PodsArgs { pods, minutes, seed }) => {
            command.arg("pods").args(["--pods", &pods.to_string(), "--minutes", &minutes.to_string()]);
            seed
        }
        What::Devices(DevicesArgs { rounds, seed }) => {
            command.arg("devices").args(["--rounds", &rounds.to_string()]);
            seed
        }
        What::Gc(GcArgs { rounds, seed }) => {
            command.arg("gc").args(["--rounds", &rounds.to_string()]);
            seed
        }
        What::Undo(UndoArgs { rounds, seed }) => {
            command.arg("undo").args(["--rounds", &rounds.to_string()]);
            seed
        }
        What::Cluster(cluster) => {
            command.args(cluster.words("cluster"));
            &None
        }
        What::Augment(augment) => {
            command.args(augment.rounds.words(AUGMENT));
            &None
        }
        What::Pressure(pressure) => {
            command.args(pressure.rounds.words(PRESSURE));
            &None
        }
    };
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    Err(SoakError::Start { path: stage, source: command.exec() })
}
