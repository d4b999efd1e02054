//! What the agent takes while pods just run.

use std::time::{Duration, Instant};

use super::site::Site;
use crate::harness::Failure;

/// Before it is measured.
const REST: Duration = Duration::from_secs(5);

/// What it takes.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU seconds a minute.
    pub cpu: f64,
    /// Bytes: `VmRSS`.
    pub resident: u64,
    /// Bytes without the mapped eBPF arrays, which are the kernel's: as its status says.
    pub own: u64,
}

/// Measures it for so long.
///
/// # Errors
/// It cannot be asked.
pub fn cost(site: &Site<'_>, time: Duration) -> Result<Cost, Failure> {
    std::thread::sleep(REST);
    let agent = site.agent();
    let (before, begun) = (agent.cpu_time()?, Instant::now());
    std::thread::sleep(time);
    let cpu = (agent.cpu_time()? - before).as_secs_f64() * 60.0 / begun.elapsed().as_secs_f64();
    let resident = resident(agent.pid())?;
    Ok(Cost { cpu, resident, own: agent.client()?.status()?.resident_bytes })
}

/// `VmRSS` of a process in bytes.
///
/// # Errors
/// It has ended.
pub fn resident(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    parse(&text).ok_or_else(|| Failure::Unexpected(format!("{path} has no VmRSS")))
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory() {
        assert_eq!(super::parse("VmHWM:\t  9 kB\nVmRSS:\t   20 kB\n"), Some(20 * 1024));
        assert_eq!(super::parse("VmHWM:\t  9 kB\n"), None);
    }
}
