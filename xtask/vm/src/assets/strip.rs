//! Programs without their debug sections: a tenth of the size, and so of the time to pack and unpack them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xtask_common::layout::Layout;

/// Strips with objcopy (of binutils, which the Rust linker needs anyway) and keeps the results.
#[derive(Debug)]
pub struct Stripper {
    cache: PathBuf,
}

impl Stripper {
    /// One that keeps its results in `layout`'s target directory.
    pub fn new(layout: &Layout) -> Self {
        Self { cache: super::folder(layout).join("stripped") }
    }

    /// The stripped program, or `program` itself where there is no objcopy or it does not take this file.
    ///
    /// # Errors
    /// When `program` is not there or the cache can't be written.
    pub fn strip(&self, program: &Path) -> io::Result<PathBuf> {
        let stamp = stamp(&fs::metadata(program)?);
        let name = program.to_string_lossy().replace('/', "+");
        let stripped = self.cache.join(format!("{name}.{stamp}"));
        if stripped.exists() {
            return Ok(stripped);
        }
        fs::create_dir_all(&self.cache)?;
        // Two runs side by side may strip the same program.
        let partial = self.cache.join(format!("{}.partial", std::process::id()));
        let mut objcopy = Command::new("objcopy");
        objcopy.arg("--strip-debug").arg(program).arg(&partial).stdin(Stdio::null());
        if !objcopy.output().is_ok_and(|output| output.status.success()) {
            return Ok(program.to_owned());
        }
        self.forget(&name);
        fs::rename(&partial, &stripped)?;
        Ok(stripped)
    }

    /// Removes what was kept of earlier builds of the same program.
    fn forget(&self, name: &str) {
        let entries = fs::read_dir(&self.cache).into_iter().flatten().flatten();
        for entry in entries {
            let kept = entry.file_name();
            let other = kept.to_str().and_then(|kept| kept.strip_prefix(name)?.strip_prefix('.'));
            // One that another run has just removed is as good as removed.
            if other.is_some_and(|stamp| !stamp.contains('.')) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Differs whenever a program was built again.
fn stamp(meta: &Metadata) -> String {
    format!("{:x}-{:x}-{:x}-{:x}", meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_stripped_once_for_each_build() {
        let temp = tempfile::tempdir().unwrap();
        let stripper = Stripper::new(&Layout { root: temp.path().into(), target: temp.path().into() });
        let program = temp.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let first = stripper.strip(&program).unwrap();
        assert_eq!(stripper.strip(&program).unwrap(), first);
        if first != program {
            assert!(fs::metadata(&first).unwrap().len() < fs::metadata(&program).unwrap().len());
            fs::copy("/bin/sh", &program).unwrap();
            let second = stripper.strip(&program).unwrap();
            assert_ne!(second, first);
            assert!(second.exists() && !first.exists());
        }
    }

    #[test]
    fn what_objcopy_does_not_take_stays_as_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let stripper = Stripper::new(&Layout { root: temp.path().into(), target: temp.path().into() });
        let script = temp.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(stripper.strip(&script).unwrap(), script);
        assert!(stripper.strip(&temp.path().join("gone")).is_err());
    }
}
