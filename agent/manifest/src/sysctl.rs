//! Names of sysctls.

/// `net/ipv4/conf/eth0.1/x` as `net.ipv4.conf.eth0/1.x` (component-helpers `NormalizeSysctlName`): with slashes as
/// separators, dots are part of a name and are written as slashes.
pub fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}
