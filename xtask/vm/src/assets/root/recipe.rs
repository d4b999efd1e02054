//! What makes a Debian root a guest's: its packages, and the files that are added to them.
//!
//! The guest has no udev, no one who logs in, and is over in seconds; a network only as the node of a
//! cluster, which our own init sets up. What waits, cleans up or downloads is masked, and logind starts when
//! it is called. Its init finds `/run/nodewarden` from the initramfs, which moves its `/run` along.

/// Counts changes that are not in the texts below: how images and file systems are made.
const REVISION: u32 = 1;

/// The Debian release: its systemd no longer knows cgroup v1.
pub const RELEASE: &str = "trixie";
/// Packages in addition to mmdebstrap's `minbase`; what these depend on is installed too, what they recommend
/// does not.
pub const PACKAGES: [&str; 10] = [
    "systemd",
    "systemd-sysv",
    "dbus",
    "containerd",
    "runc",
    "busybox-static",
    "iproute2",
    "procps",
    "kmod",
    "e2fsprogs",
];
/// What is removed again, since it is never read. (dpkg could leave it out, but for that mmdebstrap needs
/// Python.)
pub const REMOVED: [&str; 7] = [
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    // D-Bus starts it at the first call: most guests never need it.
    "usr/lib/systemd/system/multi-user.target.wants/systemd-logind.service",
];
/// The size of the file system in bytes.
pub const SIZE: u64 = 2 << 30;
/// The archive of container images; a service imports it.
pub const IMAGES: &str = "usr/share/nodewarden/images.tar";

/// The image of pod sandboxes.
pub const PAUSE_IMAGE: &str = "nodewarden.test/pause:1";
/// The image for containers: busybox with its commands.
pub const BUSYBOX_IMAGE: &str = "nodewarden.test/busybox:1";
/// The commands that the latter has in /bin.
pub const COMMANDS: [&str; 20] = [
    "sh", "cat", "cp", "dd", "echo", "env", "false", "grep", "head", "id", "ls", "mkdir", "ps", "rm", "seq",
    "sleep", "tail", "test", "true", "yes",
];

/// A file to write: its path without a leading slash, and its text.
pub type File = (&'static str, &'static str);

/// Files to write.
pub const FILES: [File; 11] = [
    ("etc/fstab", "# The initramfs has mounted what there is.\n"),
    ("etc/hostname", "nodewarden-guest\n"),
    ("etc/hosts", "127.0.0.1 localhost nodewarden-guest\n::1 localhost\n"),
    // Without a name server; no pod starts without the file.
    ("etc/resolv.conf", ""),
    // An empty one would make each boot a first boot.
    ("etc/machine-id", "6e6f6465776172646e6f646577617264\n"),
    (
        "etc/systemd/system.conf.d/nodewarden.conf",
        "[Manager]\nShowStatus=no\nDefaultTimeoutStartSec=120s\nDefaultTimeoutStopSec=5s\n",
    ),
    (
        "etc/systemd/journald.conf.d/nodewarden.conf",
        "[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\nRateLimitIntervalSec=0\nAudit=no\n",
    ),
    // In the version 2 format, which containerd 2 still reads.
    (
        "etc/containerd/config.toml",
        r#"version = 2
disabled_plugins = [
  "io.containerd.internal.v1.tracing",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "nodewarden.test/pause:1"
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["/run/cdi"]

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
"#,
    ),
    // Debian's waits for D-Bus to be up, where its socket will do, and for modprobe, which finds no modules
    // here: the initramfs has loaded what there is.
    (
        "etc/systemd/system/containerd.service",
        "[Unit]\nDescription=containerd\nAfter=dbus.socket local-fs.target\n\n\
         [Service]\nType=notify\nExecStart=/usr/bin/containerd\nDelegate=yes\nKillMode=process\n\
         TimeoutStartSec=120s\nLimitNPROC=infinity\nLimitCORE=infinity\nTasksMax=infinity\nOOMScoreAdjust=-999\n",
    ),
    (
        "usr/lib/systemd/system/nodewarden-images.service",
        "[Unit]\nDescription=Container images for tests\nRequires=containerd.service\nAfter=containerd.service\n\
         Before=nodewarden-guest.service\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/usr/bin/ctr --namespace k8s.io images import --no-unpack /usr/share/nodewarden/images.tar\n",
    ),
    // Below /usr, so that a unit of the same name in /run takes its place.
    (
        "usr/lib/systemd/system/nodewarden-guest.service",
        "[Unit]\nDescription=What this machine was started for\n\
         ConditionPathExists=/run/nodewarden/bin/nodewarden-guest\n\
         Wants=containerd.service nodewarden-images.service\nAfter=containerd.service nodewarden-images.service\n\
         FailureAction=poweroff-force\nSuccessAction=poweroff-force\n\n\
         [Service]\nType=exec\nExecStart=/run/nodewarden/bin/nodewarden-guest systemd\nDelegate=yes\n\
         TimeoutStartSec=infinity\nTasksMax=infinity\nLimitNOFILE=1048576\nOOMPolicy=continue\n\
         StandardOutput=null\nStandardError=journal+console\n",
    ),
];

/// Symbolic links: where, and to what.
pub const LINKS: [(&str, &str); 4] = [
    ("etc/systemd/system/default.target", "/usr/lib/systemd/system/multi-user.target"),
    ("usr/lib/systemd/system/multi-user.target.wants/containerd.service", "../containerd.service"),
    (
        "usr/lib/systemd/system/multi-user.target.wants/nodewarden-images.service",
        "../nodewarden-images.service",
    ),
    (
        "usr/lib/systemd/system/multi-user.target.wants/nodewarden-guest.service",
        "../nodewarden-guest.service",
    ),
];

/// Units that never start; ones that the release does not have do no harm.
pub const MASKED: [&str; 45] = [
    "apt-daily.service",
    "apt-daily.timer",
    "apt-daily-upgrade.service",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "getty@tty1.service",
    "getty-static.service",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@.service",
    "networking.service",
    "proc-sys-fs-binfmt_misc.automount",
    "run-lock.mount",
    "serial-getty@ttyS0.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-initctl.socket",
    "systemd-journal-catalog-update.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-sysusers.service",
    "systemd-timesyncd.service",
    "systemd-tmpfiles-setup-dev-early.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
    "tmp.mount",
];

/// Programs by which systemd would look for units to make, again with every `daemon-reload`: there are none
/// here, and on an emulated machine looking takes half of the time of a reload.
pub const MASKED_GENERATORS: [&str; 10] = [
    "systemd-debug-generator",
    "systemd-fstab-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-rc-local-generator",
    "systemd-ssh-generator",
    "systemd-system-update-generator",
    "systemd-sysv-generator",
    "systemd-tpm2-generator",
];

/// Changes whenever anything of the recipe does.
pub fn fingerprint() -> String {
    let all = format!(
        "{REVISION} {RELEASE} {PACKAGES:?} {REMOVED:?} {SIZE} {IMAGES} {PAUSE_IMAGE} {BUSYBOX_IMAGE} {COMMANDS:?} \
         {FILES:?} {LINKS:?} {MASKED:?} {MASKED_GENERATORS:?}"
    );
    short(&all)
}

/// Enough of the hash of `text` to distinguish it from others.
pub fn short(text: &str) -> String {
    nodewarden_oci::hash(text.as_bytes())[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> &'static str {
        FILES.iter().find(|(name, _)| *name == path).unwrap().1
    }

    #[test]
    fn the_sandbox_image_is_the_one_that_is_imported() {
        assert!(file("etc/containerd/config.toml").contains(&format!("sandbox_image = \"{PAUSE_IMAGE}\"")));
        assert!(file("usr/lib/systemd/system/nodewarden-images.service").contains(&format!("/{IMAGES}\n")));
    }

    #[test]
    fn paths_are_relative_and_none_is_made_twice() {
        let mut paths = FILES.iter().map(|(path, _)| *path).collect::<Vec<_>>();
        paths.extend(LINKS.iter().map(|(path, _)| *path));
        assert!(paths.iter().all(|path| !path.starts_with('/')));
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }

    #[test]
    fn units_are_well_formed() {
        for (path, text) in
            FILES.iter().filter(|(path, _)| path.ends_with(".service") || path.ends_with(".conf"))
        {
            for line in text.lines().filter(|line| !line.is_empty()) {
                let section = line.starts_with('[') && line.ends_with(']');
                assert!(section || line.split_once('=').is_some(), "{path}: {line}");
            }
        }
    }
}
