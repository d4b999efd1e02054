//! A containerd for a single test: root, state and socket are in a temporary directory, the pods' cgroups
//! below a separate root. On drop, also after a panic, it stops its tasks and itself and removes the cgroups.

#![allow(clippy::unwrap_used, reason = "a fixture of tests: what it is made of is valid")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodewarden_proto::runtime::v1 as cri;

use nodewarden_config::Endpoint;

/// The only image: busybox, which also serves as pause program.
pub const IMAGE: &str = "nodewarden.test/busybox:1";

/// A containerd of the test's own, in a temporary directory; dropping it ends it and its containers.
pub struct Containerd {
    child: Child,
    /// Number of this instance in the process.
    number: usize,
    dir: tempfile::TempDir,
}

impl Containerd {
    /// Starts containerd; reports a skip and returns `None` if it cannot run here.
    pub fn start() -> Option<Self> {
        for program in ["containerd", "ctr", "runc"] {
            if Command::new(program).arg("--version").output().is_err() {
                nodewarden_testing::skip(format_args!("{program} is not installed"));
                return None;
            }
        }
        if !nix::unistd::geteuid().is_root() {
            nodewarden_testing::skip("containerd needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.toml");
        fs::write(&config, configuration(dir.path())).unwrap();
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let this = Self { child: spawn(dir.path()), number, dir };
        this.wait();
        Some(this)
    }

    /// Kills containerd; its containers keep running.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`Self::kill`] with the same state; does not wait until it responds.
    pub fn spawn_again(&mut self) {
        self.child = spawn(self.dir.path());
    }

    /// Waits until it responds.
    pub fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !fs::metadata(self.socket()).is_ok_and(|m| m.file_type().is_socket())
            || !self.ctr(&["version"]).status.success()
        {
            assert!(Instant::now() < deadline, "containerd does not answer:\n{}", self.log());
            sleep(Duration::from_millis(100));
        }
    }

    /// The root of its pods' cgroups in each hierarchy; it differs between tests, which run in parallel.
    pub fn cgroup_root(&self) -> String {
        format!("/nodewarden-test-{}-runtime-{}", std::process::id(), self.number)
    }

    /// The directory for pods' logs in tests.
    pub fn logs(&self) -> PathBuf {
        self.dir.path().join("logs")
    }

    /// The path of its CRI socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("containerd.sock")
    }

    /// The address of its CRI socket.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&self.socket().to_string_lossy()).unwrap()
    }

    /// Its log so far; empty if it cannot be read.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Creates [`IMAGE`] from the machine's busybox. Reports a skip and returns `false` without a static
    /// busybox.
    pub fn import_image(&self) -> bool {
        let busybox = Path::new("/bin/busybox");
        let dynamic = Command::new("ldd").arg(busybox).output().is_ok_and(|o| o.status.success());
        if !busybox.exists() || dynamic {
            nodewarden_testing::skip("no static /bin/busybox (Debian: busybox-static)");
            return false;
        }
        let dir = self.dir.path().join("image");
        fs::create_dir_all(dir.join("rootfs/bin")).unwrap();
        fs::copy(busybox, dir.join("rootfs/bin/busybox")).unwrap();
        let sh = |script: &str| {
            let output = Command::new("sh").args(["-ec", script]).current_dir(&dir).output().unwrap();
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let digest = sh("tar -C rootfs -cf layer.tar bin; sha256sum layer.tar | cut -d' ' -f1");
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = serde_json::json!({
            "architecture": arch, "os": "linux",
            "config": {"Entrypoint": ["/bin/busybox", "sleep", "600"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest.trim())]},
        });
        let manifest = serde_json::json!([
            {"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}
        ]);
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
        sh("tar -cf image.tar manifest.json config.json layer.tar");
        let image = dir.join("image.tar");
        let output = self.ctr(&["images", "import", "--snapshotter", "native", &image.to_string_lossy()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    fn ctr(&self, arguments: &[&str]) -> std::process::Output {
        let (socket, mut command) = (self.socket(), Command::new("ctr"));
        command.arg("--address").arg(socket).args(["--namespace", "k8s.io"]).args(arguments).output().unwrap()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Containers outlive containerd; a failed test must not leave them behind.
        if !matches!(self.child.try_wait(), Ok(None)) {
            self.spawn_again();
            let deadline = Instant::now() + Duration::from_secs(10);
            while !self.ctr(&["version"]).status.success() && Instant::now() < deadline {
                sleep(Duration::from_millis(100));
            }
        }
        let tasks = self.ctr(&["tasks", "list", "--quiet"]).stdout;
        for id in String::from_utf8_lossy(&tasks).lines() {
            self.ctr(&["tasks", "delete", "--force", id]);
        }
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        for directory in group_directories(&self.cgroup_root()) {
            remove_groups(&directory);
        }
    }
}

/// A pod of namespace `shop` on the host's network and IPC namespace.
pub fn sandbox_config(name: &str, uid: &str, cgroup_parent: &str) -> cri::PodSandboxConfig {
    let node = cri::NamespaceMode::Node.into();
    let namespaces = cri::NamespaceOption { network: node, ipc: node, ..Default::default() };
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.into(),
            uid: uid.into(),
            namespace: "shop".into(),
            attempt: 0,
        }),
        labels: HashMap::from([("io.kubernetes.pod.uid".into(), uid.into())]),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: cgroup_parent.into(),
            security_context: Some(cri::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A container of [`IMAGE`] that sleeps.
pub fn container_config(name: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.into(), attempt: 0 }),
        image: Some(cri::ImageSpec { image: IMAGE.into(), ..Default::default() }),
        labels: HashMap::from([("io.kubernetes.container.name".into(), name.into())]),
        ..Default::default()
    }
}

/// The directories of a cgroup in all hierarchies that have it.
pub fn group_directories(path: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?;
            fields.next()?.starts_with("cgroup").then(|| PathBuf::from(format!("{place}{path}")))
        })
        .filter(|directory| directory.is_dir())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Removes cgroups from the leaves up, except those with processes.
fn remove_groups(directory: &Path) {
    for child in fs::read_dir(directory).into_iter().flatten().flatten() {
        if child.file_type().is_ok_and(|t| t.is_dir()) {
            remove_groups(&child.path());
        }
    }
    let _removed = fs::remove_dir(directory);
}

fn spawn(dir: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    Command::new("containerd")
        .arg("--config")
        .arg(dir.join("config.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
[grpc]
address = "{dir}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
disable_apparmor = true
sandbox_image = "{IMAGE}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#
    )
}
