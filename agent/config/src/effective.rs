//! Writes the effective configuration as a file from which the same one is read.

use serde_yaml_ng::Mapping;

use super::show::{Map, pair};
use super::{
    Config, Enforce, augment, devices, eviction, exclusive_cpus, gc, keys, kubernetes, logging, node, pods,
    probes, server, throttle,
};

impl Config {
    /// YAML with all settings; keys without a value are left out.
    pub fn to_yaml(&self) -> String {
        let mut top = Map::default();
        top.put("apiVersion", keys::API_VERSION);
        top.put("kind", keys::KIND);
        node::show(&mut top, &self.node);
        pods::show(&mut top, &self.pods, self.gates);
        kubernetes::show(&mut top, &self.kubernetes);
        server::show(&mut top, &self.server);
        gc::show(&mut top, &self.gc);
        let enforced = self.node.enforce.contains(&Enforce::Pods);
        eviction::show(&mut top, &self.node.eviction_hard, enforced, &self.eviction);
        logging::show(&mut top, &self.logging);
        top.put_some("imageServiceEndpoint", self.image_endpoint.as_ref().map(ToString::to_string));
        top.put(
            "featureGates",
            self.gates.list().into_iter().map(|(n, on)| pair(n, on)).collect::<Mapping>(),
        );
        top.put("nodewarden", self.section());
        let text = serde_yaml_ng::to_string(&top.0).unwrap_or_default();
        if self.ignored.is_empty() {
            return text;
        }
        let keys: Vec<&str> = self.ignored.iter().map(|own| own.key.as_str()).collect();
        format!("# The kubelet's keys that do nothing here: {}\n{text}", keys.join(", "))
    }

    fn section(&self) -> Mapping {
        let mut map = Map::default();
        map.put("mode", self.mode.name());
        map.put("socket", &*self.socket.to_string_lossy());
        map.put("httpAddress", self.http_address.to_string());
        map.put("httpAllowRemote", self.http_allow_remote);
        map.put("httpAllowAnonymous", self.http_allow_anonymous);
        map.put("httpAllowedHosts", self.http_allowed_hosts.clone());
        map.put("stateDir", &*self.state_dir.to_string_lossy());
        map.put_some("runtimeEndpoint", self.runtime_endpoint.as_ref().map(ToString::to_string));
        map.put_some("runtimeCgroups", self.node.runtime_cgroups.clone());
        map.put("maxCgroups", self.max_cgroups);
        map.put("ringBytes", self.ring_bytes);
        map.put("retentionSeconds", self.retention.as_secs());
        map.put("sampleSeconds", self.sample.as_secs());
        map.put("reconcileSeconds", self.reconcile.as_secs());
        // Only maxContainerRestartPeriod can lead to fractions of a second.
        let initial = Some(self.pods.backoff_initial).filter(|time| time.subsec_nanos() == 0);
        map.put_some("crashLoopBackOffInitialSeconds", initial.map(|time| time.as_secs()));
        map.put("crashLoopBackOffResetSeconds", self.pods.backoff_reset.as_secs());
        map.put_some("nodeName", self.node_name.clone());
        map.put("programStats", self.program_stats.name());
        map.put("dropPrivileges", self.drop_privileges);
        map.put_some("benchEmptyPrograms", self.bench_empty_programs.then_some(true));
        let mut journal = Map::default();
        journal.put("memoryEvents", self.journal.memory_events as u64);
        journal.put("memoryBytes", self.journal.memory_bytes as u64);
        journal.put("fileBytes", self.journal.file_bytes);
        journal.put("files", self.journal.files);
        map.put("journal", journal.0);
        map.put(kubernetes::SECTION, kubernetes::show_own(&self.kubernetes));
        map.put("devices", devices::show(&self.devices));
        map.put("probes", probes::show(&self.probes));
        map.put("gc", gc::show_own(&self.gc));
        map.put("eviction", eviction::show_own(&self.eviction));
        map.put("throttle", throttle::show(&self.throttle));
        map.put("augment", augment::show(&self.augment));
        map.put("exclusiveCpus", exclusive_cpus::show(&self.exclusive_cpus));
        map.0
    }
}
