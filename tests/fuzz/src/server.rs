//! What clients of the node's server send: paths, parameters, headers and certificates.

use nodewarden_server::query::{self, Query};
use nodewarden_server::route::{self, Offered, Route};
use nodewarden_server::{attributes, guard, identity};

use crate::text;

/// A request: its method, path, query and `Authorization` header, a line each. What reaches a handler was
/// authorized as what the handler is.
pub fn node_request(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, path, query, header) = (line(), line(), line(), line());
    if let Some(token) = guard::bearer(header) {
        assert!(!token.is_empty() && token.len() < header.len() && !token.contains(' '));
    }
    let query = Query::parse(query);
    if let Ok(options) = query::log_options(&query, jiff::Timestamp::UNIX_EPOCH) {
        assert!(options.request.limit_bytes != Some(0));
    }
    if let Ok(streams) = query::stream_options(&query) {
        assert!(!(streams.tty && streams.stderr) && (streams.stdin || streams.stdout || streams.stderr));
    }
    if let Ok(ports) = query::ports(&query, true) {
        assert!(!ports.is_empty() && ports.iter().all(|port| (1..=65535).contains(port)));
    }
    let Some(path) = route::decoded(path) else { return };
    let accesses = attributes::accesses(method, &path);
    assert!((1..=2).contains(&accesses.len()));
    let last = accesses[accesses.len() - 1].subresource;
    for authorized in [true, false] {
        let offered = Offered { authorized, debugging: true, system_logs: true };
        match route::route(method, &path, offered) {
            Route::SystemLogs(below) => assert!(authorized && last == "log" && path.ends_with(&below)),
            Route::Shared => assert!(last == "metrics" || last == "stats"),
            Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) => {
                assert!(authorized && last == "proxy" && matches!(method, "GET" | "POST"));
            }
            Route::Run(_) => assert!(authorized && last == "proxy" && method == "POST"),
            Route::ContainerLogs(_) | Route::Configz | Route::RunningPods => {
                assert!(authorized && last == "proxy" && matches!(method, "GET" | "HEAD"));
            }
            _ => {}
        }
    }
}

/// A client's certificate in DER, before anybody has verified it.
pub fn client_certificate(input: &[u8]) {
    if let Some(user) = identity::of_certificate(&input.to_vec().into()) {
        assert!(!user.name.is_empty() && user.name.len() < input.len());
        assert!(user.groups.iter().any(|group| group == identity::AUTHENTICATED));
    }
}
