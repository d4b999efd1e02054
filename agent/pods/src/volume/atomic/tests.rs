use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |(path, data): &(&str, &str)| {
        ((*path).to_owned(), FileProjection { data: data.as_bytes().to_vec(), mode: 0o644, user: None })
    };
    files.iter().map(file).collect()
}

/// What a container sees: every file that is reached by a name of the volume, with its content.
fn seen(dir: &Path) -> Vec<(String, String)> {
    fn below(dir: &Path, prefix: &str, all: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("..") {
                continue;
            }
            let path = format!("{prefix}{name}");
            // A link that leads nowhere: the name is about to go.
            let Ok(found) = fs::metadata(entry.path()) else { continue };
            if found.is_dir() {
                below(&entry.path(), &format!("{path}/"), all);
            } else {
                all.push((path, fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    let mut all = Vec::new();
    below(dir, "", &mut all);
    all.sort();
    all
}

fn expected(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> = files.iter().map(|(path, data)| ((*path).to_owned(), (*data).to_owned())).collect();
    all.sort();
    all
}

/// Names in the volume, those of the writer's own included.
fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

const OLD: [(&str, &str); 4] = [("a", "1"), ("b", "1"), ("d/x", "1"), ("d/e/y", "1")];
const NEW: [(&str, &str); 3] = [("a", "2"), ("c", "2"), ("d/x", "2")];

#[test]
fn the_layout_is_that_of_the_kubelet() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(!is_written(dir));
    assert!(write(dir, &payload(&OLD), None).unwrap());
    assert!(is_written(dir));
    assert_eq!(seen(dir), expected(&OLD));
    assert_eq!(fs::read_link(dir.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read_link(dir.join("d")).unwrap(), Path::new("..data/d"));
    let first = fs::read_link(dir.join("..data")).unwrap();
    assert!(first.to_str().unwrap().starts_with("..20"), "{first:?}");
    // The same again writes nothing.
    assert!(!write(dir, &payload(&OLD), None).unwrap());
    assert_eq!(fs::read_link(dir.join("..data")).unwrap(), first);
    assert!(write(dir, &payload(&NEW), None).unwrap());
    assert_eq!(seen(dir), expected(&NEW));
    assert_ne!(fs::read_link(dir.join("..data")).unwrap(), first);
    // The data, the link to it, and a link for a, c and d.
    assert_eq!(entries(dir), 5);
    assert!(write(dir, &Payload::new(), None).unwrap());
    assert_eq!((seen(dir).len(), entries(dir)), (0, 2));
    assert!(is_written(dir));
}

#[test]
fn modes_and_owners_are_set_and_a_change_of_them_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut files = payload(&[("a", "1"), ("d/b", "1")]);
    files.get_mut("a").unwrap().mode = 0o400;
    write(dir, &files, None).unwrap();
    let mode = |path: &str| fs::metadata(dir.join(path)).unwrap().mode() & 0o7777;
    assert_eq!([mode("a"), mode("d/b"), mode("d"), mode("..data")], [0o400, 0o644, 0o755, 0o755]);
    if !nix::unistd::geteuid().is_root() {
        return nodewarden_testing::skip("not root");
    }
    files.get_mut("d/b").unwrap().user = Some(1234);
    assert!(write(dir, &files, Some(4321)).unwrap());
    assert!(!write(dir, &files, Some(4321)).unwrap());
    assert_eq!([mode("a"), mode("d/b"), mode("d"), mode("..data")], [0o440, 0o644, 0o2755, 0o2755]);
    let owner = |path: &str| {
        let found = fs::metadata(dir.join(path)).unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!([owner("a"), owner("d/b"), owner("d")], [(0, 4321), (1234, 4321), (0, 4321)]);
}

#[test]
fn no_path_leads_out_of_the_volume() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["", "../a", "a/../b", "/a", "..", "..a", "..data/a"] {
        let error = write(dir.path(), &payload(&[(path, "")]), None).unwrap_err();
        assert!(matches!(error, VolumeError::Escape { .. }), "{path}: {error}");
    }
    assert_eq!(entries(dir.path()), 0);
}

/// What stood there before is what a container or an earlier version of the agent left.
#[test]
fn plain_files_and_directories_of_the_same_names_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("a"), "old").unwrap();
    fs::create_dir_all(dir.join("d/deep")).unwrap();
    symlink("/etc/passwd", dir.join("b")).unwrap();
    fs::write(dir.join("left"), "old").unwrap();
    write(dir, &payload(&OLD), None).unwrap();
    assert_eq!(seen(dir), expected(&OLD));
    assert!(!dir.join("left").exists());
}

/// Ends the change of `old` to `new` before each of its steps in turn: the files are all old or all new, as
/// far as they have a link, and the next call completes the change.
fn ended_at_each_step(old: &[(&str, &str)], new: &[(&str, &str)]) {
    for end in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        if !old.is_empty() {
            write(dir, &payload(old), None).unwrap();
        }
        let (mut step, mut last) = (0, None);
        let result = write_unless(dir, &payload(new), None, &mut |kind| {
            last = Some(kind);
            step += 1;
            if step > end { Err(io::Error::other("killed")) } else { Ok(()) }
        });
        if result.is_ok() {
            assert!(end > 0);
            return;
        }
        let now = seen(dir);
        let (before, after) = (expected(old), expected(new));
        let is_part = |whole: &[(String, String)]| now.iter().all(|file| whole.contains(file));
        // Before the rename nothing is different; after it the old names lead to new files, or nowhere.
        let replaced = matches!(last, Some(Step::MakeLink | Step::RemoveLink | Step::RemoveDirectory));
        if replaced {
            assert!(is_part(&after), "{last:?}: {now:?}");
            let kept = after.iter().filter(|(path, _)| {
                let top = path.split('/').next();
                before.iter().any(|(old, _)| old.split('/').next() == top)
            });
            assert!(kept.clone().all(|file| now.contains(file)), "{last:?}: {now:?}");
        } else {
            assert_eq!(now, before, "{last:?}");
        }
        write(dir, &payload(new), None).unwrap();
        assert_eq!(seen(dir), after);
        let names: BTreeSet<_> = new.iter().map(|(path, _)| path.split('/').next()).collect();
        assert_eq!(entries(dir), names.len() + 2, "nothing else is left");
    }
}

#[test]
fn ended_at_any_step_the_volume_is_readable_and_the_next_call_completes_it() {
    ended_at_each_step(&OLD, &NEW);
    ended_at_each_step(&[], &NEW);
    ended_at_each_step(&OLD, &[]);
    ended_at_each_step(&[("d/x", "1")], &[("d", "2")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever was there, the volume has exactly the files of the last call.
    #[test]
    fn the_last_call_counts(
        rounds in proptest::collection::vec(proptest::collection::btree_map("[a-c]", "[01]", 0..4), 1..5)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut before = None;
        for files in &rounds {
            let files: Vec<_> = files.iter().map(|(path, data)| (path.as_str(), data.as_str())).collect();
            let changed = write(dir.path(), &payload(&files), None).unwrap();
            prop_assert_eq!(seen(dir.path()), expected(&files));
            prop_assert_eq!(changed, before.as_ref() != Some(&files));
            before = Some(files);
        }
    }
}
