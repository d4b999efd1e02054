//! `/proc/self/mountinfo` and `/proc/self/cgroup`, as far as cgroups need them. Lines that cannot be parsed are
//! skipped: another file system's oddity is no reason not to find the cgroups.

use std::path::PathBuf;

/// A mounted cgroup file system (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMount {
    /// Which cgroup of the hierarchy is shown at the mount point; `/` unless it is a bind mount or made in
    /// another cgroup namespace.
    pub root: String,
    pub mount_point: PathBuf,
    /// `cgroup2`, else `cgroup`.
    pub v2: bool,
    /// Options of the file system; on v1 the controllers and `name=…`.
    pub options: Vec<String>,
}

/// Parses the cgroup mounts out of mountinfo.
pub fn parse_mountinfo(text: &str) -> Vec<CgroupMount> {
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<CgroupMount> {
    // 36 35 98:0 /root /point rw,noatime shared:1 - fstype source superoptions
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let root = unescape(front.next()?);
    let mount_point = unescape(front.next()?);
    let mut back = back.split(' ');
    let v2 = match back.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    let options = back.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
    Some(CgroupMount { root, mount_point: PathBuf::from(mount_point), v2, options })
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(field: &str) -> String {
    let mut out = Vec::with_capacity(field.len());
    let bytes = field.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let code = (bytes[i] == b'\\')
            .then(|| bytes.get(i + 1..i + 4))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            out.push(code);
            i += 4;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// One line of `/proc/self/cgroup`: a hierarchy and where this process is in it (cgroups(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The kernel's number of the hierarchy; 0 for v2.
    pub id: u32,
    /// v1 controllers and `name=…`; empty for v2.
    pub controllers: Vec<String>,
    pub path: String,
}

/// Parses `/proc/<pid>/cgroup`.
pub fn parse_memberships(text: &str) -> Vec<Membership> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let id = fields.next()?.parse().ok()?;
            let controllers =
                fields.next()?.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
            Some(Membership { id, controllers, path: fields.next()?.to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_cgroup_mounts_only() {
        let text = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 /.. /sys/fs/cg\\040roup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
broken line
";
        let mounts = parse_mountinfo(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].mount_point, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(!mounts[0].v2 && mounts[0].options.contains(&"cpuacct".to_owned()));
        assert_eq!((mounts[1].root.as_str(), mounts[1].v2), ("/..", true));
        assert_eq!(mounts[1].mount_point, PathBuf::from("/sys/fs/cg roup"));
    }

    #[test]
    fn odd_escapes_stay_as_they_are() {
        assert_eq!(unescape("a\\134b\\9x\\04"), "a\\b\\9x\\04");
    }

    #[test]
    fn memberships_with_colons_in_the_path() {
        let found = parse_memberships("9:name=systemd:/\n1:cpu,cpuacct:/a:b:c\n0::/x\nnonsense\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[1].path, "/a:b:c");
        assert!(found[2].controllers.is_empty() && found[2].id == 0);
    }
}
