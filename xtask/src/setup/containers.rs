//! A container runtime and its network plugins for `run` and the tests, from Debian's packages, unpacked into
//! the target directory: those of its programs that the machine does not have.
//!
//! Unpacked and not installed: installing it would start a runtime on this machine.

use std::env;
use std::path::Path;

use super::StepError;
use xtask_common::debian::{Apt, Archive, DebianError, Suite, newest};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

/// A package, one of its programs, and where the machine may have that.
struct Part {
    package: &'static str,
    program: &'static str,
    /// Folders besides those of `PATH`.
    places: &'static [&'static str],
}

const PARTS: [Part; 4] = [
    Part { package: "containerd", program: "containerd", places: &[] },
    Part { package: "runc", program: "runc", places: &["/usr/sbin"] },
    Part { package: "busybox-static", program: "busybox", places: &["/bin"] },
    Part {
        package: "containernetworking-plugins",
        program: "host-local",
        places: &["/usr/lib/cni", "/opt/cni/bin"],
    },
];

/// Whether every program is there, on the machine or unpacked.
pub fn is_there(layout: &Layout) -> bool {
    missing(layout).is_empty()
}

fn missing(layout: &Layout) -> Vec<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).collect::<Vec<_>>();
    let unpacked = layout.container_programs();
    let is_there = |part: &Part| {
        let places = part.places.iter().map(|place| Path::new(place).to_owned());
        let mut folders = on_path.iter().cloned().chain(places).chain(unpacked.iter().cloned());
        folders.any(|folder| folder.join(part.program).is_file())
    };
    PARTS.iter().filter(|part| !is_there(part)).map(|part| part.package).collect()
}

/// Downloads what is missing of the machine's own Debian and unpacks it.
///
/// # Errors
/// When it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let folder = layout.containers();
    // A partly filled folder is filled again from the start, so that everything in it is of the same day.
    files::remove(&folder)?;
    let packages = missing(layout);
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, layout.tools().join("apt"))?;
    apt.update(&archive.source_lines(&[Suite::Own]), progress)?;
    let rows = apt.versions(&packages)?;
    let exact = packages
        .iter()
        .map(|package| {
            let row = newest(&rows, package);
            row.map(|row| row.exact()).ok_or_else(|| archive.no_package(package, None, &[Suite::Own]))
        })
        .collect::<Result<Vec<_>, DebianError>>()?;
    let debs = apt.download(&exact, progress)?;
    let partial = layout.tools().join("containers.partial");
    files::remove(&partial)?;
    apt.unpack(&debs, &partial, progress)?;
    files::rename(&partial, &folder)?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(folder)) }
}
