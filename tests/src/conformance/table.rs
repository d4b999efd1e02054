//! docs/CONFORMANCE.md: what each test of the suite gives with nodewarden and with the kubelet.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::ConformanceError;
use super::results::{Results, Test};

/// How much of a failure's message is shown.
const MESSAGE_CHARACTERS: usize = 160;

/// Why a test cannot pass on the development machine with any agent: a part of its name, and the reason.
const REASONS: &[(&str, &str)] = &[
    ("should be able to pull from private registry", "pulls from a registry on the Internet"),
    ("should be able to pull image", "pulls from a registry on the Internet"),
    ("GKE system requirements", "looks for Docker on a machine of Google"),
    ("PrivilegedPod", "makes a network link of the kind dummy, which this kernel does not have"),
    ("Summary API", "wants cgroups of the kubelet, the runtime and the system, which are not set up here"),
    ("node-pod communication: udp", "sends UDP with netcat, which busybox's cannot"),
];

/// Writes the table of the results in `directory`.
///
/// # Errors
/// They cannot be read, or the file cannot be written.
pub fn write(directory: &Path, path: &Path) -> Result<(), ConformanceError> {
    let load = |node| Results::load(directory, node);
    let text = text(&load(super::node::NODEWARDEN)?, &load(super::node::KUBELET)?);
    std::fs::write(path, text).map_err(|source| ConformanceError::File { path: path.to_owned(), source })
}

/// The document.
fn text(nodewarden: &Results, kubelet: &Results) -> String {
    let names: BTreeSet<&String> = nodewarden.tests.keys().chain(kubelet.tests.keys()).collect();
    let count = |results: &Results| results.tests.values().filter(|test| test.passed).count();
    let both = names.iter().filter(|name| passed(nodewarden, name) && passed(kubelet, name)).count();
    let mut text = format!(
        "# Conformance\n\n\
         Kubernetes' own tests of a node (`test/e2e_node` of 1.20.2), run against nodewarden and against the kubelet \
         of the same version, on the same machine and the same kind of control plane. Written by \
         `cargo xtask test conformance --write-table` from the results of `cargo xtask test conformance` and \
         `cargo xtask test conformance --kubelet`; do not edit.\n\n\
         | | passed |\n|---|---|\n| kubelet 1.20.2 | {} |\n| nodewarden | {} |\n| both | {both} |\n\n\
         {} tests ran with at least one of them.\n",
        count(kubelet),
        count(nodewarden),
        names.len(),
    );
    let (passes, others): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| passed(nodewarden, name) && passed(kubelet, name));
    if !others.is_empty() {
        text.push_str(
            "\n## Not passed by both\n\n| test | kubelet | nodewarden | reason |\n|---|---|---|---|\n",
        );
        for name in others {
            let results = [kubelet, nodewarden].map(|results| results.tests.get(name));
            let [ours, theirs] = [word(results[1]), word(results[0])];
            let _infallible =
                writeln!(text, "| {} | {theirs} | {ours} | {} |", cell(name), cell(&reason(name, results)));
        }
    }
    text.push_str("\n## Passed by both\n\n");
    for name in passes {
        let _infallible = writeln!(text, "- {}", cell(name));
    }
    text
}

fn passed(results: &Results, name: &str) -> bool {
    results.tests.get(name).is_some_and(|test| test.passed)
}

fn word(test: Option<&Test>) -> &'static str {
    match test {
        None => "not run",
        Some(test) if test.passed => "passed",
        Some(test) if test.skipped => "skipped itself",
        Some(_) => "failed",
    }
}

/// The known reason, or else the beginning of the message of the first that failed.
fn reason(name: &str, results: [Option<&Test>; 2]) -> String {
    if let Some((_, reason)) = REASONS.iter().find(|(part, _)| name.contains(part)) {
        return (*reason).to_owned();
    }
    let message = results.into_iter().flatten().map(|test| &test.message).find(|message| !message.is_empty());
    message.map(|message| shortened(message)).unwrap_or_default()
}

/// The message without the line that says where in the suite it failed, on one line.
fn shortened(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !is_place(line));
    let whole = lines.collect::<Vec<_>>().join(" ");
    let short: String = whole.chars().take(MESSAGE_CHARACTERS).collect();
    if short == whole { whole } else { format!("{short}…") }
}

/// `k8s.io/kubernetes/test/e2e/common/pods.go:123`.
fn is_place(line: &str) -> bool {
    !line.contains(' ') && line.rsplit_once(".go:").is_some_and(|(_, at)| at.parse::<u32>().is_ok())
}

/// Text that fits into a cell of a table and is no markup.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '|' | '[' | ']' | '<' | '>' | '*' | '_' | '`') {
            safe.push('\\');
        }
        safe.push(if character == '\n' { ' ' } else { character });
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(passed: bool, message: &str) -> Test {
        Test { passed, skipped: false, seconds: 1.0, message: message.to_owned() }
    }

    fn results(tests: &[(&str, Test)]) -> Results {
        Results { tests: tests.iter().map(|(name, test)| ((*name).to_owned(), test.clone())).collect() }
    }

    #[test]
    fn the_table_has_what_is_not_passed_by_both_with_its_reason() {
        let failure = "k8s.io/kubernetes/test/e2e/common/pods.go:12\nTimed out | waiting\n";
        let kubelet = results(&[("[a] one", test(true, "")), ("two", test(true, ""))]);
        let ours = results(&[("[a] one", test(true, "")), ("two", test(false, failure))]);
        let text = text(&ours, &kubelet);
        assert!(text.contains("| kubelet 1.20.2 | 2 |\n| nodewarden | 1 |\n| both | 1 |"), "{text}");
        assert!(text.contains("| two | passed | failed | Timed out \\| waiting |\n"), "{text}");
        assert!(text.ends_with("## Passed by both\n\n- \\[a\\] one\n"), "{text}");
    }

    #[test]
    fn a_test_that_ran_with_one_alone_is_listed() {
        let text = text(&Results::default(), &results(&[("one", test(true, ""))]));
        assert!(text.contains("| one | passed | not run |  |"), "{text}");
    }

    #[test]
    fn long_messages_are_cut() {
        let short = shortened(&"é".repeat(500));
        assert_eq!(short.chars().count(), MESSAGE_CHARACTERS + 1);
        assert_eq!(shortened("a\n  b\n"), "a b");
    }
}
