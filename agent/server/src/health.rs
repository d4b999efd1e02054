//! The answers of `/healthz` and its checks, in the words of Kubernetes' components (apiserver
//! pkg/server/healthz). Pure.
//!
//! The kubelet's checks are `ping`, `log` and `syncloop`. Here the last stands for all parts of the agent
//! that work without pause: it fails when one of them stands still.

use axum::http::StatusCode;
use nodewarden_tasks::parts::Health;

/// The names of the checks, in the kubelet's order.
pub const CHECKS: [&str; 3] = ["ping", "log", "syncloop"];

/// Whether a check of this name passes.
pub fn passes(check: &str, parts: &[Health]) -> bool {
    check != "syncloop" || parts.iter().all(|own| own.problem.is_none())
}

/// Status and text of a check, all of them if it is empty. The parts are listed if one is unhealthy, or if
/// `verbose`.
pub fn answer(check: &str, parts: &[Health], verbose: bool) -> (StatusCode, String) {
    let still: Vec<String> =
        parts.iter().filter_map(|own| Some(format!("{}: {}", own.part, own.problem.as_ref()?))).collect();
    let ok = (StatusCode::OK, "ok".to_owned());
    match check {
        "" => {}
        "ping" | "log" => return ok,
        "syncloop" if still.is_empty() => return ok,
        "syncloop" => {
            let text = format!("internal server error: {}\n", still.join("; "));
            return (StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        _ => return (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
    if still.is_empty() && !verbose {
        return ok;
    }
    let line = |check: &&str| match *check {
        "syncloop" if !still.is_empty() => format!("[-]syncloop failed: {}\n", still.join("; ")),
        check => format!("[+]{check} ok\n"),
    };
    let list: String = CHECKS.iter().map(line).collect();
    match still.is_empty() {
        true => (StatusCode::OK, list + "healthz check passed\n"),
        false => (StatusCode::INTERNAL_SERVER_ERROR, list + "healthz check failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_stands_still_fails_the_loop() {
        let good = Health { part: "upkeep", problem: None };
        let bad = Health { part: "eviction", problem: Some("no progress for 75 s (at most 60 s)".into()) };
        let (healthy, sick) = ([good.clone()], [good, bad]);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        let all = "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n";
        let one = "[+]ping ok\n[+]log ok\n[-]syncloop failed: eviction: no progress for 75 s (at most 60 s)\n\
                   healthz check failed\n";
        for (check, parts, verbose, status, text) in [
            ("", &healthy[..], false, StatusCode::OK, "ok"),
            ("", &healthy, true, StatusCode::OK, all),
            ("", &sick, false, failed, one),
            ("ping", &sick, false, StatusCode::OK, "ok"),
            ("log", &sick, false, StatusCode::OK, "ok"),
            ("syncloop", &healthy, false, StatusCode::OK, "ok"),
            (
                "syncloop",
                &sick,
                false,
                failed,
                "internal server error: eviction: no progress for 75 s (at most 60 s)\n",
            ),
            ("other", &healthy, false, StatusCode::NOT_FOUND, "404 page not found\n"),
        ] {
            assert_eq!(answer(check, parts, verbose), (status, text.to_owned()), "{check}");
        }
    }
}
