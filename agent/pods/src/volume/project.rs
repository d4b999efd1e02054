//! Projects of `emptyDir` volumes, where the file system counts what belongs to a project: then what a volume
//! uses at least is known at once (kubelet pkg/volume/util/fsquota).
//!
//! It is a lower bound only. A process outside of a user namespace may give its files to any project, and the
//! pods of this agent have no user namespaces; for that reason the kubelet uses projects only for pods that
//! do. So that no pod can have its files counted for another, the numbers cannot be guessed.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use nodewarden_machine::project_quota::{ProjectUse, project_of, project_use, set_project};

/// Numbers that volumes get: this one and as many above it.
const FIRST: u32 = 1 << 30;
/// Number of attempts to find one that is free.
const ATTEMPTS: usize = 8;
/// Files in which an administrator lists projects (projects(5), projid(5)).
const LISTS: [&str; 2] = ["/etc/projects", "/etc/projid"];

/// Gives a new, empty directory a project of its own if its file system counts projects. A failure is not an
/// error: the volume is walked then.
pub(super) fn assign(directory: &Path) {
    let Some(opened) = open(directory) else { return };
    // A project that it has already is an administrator's, who wants everything below to be counted for it.
    if project_of(&opened).is_ok_and(|project| project == 0)
        && project_use(&opened, 0).is_ok()
        && let Some(project) = free(&opened)
        && let Err(error) = set_project(&opened, project)
    {
        tracing::debug!(directory = %directory.display(), %error, "no project of its own");
    }
}

/// The project of a volume and what belongs to it: the volume uses at least so much. `None` if it has no
/// project of its own or that cannot be read.
pub fn volume_project(directory: &Path) -> Option<(u32, ProjectUse)> {
    let opened = open(directory)?;
    let project = project_of(&opened).ok().filter(|project| (FIRST..2 * FIRST).contains(project))?;
    Some((project, project_use(&opened, project).ok()?))
}

fn open(directory: &Path) -> Option<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(directory).ok()
}

/// A number to which nothing belongs and that no list has.
fn free(opened: &File) -> Option<u32> {
    let lists = LISTS.map(|path| fs::read_to_string(path).unwrap_or_default());
    let is_listed = |project: u32| lists.iter().any(|list| lists_project(list, project));
    let mut candidates = (0..ATTEMPTS).map(|_| random());
    candidates.find(|project| {
        !is_listed(*project) && project_use(opened, *project).is_ok_and(|used| used.inodes == 0)
    })
}

/// Keyed by the kernel's random numbers.
fn random() -> u32 {
    let number = RandomState::new().build_hasher().finish();
    FIRST + (number as u32 % FIRST)
}

/// Whether a line of a list has this number, as `number:path` or `name:number`.
fn lists_project(list: &str, project: u32) -> bool {
    let fields = list.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.splitn(2, ':'));
    fields.into_iter().any(|field| field.trim().parse() == Ok(project))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::project_quota::fixture::WithQuota;

    #[test]
    fn a_volume_has_a_project_of_its_own_where_the_file_system_counts_them() {
        let Some(disk) = WithQuota::mount() else { return };
        let [one, other] = ["one", "other"].map(|name| disk.path().join(name));
        for volume in [&one, &other] {
            fs::create_dir(volume).unwrap();
            assert_eq!(volume_project(volume), None);
            assign(volume);
        }
        fs::write(one.join("file"), vec![1; 100_000]).unwrap();
        File::open(one.join("file")).unwrap().sync_all().unwrap();
        let (project, used) = volume_project(&one).unwrap();
        assert_eq!(used.inodes, 2);
        assert!((100_000..150_000).contains(&used.bytes), "{used:?}");
        assert_ne!(volume_project(&other).unwrap().0, project);
        // A second call, as after a restart, changes nothing.
        assign(&one);
        assert_eq!(volume_project(&one).unwrap().0, project);
        // A directory below has the project already: it is kept.
        fs::create_dir(one.join("below")).unwrap();
        assign(&one.join("below"));
        assert_eq!(volume_project(&one.join("below")).unwrap().0, project);
    }

    #[test]
    fn a_file_system_without_projects_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assign(dir.path());
        assign(&dir.path().join("none"));
        assert_eq!(volume_project(dir.path()), None);
    }

    #[test]
    fn numbers_of_administrators_are_left_alone() {
        let list = "# 5:/x\n6:/var/log\nlogs:7\n";
        assert_eq!([5, 6, 7, 8].map(|project| lists_project(list, project)), [false, true, true, false]);
        assert!((0..100).all(|_| (FIRST..2 * FIRST).contains(&random())));
    }
}
