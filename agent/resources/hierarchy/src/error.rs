//! Why the hierarchy cannot be managed.

use std::io;
use std::path::PathBuf;

use nodewarden_config::Problem;
use nodewarden_machine::cgroup::CgroupError;
use nodewarden_machine::cgroup::control::NameError;
use nodewarden_machine::node::gather::GatherError;
use nodewarden_machine::node::kernel_settings::KernelSettingError;
use nodewarden_storage::state_file::StateFileError;

/// The hierarchy manager cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HierarchyError {
    /// The cgroup hierarchies cannot be read or written.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The capacity of the machine cannot be read.
    #[error(transparent)]
    Node(#[from] GatherError),
    /// The record of pod cgroups cannot be read.
    #[error(transparent)]
    Owned(#[from] StateFileError),
    /// The machine does not support the configuration.
    #[error("this machine cannot keep the configuration:{}", problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    Refused {
        /// What is not supported.
        problems: Vec<Problem>,
    },
    /// The kernel is not set as a kubelet wants it, or cannot be.
    #[error("protectKernelDefaults is {protect}:{}", problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    KernelSettings {
        /// Value of the setting: true checks, false sets.
        protect: bool,
        /// Every kernel setting that differs, or cannot be read or written.
        problems: Vec<KernelSettingError>,
    },
    /// A setting is not a valid cgroup name.
    #[error("{field}: {value}: {source}")]
    Name {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// Why.
        source: NameError,
    },
    /// The kubelet ends with the same demand ("cgroup-root doesn't exist", "cgroup does not exist").
    #[error("{field}: {value}: there is no such cgroup ({}); make it first{hint}", list(missing))]
    Missing {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// The directories that are missing.
        missing: Vec<PathBuf>,
        /// What else to do, for the message.
        hint: &'static str,
    },
    /// The driver is systemd, but systemd does not run.
    #[error(
        "cgroupDriver is systemd (by {from}), but systemd is not process 1 here (no /run/systemd/system)"
    )]
    NoSystemd {
        /// Where the driver setting comes from.
        from: &'static str,
    },
    /// A thread cannot be started.
    #[error("cannot start the {what}: {source}")]
    Start {
        /// The thread.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn list(paths: &[PathBuf]) -> String {
    match paths {
        [] => String::from("nowhere in the tree"),
        paths => {
            let shown: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
            format!("missing: {}", shown.join(", "))
        }
    }
}
