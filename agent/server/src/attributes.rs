//! What a request wants to do, in the words of the API server's authorization. Pure.
//!
//! As in the kubelet (`GetRequestAttributes`, pkg/kubelet/server/auth.go, with the feature gate
//! KubeletFineGrainedAuthz): each path is a subresource of the node, `proxy` unless it has one of its own.
//! Where there are two, one that is allowed is enough.

use nodewarden_kube::review::Access;

/// The accesses of which one has to be allowed, in the order in which they are asked for.
pub fn accesses(method: &str, path: &str) -> Vec<Access> {
    let verb = verb(method);
    subresources(path).into_iter().flatten().map(|subresource| Access { verb, subresource }).collect()
}

fn verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// A finer subresource, if the path has one, and the one that it had before.
fn subresources(path: &str) -> [Option<&'static str>; 2] {
    let fine = [
        ("/pods", "pods"),
        ("/healthz", "healthz"),
        ("/configz", "configz"),
        ("/statusz", "statusz"),
        ("/runningpods", "pods"),
    ];
    let coarse = [
        ("/stats", "stats"),
        ("/metrics", "metrics"),
        ("/logs", "log"),
        ("/spec", "spec"),
        ("/checkpoint", "checkpoint"),
    ];
    let of = |table: &[(&str, &'static str)]| {
        table.iter().find(|(above, _)| is_subpath(path, above)).map(|(_, subresource)| *subresource)
    };
    [of(&fine), Some(of(&coarse).unwrap_or("proxy"))]
}

/// Whether `path` is `above` or below it.
fn is_subpath(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_as_in_the_kubelet() {
        for (method, path, expected) in [
            ("GET", "/pods", "get pods, get proxy"),
            ("GET", "/pods/", "get pods, get proxy"),
            ("GET", "/podsx", "get proxy"),
            ("GET", "/runningpods/", "get pods, get proxy"),
            ("GET", "/healthz", "get healthz, get proxy"),
            ("GET", "/healthz/syncloop", "get healthz, get proxy"),
            ("GET", "/configz", "get configz, get proxy"),
            ("GET", "/stats/summary", "get stats"),
            ("GET", "/metrics", "get metrics"),
            ("GET", "/metrics/cadvisor", "get metrics"),
            ("GET", "/metricsx", "get proxy"),
            ("GET", "/logs/", "get log"),
            ("GET", "/logs/syslog", "get log"),
            ("GET", "/spec/", "get spec"),
            ("POST", "/checkpoint/a/b/c", "create checkpoint"),
            ("GET", "/containerLogs/a/b/c", "get proxy"),
            ("GET", "/exec/a/b/c", "get proxy"),
            ("POST", "/exec/a/b/c", "create proxy"),
            ("PUT", "/debug/flags/v", "update proxy"),
            ("PATCH", "/", "patch proxy"),
            ("DELETE", "/", "delete proxy"),
            ("HEAD", "/stats/summary", " stats"),
            ("GET", "*", "get proxy"),
            ("GET", "", "get proxy"),
        ] {
            let shown: Vec<String> =
                accesses(method, path).iter().map(|a| format!("{} {}", a.verb, a.subresource)).collect();
            assert_eq!(shown.join(", "), expected, "{method} {path}");
        }
    }
}
