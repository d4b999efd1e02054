//! Names of sysctls.

/// A sysctl's name with dots as separators: `net/ipv4/conf/eth0.1/x` becomes `net.ipv4.conf.eth0/1.x`
/// (component-helpers `NormalizeSysctlName`). In a name with slashes as separators, dots are part of a
/// component and become slashes.
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
