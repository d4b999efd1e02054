//! Parses `devices.list` of the v1 devices controller, and formats the lines that change it (kernel
//! documentation, cgroup-v1/devices). Pure.

use std::collections::BTreeMap;
use std::fmt;

use nodewarden_model::HostDeviceKind;

use crate::policy::{Access, DeviceRule, defaults};

/// One device or several, as the controller identifies them; `None` is `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DevicePattern {
    pub kind: HostDeviceKind,
    pub major: Option<u32>,
    pub minor: Option<u32>,
}

impl fmt::Display for DevicePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: Option<u32>| n.map_or("*".to_owned(), |n| n.to_string());
        let kind = if self.kind == HostDeviceKind::Block { 'b' } else { 'c' };
        write!(f, "{kind} {}:{}", number(self.major), number(self.minor))
    }
}

/// Allowed accesses by device.
pub type Allowed = BTreeMap<DevicePattern, Access>;

/// The devices that a cgroup allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum List {
    Everything,
    Only(Allowed),
}

impl List {
    /// Parses `devices.list`. A cgroup that allows everything shows the one line `a *:* rwm`.
    pub fn parse(text: &str) -> Self {
        if text.lines().any(|line| line.starts_with('a')) {
            return Self::Everything;
        }
        Self::Only(text.lines().filter_map(entry).collect())
    }
}

fn entry(line: &str) -> Option<(DevicePattern, Access)> {
    let mut words = line.split_whitespace();
    let kind = match words.next()? {
        "b" => HostDeviceKind::Block,
        "c" => HostDeviceKind::Char,
        _ => return None,
    };
    let (major, minor) = words.next()?.split_once(':')?;
    let number = |text: &str| if text == "*" { Some(None) } else { text.parse().ok().map(Some) };
    let device = DevicePattern { kind, major: number(major)?, minor: number(minor)? };
    let access = Access::parse(words.next()?);
    // The kernel lists no device without an access, and accepts none.
    (!access.is_empty()).then_some((device, access))
}

/// What a pod's cgroup has to allow: its rules, the defaults, and what the runtime gives every container and
/// cannot start one without: mknod for every device, and the tun device (runc before 1.2).
pub fn wanted(rules: &[DeviceRule]) -> Allowed {
    const TUN: DeviceRule =
        DeviceRule { kind: HostDeviceKind::Char, major: 10, minor: Some(200), access: Access::ALL };
    let any = |kind| (DevicePattern { kind, major: None, minor: None }, Access::MKNOD);
    let mut allowed = Allowed::from([any(HostDeviceKind::Block), any(HostDeviceKind::Char)]);
    for rule in defaults().chain([TUN]).chain(rules.iter().copied()) {
        let device = DevicePattern { kind: rule.kind, major: Some(rule.major), minor: rule.minor };
        let known = allowed.entry(device).or_default();
        *known = *known | rule.access;
    }
    allowed
}

/// What `minuend` allows and `subtrahend` does not, by device.
pub fn difference(minuend: &Allowed, subtrahend: &Allowed) -> Allowed {
    let left = |(device, access): (&DevicePattern, &Access)| {
        let left = *access - subtrahend.get(device).copied().unwrap_or_default();
        (!left.is_empty()).then_some((*device, left))
    };
    minuend.iter().filter_map(left).collect()
}

/// What both allow, by device.
pub fn intersection(one: &Allowed, other: &Allowed) -> Allowed {
    let common = |(device, access): (&DevicePattern, &Access)| {
        let common = *access & other.get(device).copied().unwrap_or_default();
        (!common.is_empty()).then_some((*device, common))
    };
    one.iter().filter_map(common).collect()
}

/// Lines for `devices.allow` or `devices.deny`; the files accept one line per write.
pub fn lines(allowed: &Allowed) -> impl Iterator<Item = String> {
    allowed.iter().map(|(device, access)| format!("{device} {access}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_list_is_parsed_as_the_kernel_writes_it() {
        assert_eq!(List::parse("a *:* rwm\n"), List::Everything);
        assert_eq!(List::parse(""), List::Only(Allowed::new()));
        let List::Only(list) = List::parse("c 1:3 rwm\nb *:* m\nc 136:* rw\nnonsense\nc x:1 r\nc 9:9 -\n")
        else {
            panic!("not everything")
        };
        assert_eq!(lines(&list).collect::<Vec<_>>(), ["b *:* m", "c 1:3 rwm", "c 136:* rw"]);
    }

    #[test]
    fn difference_and_intersection_by_device() {
        let of = |text| match List::parse(text) {
            List::Only(list) => list,
            List::Everything => panic!("{text}"),
        };
        let (had, wants) = (of("c 1:3 rwm\nc 10:229 rw\nc 8:1 r\n"), of("c 1:3 r\nc 10:229 rwm\nb 8:1 r\n"));
        assert_eq!(difference(&had, &wants), of("c 1:3 wm\nc 8:1 r\n"));
        assert_eq!(difference(&wants, &had), of("c 10:229 m\nb 8:1 r\n"));
        assert_eq!(intersection(&had, &wants), of("c 1:3 r\nc 10:229 rw\n"));
    }

    #[test]
    fn wanted_is_the_rules_the_defaults_and_what_runtimes_need() {
        let rule = |major, access| DeviceRule { kind: HostDeviceKind::Char, major, minor: Some(0), access };
        let list: Vec<String> =
            lines(&wanted(&[rule(226, Access::READ), rule(226, Access::MKNOD)])).collect();
        for line in ["b *:* m", "c *:* m", "c 1:3 rwm", "c 10:200 rwm", "c 136:* rwm", "c 226:0 rm"] {
            assert!(list.iter().any(|l| l == line), "{line} in {list:?}");
        }
    }
}
