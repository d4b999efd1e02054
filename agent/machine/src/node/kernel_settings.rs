//! The kernel settings that a kubelet wants (`setupKernelTunables` in
//! pkg/kubelet/cm/container_manager_linux.go, the values of k8s.io/component-helpers/node/util/sysctl).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name below /proc/sys and wanted value.
const WANTED: [(&str, i64); 6] = [
    // Memory is granted whatever is free: the OOM killer ends what uses too much.
    ("vm/overcommit_memory", 1),
    // The OOM killer, not a panic.
    ("vm/panic_on_oom", 0),
    // Seconds after a panic until the machine starts again.
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    // Runtimes create a key for each container.
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// A setting with another value than a kubelet wants. Its text is the kubelet's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid kernel flag: {name}, expected value: {wanted}, actual value: {found}")]
pub struct KernelSetting {
    /// `vm/overcommit_memory`.
    pub name: &'static str,
    /// The value that a kubelet wants.
    pub wanted: i64,
    /// The value that it has.
    pub found: i64,
}

/// A setting that is wrong, or cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KernelSettingError {
    /// It has another value.
    #[error(transparent)]
    Differs(KernelSetting),
    /// Its file cannot be read or written, or has no number.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// The kernel's settings.
#[derive(Debug, Clone)]
pub struct KernelSettings {
    /// /proc/sys, or a tree like it.
    root: PathBuf,
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self::below(Path::new("/proc/sys"))
    }
}

impl KernelSettings {
    /// Those in a tree like /proc/sys.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The settings that differ, and what went wrong with reading others.
    pub fn differences(&self) -> (Vec<KernelSetting>, Vec<KernelSettingError>) {
        let (mut differences, mut errors) = (Vec::new(), Vec::new());
        for (name, wanted) in WANTED {
            match self.read(name) {
                Ok(found) if found == wanted => {}
                Ok(found) => differences.push(KernelSetting { name, wanted, found }),
                Err(error) => errors.push(error),
            }
        }
        (differences, errors)
    }

    /// Checks the settings (`protectKernelDefaults: true`).
    ///
    /// # Errors
    /// Every setting that differs or cannot be read.
    pub fn check(&self) -> Result<(), Vec<KernelSettingError>> {
        let (differences, mut errors) = self.differences();
        errors.splice(0..0, differences.into_iter().map(KernelSettingError::Differs));
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Sets what differs (`protectKernelDefaults: false`), and returns it.
    ///
    /// # Errors
    /// Every setting that cannot be read or written; the others are set nevertheless.
    pub fn set(&self) -> Result<Vec<KernelSetting>, Vec<KernelSettingError>> {
        let (differences, mut errors) = self.differences();
        for KernelSetting { name, wanted, .. } in &differences {
            let path = self.root.join(name);
            if let Err(source) = fs::write(&path, wanted.to_string()) {
                errors.push(KernelSettingError::File { call: "write", path, source });
            }
        }
        if errors.is_empty() { Ok(differences) } else { Err(errors) }
    }

    fn read(&self, name: &str) -> Result<i64, KernelSettingError> {
        let path = self.root.join(name);
        let text = fs::read_to_string(&path).and_then(|text| {
            text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not a number"))
        });
        text.map_err(|source| KernelSettingError::File { call: "read", path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree like /proc/sys with these values instead of the wanted ones.
    fn tree(other: &[(&str, &str)]) -> (tempfile::TempDir, KernelSettings) {
        let root = tempfile::tempdir().unwrap();
        for (name, wanted) in WANTED {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("{wanted}\n")).unwrap();
        }
        for (name, value) in other {
            fs::write(root.path().join(name), value).unwrap();
        }
        let settings = KernelSettings::below(root.path());
        (root, settings)
    }

    #[test]
    fn a_check_names_each_setting_that_differs() {
        assert!(tree(&[]).1.check().is_ok());
        let (_root, settings) = tree(&[("vm/overcommit_memory", "0\n"), ("kernel/panic", "-1\n")]);
        let errors: Vec<String> = settings.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0",
                "invalid kernel flag: kernel/panic, expected value: 10, actual value: -1",
            ]
        );
    }

    #[test]
    fn what_differs_is_set() {
        let (root, settings) = tree(&[("vm/panic_on_oom", "2\n"), ("kernel/keys/root_maxkeys", "200\n")]);
        let changed: Vec<_> = settings.set().unwrap().iter().map(|own| (own.name, own.found)).collect();
        assert_eq!(changed, [("vm/panic_on_oom", 2), ("kernel/keys/root_maxkeys", 200)]);
        assert_eq!(fs::read_to_string(root.path().join("vm/panic_on_oom")).unwrap(), "0");
        assert_eq!(settings.set().unwrap(), []);
        assert!(settings.check().is_ok());
    }

    #[test]
    fn what_cannot_be_read_or_written_is_an_error_and_the_rest_is_set() {
        let (root, settings) = tree(&[("kernel/panic", "0\n"), ("vm/overcommit_memory", "many\n")]);
        fs::remove_file(root.path().join("kernel/keys/root_maxbytes")).unwrap();
        let errors: Vec<String> = settings.set().unwrap_err().iter().map(ToString::to_string).collect();
        let at = |name: &str| root.path().join(name).display().to_string();
        assert_eq!(
            errors,
            [
                format!("read {}: it is not a number", at("vm/overcommit_memory")),
                format!("read {}: No such file or directory (os error 2)", at("kernel/keys/root_maxbytes")),
            ]
        );
        assert_eq!(fs::read_to_string(root.path().join("kernel/panic")).unwrap(), "10");
        assert_eq!(settings.check().unwrap_err().len(), 2);
    }

    /// This machine's are read only.
    #[test]
    fn the_kernel_has_the_settings() {
        let (_, errors) = KernelSettings::default().differences();
        if !errors.is_empty() {
            nodewarden_testing::skip("a kernel without one of the settings, or without /proc/sys");
        }
    }
}
