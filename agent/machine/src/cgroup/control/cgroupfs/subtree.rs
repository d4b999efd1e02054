//! Controllers of v2: a cgroup has those that each of its ancestors enables for its children in
//! `cgroup.subtree_control` (cgroup-v2.rst, "Enabling and Disabling").

use std::path::Path;

use crate::cgroup::control::group_files::{read_file, write_file};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Controller};

const OFFERED: &str = "cgroup.controllers";
const HANDED_DOWN: &str = "cgroup.subtree_control";

/// Enables all available controllers in every ancestor of `path`, from the root down, as runc's library does
/// for the kubelet. A controller that cannot be enabled (EBUSY: the ancestor has processes itself) is left
/// out, and the kernel's error is returned: [`check_required`] decides whether the cgroup works without it.
///
/// # Errors
/// The files cannot be read.
pub fn hand_down(mount: &Path, path: &str) -> Result<Vec<CgroupError>, CgroupError> {
    let mut left_out = Vec::new();
    for above in parents(path) {
        let dir = join(mount, above);
        let offered = read_file(&dir.join(OFFERED))?.unwrap_or_default();
        let control = dir.join(HANDED_DOWN);
        let Some(on) = read_file(&control)? else { continue };
        let missing = missing(&offered, &on);
        if missing.is_empty() || write_file(&control, &missing.join(" ")).is_ok() {
            continue;
        }
        // The kernel enables all of them or none, so they are tried one by one.
        left_out.extend(missing.iter().filter_map(|one| write_file(&control, one).err()));
    }
    Ok(left_out)
}

/// Checks that cpu and memory, if they are on this tree, are available in the cgroup in `dir`.
///
/// # Errors
/// [`CgroupError::NotHandedDown`] names the one that is not.
pub fn check_required(on_tree: &[Controller], dir: &Path) -> Result<(), CgroupError> {
    let mut required = on_tree.iter().copied().filter(|c| c.required()).peekable();
    if required.peek().is_none() {
        return Ok(());
    }
    let offered = read_file(&dir.join(OFFERED))?.unwrap_or_default();
    let has = |c: Controller| c.v2_name().is_none_or(|name| offered.split_whitespace().any(|o| o == name));
    match required.find(|c| !has(*c)) {
        None => Ok(()),
        Some(controller) => Err(CgroupError::NotHandedDown {
            controller,
            path: dir.to_owned(),
            offered: offered.trim().to_owned(),
        }),
    }
}

/// `/`, `/a`, `/a/b` for `/a/b/c`.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| if at == 0 { "/" } else { &path[..at] })
}

/// `+cpu`, `+memory`, … for what is offered and not on.
fn missing(offered: &str, on: &str) -> Vec<String> {
    let on: Vec<&str> = on.split_whitespace().collect();
    offered.split_whitespace().filter(|c| !on.contains(c)).map(|c| format!("+{c}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn from_the_root_to_the_parent() {
        assert_eq!(parents("/a/b/c").collect::<Vec<_>>(), ["/", "/a", "/a/b"]);
        assert_eq!(parents("/a").collect::<Vec<_>>(), ["/"]);
    }

    #[test]
    fn controllers_that_are_offered_and_not_enabled() {
        assert_eq!(missing("cpuset cpu io memory\n", "cpu memory\n"), ["+cpuset", "+io"]);
        assert!(missing("cpu\n", "cpu\n").is_empty() && missing("", "").is_empty());
    }

    #[test]
    fn a_required_controller_that_is_not_enabled_below_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(OFFERED), "cpu pids\n").unwrap();
        let both = [Controller::Cpu, Controller::Memory, Controller::Pids];
        let error = check_required(&both, dir.path()).unwrap_err();
        assert!(
            matches!(&error, CgroupError::NotHandedDown { controller: Controller::Memory, .. }),
            "{error}"
        );
        // On hybrid they are not on this tree at all.
        assert!(check_required(&[Controller::Hugetlb], dir.path()).is_ok());
    }
}
