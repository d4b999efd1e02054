//! Which handler a request is for. Pure.
//!
//! The paths are those of the kubelet's server (pkg/kubelet/server/server.go). They are compared after
//! percent-decoding, as is what is authorized, so both see the same.

use percent_encoding::percent_decode_str;

/// A container that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The pod.
    pub pod: PodTarget,
    /// Name of the container.
    pub container: String,
}

/// A pod that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTarget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty if the request does not say.
    pub uid: String,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The pods of the node.
    Pods,
    /// The pods of which a container runs.
    RunningPods,
    /// A container's log.
    ContainerLogs(Target),
    /// A command with streams.
    Exec(Target),
    /// The streams of a container.
    Attach(Target),
    /// A command without streams.
    Run(Target),
    /// Ports of a pod.
    PortForward(PodTarget),
    /// The configuration in effect.
    Configz,
    /// Whether the agent is healthy; the check, empty for all.
    Healthz(String),
    /// How the checks of health have ended.
    Slis,
    /// A file or directory below `/var/log`.
    SystemLogs(String),
    /// Metrics and statistics, which the agent's own HTTP has too.
    Shared,
    /// This path takes other methods: those of the text.
    OtherMethod(&'static str),
    /// The configuration turns this path off, for this reason.
    Disabled(&'static str),
    /// There is no such path.
    None,
}

/// Who asks, and what the configuration turns off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Whether clients are authorized: without that only what needs none is offered.
    pub authorized: bool,
    /// `enableDebuggingHandlers`.
    pub debugging: bool,
    /// `enableSystemLogHandler`.
    pub system_logs: bool,
}

/// The path as clients mean it; `None` if it is not UTF-8 after decoding.
pub fn decoded(path: &str) -> Option<String> {
    percent_decode_str(path).decode_utf8().ok().map(Into::into)
}

/// The handler of a request; `path` is decoded.
pub fn route(method: &str, path: &str, offered: Offered) -> Route {
    let Some(below) = path.strip_prefix('/') else { return Route::None };
    let parts: Vec<&str> = below.trim_end_matches('/').split('/').collect();
    let read = |route| if matches!(method, "GET" | "HEAD") { route } else { Route::OtherMethod("GET") };
    let stream =
        |route| if matches!(method, "GET" | "POST") { route } else { Route::OtherMethod("GET, POST") };
    match parts[..] {
        ["pods"] => return read(Route::Pods),
        ["healthz"] => return read(Route::Healthz(String::new())),
        ["healthz", check] => return read(Route::Healthz(check.to_owned())),
        ["metrics", "slis"] => return read(Route::Slis),
        ["metrics"] | ["metrics", "cadvisor" | "resource" | "probes"] | ["stats", "summary"] => {
            return read(Route::Shared);
        }
        _ if !offered.authorized => return Route::None,
        _ => {}
    }
    let debugging = matches!(
        parts[0],
        "runningpods" | "containerLogs" | "exec" | "attach" | "run" | "portForward" | "logs" | "configz"
    );
    if debugging && !offered.debugging {
        // As in the kubelet, where this path is not there then.
        return if parts[0] == "configz" {
            Route::None
        } else {
            Route::Disabled("Debug endpoints are disabled.")
        };
    }
    match parts[..] {
        ["runningpods"] => read(Route::RunningPods),
        ["configz"] => read(Route::Configz),
        ["containerLogs", namespace, name, container] => {
            read(Route::ContainerLogs(target(namespace, name, "", container)))
        }
        ["exec", namespace, name, container] => stream(Route::Exec(target(namespace, name, "", container))),
        ["exec", namespace, name, uid, container] => {
            stream(Route::Exec(target(namespace, name, uid, container)))
        }
        ["attach", namespace, name, container] => {
            stream(Route::Attach(target(namespace, name, "", container)))
        }
        ["attach", namespace, name, uid, container] => {
            stream(Route::Attach(target(namespace, name, uid, container)))
        }
        ["run", namespace, name, container] => run(method, target(namespace, name, "", container)),
        ["run", namespace, name, uid, container] => run(method, target(namespace, name, uid, container)),
        ["portForward", namespace, name] => stream(Route::PortForward(pod(namespace, name, ""))),
        ["portForward", namespace, name, uid] => stream(Route::PortForward(pod(namespace, name, uid))),
        ["logs", ..] if !offered.system_logs => Route::Disabled("logs endpoint is disabled."),
        ["logs", ..] => read(Route::SystemLogs(path.strip_prefix("/logs").unwrap_or_default().to_owned())),
        _ => Route::None,
    }
}

fn run(method: &str, target: Target) -> Route {
    if method == "POST" { Route::Run(target) } else { Route::OtherMethod("POST") }
}

fn pod(namespace: &str, name: &str, uid: &str) -> PodTarget {
    PodTarget { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

fn target(namespace: &str, name: &str, uid: &str, container: &str) -> Target {
    Target { pod: pod(namespace, name, uid), container: container.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Offered = Offered { authorized: true, debugging: true, system_logs: true };

    #[test]
    fn paths_and_methods() {
        let web = |uid: &str| target("shop", "cart", uid, "web");
        for (method, path, expected) in [
            ("GET", "/pods", Route::Pods),
            ("GET", "/pods/", Route::Pods),
            ("POST", "/pods", Route::OtherMethod("GET")),
            ("GET", "/runningpods/", Route::RunningPods),
            ("GET", "/containerLogs/shop/cart/web", Route::ContainerLogs(web(""))),
            ("GET", "/containerLogs/shop/cart", Route::None),
            ("POST", "/exec/shop/cart/web", Route::Exec(web(""))),
            ("GET", "/exec/shop/cart/u1/web", Route::Exec(web("u1"))),
            ("PUT", "/exec/shop/cart/web", Route::OtherMethod("GET, POST")),
            ("POST", "/attach/shop/cart/web", Route::Attach(web(""))),
            ("POST", "/run/shop/cart/web", Route::Run(web(""))),
            ("GET", "/run/shop/cart/web", Route::OtherMethod("POST")),
            ("POST", "/portForward/shop/cart", Route::PortForward(pod("shop", "cart", ""))),
            ("POST", "/portForward/shop/cart/u1", Route::PortForward(pod("shop", "cart", "u1"))),
            ("GET", "/configz", Route::Configz),
            ("GET", "/healthz", Route::Healthz(String::new())),
            ("GET", "/healthz/syncloop", Route::Healthz("syncloop".into())),
            ("GET", "/logs/", Route::SystemLogs("/".into())),
            ("GET", "/logs", Route::SystemLogs(String::new())),
            ("GET", "/logs/pods/a b", Route::SystemLogs("/pods/a b".into())),
            ("GET", "/metrics/cadvisor", Route::Shared),
            ("GET", "/metrics/slis", Route::Slis),
            ("GET", "/metrics/slis/more", Route::None),
            ("GET", "/stats/summary", Route::Shared),
            ("GET", "/stats/../exec/shop/cart/web", Route::None),
            ("GET", "/", Route::None),
            ("GET", "", Route::None),
            ("GET", "*", Route::None),
            ("GET", "logs/syslog", Route::None),
            ("GET", "//pods", Route::None),
        ] {
            assert_eq!(route(method, path, ALL), expected, "{method} {path}");
        }
    }

    #[test]
    fn what_is_turned_off_says_so() {
        let few = Offered { debugging: false, ..ALL };
        let disabled = Route::Disabled("Debug endpoints are disabled.");
        for path in ["/exec/a/b/c", "/containerLogs/a/b/c", "/runningpods/", "/logs/", "/run/a/b/c"] {
            assert_eq!(route("POST", path, few), disabled, "{path}");
        }
        assert_eq!(route("GET", "/pods", few), Route::Pods);
        let no_files = Offered { system_logs: false, ..ALL };
        assert_eq!(route("GET", "/logs/syslog", no_files), Route::Disabled("logs endpoint is disabled."));
        let unauthorized = Offered { authorized: false, ..ALL };
        for path in ["/exec/a/b/c", "/containerLogs/a/b/c", "/logs/", "/configz", "/runningpods/"] {
            assert_eq!(route("GET", path, unauthorized), Route::None, "{path}");
        }
        assert_eq!(route("GET", "/metrics", unauthorized), Route::Shared);
    }

    proptest! {
        /// What reaches a handler was authorized as the subresource of that handler.
        #[test]
        fn handlers_and_authorization_agree(path in "(/|%2[fF]|/pods|/stats|/metrics|/slis|/logs|/exec|/a|\\.\\.|/healthz){0,8}") {
            let Some(path) = decoded(&path) else { return Ok(()) };
            let subresource = crate::attributes::accesses("GET", &path).last().map(|a| a.subresource);
            let expected = match route("GET", &path, ALL) {
                Route::SystemLogs(_) => Some("log"),
                Route::Shared if path.starts_with("/stats") => Some("stats"),
                Route::Shared | Route::Slis => Some("metrics"),
                Route::Pods | Route::Exec(_) | Route::Attach(_) | Route::Healthz(_) => Some("proxy"),
                _ => subresource,
            };
            prop_assert_eq!(subresource, expected);
        }
    }
}
