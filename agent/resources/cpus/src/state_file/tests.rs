//! What damaged state files are.

use super::*;

fn read(text: &str) -> Result<StateFile, StateFileError> {
    StateFile::read(text, |_| None)
}

#[test]
fn damaged_files_are_errors_that_say_what_is_wrong() {
    for (text, expected) in [
        ("", "EOF"),
        ("not json", "expected"),
        (
            r#"{"policyName":"static","defaultCpuSet":"0-7","checksum":1}"#,
            "the checksum is 1, that of the content is",
        ),
        (r#"{"policyName":"static","defaultCpuSet":"x"}"#, r#"defaultCpuSet: "x" is not a list of CPUs"#),
        (
            r#"{"policyName":"static","defaultCpuSet":"0","entries":{"p":{"c":"1-"}}}"#,
            r#"pod p, container c: "1-" is not a list of CPUs"#,
        ),
        (
            r#"{"policyName":"static","defaultCpuSet":"0","entries":{"id":"1"}}"#,
            r#"container id "id" is not known"#,
        ),
        (r#"{"entries":[]}"#, "cpu_manager_state"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_file_without_checksum_is_read() {
    let file = read(r#"{"policyName":"none","defaultCpuSet":""}"#).unwrap();
    assert_eq!((file.policy.as_str(), file.shared.is_empty()), ("none", true));
}
