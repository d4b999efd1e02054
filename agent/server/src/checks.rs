//! The checks of `/healthz`, and how each has ended so far: `/metrics/slis`.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nodewarden_metrics::exposition::{self, Exposition};
use nodewarden_metrics::slis::{self, HealthCheck};
use nodewarden_tasks::parts::{Health, Parts};
use parking_lot::Mutex;

use crate::answer;
use crate::health::{self, CHECKS};
use crate::query::Query;

/// The checks of these parts. Every clone counts into the same results.
#[derive(Debug, Clone)]
pub struct Checks {
    parts: Parts,
    results: Arc<Mutex<[HealthCheck; CHECKS.len()]>>,
}

impl Checks {
    /// None was made so far.
    pub fn new(parts: Parts) -> Self {
        let never = |name| HealthCheck { name, passed: 0, failed: 0, passed_last: false };
        Self { parts, results: Arc::new(Mutex::new(CHECKS.map(never))) }
    }

    /// The answer of a check, of all of them if it is empty.
    pub(crate) fn respond(&self, check: &str, query: Option<&str>) -> Response {
        let verbose = query.is_some_and(|query| Query::parse(query).flag("verbose"));
        let health = self.parts.health();
        self.count(check, &health);
        let (status, text) = health::answer(check, &health, verbose);
        answer::text(status, text)
    }

    /// The answer of `/metrics/slis`.
    pub(crate) fn metrics(&self) -> Response {
        let results = *self.results.lock();
        let mut text = Vec::new();
        let mut take = |chunk: &mut Vec<u8>| text.append(chunk);
        let mut out = Exposition::new(&mut take);
        slis::write(&mut out, &results);
        out.finish();
        (StatusCode::OK, [(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
    }

    fn count(&self, check: &str, health: &[Health]) {
        let mut results = self.results.lock();
        for result in results.iter_mut().filter(|result| check.is_empty() || check == result.name) {
            result.passed_last = health::passes(result.name, health);
            match result.passed_last {
                true => result.passed += 1,
                false => result.failed += 1,
            }
        }
    }
}
