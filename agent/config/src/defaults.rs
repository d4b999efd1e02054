//! Defaults and bounds of the `nodewarden:` section.

use std::ops::RangeInclusive;
use std::time::Duration;

pub const SOCKET: &str = "/run/nodewarden/nodewarden.sock";
pub const HTTP_ADDRESS: &str = "127.0.0.1:10350";
pub const STATE_DIR: &str = "/var/lib/nodewarden";

pub const MAX_CGROUPS: u64 = 4096;
/// A slot number has 16 bits in the kernel's records and one value means "none".
pub const MAX_CGROUPS_RANGE: RangeInclusive<u64> = 64..=65_535;

pub const RING_BYTES: u64 = 1 << 20;
pub const RING_BYTES_MAX: u64 = 256 << 20;

pub const JOURNAL_MEMORY_EVENTS_RANGE: RangeInclusive<u64> = 100..=10_000_000;
pub const JOURNAL_MEMORY_BYTES_RANGE: RangeInclusive<u64> = 64 << 10..=1 << 30;
pub const JOURNAL_FILE_BYTES_RANGE: RangeInclusive<u64> = 64 << 10..=1 << 30;
pub const JOURNAL_FILES_RANGE: RangeInclusive<u64> = 1..=100;

/// How long the series of a removed container are kept.
pub const RETENTION: Duration = Duration::from_secs(300);
pub const RETENTION_SECONDS_RANGE: RangeInclusive<u64> = 0..=86_400;

/// Time between two readings; the kubelet's housekeeping interval is 10 s too.
pub const SAMPLE: Duration = Duration::from_secs(10);
pub const SAMPLE_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// Time between two full comparisons of the limits. The kubelet's `UpdateCgroups` runs every minute too.
pub const RECONCILE: Duration = Duration::from_secs(60);
pub const RECONCILE_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// The range of `crashLoopBackOff.maxContainerRestartPeriod`.
pub const BACKOFF_SECONDS_RANGE: RangeInclusive<u64> = 1..=300;
pub const BACKOFF_RESET_SECONDS_RANGE: RangeInclusive<u64> = 1..=86_400;
pub const HOUSEKEEPING_SECONDS_RANGE: RangeInclusive<u64> = 1..=3600;

/// The kubelet's `--root-dir`.
pub const KUBELET_DIR: &str = "/var/lib/kubelet";
/// Maximum length of `kubeletDir` in bytes, which leaves room for `/device-plugins/` and the name of a plugin's socket.
pub const KUBELET_DIR_BYTES: usize = 74;

/// `sockaddr_un.sun_path` holds 108 bytes with its NUL, and the socket is first bound under a name that is
/// four bytes longer (`api::grpc`).
pub const SOCKET_PATH_BYTES: usize = 103;
