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

    fn origin(&self, file: &str) -> String {
        self.dir.path().join(file).display().to_string()
    }

    fn names(&mut self) -> Vec<String> {
        names(&self.manifests.scan())
    }
}

fn names(desired: &Desired) -> Vec<String> {
    desired.pods.iter().map(|p| p.pod.name.clone()).collect()
}

#[test]
fn several_documents_and_formats() {
    let mut f = Fixture::new();
    f.write("b.yaml", format!("{}---\n{}", manifest("b1"), manifest("b2")));
    f.write("a.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#);
    f.write(".hidden.yaml", manifest("hidden"));
    fs::create_dir(f.dir.path().join("directory")).unwrap();
    let desired = f.manifests.scan();
    assert_eq!(names(&desired), ["a", "b1", "b2"]);
    assert_eq!(desired.problems, [""; 0]);
    assert!(desired.pods.iter().all(|p| p.pod.uid.len() == 32 && p.pod.namespace == "default"));
}

#[test]
fn a_removed_file_takes_its_pods_and_a_removed_directory_does_not() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    f.write("b.yaml", manifest("b"));
    assert_eq!(f.names(), ["a", "b"]);
    fs::remove_file(f.dir.path().join("b.yaml")).unwrap();
    let desired = f.manifests.scan();
    assert_eq!(names(&desired), ["a"]);
    assert!(desired.is_gone(&f.origin("b.yaml")));
    fs::remove_dir_all(f.dir.path()).unwrap();
    let desired = f.manifests.scan();
    assert_eq!(names(&desired), ["a"]);
    assert!(desired.blind && !desired.is_gone(&f.origin("b.yaml")));
    assert!(desired.problems[0].starts_with("list "), "{:?}", desired.problems);
    fs::create_dir(f.dir.path()).unwrap();
    assert_eq!(f.names(), [""; 0]);
}

#[test]
fn a_bad_file_keeps_its_pods() {
    let mut f = Fixture::new();
    let both = format!("{}---\n{}", manifest("one"), manifest("two"));
    f.write("a.yaml", &both);
    assert_eq!(f.names(), ["one", "two"]);
    for bad in [&both.as_bytes()[..both.len() - 20], b"{", b"\xff\xfe", b"kind: Nonsense\napiVersion: v1\n"] {
        f.write("a.yaml", bad);
        let desired = f.manifests.scan();
        assert_eq!(names(&desired).len(), 2, "{bad:?}");
        assert!(!desired.is_gone(&f.origin("a.yaml")));
        assert!(desired.problems.iter().all(|p| p.contains(&f.origin("a.yaml"))), "{:?}", desired.problems);
        assert!(!desired.problems.is_empty());
    }
    f.write("a.yaml", manifest("one"));
    let desired = f.manifests.scan();
    assert_eq!(names(&desired), ["one"]);
    assert!(desired.is_gone(&f.origin("a.yaml")));
}

#[test]
fn the_first_of_two_stands() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("same"));
    f.write("b.yaml", manifest("same"));
    let desired = f.manifests.scan();
    assert_eq!(names(&desired), ["same"]);
    assert_eq!(desired.pods[0].origin, f.origin("a.yaml"));
    assert!(desired.problems[0].contains("b.yaml") && desired.problems[0].contains("a.yaml"));
}

#[test]
fn the_uid_follows_the_content() {
    let mut f = Fixture::new();
    f.write("a.yaml", manifest("a"));
    let first = f.manifests.scan().pods[0].pod.uid.clone();
    f.write("a.yaml", manifest("a") + "\n# a comment\n");
    assert_eq!(f.manifests.scan().pods[0].pod.uid, first);
    f.write("a.yaml", manifest("a").replace("image: i", "image: j"));
    assert_ne!(f.manifests.scan().pods[0].pod.uid, first);
    f.write("a.yaml", manifest("a").replace("name: a", "name: a, uid: mine"));
    assert_eq!(f.manifests.scan().pods[0].pod.uid, "mine");
}

#[test]
fn a_change_wakes_the_watcher() {
    let mut f = Fixture::new();
    let (tell, told) = std::sync::mpsc::channel();
    let watching = super::super::watch(
        std::mem::replace(&mut f.manifests, Manifests::new(f.dir.path(), "")),
        Desired::default(),
        std::time::Duration::from_secs(600),
        move |desired| {
            let _ = tell.send(names(&desired));
        },
    )
    .unwrap();
    let next = || told.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    f.write("a.yaml", manifest("a"));
    assert_eq!(next(), ["a"]);
    fs::rename(f.dir.path().join("a.yaml"), f.dir.path().join(".a.yaml")).unwrap();
    assert_eq!(next(), [""; 0]);
    drop(watching);
    assert!(told.try_recv().is_err());
}
