//! What damaged state files are.

use super::*;

#[test]
fn damaged_files_are_errors_that_say_what_is_wrong() {
    for (text, expected) in [
        ("", "EOF"),
        ("not json", "expected"),
        (
            r#"{"policyName":"Static","machineState":{},"checksum":1}"#,
            "the checksum is 1, that of the content is",
        ),
        (r#"{"policyName":"Static","machineState":{"64":{}},"checksum":1}"#, "there is a NUMA node 64"),
        (r#"{"policyName":"Static","machineState":{"a":{}},"checksum":1}"#, "there is a NUMA node a"),
        (r#"{"entries":[]}"#, "memory_manager_state"),
    ] {
        let error = StateFile::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
