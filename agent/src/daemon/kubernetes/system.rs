//! What the machine says of itself, for the node's status.

use std::fs;

use nodewarden_kube::node::SystemFacts;
use nodewarden_machine::os_release::pretty_name;

/// Read once: none of it changes while the machine runs. What cannot be read is empty, as in a kubelet.
pub fn facts(kernel_version: &str) -> SystemFacts {
    let first = |paths: &[&str]| {
        let texts = paths.iter().filter_map(|path| fs::read_to_string(path).ok());
        texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty()).unwrap_or_default()
    };
    let machine_id = first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]);
    let system_uuid = first(&[
        "/sys/class/dmi/id/product_uuid",
        "/proc/device-tree/system-id",
        "/proc/device-tree/vm,uuid",
        "/etc/machine-id",
    ]);
    let release = first(&["/etc/os-release", "/usr/lib/os-release"]);
    SystemFacts {
        machine_id,
        system_uuid,
        boot_id: first(&["/proc/sys/kernel/random/boot_id"]),
        kernel_version: kernel_version.to_owned(),
        os_image: pretty_name(&release).unwrap_or("Linux").to_owned(),
        architecture: architecture(std::env::consts::ARCH),
    }
}

/// The architecture as Go calls it.
fn architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        "riscv64" => "riscv64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        assert_eq!(architecture("x86_64"), "amd64");
        let facts = facts("6.1");
        assert!(!facts.boot_id.is_empty() && !facts.os_image.is_empty());
    }
}
