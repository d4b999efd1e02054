//! What a node's agent uses and asks while its pods just run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::side::Side;
use crate::bench::Run;
use crate::bench::pods::{CpuByThread, resident};
use crate::fixture::{AuditLog, Cluster, Request};
use crate::harness::Failure;

/// What the agent uses.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU seconds a minute.
    pub cpu: f64,
    /// `VmRSS` in bytes.
    pub resident: u64,
    /// Resident memory without mapped eBPF maps, which a kubelet does not have, in bytes.
    pub own: u64,
    /// Requests to the API server a minute.
    pub requests: f64,
}

/// Measures the node's agent for `time`. Prints the CPU time of each thread and the requests by what they
/// were.
pub fn cost(run: &Run<'_>, side: &Side<'_>, cluster: &Cluster, time: Duration) -> Result<Cost, Failure> {
    let node = side.fixture().runs_by();
    let pid = node.pid().ok_or_else(|| Failure::Unexpected("the node's agent does not run".into()))?;
    let mut log = AuditLog::new(cluster)?;
    let threads = CpuByThread::of(pid);
    let (before, begun) = (cpu_time(pid)?, Instant::now());
    std::thread::sleep(time);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let cpu = (cpu_time(pid)? - before).as_secs_f64() / minutes;
    run.progress(&format!("CPU by thread, ms a minute (wake-ups): {}", threads.since(pid, begun.elapsed())));
    let user = format!("system:node:{}", side.fixture().name());
    let requests: Vec<_> = log.read()?.into_iter().filter(|request| request.user == user).collect();
    run.progress(&format!("requests in {:.0} s: {}", minutes * 60.0, by_kind(&requests)));
    let resident = resident(pid)?;
    let own = match node.agent() {
        Ok(agent) => agent.client()?.status()?.resident_bytes,
        Err(_) => resident,
    };
    Ok(Cost { cpu, resident, own, requests: requests.len() as f64 / minutes })
}

/// How often what was asked.
fn by_kind(requests: &[Request]) -> String {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for Request { verb, resource, .. } in requests {
        *kinds.entry(format!("{verb} {resource}")).or_default() += 1;
    }
    let words: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// CPU time that a process has used.
///
/// # Errors
/// There is no such process.
pub fn cpu_time(pid: u32) -> Result<Duration, Failure> {
    let failed = |error: nix::Error| Failure::file(format!("CPU clock of process {pid}"))(error.into());
    let clock = nix::time::clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).map_err(failed)?;
    Ok(nix::time::clock_gettime(clock).map_err(failed)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        let request = |verb: &str| Request {
            user: "system:node:n".into(),
            verb: verb.into(),
            resource: "leases".into(),
        };
        assert_eq!(
            by_kind(&[request("update"), request("get"), request("update")]),
            "1 get leases, 2 update leases"
        );
        assert_eq!(by_kind(&[]), "none");
        assert!(cpu_time(std::process::id()).is_ok());
    }
}
