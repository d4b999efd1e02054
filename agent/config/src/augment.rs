//! Mode augment, beside a kubelet: the section `nodewarden.augment`. Each feature is a setting of its own.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::Map;
use crate::{Enforcement, Mode};

/// What mode augment does. Every feature is `Audit` by default in that mode, and can only be `Off` in others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AugmentSettings {
    /// `events`: OOM kills, crashes of child processes and changed limits become Kubernetes Events of their
    /// pods.
    pub events: Enforcement,
    /// `protection`: `oom_score_adj` and `memory.min` of the node's daemons.
    pub protection: Enforcement,
    /// `memoryHigh`: `memory.high` of pods above their requests while memory is short (cgroup v2).
    pub memory_high: Enforcement,
    /// `cpuIdle`: `cpu.idle` of BestEffort pods.
    pub cpu_idle: Enforcement,
    /// `cpuBurst`: unused CPU quota may be used later (`cpu.max.burst`).
    pub cpu_burst: Enforcement,
    /// `eviction`: pods are evicted for memory and process ids, before the kubelet does.
    pub eviction: Enforcement,
    /// `devices`: accesses of pods to devices of device plugins that they were not given, and devices that
    /// they lose.
    pub devices: Enforcement,
    /// `neighbours`: whom containers wait for is counted: a CPU, memory or a disk. Never `Enforce`: nothing
    /// is done about it.
    pub neighbours: Enforcement,
    /// `podResourcesSocket`: where the kubelet says which container has which devices.
    pub pod_resources_socket: PathBuf,
    /// `devicePluginDirectory`: where the kubelet keeps what plugins have answered.
    pub device_plugin_directory: PathBuf,
    /// `hostRoot`: where the node's own file system is seen, with device nodes and CDI files in it.
    pub host_root: PathBuf,
    /// `evictionMargin`: bytes by which a threshold of memory is before the kubelet's, or a tenth of it,
    /// whichever is more.
    pub eviction_margin: u64,
    /// `kubeletConfig`: the kubelet's configuration file, whose thresholds are taken if this agent has none
    /// of its own.
    pub kubelet_config: PathBuf,
    /// `periodMilliseconds`: time between two rounds.
    pub period: Duration,
    /// `protectedUnits`: names of systemd units below `/system.slice`, or paths of cgroups.
    pub protected_units: Vec<String>,
    /// `protectedMemory`: `memory.min` of each of them in bytes (cgroup v2); 0 for none.
    pub protected_memory: u64,
    /// `protectedOomScoreAdj`: the highest `oom_score_adj` of their processes.
    pub protected_oom_score_adj: i32,
    /// `memoryDistance`: pods above their requests are held back when less than the eviction threshold of
    /// `memory.available` and this many bytes are available.
    pub memory_distance: u64,
    /// `cpuBurstPercent`: the burst in percent of the quota.
    pub cpu_burst_percent: u64,
}

impl AugmentSettings {
    /// The defaults in this mode.
    pub fn of(mode: Mode) -> Self {
        let feature = if mode == Mode::Augment { Enforcement::Audit } else { Enforcement::Off };
        Self {
            events: feature,
            protection: feature,
            memory_high: feature,
            cpu_idle: feature,
            cpu_burst: feature,
            eviction: feature,
            devices: feature,
            neighbours: feature,
            pod_resources_socket: "/var/lib/kubelet/pod-resources/kubelet.sock".into(),
            device_plugin_directory: "/var/lib/kubelet/device-plugins".into(),
            host_root: "/".into(),
            eviction_margin: 64 << 20,
            kubelet_config: "/var/lib/kubelet/config.yaml".into(),
            period: Duration::from_secs(1),
            protected_units: ["kubelet.service", "containerd.service", "crio.service"]
                .map(Into::into)
                .to_vec(),
            protected_memory: 64 << 20,
            protected_oom_score_adj: -999,
            memory_distance: 256 << 20,
            cpu_burst_percent: 50,
        }
    }

    /// Each feature's key and setting.
    pub fn features(&self) -> [(&'static str, Enforcement); 8] {
        [
            ("events", self.events),
            ("protection", self.protection),
            ("memoryHigh", self.memory_high),
            ("cpuIdle", self.cpu_idle),
            ("cpuBurst", self.cpu_burst),
            ("eviction", self.eviction),
            ("devices", self.devices),
            ("neighbours", self.neighbours),
        ]
    }
}

const PERIOD_MS: RangeInclusive<u64> = 100..=60_000;
const BYTES: RangeInclusive<u64> = 0..=(1 << 50);
const PERCENT: RangeInclusive<u64> = 1..=100;
const SCORE: RangeInclusive<i64> = -1000..=0;

/// Reads the section; adds what was found to `reading`.
pub fn take(map: Mapping, mode: Mode, reading: &mut Reading) -> AugmentSettings {
    let default = AugmentSettings::of(mode);
    let mut f = Fields::new("nodewarden.augment", map, Vec::new(), reading);
    let any = || ("", |_: u64| true);
    let score = "a whole number from -1000 to 0";
    let settings = AugmentSettings {
        events: feature(&mut f, "events", mode, default.events),
        protection: feature(&mut f, "protection", mode, default.protection),
        memory_high: feature(&mut f, "memoryHigh", mode, default.memory_high),
        cpu_idle: feature(&mut f, "cpuIdle", mode, default.cpu_idle),
        cpu_burst: feature(&mut f, "cpuBurst", mode, default.cpu_burst),
        eviction: feature(&mut f, "eviction", mode, default.eviction),
        devices: feature(&mut f, "devices", mode, default.devices),
        neighbours: watched(&mut f, "neighbours", mode, default.neighbours),
        pod_resources_socket: path(&mut f, "podResourcesSocket").unwrap_or(default.pod_resources_socket),
        device_plugin_directory: path(&mut f, "devicePluginDirectory")
            .unwrap_or(default.device_plugin_directory),
        host_root: path(&mut f, "hostRoot").unwrap_or(default.host_root),
        eviction_margin: f.bytes("evictionMargin", default.eviction_margin, &BYTES, any()),
        kubelet_config: path(&mut f, "kubeletConfig").unwrap_or(default.kubelet_config),
        period: Duration::from_millis(f.number(
            "periodMilliseconds",
            default.period.as_millis() as u64,
            &PERIOD_MS,
        )),
        protected_units: units(&mut f).unwrap_or(default.protected_units),
        protected_memory: f.bytes("protectedMemory", default.protected_memory, &BYTES, any()),
        protected_oom_score_adj: f
            .integer("protectedOomScoreAdj", score, &SCORE)
            .and_then(|score| i32::try_from(score).ok())
            .unwrap_or(default.protected_oom_score_adj),
        memory_distance: f.bytes("memoryDistance", default.memory_distance, &BYTES, any()),
        cpu_burst_percent: f.number("cpuBurstPercent", default.cpu_burst_percent, &PERCENT),
    };
    f.finish();
    settings
}

fn feature(f: &mut Fields<'_>, key: &'static str, mode: Mode, default: Enforcement) -> Enforcement {
    of_mode(f, key, &["Off", "Audit", "Enforce"], mode, default)
}

/// A feature that only shows something.
fn watched(f: &mut Fields<'_>, key: &'static str, mode: Mode, default: Enforcement) -> Enforcement {
    of_mode(f, key, &["Off", "Audit"], mode, default)
}

fn of_mode(
    f: &mut Fields<'_>,
    key: &'static str,
    names: &'static [&'static str],
    mode: Mode,
    default: Enforcement,
) -> Enforcement {
    let found = f.choice(key, names, false).unwrap_or(default);
    if mode != Mode::Augment && found != Enforcement::Off {
        f.refuse(key, found.name(), &format!("Off, because the mode is {}", mode.name()));
        return Enforcement::Off;
    }
    found
}

fn path(f: &mut Fields<'_>, key: &'static str) -> Option<PathBuf> {
    f.text(key, "an absolute path", |path| path.starts_with('/').then(|| path.into()))
}

/// Names of units, or absolute paths of cgroups. The root and pods' cgroups are refused: protecting them
/// would take memory from everything else.
fn units(f: &mut Fields<'_>) -> Option<Vec<String>> {
    let key = "protectedUnits";
    let texts = f.texts(key)?;
    for text in &texts {
        if !is_daemon(text) {
            f.refuse(
                key,
                text,
                "names of systemd services like sshd.service, or paths of cgroups outside of kubepods",
            );
        }
    }
    Some(texts)
}

fn is_daemon(text: &str) -> bool {
    let Some(path) = text.strip_prefix('/') else {
        return text.ends_with(".service") && !text.contains(['/', '\0']) && text.len() > ".service".len();
    };
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.starts_with("kubepods");
    !path.contains('\0') && path.split('/').all(plain)
}

pub(crate) fn show(settings: &AugmentSettings) -> Mapping {
    let mut map = Map::default();
    for (key, feature) in settings.features() {
        map.put(key, feature.name());
    }
    map.put("podResourcesSocket", settings.pod_resources_socket.display().to_string());
    map.put("devicePluginDirectory", settings.device_plugin_directory.display().to_string());
    map.put("hostRoot", settings.host_root.display().to_string());
    map.put("evictionMargin", settings.eviction_margin);
    map.put("kubeletConfig", settings.kubelet_config.display().to_string());
    map.put("periodMilliseconds", settings.period.as_millis() as u64);
    let units: Vec<Value> = settings.protected_units.iter().map(|unit| unit.as_str().into()).collect();
    map.put("protectedUnits", units);
    map.put("protectedMemory", settings.protected_memory);
    map.put("protectedOomScoreAdj", settings.protected_oom_score_adj);
    map.put("memoryDistance", settings.memory_distance);
    map.put("cpuBurstPercent", settings.cpu_burst_percent);
    map.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mode: Mode, text: &str) -> (AugmentSettings, Vec<String>) {
        let mut reading = Reading::default();
        let settings = take(serde_yaml_ng::from_str(text).expect("a mapping"), mode, &mut reading);
        (settings, reading.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn features_are_audited_in_mode_augment_and_off_in_others() {
        let all = |mode| read(mode, "{}").0.features().map(|(_, feature)| feature);
        assert_eq!(all(Mode::Augment), [Enforcement::Audit; 8]);
        assert_eq!(all(Mode::Observe), [Enforcement::Off; 8]);
        assert_eq!(all(Mode::Manage), [Enforcement::Off; 8]);
    }

    #[test]
    fn every_key() {
        let (settings, problems) = read(
            Mode::Augment,
            "{events: Enforce, protection: Off, memoryHigh: Enforce, cpuIdle: Enforce, cpuBurst: Off, \
             eviction: Enforce, devices: Enforce, neighbours: Off, podResourcesSocket: /k/p.sock, devicePluginDirectory: /k/d, \
             hostRoot: /host, evictionMargin: 1Mi, kubeletConfig: /host/kubelet.yaml, periodMilliseconds: 200, protectedUnits: [sshd.service, /test/daemon], protectedMemory: 1Mi, \
             protectedOomScoreAdj: -500, memoryDistance: 1Gi, cpuBurstPercent: 20}",
        );
        assert_eq!(problems, [""; 0]);
        let expected = AugmentSettings {
            events: Enforcement::Enforce,
            protection: Enforcement::Off,
            memory_high: Enforcement::Enforce,
            cpu_idle: Enforcement::Enforce,
            cpu_burst: Enforcement::Off,
            eviction: Enforcement::Enforce,
            devices: Enforcement::Enforce,
            neighbours: Enforcement::Off,
            pod_resources_socket: "/k/p.sock".into(),
            device_plugin_directory: "/k/d".into(),
            host_root: "/host".into(),
            eviction_margin: 1 << 20,
            kubelet_config: "/host/kubelet.yaml".into(),
            period: Duration::from_millis(200),
            protected_units: vec!["sshd.service".into(), "/test/daemon".into()],
            protected_memory: 1 << 20,
            protected_oom_score_adj: -500,
            memory_distance: 1 << 30,
            cpu_burst_percent: 20,
        };
        assert_eq!(settings, expected);
        let text = serde_yaml_ng::to_string(&show(&settings)).unwrap();
        assert_eq!(read(Mode::Augment, &text), (expected, Vec::new()), "it is shown as it is read");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (mode, text, part) in [
            (
                Mode::Observe,
                "{events: Audit}",
                "augment.events: Audit: expected Off, because the mode is observe",
            ),
            (
                Mode::Manage,
                "{cpuIdle: Enforce}",
                "augment.cpuIdle: Enforce: expected Off, because the mode is manage",
            ),
            (
                Mode::Augment,
                "{events: Always}",
                "nodewarden.augment.events: Always: expected Off, Audit or Enforce",
            ),
            (Mode::Augment, "{protectedUnits: [/]}", "nodewarden.augment.protectedUnits: /"),
            (Mode::Augment, "{protectedUnits: [kubelet]}", "nodewarden.augment.protectedUnits: kubelet"),
            (Mode::Augment, "{protectedUnits: [/kubepods/burstable]}", "outside of kubepods"),
            (Mode::Augment, "{protectedUnits: [/kubepods.slice]}", "outside of kubepods"),
            (Mode::Augment, "{protectedUnits: [/a/../kubepods]}", "outside of kubepods"),
            (Mode::Augment, "{protectedOomScoreAdj: 1}", "nodewarden.augment.protectedOomScoreAdj"),
            (Mode::Augment, "{cpuBurstPercent: 101}", "nodewarden.augment.cpuBurstPercent"),
            (Mode::Augment, "{periodMilliseconds: 99}", "nodewarden.augment.periodMilliseconds"),
            (Mode::Augment, "{neighbours: Enforce}", "augment.neighbours: Enforce: expected Off or Audit"),
            (
                Mode::Augment,
                "{kubeletConfig: config.yaml}",
                "augment.kubeletConfig: config.yaml: expected an absolute path",
            ),
            (Mode::Augment, "{hostRoot: host}", "augment.hostRoot: host: expected an absolute path"),
            (Mode::Augment, "{burst: 1}", "nodewarden.augment.burst: unknown key"),
        ] {
            let (_, problems) = read(mode, text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
