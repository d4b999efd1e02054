//! Why the hierarchy cannot be kept at all.

use std::io;
use std::path::PathBuf;

use nodewarden_config::Problem;
use nodewarden_machine::cgroup::CgroupError;
use nodewarden_machine::cgroup::control::NameError;
use nodewarden_machine::node::gather::GatherError;
use nodewarden_storage::state_file::StateFileError;

/// Starting mode manage failed.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Node(#[from] GatherError),
    #[error(transparent)]
    Owned(#[from] StateFileError),
    #[error("this machine cannot keep the configuration:{}", problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    Refused { problems: Vec<Problem> },
    #[error("{field}: {value}: {source}")]
    Name { field: &'static str, value: String, source: NameError },
    /// The kubelet ends with the same demand ("cgroup-root doesn't exist", "cgroup does not exist").
    #[error("{field}: {value}: there is no such cgroup ({}); make it first{hint}", list(missing))]
    Missing { field: &'static str, value: String, missing: Vec<PathBuf>, hint: &'static str },
    #[error(
        "cgroupDriver is systemd (by {from}), but systemd is not process 1 here (no /run/systemd/system)"
    )]
    NoSystemd { from: &'static str },
    #[error("cannot start the {what}: {source}")]
    Start { what: &'static str, source: io::Error },
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
