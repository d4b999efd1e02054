//! Defaults and bounds of the `nodewarden:` section.

use std::ops::RangeInclusive;
use std::time::Duration;

/// `socket`: path of the gRPC interface, and the default of the commands' `--socket`.
pub const SOCKET: &str = "/run/nodewarden/nodewarden.sock";
/// `httpAddress`: only this machine.
pub(crate) const HTTP_ADDRESS: &str = "127.0.0.1:10350";
/// `stateDir`.
pub(crate) const STATE_DIR: &str = "/var/lib/nodewarden";

/// `maxCgroups`.
pub(crate) const MAX_CGROUPS: u64 = 4096;
/// A slot number has 16 bits in the kernel's records and one value means "none".
pub(crate) const MAX_CGROUPS_RANGE: RangeInclusive<u64> = 64..=65_535;

/// `ringBytes`: the size of the kernel's event ring.
pub(crate) const RING_BYTES: u64 = 1 << 20;
/// The largest `ringBytes`.
pub(crate) const RING_BYTES_MAX: u64 = 256 << 20;

/// The range of `journal.memoryEvents`.
pub(crate) const JOURNAL_MEMORY_EVENTS_RANGE: RangeInclusive<u64> = 100..=10_000_000;
/// The range of `journal.memoryBytes`.
pub(crate) const JOURNAL_MEMORY_BYTES_RANGE: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// The range of `journal.fileBytes`, the size of one file.
pub(crate) const JOURNAL_FILE_BYTES_RANGE: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// The range of `journal.files`, their number.
pub(crate) const JOURNAL_FILES_RANGE: RangeInclusive<u64> = 1..=100;

/// How long the series of a removed container are kept.
pub(crate) const RETENTION: Duration = Duration::from_secs(300);
/// The range of `retentionSeconds`.
pub(crate) const RETENTION_SECONDS_RANGE: RangeInclusive<u64> = 0..=86_400;

/// Time between two readings; the kubelet's housekeeping interval is 10 s too.
pub(crate) const SAMPLE: Duration = Duration::from_secs(10);
/// The range of `sampleSeconds`.
pub(crate) const SAMPLE_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// Time between two full comparisons of the limits. The kubelet's `UpdateCgroups` runs every minute too.
pub(crate) const RECONCILE: Duration = Duration::from_secs(60);
/// The range of `reconcileSeconds`.
pub(crate) const RECONCILE_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// The range of `crashLoopBackOff.maxContainerRestartPeriod`.
pub(crate) const BACKOFF_SECONDS_RANGE: RangeInclusive<u64> = 1..=300;
/// The range of `crashLoopBackOffResetSeconds`.
pub(crate) const BACKOFF_RESET_SECONDS_RANGE: RangeInclusive<u64> = 1..=86_400;
/// The range of `housekeepingSeconds`.
pub(crate) const HOUSEKEEPING_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// The kubelet's `--root-dir`.
pub(crate) const KUBELET_DIR: &str = "/var/lib/kubelet";
/// Maximum length of `kubeletDir` in bytes, which leaves room for `/device-plugins/` and the name of a
/// plugin's socket.
pub(crate) const KUBELET_DIR_BYTES: usize = 74;

/// `kubernetes.certDir`: the kubelet's `--cert-dir`.
pub(crate) const CERT_DIR: &str = "/var/lib/kubelet/pki";
/// The range of `nodeLeaseDurationSeconds`.
pub(crate) const LEASE_SECONDS_RANGE: RangeInclusive<u64> = 1..=i32::MAX as u64;

/// `sockaddr_un.sun_path` holds 108 bytes with its NUL, and the socket is first bound under a name that is
/// four bytes longer (`nodewarden_machine::unix_socket`).
pub(crate) const SOCKET_PATH_BYTES: usize = 103;
