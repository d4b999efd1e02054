//! The results of network plugins that libcni keeps in a file for each interface of a sandbox, and what to do
//! with one that a power loss has left unreadable.
//!
//! libcni writes these files without syncing them (`libcni/api.go`, `cacheAdd`). After a power loss within
//! about half a minute of a sandbox's start such a file is empty or holds zeros. libcni then refuses to take
//! the sandbox's network down (`getCachedResult`), the runtime therefore refuses StopPodSandbox, and its pod
//! stays for ever. A file that does not exist is no error for libcni: it calls the plugins without a result.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::RuntimeError;

/// The default `CacheDir` of libcni with its subdirectory; containerd and CRI-O use it.
pub(super) const DIRECTORY: &str = "/var/lib/cni/results";

/// Whether the runtime could not stop a sandbox because a kept result cannot be read.
pub(super) fn is_why(error: &RuntimeError) -> bool {
    error.message().contains("cached result")
}

/// Removes the results of `sandbox` in `directory` that are not JSON, and returns their paths. What can be
/// read stays.
///
/// # Errors
/// The directory or a file in it cannot be read or removed.
pub(super) fn remove_unreadable(directory: &Path, sandbox: &str) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !is_of(&entry.file_name().to_string_lossy(), sandbox) || !entry.file_type()?.is_file() {
            continue;
        }
        let path = entry.path();
        match fs::read(&path) {
            Ok(text) if is_readable(&text) => {}
            Ok(_) => {
                fs::remove_file(&path)?;
                removed.push(path);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Whether a file of this name is about `sandbox`: NETWORK-SANDBOX-INTERFACE (`libcni/api.go`,
/// `getCacheFilePath`). The names of networks and interfaces may contain dashes, ids do not.
fn is_of(name: &str, sandbox: &str) -> bool {
    !sandbox.is_empty() && name.split('-').rev().skip(1).any(|part| part == sandbox)
}

fn is_readable(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5b1f0e7c";

    #[test]
    fn a_result_belongs_to_the_sandbox_in_its_name() {
        for (name, expected) in [
            ("pods-5b1f0e7c-eth0", true),
            ("cni-loopback-5b1f0e7c-lo", true),
            ("my-own-net-5b1f0e7c-a-b", true),
            ("pods-5b1f0e7c", false),
            ("pods-5b1f0e7c0-eth0", false),
            ("pods-15b1f0e7c-eth0", false),
            ("5b1f0e7c", false),
        ] {
            assert_eq!(is_of(name, ID), expected, "{name}");
        }
        assert!(!is_of("pods--eth0", ""), "no sandbox has an empty id");
    }

    #[test]
    fn only_unreadable_results_of_the_sandbox_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let whole = r#"{"kind":"cniCacheV1","containerId":"5b1f0e7c"}"#;
        for (name, text) in [
            ("pods-5b1f0e7c-eth0", ""),
            ("zeros-5b1f0e7c-eth1", "\0\0\0\0"),
            ("half-5b1f0e7c-eth2", &whole[..20]),
            ("cni-loopback-5b1f0e7c-lo", whole),
            ("pods-77aa77aa-eth0", ""),
        ] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        // Not a file: nothing that libcni wrote.
        fs::create_dir(directory.path().join("dir-5b1f0e7c-eth0")).unwrap();
        let mut removed = remove_unreadable(directory.path(), ID).unwrap();
        removed.sort();
        let expected = ["half-5b1f0e7c-eth2", "pods-5b1f0e7c-eth0", "zeros-5b1f0e7c-eth1"];
        assert_eq!(removed, expected.map(|name| directory.path().join(name)));
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["cni-loopback-5b1f0e7c-lo", "dir-5b1f0e7c-eth0", "pods-77aa77aa-eth0"]);
        assert_eq!(remove_unreadable(directory.path(), ID).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_that_does_not_exist_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = remove_unreadable(&directory.path().join("results"), ID).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
