//! The effective configuration as a file that would give the same one.

use std::fmt::Write as _;

use super::{Config, kubelet};

impl Config {
    /// YAML with every setting spelled out.
    pub fn to_yaml(&self) -> String {
        let text = |t: &str| serde_yaml_ng::to_string(t).unwrap_or_default().trim_end().to_owned();
        let mut out = format!("apiVersion: {}\nkind: {}\nnodewarden:\n", kubelet::API_VERSION, kubelet::KIND);
        let mut line = |key: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {key}: {value}");
        };
        line("mode", self.mode.name().to_owned());
        line("socket", text(&self.socket.to_string_lossy()));
        line("httpAddress", text(&self.http_address.to_string()));
        line("httpAllowRemote", self.http_allow_remote.to_string());
        line("stateDir", text(&self.state_dir.to_string_lossy()));
        if let Some(endpoint) = &self.runtime_endpoint {
            line("runtimeEndpoint", text(&endpoint.to_string()));
        }
        line("maxCgroups", self.max_cgroups.to_string());
        line("ringBytes", self.ring_bytes.to_string());
        line("retentionSeconds", self.retention.as_secs().to_string());
        line("sampleSeconds", self.sample.as_secs().to_string());
        if let Some(name) = &self.node_name {
            line("nodeName", text(name));
        }
        line("programStats", self.program_stats.name().to_owned());
        if self.bench_empty_programs {
            line("benchEmptyPrograms", true.to_string());
        }
        line("journal", String::new());
        line("  memoryEvents", self.journal.memory_events.to_string());
        line("  memoryBytes", self.journal.memory_bytes.to_string());
        line("  fileBytes", self.journal.file_bytes.to_string());
        line("  files", self.journal.files.to_string());
        out.replace("journal: \n", "journal:\n")
    }
}
