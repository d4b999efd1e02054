//! Resource usage of a pod or container, computed from two readings. Pure.

use nodewarden_proto::nodewarden::v1::Use;

use crate::cli::format::bytes;
use nodewarden_api::grpc::time;

/// CPU cores used between two readings; `None` if one is missing or belongs to another cgroup.
pub fn cores(before: Option<&Use>, now: Option<&Use>) -> Option<f64> {
    let (before, now) = (before?, now?);
    let elapsed = time::between(before.read.as_ref()?, now.read.as_ref()?).filter(|t| !t.is_zero())?;
    let used = now.cpu_usage_ns?.checked_sub(before.cpu_usage_ns?)?;
    Some(used as f64 / 1e9 / elapsed.as_secs_f64())
}

pub fn cpu(before: Option<&Use>, now: Option<&Use>) -> String {
    cores(before, now).map_or_else(dash, |cores| format!("{cores:.2}"))
}

/// The working set, formatted; a dash if it is unknown.
pub fn memory(now: Option<&Use>) -> String {
    now.and_then(|now| now.memory_working_set_bytes).map_or_else(dash, bytes)
}

/// The cgroup's CPU and memory limits: `cpu 0.50, memory 128Mi`; empty without a limit.
pub fn limits(now: Option<&Use>) -> String {
    let Some(now) = now else { return String::new() };
    let cpu = match (now.cpu_quota_us, now.cpu_period_us) {
        (Some(quota), Some(period)) if period > 0 => Some(format!("cpu {:.2}", quota as f64 / period as f64)),
        _ => None,
    };
    let memory = now.memory_limit_bytes.map(|limit| format!("memory {}", bytes(limit)));
    cpu.into_iter().chain(memory).collect::<Vec<_>>().join(", ")
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn reading(second: i64, cpu_usage_ns: u64) -> Use {
        Use {
            read: Some(Timestamp { seconds: second, nanos: 0 }),
            cpu_usage_ns: Some(cpu_usage_ns),
            memory_working_set_bytes: Some(3 << 20),
            memory_limit_bytes: Some(64 << 20),
            cpu_quota_us: Some(50_000),
            cpu_period_us: Some(100_000),
        }
    }

    #[test]
    fn usage_is_computed_from_two_readings() {
        let (before, now) = (reading(10, 1_000_000_000), reading(12, 1_500_000_000));
        assert_eq!(cpu(Some(&before), Some(&now)), "0.25");
        assert_eq!(cpu(None, Some(&now)), "-");
        assert_eq!(cpu(Some(&now), Some(&now)), "-");
        assert_eq!(cpu(Some(&now), Some(&reading(14, 0))), "-");
        assert_eq!((memory(Some(&now)), memory(None)), ("3.00Mi".into(), "-".into()));
        assert_eq!(limits(Some(&now)), "cpu 0.50, memory 64.0Mi");
        assert_eq!(limits(Some(&Use::default())), "");
    }
}
