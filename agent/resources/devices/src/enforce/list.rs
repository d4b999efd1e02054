//! What the v1 devices controller's `devices.list` says, and the lines that make it another (kernel documentation,
//! cgroup-v1/devices). Pure.

use std::collections::BTreeMap;
use std::fmt;

use crate::policy::{Access, DeviceRule, defaults};
use nodewarden_model::HostDeviceKind;

/// A device or several, as the controller tells them apart; `None` is `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    pub kind: HostDeviceKind,
    pub major: Option<u32>,
    pub minor: Option<u32>,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: Option<u32>| n.map_or("*".to_owned(), |n| n.to_string());
        let kind = if self.kind == HostDeviceKind::Block { 'b' } else { 'c' };
        write!(f, "{kind} {}:{}", number(self.major), number(self.minor))
    }
}

/// Devices that may be accessed.
pub type Allowed = BTreeMap<Device, Access>;

/// What a cgroup allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum List {
    Everything,
    Only(Allowed),
}

impl List {
    /// Reads `devices.list`. A cgroup that allows everything shows the one line `a *:* rwm`.
    pub fn parse(text: &str) -> Self {
        if text.lines().any(|line| line.starts_with('a')) {
            return Self::Everything;
        }
        Self::Only(text.lines().filter_map(entry).collect())
    }
}

fn entry(line: &str) -> Option<(Device, Access)> {
    let mut words = line.split_whitespace();
    let kind = match words.next()? {
        "b" => HostDeviceKind::Block,
        "c" => HostDeviceKind::Char,
        _ => return None,
    };
    let (major, minor) = words.next()?.split_once(':')?;
    let number = |text: &str| if text == "*" { Some(None) } else { text.parse().ok().map(Some) };
    let device = Device { kind, major: number(major)?, minor: number(minor)? };
    Some((device, Access::parse(words.next()?)))
}

/// What a pod's cgroup is to allow: its rules, the defaults, and what the runtime gives every container and cannot start
/// one without: all of mknod, and runc (before 1.2) the tun device.
pub fn wanted(rules: &[DeviceRule]) -> Allowed {
    const TUN: DeviceRule =
        DeviceRule { kind: HostDeviceKind::Char, major: 10, minor: Some(200), access: Access::ALL };
    let any = |kind| (Device { kind, major: None, minor: None }, Access::MKNOD);
    let mut allowed = Allowed::from([any(HostDeviceKind::Block), any(HostDeviceKind::Char)]);
    for rule in defaults().chain([TUN]).chain(rules.iter().copied()) {
        let device = Device { kind: rule.kind, major: Some(rule.major), minor: rule.minor };
        let known = allowed.entry(device).or_default();
        *known = *known | rule.access;
    }
    allowed
}

/// What `minuend` allows and `subtrahend` does not, device by device.
pub fn less(minuend: &Allowed, subtrahend: &Allowed) -> Allowed {
    let left = |(device, access): (&Device, &Access)| {
        let left = *access - subtrahend.get(device).copied().unwrap_or_default();
        (!left.is_empty()).then_some((*device, left))
    };
    minuend.iter().filter_map(left).collect()
}

/// What both allow, device by device.
pub fn both(one: &Allowed, other: &Allowed) -> Allowed {
    let common = |(device, access): (&Device, &Access)| {
        let common = *access & other.get(device).copied().unwrap_or_default();
        (!common.is_empty()).then_some((*device, common))
    };
    one.iter().filter_map(common).collect()
}

/// Lines for `devices.allow` or `devices.deny`, which take one a write.
pub fn lines(allowed: &Allowed) -> impl Iterator<Item = String> {
    allowed.iter().map(|(device, access)| format!("{device} {access}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(List::parse("a *:* rwm\n"), List::Everything);
        assert_eq!(List::parse(""), List::Only(Allowed::new()));
        let List::Only(list) = List::parse("c 1:3 rwm\nb *:* m\nc 136:* rw\nnonsense\nc x:1 r\n") else {
            panic!("not everything")
        };
        assert_eq!(lines(&list).collect::<Vec<_>>(), ["b *:* m", "c 1:3 rwm", "c 136:* rw"]);
    }

    #[test]
    fn differences() {
        let of = |text| match List::parse(text) {
            List::Only(list) => list,
            List::Everything => panic!("{text}"),
        };
        let (had, wants) = (of("c 1:3 rwm\nc 10:229 rw\nc 8:1 r\n"), of("c 1:3 r\nc 10:229 rwm\nb 8:1 r\n"));
        assert_eq!(less(&had, &wants), of("c 1:3 wm\nc 8:1 r\n"));
        assert_eq!(less(&wants, &had), of("c 10:229 m\nb 8:1 r\n"));
        assert_eq!(both(&had, &wants), of("c 1:3 r\nc 10:229 rw\n"));
    }

    #[test]
    fn a_pod_has_its_rules_and_what_all_have() {
        let rule = |major, access| DeviceRule { kind: HostDeviceKind::Char, major, minor: Some(0), access };
        let list: Vec<String> =
            lines(&wanted(&[rule(226, Access::READ), rule(226, Access::MKNOD)])).collect();
        for line in ["b *:* m", "c *:* m", "c 1:3 rwm", "c 10:200 rwm", "c 136:* rwm", "c 226:0 rm"] {
            assert!(list.iter().any(|l| l == line), "{line} in {list:?}");
        }
    }
}
