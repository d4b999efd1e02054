//! The agent's configuration: a `KubeletConfiguration` file with a `nodewarden:` section, overridden by
//! flags. All settings are parsed and validated here; the result is one [`Config`].

#![deny(missing_docs)]

mod augment;
mod beside;
mod cgroup_path;
pub mod defaults;
mod devices;
mod dropin;
mod duration;
mod effective;
mod endpoint;
mod error;
mod eviction;
mod exclusive_cpus;
mod fields;
mod file;
mod flags;
mod gates;
mod gc;
mod keys;
mod kubelet_keys;
mod kubernetes;
mod logging;
mod machine;
mod merge;
mod node;
mod pods;
mod probes;
mod reading;
mod renamed;
mod resource_managers;
mod schema;
mod section;
mod server;
mod shape;
mod show;
mod static_url;
#[cfg(test)]
mod tests;
mod threshold;
mod throttle;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_storage::journal::Limits;

pub use augment::AugmentSettings;
pub use beside::{KubeletConfigError, KubeletEviction};
pub use devices::{DeviceSettings, Enforcement};
pub use duration::parse as parse_duration;
pub use endpoint::Endpoint;
pub use error::{ConfigError, Problem};
pub use eviction::EvictionSettings;
pub use exclusive_cpus::ExclusiveCpuBounds;
pub use file::{Checked, check, load, parse};
pub use flags::{KubeletFlags, with_dashes};
pub use gates::FeatureGates;
pub use kubernetes::{
    ApiRate, ApiRates, KubernetesSettings, PriorityGrace, ShutdownSettings, Taint, TaintEffect,
};
pub use logging::{LogFormat, LogSettings};
pub use machine::MachineFacts;
pub use node::{Enforce, MemoryReservation, NodeSettings, SwapBehavior};
pub use nodewarden_model::GcSettings;
pub use pods::{ChangeDetection, ImageVerification, LogRotation, PodSettings, PullRate, VerificationPolicy};
pub use probes::ProbeSettings;
pub use reading::WithoutEffect;
pub use resource_managers::ResourceManagerSettings;
pub use schema::schema;
pub use server::{
    AuthenticationSettings, AuthorizationMode, AuthorizationSettings, ServerSettings, TlsVersion,
};
pub use static_url::StaticPodUrl;
pub use threshold::{EvictionTexts, EvictionThreshold, Signal, Threshold, parse as parse_thresholds};
pub use throttle::{CpuThrottle, MemoryThrottle, ThrottleSettings};

/// The complete and valid configuration of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `mode`: whether the agent only observes, acts beside a kubelet, or manages pods itself.
    pub mode: Mode,
    /// Unix socket of the gRPC interface.
    pub socket: PathBuf,
    /// Address of /metrics, /healthz and /readyz.
    pub http_address: SocketAddr,
    /// Allows `http_address` to be reachable from other machines, whose requests are authenticated.
    pub http_allow_remote: bool,
    /// Lets other machines read `http_address` without authentication: `httpAllowAnonymous`.
    pub http_allow_anonymous: bool,
    /// DNS names that a request may name as its host, besides addresses, `localhost` and the node's name:
    /// `httpAllowedHosts`.
    pub http_allowed_hosts: Vec<String>,
    /// Directory for data that must survive a restart.
    pub state_dir: PathBuf,
    /// The container runtime; without one, pods and containers are shown by id instead of by name.
    pub runtime_endpoint: Option<Endpoint>,
    /// `imageServiceEndpoint`: the service that has the images, if it is not the container runtime.
    pub image_endpoint: Option<Endpoint>,
    /// What is logged.
    pub logging: LogSettings,
    /// Maximum number of cgroups with kernel counters.
    pub max_cgroups: u32,
    /// Size of the kernel's event ring.
    pub ring_bytes: u32,
    /// How much the journal keeps.
    pub journal: Limits,
    /// How long the figures of a removed cgroup are kept.
    pub retention: Duration,
    /// Time between two readings if there are no requests.
    pub sample: Duration,
    /// In mode manage: time between two full comparisons of all limits with their desired values.
    pub reconcile: Duration,
    /// Name of the node in reports; the host name if it is not set.
    pub node_name: Option<String>,
    /// When the kernel measures the run time of each eBPF program.
    pub program_stats: ProgramStats,
    /// Whether the agent gives up what it may do and does not need once it has started.
    pub drop_privileges: bool,
    /// Also attaches empty programs, as baseline for `cargo xtask bench overhead`.
    pub bench_empty_programs: bool,
    /// The node's cgroups: the kubelet's keys.
    pub node: NodeSettings,
    /// Running pods: the kubelet's keys.
    pub pods: PodSettings,
    /// The node in a cluster.
    pub kubernetes: KubernetesSettings,
    /// The node's server: the kubelet's keys.
    pub server: ServerSettings,
    /// Device plugins and device access.
    pub devices: DeviceSettings,
    /// Limits on concurrent probes.
    pub probes: ProbeSettings,
    /// Collection of images and dead containers.
    pub gc: GcSettings,
    /// Eviction and the restart of evicted pods.
    pub eviction: EvictionSettings,
    /// Throttling of lower QoS levels before anything has to be evicted.
    pub throttle: ThrottleSettings,
    /// What mode augment does beside a kubelet.
    pub augment: AugmentSettings,
    /// When it is reported that others run on a container's exclusive CPUs.
    pub exclusive_cpus: ExclusiveCpuBounds,
    /// The kubelet's feature gates that have an effect here.
    pub gates: FeatureGates,
    /// Keys of the kubelet in the file that have no effect here.
    pub ignored: Vec<WithoutEffect>,
    /// One warning for each key of the file that was renamed; the old names are still accepted.
    pub renamed: Vec<String>,
    /// One warning for each flag of a kubelet that was given and has no effect here.
    pub flags_without_effect: Vec<String>,
}

impl Config {
    /// Directory of the journal's files.
    pub fn journal_dir(&self) -> PathBuf {
        self.state_dir.join("journal")
    }

    /// The directory that holds the pods' directories: the kubelet's `--root-dir` on the node of a cluster,
    /// where a kubelet may have run before and other programs look for it, else the state directory.
    pub fn root_dir(&self) -> &Path {
        match self.mode == Mode::Manage && self.kubernetes.connects() {
            true => &self.devices.kubelet_dir,
            false => &self.state_dir,
        }
    }

    /// Directory of the pods' volumes and files.
    pub fn pods_dir(&self) -> PathBuf {
        self.root_dir().join("pods")
    }

    /// Directory of the agent's records of pods.
    pub fn records_dir(&self) -> PathBuf {
        self.state_dir.join("records")
    }

    /// Directory with a file for each pod in whose work the agent panicked.
    pub fn faults_dir(&self) -> PathBuf {
        self.state_dir.join("faults")
    }

    /// Directory of the seccomp profiles that `localhostProfile` names (the kubelet's `<root-dir>/seccomp`).
    pub fn seccomp_dir(&self) -> PathBuf {
        self.root_dir().join("seccomp")
    }
}

/// What the agent may do to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// Only observe and report.
    Observe,
    /// Act beside a kubelet, which keeps the pods: report to the API server what it does not, and set what it
    /// does not.
    Augment,
    /// Manage the pods of the manifest directory: their cgroups and containers.
    Manage,
}

impl Mode {
    /// The value as it is written in the file: `observe`, `augment` or `manage`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// When the kernel measures the eBPF programs (BPF_STATS_RUN_TIME: two clock reads more a run, about 40 ns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum ProgramStats {
    /// All the time.
    Always,
    /// During one second a minute.
    Sampled,
    /// Never: the run time of the programs is not known.
    Off,
}

impl ProgramStats {
    /// The value as it is written in the file: `Always`, `Sampled` or `Off`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Flags that override the file. Values are as typed; they are checked with the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Overrides {
    /// Unix socket of the gRPC interface
    #[arg(long, value_name = "PATH")]
    pub socket: Option<String>,
    /// Address of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http_address: Option<String>,
    /// Directory for data that must survive a restart
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// Socket of the container runtime, for names of pods and containers
    #[arg(long, value_name = "unix://PATH")]
    pub runtime_endpoint: Option<String>,
    /// What the agent may do: observe (write nothing), augment (act beside a kubelet) or manage (own the pods
    /// of staticPodPath)
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// The flags of a kubelet.
    #[command(flatten)]
    pub kubelet: KubeletFlags,
}

impl Overrides {
    /// The flags that are set: key in the `nodewarden:` section, flag, value.
    fn set(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        [
            ("socket", "--socket", &self.socket),
            ("httpAddress", "--http-address", &self.http_address),
            ("stateDir", "--state-dir", &self.state_dir),
            ("runtimeEndpoint", "--runtime-endpoint", &self.runtime_endpoint),
            ("mode", "--mode", &self.mode),
        ]
        .into_iter()
        .filter_map(|(key, flag, value)| value.as_deref().map(|v| (key, flag, v)))
    }
}
