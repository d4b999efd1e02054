//! Runs `promtool check metrics` on the three documents. Skipped if promtool is not installed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::exposition::to_vec;
use super::{Own, cadvisor, fixture, recorder, resource};

/// The linter's complaints about names that cAdvisor defines (exit code 3; a text that does not parse gives
/// 1).
const CADVISORS_OWN: [&str; 2] = [
    "cadvisor_version_info label names should be written in 'snake_case' not 'camelCase'",
    "container_memory_failcnt counter metrics should have \"_total\" suffix",
];

/// The linter's complaints about names that the kubelet defines.
const KUBELETS_OWN: [&str; 2] = [
    "kubelet_evictions counter metrics should have \"_total\" suffix",
    "kubelet_preemptions counter metrics should have \"_total\" suffix",
];

pub(super) fn promtool() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/prometheus/usr/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(installed)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("promtool"))
        .find(|tool| tool.is_file());
    if found.is_none() {
        nodewarden_testing::skip("promtool is neither in target/tools/prometheus nor in PATH");
    }
    found
}

/// Exit code and output lines.
fn check(tool: &Path, text: &[u8]) -> (Option<i32>, Vec<String>) {
    let mut child = Command::new(tool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    child.stdin.take().expect("a pipe").write_all(text).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

#[test]
fn own_metrics_parse_and_the_linter_rejects_only_names_of_the_kubelet() {
    let Some(tool) = promtool() else { return };
    recorder::handle();
    ::metrics::counter!(Own::HttpRequests.name(), "path" => "/metrics", "code" => "200").increment(1);
    ::metrics::histogram!(Own::HttpDuration.name(), "path" => "/metrics").record(0.002);
    ::metrics::gauge!(Own::HttpBytes.name(), "path" => "/metrics").set(100.0);
    ::metrics::counter!(Own::Evictions.name(), "eviction_signal" => "memory.available").increment(1);
    ::metrics::counter!(Own::Preemptions.name(), "preemption_signal" => "cpu").increment(1);
    let text = to_vec(|e| {
        fixture::write_own(e, 3);
        e.raw(&recorder::render());
    });
    let (code, mut said) = check(&tool, &text);
    said.sort_unstable();
    said.dedup();
    assert_eq!(said, KUBELETS_OWN);
    assert_eq!(code, Some(3));
}

#[test]
fn resource_metrics_are_clean() {
    let Some(tool) = promtool() else { return };
    let text = to_vec(|e| resource::write(e, &fixture::snapshot(3)));
    assert_eq!(check(&tool, &text), (Some(0), Vec::new()));
}

#[test]
fn cadvisor_metrics_parse_and_the_linter_rejects_only_names_of_cadvisor() {
    let Some(tool) = promtool() else { return };
    let text = to_vec(|e| cadvisor::write(e, &fixture::snapshot(3)));
    let (code, mut said) = check(&tool, &text);
    said.sort_unstable();
    said.dedup(); // once for each label
    assert_eq!(said, CADVISORS_OWN);
    assert_eq!(code, Some(3));
}
