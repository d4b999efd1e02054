//! The answer of `/healthz`, in the words of Kubernetes' components (apiserver pkg/server/healthz).

use axum::http::StatusCode;
use nodewarden_tasks::parts::Health;

/// Status and text. The parts are listed if one of them is unhealthy, or if `verbose`.
pub(super) fn answer(parts: &[Health], verbose: bool) -> (StatusCode, String) {
    let healthy = parts.iter().all(|own| own.problem.is_none());
    if healthy && !verbose {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let line = |own: &Health| match &own.problem {
        None => format!("[+]{} ok\n", own.part),
        Some(problem) => format!("[-]{} failed: {problem}\n", own.part),
    };
    let list: String = std::iter::once("[+]ping ok\n".to_owned()).chain(parts.iter().map(line)).collect();
    match healthy {
        true => (StatusCode::OK, list + "healthz check passed\n"),
        false => (StatusCode::INTERNAL_SERVER_ERROR, list + "healthz check failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn the_part_that_stands_still_is_named() {
        let part = |part, problem: Option<&str>| Health { part, problem: problem.map(str::to_owned) };
        let (good, bad) =
            (part("upkeep", None), part("eviction", Some("no progress for 75 s (at most 60 s)")));
        assert_eq!(answer(slice::from_ref(&good), false), (StatusCode::OK, "ok\n".into()));
        let text = "[+]ping ok\n[+]upkeep ok\nhealthz check passed\n";
        assert_eq!(answer(slice::from_ref(&good), true), (StatusCode::OK, text.into()));
        let text = "[+]ping ok\n[-]eviction failed: no progress for 75 s (at most 60 s)\n[+]upkeep ok\n\
                    healthz check failed\n";
        assert_eq!(answer(&[bad, good], false), (StatusCode::INTERNAL_SERVER_ERROR, text.into()));
    }
}
