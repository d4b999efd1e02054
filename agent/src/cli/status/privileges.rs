//! The part of `nodewarden status` about what the agent may do.

use std::fmt::Write as _;

use nodewarden_proto::nodewarden::v1::{HeldCapability, Privileges};
use serde_json::json;

/// The lines about what was given up.
pub fn lines(out: &mut String, own: &Privileges) {
    let files = if own.no_new_privileges { "none by programs' files" } else { "also by programs' files" };
    let calls = match own.refused_calls {
        0 => "no system call refused".to_owned(),
        n => format!("{n} system calls refused"),
    };
    let given_up = match own.given_up.is_empty() {
        true => String::new(),
        false => format!("; given up: {}", own.given_up.join(", ")),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "privileges {files}, {calls}{given_up}");
    let beyond = |name: &&String| own.capabilities.iter().all(|held| held.name != **name);
    let beyond: Vec<&str> = own.bounding.iter().filter(beyond).map(String::as_str).collect();
    if !beyond.is_empty() {
        let _ = writeln!(out, "           in the bounding set too: {}", beyond.join(", "));
    }
    if !own.problem.is_empty() {
        let _ = writeln!(out, "warning    privileges: {}", own.problem);
    }
}

/// What a capability is for.
pub fn why(own: &HeldCapability) -> &str {
    if own.why.is_empty() { "nothing" } else { &own.why }
}

pub fn json(own: &Privileges) -> serde_json::Value {
    json!({
        "capabilities": own.capabilities.iter().map(|c| json!({"name": c.name, "why": c.why})).collect::<Vec<_>>(),
        "bounding": own.bounding,
        "givenUp": own.given_up,
        "noNewPrivileges": own.no_new_privileges,
        "refusedCalls": own.refused_calls,
        "problem": own.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_given_up_is_said() {
        let own = Privileges {
            capabilities: vec![HeldCapability { name: "CAP_KILL".into(), why: String::new() }],
            bounding: vec!["CAP_KILL".into(), "CAP_BPF".into()],
            problem: "1 threads".into(),
            ..Privileges::default()
        };
        let mut text = String::new();
        lines(&mut text, &own);
        assert_eq!(
            text,
            "privileges also by programs' files, no system call refused\n           in the bounding set too: CAP_BPF\n\
             warning    privileges: 1 threads\n"
        );
        assert_eq!(why(&own.capabilities[0]), "nothing");
    }
}
