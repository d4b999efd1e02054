//! Which `Host` a request may name.
//!
//! A web page can make a browser on this machine, or in a network from which the agent is reached, send
//! requests to the agent under a DNS name of the page's own (DNS rebinding), and then read the answers. Such
//! a request names that host. An address cannot be rebound, so those are always accepted.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::endpoint::Endpoint;
use super::plain;

/// How much of a foreign name is shown, in characters.
const SHOWN: usize = 80;

/// The names under which the server answers, besides addresses and `localhost`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    /// In lower case. `*.` in front stands for one or more labels.
    names: BTreeSet<String>,
}

impl AllowedHosts {
    /// The name of the node, and those of the configuration (`nodewarden.httpAllowedHosts`).
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().filter(|name| !name.is_empty()).map(|n| n.to_lowercase()).collect() }
    }

    /// Whether a request may name this host; `host` is as in the header, with or without a port.
    fn allow(&self, host: &str) -> bool {
        let name = without_port(host).trim_end_matches('.').to_lowercase();
        if name.parse::<Ipv4Addr>().is_ok() || is_ipv6(&name) {
            return true;
        }
        name == "localhost"
            || name.ends_with(".localhost")
            || self.names.contains(&name)
            || self.covers(&name)
    }

    /// Whether a name with `*.` covers it.
    fn covers(&self, name: &str) -> bool {
        let after_dots = name.match_indices('.').map(|(at, _)| &name[at..]);
        after_dots.into_iter().any(|rest| self.names.contains(&format!("*{rest}")))
    }

    /// The names as shown in the answer to a refused request.
    fn shown(&self) -> String {
        self.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// The host without `:port`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            // The colon may be one of an IPv6 address, which has brackets if there is a port.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn is_ipv6(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    inner.parse::<Ipv6Addr>().is_ok()
}

/// Answers 421 to a request that names a foreign host. Requests of HTTP/1.0 may name none; browsers always
/// do.
pub(super) async fn check(allowed: std::sync::Arc<AllowedHosts>, request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    let foreign = named.chain(request.uri().authority().map(|authority| authority.as_str()));
    let foreign = foreign.into_iter().find(|host| !allowed.allow(host)).map(str::to_owned);
    match foreign {
        None => next.run(request).await,
        Some(host) => plain(Endpoint::Other, StatusCode::MISDIRECTED_REQUEST, refusal(&host, &allowed)),
    }
}

fn refusal(host: &str, allowed: &AllowedHosts) -> String {
    let host: String = host.chars().take(SHOWN).collect();
    let names = allowed.shown();
    format!(
        "the request names the host {host:?}, which is not a name of this node: use an address, localhost or one of \
         these names: {names}. More names: nodewarden.httpAllowedHosts. (Other names are refused because a web page \
         could reach the agent under a name of its own.)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_allowed() {
        let names = ["Node-1", "agents.example.com", "*.svc.cluster.local", ""].map(str::to_owned);
        let allowed = AllowedHosts::new(names);
        for good in [
            "127.0.0.1",
            "127.0.0.1:10350",
            "192.0.2.7:10350",
            "10.0.0.1",
            "[::1]:10350",
            "[fd00::7]",
            "::1",
            "localhost",
            "LOCALHOST:10350",
            "localhost.",
            "x.localhost",
            "node-1",
            "NODE-1:10350",
            "agents.example.com:80",
            "a.svc.cluster.local:10350",
            "a.b.svc.cluster.local",
        ] {
            assert!(allowed.allow(good), "{good}");
        }
        for bad in [
            "",
            ":10350",
            "evil.example",
            "evil.example:10350",
            "node-1.evil.example",
            "node-11",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io:10350",
            "localhost.evil.example",
            "svc.cluster.local",
            "xsvc.cluster.local",
            "agents.example.com.evil",
            "?",
            "[::1",
            "1.2.3.4.5",
        ] {
            assert!(!allowed.allow(bad), "{bad}");
        }
    }
}
