//! gRPC for Python, for the tests' device plugin: Debian's packages, unpacked into the target directory with
//! those of their libraries that the machine does not have. Python itself is the machine's.

use std::path::{Path, PathBuf};

use super::StepError;
use xtask_common::debian::{Apt, Archive, Suite, newest};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

const INTERPRETER: &str = "/usr/bin/python3";
/// Packages, and what each puts into [`MODULES`].
const PACKAGES: [(&str, &str); 2] = [("python3-grpcio", "grpc"), ("python3-protobuf", "google/protobuf")];
const MODULES: &str = "usr/lib/python3/dist-packages";

/// Whether every module is there, on the machine or unpacked.
pub fn is_there(layout: &Layout) -> bool {
    let roots = [PathBuf::from("/"), layout.python()];
    let there = |module: &str| roots.iter().any(|root| root.join(MODULES).join(module).is_dir());
    Path::new(INTERPRETER).exists() && PACKAGES.iter().all(|(_, module)| there(module))
}

/// Downloads what is missing of the machine's own Debian and unpacks it.
///
/// # Errors
/// When it can't be downloaded, or there is no Python.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    if !Path::new(INTERPRETER).exists() {
        return Err(StepError::StillMissing(INTERPRETER.into()));
    }
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, layout.tools().join("apt"))?;
    let suites = [Suite::Own, Suite::OwnSecurity];
    apt.update(&archive.source_lines(&suites), progress)?;
    let names = PACKAGES.map(|(package, _)| package);
    let rows = apt.versions(&names)?;
    let row = newest(&rows, names[0]).ok_or_else(|| archive.no_package(names[0], None, &suites))?;
    let debs = apt.download_missing(&names, &row.suite, progress)?;
    let partial = layout.tools().join("python.partial");
    files::remove(&partial)?;
    apt.unpack(&debs, &partial, progress)?;
    files::remove(&layout.python())?;
    files::rename(&partial, &layout.python())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.python())) }
}
