//! Probes: the section `nodewarden.probes`.

use std::ops::RangeInclusive;

use serde_yaml_ng::Mapping;

use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::Map;

/// Maximum number of concurrent probes per handler; others wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSettings {
    /// `maxExec`: commands in containers, each of which is a process of the runtime.
    pub max_exec: usize,
    /// `maxHttpGet`.
    pub max_http_get: usize,
    /// `maxTcpSocket`.
    pub max_tcp_socket: usize,
    /// `maxGrpc`.
    pub max_grpc: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self { max_exec: 32, max_http_get: 512, max_tcp_socket: 512, max_grpc: 256 }
    }
}

/// The range of the limits. Each running probe needs a socket or a process of the runtime.
const AT_ONCE: RangeInclusive<u64> = 1..=10_000;

/// Reads the section; adds what was found to `reading`.
pub fn take(map: Mapping, reading: &mut Reading) -> ProbeSettings {
    let default = ProbeSettings::default();
    let mut f = Fields::new("nodewarden.probes", map, Vec::new(), reading);
    let mut most = |key, default: usize| f.number(key, default as u64, &AT_ONCE) as usize;
    let settings = ProbeSettings {
        max_exec: most("maxExec", default.max_exec),
        max_http_get: most("maxHttpGet", default.max_http_get),
        max_tcp_socket: most("maxTcpSocket", default.max_tcp_socket),
        max_grpc: most("maxGrpc", default.max_grpc),
    };
    f.finish();
    settings
}

pub(crate) fn show(probes: &ProbeSettings) -> Mapping {
    let mut map = Map::default();
    map.put("maxExec", probes.max_exec as u64);
    map.put("maxHttpGet", probes.max_http_get as u64);
    map.put("maxTcpSocket", probes.max_tcp_socket as u64);
    map.put("maxGrpc", probes.max_grpc as u64);
    map.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (ProbeSettings, Vec<String>) {
        let mut reading = Reading::default();
        let settings = take(serde_yaml_ng::from_str(text).expect("a mapping"), &mut reading);
        (settings, reading.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key() {
        let (settings, problems) = read("{maxExec: 1, maxHttpGet: 2, maxTcpSocket: 3, maxGrpc: 4}");
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings, ProbeSettings { max_exec: 1, max_http_get: 2, max_tcp_socket: 3, max_grpc: 4 });
        assert_eq!(read("{}").0, ProbeSettings::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{maxExec: 0}", "nodewarden.probes.maxExec"),
            ("{maxGrpc: 10001}", "from 1 to 10000"),
            ("{maxHttpget: 1}", "did you mean maxHttpGet?"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
