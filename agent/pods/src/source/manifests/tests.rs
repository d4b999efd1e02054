use super::*;

fn manifest(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

struct Fixture {
    dir: tempfile::TempDir,
    manifests: Manifests,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(dir.path(), "node");
        Self { dir, manifests }
    }

    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(file), text).unwrap();
    }

    fn origin(&self, file: &str) -> Origin {
        self.dir.path().join(file).display().to_string().into()
    }

    fn read(&mut self, file: &str) {
        let look = self.manifests.look(OsStr::new(file));
        self.manifests.take(look);
    }

    fn scan(&mut self) -> Desired {
        self.manifests.scan();
        self.manifests.desired()
    }

    fn names(&mut self) -> Vec<String> {
        names(&self.scan())
    }
}

fn names(desired: &Desired) -> Vec<String> {
    desired.pods.iter().map(|p| p.pod.name.clone()).collect()
}

#[test]
fn files_have_several_documents_and_formats() {
    let mut f = Fixture::new();
    f.write("b.yaml", format!("{}---\n{}", manifest("b1"), manifest("b2")));
    f.write("a.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#);
    f.write(".hidden.yaml", manifest("hidden"));
    fs::create_dir(f.dir.path().join("directory")).unwrap();
    let desired = f.scan();
    assert_eq!(names(&desired), ["a", "b1", "b2"]);
    assert_eq!(desired.problems, []);
    assert!(desired.pods.iter().all(|p| p.pod.uid.len() == 32 && p.pod.namespace == "default"));
}

#[test]
fn what_the_files_want_is_put_together_again_only_after_a_change() {
    let mut f = Fixture::new();
    let looked = |f: &mut Fixture| {
        for name in f.manifests.list() {
            let look = f.manifests.look_if_changed(&name);
            f.manifests.take(look);
        }
        f.manifests.changed().map(|desired| names(&desired))
    };
    assert_eq!(looked(&mut f), Some(vec![]));
    assert_eq!(looked(&mut f), None);
    f.write("a.yaml", manifest("a"));
    fs::create_dir(f.dir.path().join("directory")).unwrap();
    assert_eq!(looked(&mut f), Some(vec!["a".to_owned()]));
    // One that was written a moment ago is read again, since its times may not show the next write.
    let is_quiet = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        looked(&mut f).is_none()
    });
    assert!(is_quiet, "each look finds a change");
    f.write("a.yaml", manifest("b"));
    assert_eq!(looked(&mut f), Some(vec!["b".to_owned()]));
    fs::remove_file(f.dir.path().join("a.yaml")).unwrap();
    assert_eq!(looked(&mut f), Some(vec![]));
    fs::remove_dir_all(f.dir.path()).unwrap();
    assert_eq!(looked(&mut f), Some(vec![]));
    assert_eq!(looked(&mut f), None);
}

/// A change of a link's target, or of a file through another name, is none in the directory.
#[test]
fn changes_are_reported_by_the_directory_unless_a_file_is_a_link_or_has_another_name() {
    let mut f = Fixture::new();
    let path = f.dir.path().to_owned();
    let looked = |f: &mut Fixture| {
        for name in f.manifests.list() {
            let look = f.manifests.look_if_changed(&name);
            f.manifests.take(look);
        }
        f.manifests.is_reported()
    };
    assert!(looked(&mut f), "there is nothing");
    fs::create_dir(path.join("directory")).unwrap();
    assert!(looked(&mut f), "a directory is no manifest");
    f.write("a.yaml", manifest("a"));
    f.write(".target", manifest("b"));
    f.write("c.yaml", manifest("c"));
    assert!(!looked(&mut f), "it was just written");
    // Until its times would show the next write.
    let settles = |f: &mut Fixture| {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            looked(f)
        })
    };
    assert!(settles(&mut f));
    f.read("a.yaml");
    assert!(!f.manifests.is_reported(), "what was read may be another file");
    assert!(looked(&mut f));
    std::os::unix::fs::symlink(path.join(".target"), path.join("b.yaml")).unwrap();
    assert!(!looked(&mut f) && !looked(&mut f), "a link");
    fs::remove_file(path.join("b.yaml")).unwrap();
    assert!(looked(&mut f));
    fs::hard_link(path.join("c.yaml"), path.join(".c")).unwrap();
    assert!(!settles(&mut f), "it may be written to by its other name");
    fs::remove_dir_all(&path).unwrap();
    assert!(!looked(&mut f), "there is no directory");
}

#[test]
fn a_removed_file_takes_its_pods_and_a_removed_directory_does_not() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    f.write("b.yaml", manifest("b"));
    assert_eq!(f.names(), ["a", "b"]);
    fs::remove_file(f.dir.path().join("b.yaml")).unwrap();
    let desired = f.scan();
    assert_eq!(names(&desired), ["a"]);
    assert!(!desired.unread.may_have(&f.origin("b.yaml")));
    fs::remove_dir_all(f.dir.path()).unwrap();
    let desired = f.scan();
    assert_eq!(names(&desired), ["a"]);
    assert!(desired.unread.may_have(&f.origin("b.yaml")));
    assert!(desired.problems[0].message.starts_with("list "), "{:?}", desired.problems);
    fs::create_dir(f.dir.path()).unwrap();
    assert_eq!(f.names(), [""; 0]);
}

#[test]
fn a_bad_file_keeps_its_pods() {
    let mut f = Fixture::new();
    let both = format!("{}---\n{}", manifest("one"), manifest("two"));
    f.write("a.yaml", &both);
    assert_eq!(f.names(), ["one", "two"]);
    for bad in [
        &both.as_bytes()[..both.len() - 20],
        b"{",
        b"\xff\xfe",
        b"kind: Nonsense\napiVersion: v1\n",
        b"",
        b"# to come\n---\n",
    ] {
        f.write("a.yaml", bad);
        let desired = f.scan();
        assert_eq!(names(&desired).len(), 2, "{bad:?}");
        assert!(desired.unread.may_have(&f.origin("a.yaml")));
        assert!(
            desired.problems.iter().all(|p| p.message.contains(&f.origin("a.yaml").to_string())),
            "{:?}",
            desired.problems
        );
        assert!(!desired.problems.is_empty());
    }
    f.write("a.yaml", manifest("one"));
    let desired = f.scan();
    assert_eq!(names(&desired), ["one"]);
    assert!(!desired.unread.may_have(&f.origin("a.yaml")));
}

#[test]
fn the_first_of_two_files_wins() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("same"));
    f.write("b.yaml", manifest("same"));
    let desired = f.scan();
    assert_eq!(names(&desired), ["same"]);
    assert_eq!(desired.pods[0].origin, f.origin("a.yaml"));
    assert!(desired.problems[0].message.contains("b.yaml") && desired.problems[0].message.contains("a.yaml"));
}

#[test]
fn in_a_cluster_names_end_with_the_nodes() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    let uid = f.scan().pods[0].pod.uid.clone();
    let mut named = Manifests::new(f.dir.path(), "node");
    named.named_by_node();
    named.scan();
    let pod = named.desired().pods[0].pod.clone();
    assert_eq!((pod.name.as_str(), &pod.uid), ("a-node", &uid));
}

#[test]
fn the_uid_follows_the_content() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    let first = f.scan().pods[0].pod.uid.clone();
    f.write("a.yaml", manifest("a") + "\n# a comment\n");
    assert_eq!(f.scan().pods[0].pod.uid, first);
    f.write("a.yaml", manifest("a").replace("image: i", "image: j"));
    assert_ne!(f.scan().pods[0].pod.uid, first);
    f.write("a.yaml", manifest("a").replace("name: a", "name: a, uid: mine"));
    assert_eq!(f.scan().pods[0].pod.uid, "mine");
}

#[test]
fn a_new_file_never_takes_a_running_pods_place() {
    let mut f = Fixture::new();
    f.write("b.yaml", manifest("same"));
    assert_eq!(f.scan().pods[0].origin, f.origin("b.yaml"));
    f.write("a.yaml", manifest("same"));
    let desired = f.scan();
    assert_eq!(desired.pods[0].origin, f.origin("b.yaml"));
    assert!(
        desired.problems[0].message.starts_with(&f.origin("a.yaml").to_string()),
        "{:?}",
        desired.problems
    );
    // After a restart too, if it knows what runs.
    let mut again = Manifests::new(f.dir.path(), "node");
    let mut running = PodOrigins::default();
    running.set("default", "same", f.origin("b.yaml"));
    again.set_running(running);
    again.scan();
    assert_eq!(again.desired().pods[0].origin, f.origin("b.yaml"));
    fs::remove_file(f.dir.path().join("b.yaml")).unwrap();
    assert_eq!(f.scan().pods[0].origin, f.origin("a.yaml"));
}

#[test]
fn one_file_is_read_alone() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    f.write("b.yaml", manifest("b"));
    f.read("b.yaml");
    assert_eq!(names(&f.manifests.desired()), ["b"]);
    f.read(".hidden");
    f.read("gone.yaml");
    fs::remove_file(f.dir.path().join("b.yaml")).unwrap();
    f.read("b.yaml");
    let desired = f.manifests.desired();
    assert!(desired.pods.is_empty() && desired.problems.is_empty(), "{desired:?}");
}

/// A FIFO would be waited for; a link to nowhere may lead somewhere again.
#[test]
fn fifos_sockets_and_dangling_links_are_no_manifests() {
    let mut f = Fixture::new();
    nix::unistd::mkfifo(&f.dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(f.dir.path().join("socket")).unwrap();
    let target = f.dir.path().join(".target");
    fs::write(&target, manifest("linked")).unwrap();
    std::os::unix::fs::symlink(&target, f.dir.path().join("link.yaml")).unwrap();
    let desired = f.scan();
    assert_eq!((names(&desired), desired.problems), (vec!["linked".to_owned()], vec![]));
    fs::remove_file(&target).unwrap();
    let desired = f.scan();
    assert_eq!(names(&desired), ["linked"]);
    assert!(desired.problems[0].message.starts_with("open "), "{:?}", desired.problems);
    fs::remove_file(f.dir.path().join("link.yaml")).unwrap();
    assert_eq!(f.names(), [""; 0]);
}

#[test]
fn problems_name_file_line_and_field() {
    let mut f = Fixture::new();
    f.write("a.yaml", format!("{}---\n{}", manifest("a"), manifest("b").replace("image: i", "image: [5]")));
    let desired = f.scan();
    assert_eq!(names(&desired), ["a"]);
    let [problem] = desired.problems.as_slice() else { panic!("{:?}", desired.problems) };
    assert!(problem.message.starts_with(&f.origin("a.yaml").to_string()), "{problem}");
    assert!(
        problem.message.contains("line 9") && problem.message.contains("spec.containers[0].image"),
        "{problem}"
    );
}
