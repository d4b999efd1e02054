//! The kernel's log, looked through for what should not be there. The console shows only errors (`quiet`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use super::serial::report;
use nodewarden_guest_job::Mark;

/// The log, a record each read (Documentation/ABI/testing/dev-kmsg).
const LOG: &str = "/dev/kmsg";
/// Longest record; the kernel's own limit is 2048.
const RECORD: usize = 8192;
/// What begins a record of a fault of the kernel.
const FAULTS: [&str; 6] =
    ["WARNING: ", "BUG: ", "Oops", "general protection fault", "watchdog: BUG", "INFO: task "];

/// Tells each record that is a fault.
///
/// # Errors
/// When the log can't be read.
pub fn report_faults() -> io::Result<()> {
    let mut log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(LOG)?;
    let mut record = vec![0; RECORD];
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                if let Some(text) = fault(&String::from_utf8_lossy(&record[..length])) {
                    report(&Mark::Kernel(text.to_owned()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // Records were overwritten before they were read: the next read returns the oldest that is left.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The text of a record that is a fault of the kernel's.
fn fault(record: &str) -> Option<&str> {
    let (fields, text) = record.split_once(';')?;
    // Facility and level: from facility 1 on (8 and more) someone in user space wrote it.
    let priority: u32 = fields.split(',').next()?.parse().ok()?;
    let text = text.lines().next()?;
    let stalled = text.starts_with("rcu: ") && text.contains("stall");
    (priority < 8 && (stalled || FAULTS.iter().any(|fault| text.starts_with(fault)))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_distinguished_from_ordinary_records() {
        for (record, expected) in [
            ("4,100,5000,-;WARNING: CPU: 0 PID: 1 at kernel/x.c:12\n SUBSYSTEM=x\n", true),
            ("1,100,5000,-;BUG: kernel NULL pointer dereference, address: 0\n", true),
            ("3,9,1,-;rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n", true),
            ("6,9,1,-;rcu: Hierarchical RCU implementation.\n", false),
            ("12,100,5000,-;WARNING: said by a program\n", false),
            ("6,1,0,-;Linux version 6.1\n", false),
            ("4,1,0,-;x: WARNING: in the middle\n", false),
            ("nonsense", false),
        ] {
            assert_eq!(fault(record).is_some(), expected, "{record}");
        }
        assert_eq!(fault("4,1,5,-;WARNING: at x\n A=b\n"), Some("WARNING: at x"));
    }
}
