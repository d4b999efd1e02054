//! Links by which collectors of logs find containers' logs with the names of pod, namespace and container, as
//! a kubelet makes them (`legacyLogSymlink` in `pkg/kubelet/kuberuntime`):
//! `/var/log/containers/<pod>_<namespace>_<container>-<id>.log`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Longest name of a file on ext4, in bytes.
const LONGEST: usize = 255;
const SUFFIX: &str = ".log";

/// The directory of the links: `containers` beside that of all pods' logs (`podLogsDir`), so that it is the
/// kubelet's `/var/log/containers` beside `/var/log/pods`.
pub fn directory(pod_logs: &Path) -> PathBuf {
    pod_logs.with_file_name("containers")
}

/// Name of the link to the log of the container with this id.
pub fn name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    // Names of pods, namespaces and containers are ASCII, and so are ids.
    let end = name.floor_char_boundary(LONGEST - SUFFIX.len());
    name.truncate(end);
    name + SUFFIX
}

/// Makes the link `name` to `log`, and the directory if it is missing. A link of that name is replaced.
///
/// # Errors
/// Something else has that name, or the directory cannot be written.
pub fn link(directory: &Path, name: &str, log: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let path = directory.join(name);
    match symlink(log, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    match fs::read_link(&path) {
        Ok(old) if old == log => Ok(()),
        Ok(_) => {
            fs::remove_file(&path)?;
            symlink(log, &path)
        }
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// Removes links to logs below `pod_logs` that are gone, and returns how many. Other links and files stay, as
/// do links with a name in `without`, which are not looked at; a missing directory is none.
///
/// # Errors
/// The directory cannot be listed, or a link cannot be removed.
pub fn remove_dangling(directory: &Path, pod_logs: &Path, without: &HashSet<String>) -> io::Result<usize> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| without.contains(name)) {
            continue;
        }
        let path = entry.path();
        let ours = fs::read_link(&path).is_ok_and(|log| log.starts_with(pod_logs) && is_gone(&log));
        if ours && path.extension().is_some_and(|end| end == "log") {
            fs::remove_file(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// A log that cannot be looked at may be there.
fn is_gone(log: &Path) -> bool {
    fs::symlink_metadata(log).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kubelets() {
        assert_eq!(name("cart-5d9c", "shop", "web", "0123abcd"), "cart-5d9c_shop_web-0123abcd.log");
        let long = name(&"p".repeat(245), "shop", "web", "0123abcd");
        assert_eq!(long, format!("{}_shop_.log", "p".repeat(245)));
        assert_eq!(directory(Path::new("/var/log/pods")), Path::new("/var/log/containers"));
    }

    #[test]
    fn links_are_made_once_and_removed_with_their_logs() {
        let temp = tempfile::tempdir().unwrap();
        let logs = temp.path().join("pods");
        let links = directory(&logs);
        assert_eq!(remove_dangling(&links, &logs, &HashSet::new()).unwrap(), 0);
        fs::create_dir(&logs).unwrap();
        let (log, newer) = (logs.join("0.log"), logs.join("1.log"));
        fs::write(&log, "one").unwrap();
        fs::write(&newer, "two").unwrap();
        link(&links, "a.log", &log).unwrap();
        link(&links, "a.log", &log).unwrap();
        assert_eq!(fs::read_to_string(links.join("a.log")).unwrap(), "one");
        link(&links, "a.log", &newer).unwrap();
        assert_eq!(fs::read_to_string(links.join("a.log")).unwrap(), "two");

        fs::write(links.join("file.log"), "").unwrap();
        assert!(link(&links, "file.log", &log).is_err(), "a file that is no link is not replaced");
        symlink(temp.path().join("elsewhere"), links.join("foreign.log")).unwrap();
        symlink(logs.join("gone"), links.join("other")).unwrap();
        assert_eq!(remove_dangling(&links, &logs, &HashSet::new()).unwrap(), 0);
        fs::remove_file(&newer).unwrap();
        assert_eq!(remove_dangling(&links, &logs, &HashSet::from(["a.log".to_owned()])).unwrap(), 0);
        assert_eq!(remove_dangling(&links, &logs, &HashSet::new()).unwrap(), 1);
        let mut left: Vec<_> =
            fs::read_dir(&links).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["file.log", "foreign.log", "other"]);
    }
}
