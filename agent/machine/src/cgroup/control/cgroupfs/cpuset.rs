//! CPUs and memory nodes of a v1 cpuset: a new one has none, and takes no process until it has some
//! (cgroup-v1/cpusets.rst).

use std::path::Path;

use crate::cgroup::CgroupError;
use crate::cgroup::control::group_files::{read_file, write_file};
use crate::cgroup::group_path::join;

const FILES: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// Copies the CPUs and memory nodes of the nearest ancestor that has some into the cgroup and into each empty
/// one between them.
///
/// # Errors
/// A file cannot be read or written.
pub fn fill(mount: &Path, path: &str) -> Result<(), CgroupError> {
    FILES.iter().try_for_each(|file| inherited(mount, path, file).map(drop))
}

/// The value of `file` in `path`, filled from above if it was empty.
fn inherited(mount: &Path, path: &str, file: &str) -> Result<String, CgroupError> {
    let own = join(mount, path).join(file);
    let value = read_file(&own)?.unwrap_or_default().trim().to_owned();
    let parent = match path.rsplit_once('/') {
        Some((parent, _)) if value.is_empty() && !path.trim_matches('/').is_empty() => parent,
        _ => return Ok(value),
    };
    let value = inherited(mount, parent, file)?;
    if !value.is_empty() {
        write_file(&own, &value)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_empty_cpuset_takes_the_cpus_of_the_next_that_has_some() {
        let mount = tempfile::tempdir().unwrap();
        for (path, cpus) in [("", "0-3"), ("a", "0-1"), ("a/b", "\n"), ("a/b/c", "\n"), ("a/d", "1")] {
            let dir = mount.path().join(path);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("cpuset.cpus"), cpus).unwrap();
            fs::write(dir.join("cpuset.mems"), "0").unwrap();
        }
        let cpus = |path: &str| fs::read_to_string(mount.path().join(path).join("cpuset.cpus")).unwrap();
        fill(mount.path(), "/a/b/c").unwrap();
        fill(mount.path(), "/a/d").unwrap();
        assert_eq!([cpus("a"), cpus("a/b"), cpus("a/b/c"), cpus("a/d")], ["0-1", "0-1", "0-1", "1"]);
    }
}
