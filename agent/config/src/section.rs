//! The `nodewarden:` section, with settings that a kubelet does not have.

use std::net::SocketAddr;

use serde_yaml_ng::Mapping;

use super::defaults as d;
use super::endpoint::Endpoint;
use super::fields::Fields;
use super::keys::SECTION;
use super::kubelet_keys::KubeletSettings;
use super::reading::Reading;
use super::{
    Config, Mode, NodeSettings, Overrides, ProgramStats, augment, cgroup_path, devices, eviction,
    exclusive_cpus, gc, kubernetes, pods, probes, throttle,
};
use nodewarden_machine::page::page_bytes;
use nodewarden_storage::journal::Limits;

/// Reads the section, overridden by flags, on top of the kubelet's keys.
pub fn take(
    mut map: Mapping,
    taken: KubeletSettings,
    overrides: &Overrides,
    reading: &mut Reading,
) -> Config {
    let mut flags = Vec::new();
    for (key, flag, value) in overrides.set() {
        map.insert(key.into(), value.into());
        flags.push((key, flag));
    }
    let mut f = Fields::new(SECTION, map, flags, reading);
    let mode = f.choice("mode", &["observe", "augment", "manage"], false);
    let socket = f.path("socket", d::SOCKET, d::SOCKET_PATH_BYTES);
    let http_allow_remote = f.flag("httpAllowRemote", false);
    let http_address = http_address(&mut f, http_allow_remote);
    let http_allow_anonymous = f.flag("httpAllowAnonymous", false);
    let http_allowed_hosts = http_allowed_hosts(&mut f);
    let state_dir = f.path("stateDir", d::STATE_DIR, usize::MAX);
    let runtime_endpoint = Endpoint::take(&mut f, "runtimeEndpoint");
    let max_cgroups = f.number("maxCgroups", d::MAX_CGROUPS, &d::MAX_CGROUPS_RANGE);
    let page = page_bytes();
    let ring_bytes = f.bytes(
        "ringBytes",
        d::RING_BYTES,
        &(page..=d::RING_BYTES_MAX),
        ("a power of two of ", u64::is_power_of_two),
    );
    let retention = f.seconds("retentionSeconds", d::RETENTION, &d::RETENTION_SECONDS_RANGE);
    let sample = f.seconds("sampleSeconds", d::SAMPLE, &d::SAMPLE_SECONDS_RANGE);
    let reconcile = f.seconds("reconcileSeconds", d::RECONCILE, &d::RECONCILE_SECONDS_RANGE);
    let node_name = f.text("nodeName", "a DNS name in lower case of at most 253 bytes", node_name);
    let program_stats =
        f.choice("programStats", &["Always", "Sampled", "Off"], false).unwrap_or(ProgramStats::Sampled);
    let drop_privileges = f.flag("dropPrivileges", true);
    let bench_empty_programs = f.flag("benchEmptyPrograms", false);
    let runtime_cgroups = cgroup_path::take(&mut f, "runtimeCgroups");
    let pod_settings = pods::take_own(&mut f, taken.pods);
    let journal = f.section("journal");
    let own_kubernetes = f.section(kubernetes::SECTION);
    let own_devices = f.section("devices");
    let own_probes = f.section("probes");
    let own_gc = f.section("gc");
    let own_eviction = f.section("eviction");
    let own_throttle = f.section("throttle");
    let own_augment = f.section("augment");
    let own_exclusive_cpus = f.section("exclusiveCpus");
    f.finish();
    let kubernetes = kubernetes::take_own(own_kubernetes, taken.kubernetes, reading);
    // As a kubelet: who is given credentials of a cluster runs its pods.
    let mode = mode.unwrap_or(if kubernetes.connects() { Mode::Manage } else { Mode::Observe });
    Config {
        mode,
        socket,
        http_address,
        http_allow_remote,
        http_allow_anonymous,
        http_allowed_hosts,
        state_dir,
        runtime_endpoint,
        max_cgroups: max_cgroups as u32, // within MAX_CGROUPS_RANGE
        ring_bytes: ring_bytes as u32,   // within RING_BYTES_MAX
        journal: journal_limits(journal, reading),
        retention,
        sample,
        reconcile,
        node_name,
        program_stats,
        drop_privileges,
        bench_empty_programs,
        node: NodeSettings { runtime_cgroups, ..taken.node },
        pods: pod_settings,
        kubernetes,
        server: taken.server,
        devices: devices::take(own_devices, reading),
        probes: probes::take(own_probes, reading),
        gc: gc::take_own(own_gc, taken.gc, reading),
        eviction: eviction::take_own(own_eviction, taken.eviction, reading),
        throttle: throttle::take(own_throttle, reading),
        augment: augment::take(own_augment, mode, reading),
        exclusive_cpus: exclusive_cpus::take(own_exclusive_cpus, reading),
        gates: taken.gates,
        logging: taken.logging,
        image_endpoint: taken.image_endpoint,
        ignored: Vec::new(),
        renamed: Vec::new(),
        flags_without_effect: Vec::new(),
    }
}

fn journal_limits(map: Mapping, reading: &mut Reading) -> Limits {
    let default = Limits::default();
    let any = ("", |_| true);
    let mut f = Fields::new("nodewarden.journal", map, Vec::new(), reading);
    let limits = Limits {
        memory_events: f.number("memoryEvents", default.memory_events as u64, &d::JOURNAL_MEMORY_EVENTS_RANGE)
            as usize,
        memory_bytes: f.bytes("memoryBytes", default.memory_bytes as u64, &d::JOURNAL_MEMORY_BYTES_RANGE, any)
            as usize,
        file_bytes: f.bytes("fileBytes", default.file_bytes, &d::JOURNAL_FILE_BYTES_RANGE, any),
        files: f.number("files", u64::from(default.files), &d::JOURNAL_FILES_RANGE) as u32,
    };
    f.finish();
    limits
}

fn http_address(f: &mut Fields<'_>, allow_remote: bool) -> SocketAddr {
    let default = SocketAddr::from(([127, 0, 0, 1], 10350));
    debug_assert_eq!(default.to_string(), d::HTTP_ADDRESS);
    let key = "httpAddress";
    let Some(address) =
        f.text(key, "an IP address and port like 127.0.0.1:10350", |t| t.parse::<SocketAddr>().ok())
    else {
        return default;
    };
    if !allow_remote && !address.ip().to_canonical().is_loopback() {
        f.refuse(
            key,
            &address.to_string(),
            "a loopback address, or nodewarden.httpAllowRemote: true (clients are then authenticated)",
        );
    }
    address
}

/// DNS names under which requests may come, in lower case; `*.` in front stands for one or more labels.
fn http_allowed_hosts(f: &mut Fields<'_>) -> Vec<String> {
    let key = "httpAllowedHosts";
    let mut names = Vec::new();
    for text in f.texts(key).unwrap_or_default() {
        let name = text.to_lowercase();
        match node_name(name.strip_prefix("*.").unwrap_or(&name)) {
            Some(_) => names.push(name),
            None => {
                f.refuse(key, &text, "DNS names without a port, like agents.example.com or *.example.com");
            }
        }
    }
    names
}

/// A node name, which must be a DNS-1123 subdomain.
fn node_name(text: &str) -> Option<String> {
    let label = |l: &str| {
        !l.is_empty()
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| text.to_owned())
}
