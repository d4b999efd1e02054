//! `/proc/<pid>/cgroup`: the hierarchies and where a process is in each. Lines that cannot be parsed are
//! skipped.

/// One line of `/proc/self/cgroup`: a hierarchy and where this process is in it (cgroups(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Number of the hierarchy in the kernel; 0 for v2.
    pub id: u32,
    /// v1 controllers and `name=…`; empty for v2.
    pub controllers: Vec<String>,
    /// Path of the cgroup in the hierarchy.
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
    fn memberships_with_colons_in_the_path() {
        let found = parse_memberships("9:name=systemd:/\n1:cpu,cpuacct:/a:b:c\n0::/x\nnonsense\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[1].path, "/a:b:c");
        assert!(found[2].controllers.is_empty() && found[2].id == 0);
    }
}
