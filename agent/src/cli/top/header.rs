//! The lines above the table: the node's totals and the agent's state. Pure.

use nodewarden_proto::nodewarden::v1::{GetStatusResponse, ListCgroupsResponse};

use super::rates::Row;
use crate::cli::format::{bytes, printable};

/// The line with the node's totals.
pub fn node(list: &ListCgroupsResponse, rows: &[Row]) -> String {
    let root = rows.iter().find(|r| r.kind == "root");
    let cpu = match root.and_then(|r| r.cpu) {
        Some(used) => format!("{used:.2} of {} cores", list.cpus),
        None => format!("{} cores", list.cpus),
    };
    let memory = match root.and_then(|r| r.memory) {
        Some(used) => format!("{} of {}", bytes(used), bytes(list.memory_bytes)),
        None => bytes(list.memory_bytes),
    };
    let pods = rows.iter().filter(|r| r.kind == "pod").count();
    let containers = rows.iter().filter(|r| r.kind == "container").count();
    printable(&format!(
        "{}  cpu {cpu}  memory {memory}  pods {pods}  containers {containers}  cgroups {}",
        list.node_name,
        rows.len()
    ))
}

/// The line about the agent: its own usage and all problems.
pub fn agent(status: &GetStatusResponse) -> String {
    let mut out =
        format!("agent {} {}, {} resident", status.version, status.mode, bytes(status.resident_bytes));
    let off: Vec<String> = status
        .topics
        .iter()
        .filter(|t| t.state != "on")
        .map(|t| format!("{} {}", t.topic, t.state))
        .collect();
    if !off.is_empty() {
        out += &format!("; {}", off.join(", "));
    }
    let lost: u64 = status.events.iter().map(|e| e.lost).sum();
    if lost > 0 {
        out += &format!("; {lost} events lost");
    }
    if status.cgroups_untracked > 0 {
        out += &format!("; {} cgroups untracked", status.cgroups_untracked);
    }
    match status.warnings.as_slice() {
        [] => {}
        [only] => out += &format!("; {only}"),
        [first, rest @ ..] => out += &format!("; {first} (and {} more)", rest.len()),
    }
    printable(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::rates::rows;
    use nodewarden_api::grpc::cgroup::list;
    use nodewarden_api::grpc::status::to_proto;
    use nodewarden_model::AgentState;
    use nodewarden_model::fixture::Node;

    #[test]
    fn totals_and_troubles() {
        let fixture = Node::default();
        let [before, now] = [(); 2].map(|()| list(&fixture.snapshot(), "", false));
        assert_eq!(
            node(&now, &rows(Some(&before), &now)),
            "node-1  cpu 1.50 of 2 cores  memory 150Mi of 4.00Gi  pods 1  containers 1  cgroups 7"
        );
        assert!(node(&now, &rows(None, &now)).starts_with("node-1  cpu 2 cores  memory 150Mi of"));
        assert_eq!(
            agent(&to_proto(fixture.status())),
            "agent 0.1.0 observe, 21.0Mi resident; network off; journal: disk full"
        );
    }
}
