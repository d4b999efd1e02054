//! The families of block I/O, with one sample for each device of a cgroup.

use super::names::Cadvisor;
use crate::exposition::Exposition;
use crate::number::Value;
use crate::rows::Rows;
use nodewarden_model::{IoUsage, Snapshot};

/// A family with one value of a device.
pub(super) struct IoFamily {
    family: Cadvisor,
    value: fn(&IoUsage) -> u64,
}

/// Those of the file systems.
pub(super) const FAMILIES: [IoFamily; 4] = [
    IoFamily { family: Cadvisor::FsReadsBytes, value: |io| io.read_bytes },
    IoFamily { family: Cadvisor::FsReads, value: |io| io.reads },
    IoFamily { family: Cadvisor::FsWritesBytes, value: |io| io.write_bytes },
    IoFamily { family: Cadvisor::FsWrites, value: |io| io.writes },
];

impl IoFamily {
    pub fn write(&self, out: &mut Exposition<'_>, rows: &Rows, snapshot: &Snapshot) {
        let mut writer = out.family(self.family.desc());
        for row in rows.of(snapshot) {
            for io in row.io {
                // cAdvisor leaves the label empty for a device without a name; two of them would collide.
                let number;
                let device = match &io.device {
                    Some(path) => path,
                    None => {
                        number = format!("{}:{}", io.major, io.minor);
                        &number
                    }
                };
                let head = writer.head(&[("device", device)]);
                writer.row(&head, row.text.closed_labels, Value::Int((self.value)(io)), row.text.end);
            }
        }
    }
}

/// Writes `container_blkio_device_usage_total`, with two samples of each device.
pub(super) fn write_usage(out: &mut Exposition<'_>, rows: &Rows, snapshot: &Snapshot) {
    let mut writer = out.family(Cadvisor::BlkioUsage.desc());
    for row in rows.of(snapshot) {
        for io in row.io {
            let (major, minor) = (io.major.to_string(), io.minor.to_string());
            for (operation, value) in [("Read", io.read_bytes), ("Write", io.write_bytes)] {
                let extra = [
                    ("device", io.device.as_deref().unwrap_or("")),
                    ("major", &major),
                    ("minor", &minor),
                    ("operation", operation),
                ];
                let head = writer.head(&extra);
                writer.row(&head, row.text.closed_labels, Value::Int(value), row.text.end);
            }
        }
    }
}
