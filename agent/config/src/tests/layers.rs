//! A file with a drop-in directory over it, from the disk to the configuration or its problems.

use std::fs;
use std::path::PathBuf;

use crate::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A file and a directory with drop-in files; every text gets the head that a file must have, but those that
/// have one.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new(file: &str, dropins: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("conf.d")).unwrap();
        let write = |name: PathBuf, text: &str| {
            let head = if text.contains("kind:") { "" } else { HEAD };
            fs::write(directory.path().join(name), format!("{head}{text}")).unwrap();
        };
        write("config.yaml".into(), file);
        for (name, text) in dropins {
            write(Path::new("conf.d").join(name), text);
        }
        Self { directory }
    }

    fn load(&self, flags: &Overrides) -> Result<Config, ConfigError> {
        let path = self.directory.path();
        load(Some(&path.join("config.yaml")), Some(&path.join("conf.d")), flags)
    }

    /// The problems with the names of the files alone.
    fn problems(&self) -> Vec<String> {
        let error = self.load(&Overrides::default()).unwrap_err();
        let ConfigError::Invalid { problems, .. } = error else { panic!("{error}") };
        let path = format!("{}/", self.directory.path().display());
        problems.iter().map(|p| p.to_string().replace(&path, "").replace("conf.d/", "")).collect()
    }
}

/// The first two are the cases of the kubelet's own documentation.
#[test]
fn later_files_win() {
    let config = Files::new(
        "maxPods: 90\nsystemReserved: {memory: 1Gi, cpu: 500m}\nenforceNodeAllocatable: [pods]\n\
         nodewarden: {journal: {files: 7}, sampleSeconds: 3}\n",
        &[
            ("20-b.conf", "maxPods: 80\nsystemReserved: {memory: 2Gi}"),
            ("10-a.conf", "maxPods: 70\ncgroupDriver: systemd\nnodewarden: {journal: {fileBytes: 128Ki}}"),
            ("30-c.conf", "enforceNodeAllocatable: [none]\nnodewarden: {sampleSeconds: null}"),
            ("ignored.yaml", "maxPods: 60"),
        ],
    )
    .load(&Overrides::default())
    .unwrap();
    assert_eq!(config.node.max_pods, 80);
    assert_eq!(config.node.cgroup_driver.to_string(), "systemd");
    let reserved: Vec<String> = config.node.system_reserved.iter().map(|(k, v)| format!("{k} {v}")).collect();
    assert_eq!(reserved, ["cpu 500m", "memory 2Gi"]);
    assert_eq!(config.node.enforce, []);
    assert_eq!((config.journal.files, config.journal.file_bytes), (7, 128 << 10));
    assert_eq!(config.sample, Duration::from_secs(10));
}

#[test]
fn a_signal_replaces_one_default() {
    let hard = |file: &str, dropin: &str| {
        let config = Files::new(file, &[("1.conf", dropin)]).load(&Overrides::default()).unwrap();
        config.node.eviction_hard.iter().map(|(s, v)| format!("{s} {v}")).collect::<Vec<_>>()
    };
    assert_eq!(
        hard("", "evictionHard: {memory.available: 1Gi}"),
        ["imagefs.available 15%", "memory.available 1Gi", "nodefs.available 10%", "nodefs.inodesFree 5%"]
    );
    assert_eq!(
        hard("evictionHard: {nodefs.available: 3%}", "evictionHard: {memory.available: 1Gi}"),
        ["imagefs.available 15%", "memory.available 1Gi", "nodefs.available 3%", "nodefs.inodesFree 5%"]
    );
    assert_eq!(
        hard(
            "evictionHard: {nodefs.available: 3%}\nmergeDefaultEvictionSettings: false",
            "evictionHard: {memory.available: 1Gi}"
        ),
        ["memory.available 1Gi", "nodefs.available 3%"]
    );
}

#[test]
fn flags_are_over_the_files() {
    let files = Files::new("", &[("1.conf", "nodewarden: {socket: /a}")]);
    let flags = Overrides { socket: Some("/b".into()), ..Overrides::default() };
    assert_eq!(files.load(&flags).unwrap().socket, Path::new("/b"));
}

#[test]
fn every_problem_names_its_file() {
    let files = Files::new(
        "maxPods: -1\noomScoreAdj: 2000\nnodewarden: {journal: {files: 0}}",
        &[
            ("1.conf", "oomScoreAdj: 3000\nkubeReserved: {cpu: much}\nnodewarden: {journal: {fileBytes: 1}}"),
            ("2.conf", "kind: Pod\napiVersion: v1"),
            ("3.conf", "a: ["),
            ("4.conf", "maxpods: 5"),
        ],
    );
    assert_eq!(
        files.problems(),
        [
            "2.conf: apiVersion: v1: expected kubelet.config.k8s.io/v1beta1",
            "2.conf: kind: Pod: expected KubeletConfiguration",
            "3.conf: file: did not find expected node content at line 4 column 1, while parsing a flow node: \
             expected YAML that can be read",
            "1.conf: kubeReserved.cpu: much: expected an amount from 0 like 500m or 1Gi",
            "1.conf: oomScoreAdj: 3000: expected a whole number from -1000 to 1000",
            "config.yaml: maxPods: -1: expected a whole number from 0 up",
            "4.conf: maxpods: unknown key: expected a key of KubeletConfiguration (did you mean maxPods?)",
            "1.conf: nodewarden.journal.fileBytes: 1: expected bytes from 65536 to 1073741824, as a number or like 16Mi",
            "config.yaml: nodewarden.journal.files: 0: expected a whole number from 1 to 100",
        ]
    );
}

#[test]
fn a_file_alone_names_no_file_at_each_problem() {
    let files = Files::new("maxPods: -1", &[]);
    let path = files.directory.path().join("config.yaml");
    let error = load(Some(&path), None, &Overrides::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{} is not valid:\n  maxPods: -1: expected a whole number from 0 up", path.display())
    );
}

#[test]
fn a_directory_needs_no_file() {
    let files = Files::new("", &[("1.conf", "maxPods: 3")]);
    let directory = files.directory.path().join("conf.d");
    assert_eq!(load(None, Some(&directory), &Overrides::default()).unwrap().node.max_pods, 3);
    let missing = load(None, Some(Path::new("/nonexistent/conf.d")), &Overrides::default()).unwrap_err();
    assert!(
        missing.to_string().starts_with("cannot read the drop-in directory /nonexistent/conf.d: "),
        "{missing}"
    );
}
