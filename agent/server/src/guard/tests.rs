use std::sync::atomic::{AtomicUsize, Ordering};

use nodewarden_config::ServerSettings;

use super::*;

/// Stands in for the API server: the token `good` is of `alice`, who may read metrics, and `down` is a
/// failure.
#[derive(Default)]
struct Api {
    tokens: AtomicUsize,
    accesses: AtomicUsize,
}

fn failure() -> ReviewError {
    ReviewError::Undecided { review: "TokenReview", message: "the API server is away".into() }
}

#[async_trait]
impl Tokens for Api {
    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
        match token {
            "good" => Ok(Some(User { name: "alice".into(), ..User::default() })),
            "down" => Err(failure()),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl Permissions for Api {
    async fn allowed(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        self.accesses.fetch_add(1, Ordering::Relaxed);
        match user.name.as_str() {
            "down" => Err(failure()),
            name => Ok(name == "alice" && matches!(access.subresource, "metrics" | "pods")),
        }
    }
}

fn guard(api: &Arc<Api>, change: impl FnOnce(&mut ServerSettings)) -> Guard {
    let mut settings = ServerSettings::default();
    change(&mut settings);
    Guard::new(&settings.authentication, &settings.authorization, Some(api.clone()), Some(api.clone()))
}

async fn name(guard: &Guard, credentials: Credentials<'_>) -> String {
    match guard.authenticate(&credentials).await {
        Ok(user) => format!("{} {}", user.name, user.groups.join(",")),
        Err(refusal) => refusal.to_string(),
    }
}

#[tokio::test]
async fn certificates_count_before_tokens_and_bad_tokens_are_not_anonymous() {
    let api = Arc::new(Api::default());
    let admin = identity::authenticated(User { name: "admin".into(), ..User::default() });
    let (closed, open) = (guard(&api, |_| {}), guard(&api, |s| s.authentication.anonymous = true));
    for (certificate, token, closed_says, open_says) in [
        (Some(&admin), None, "admin system:authenticated", "admin system:authenticated"),
        (Some(&admin), Some("bad"), "admin system:authenticated", "admin system:authenticated"),
        (None, Some("good"), "alice system:authenticated", "alice system:authenticated"),
        (None, Some("bad"), "Unauthorized", "Unauthorized"),
        (None, Some("down"), "Unauthorized", "Unauthorized"),
        (None, None, "Unauthorized", "system:anonymous system:unauthenticated"),
    ] {
        let credentials = || Credentials { certificate, token };
        assert_eq!(name(&closed, credentials()).await, closed_says, "{token:?}");
        assert_eq!(name(&open, credentials()).await, open_says, "{token:?}");
    }
    let long = "x".repeat(LONGEST_TOKEN + 1);
    let before = api.tokens.load(Ordering::Relaxed);
    assert_eq!(
        name(&closed, Credentials { token: Some(&long), ..Credentials::default() }).await,
        "Unauthorized"
    );
    assert_eq!(api.tokens.load(Ordering::Relaxed), before, "the API server is not asked about it");
    let off = guard(&api, |s| s.authentication.webhook = false);
    assert_eq!(
        name(&off, Credentials { token: Some("good"), ..Credentials::default() }).await,
        "Unauthorized"
    );
}

#[tokio::test]
async fn a_token_is_reviewed_once_and_a_failure_is_not_kept() {
    let api = Arc::new(Api::default());
    let guard = guard(&api, |_| {});
    let ask = |token| name(&guard, Credentials { token: Some(token), ..Credentials::default() });
    // As many at a time as there may be reviews: those that wait find the answer.
    let all = futures_util::future::join_all((0..50).map(|_| ask("good"))).await;
    assert!(all.iter().all(|answer| answer.starts_with("alice")));
    assert!(api.tokens.load(Ordering::Relaxed) <= REVIEWS);
    let before = api.tokens.load(Ordering::Relaxed);
    for (token, times, reviews) in [("good", 3, 0), ("bad", 3, 1), ("down", 3, 3)] {
        let before = api.tokens.load(Ordering::Relaxed);
        for _ in 0..times {
            ask(token).await;
        }
        assert_eq!(api.tokens.load(Ordering::Relaxed) - before, reviews, "{token}");
    }
    assert!(before > 0);
}

#[tokio::test]
async fn what_a_user_may_do_is_asked_once() {
    let api = Arc::new(Api::default());
    let guard = guard(&api, |_| {});
    let user = |name: &str| User { name: name.into(), ..User::default() };
    let ask = async |name: &str, path: &str| match guard.authorize(&user(name), "GET", path).await {
        Ok(()) => "allowed".to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    for (name, path, expected, asked) in [
        ("alice", "/metrics", "allowed", 1),
        ("alice", "/metrics/cadvisor", "allowed", 0),
        ("alice", "/pods", "allowed", 1),
        (
            "alice",
            "/configz",
            "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[configz proxy])",
            2,
        ),
        (
            "alice",
            "/healthz",
            "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[healthz proxy])",
            1,
        ),
        ("bob", "/metrics", "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[metrics])", 1),
        ("bob", "/metrics", "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[metrics])", 0),
        (
            "down",
            "/metrics",
            "Authorization error (user=down, verb=get, resource=nodes, subresource=metrics)",
            1,
        ),
        (
            "down",
            "/metrics",
            "Authorization error (user=down, verb=get, resource=nodes, subresource=metrics)",
            1,
        ),
    ] {
        let before = api.accesses.load(Ordering::Relaxed);
        assert_eq!(ask(name, path).await, expected);
        assert_eq!(api.accesses.load(Ordering::Relaxed) - before, asked, "{name} {path}");
    }
}

#[tokio::test]
async fn without_an_api_server_nothing_is_allowed_unless_everything_is() {
    let settings = ServerSettings::default();
    let closed = Guard::new(&settings.authentication, &settings.authorization, None, None);
    let admin = User { name: "admin".into(), ..User::default() };
    assert!(matches!(closed.authorize(&admin, "GET", "/pods").await, Err(Refusal::Forbidden { .. })));
    let mut open = settings.authorization.clone();
    open.mode = AuthorizationMode::AlwaysAllow;
    let open = Guard::new(&settings.authentication, &open, None, None);
    assert!(open.authorize(&admin, "POST", "/exec/a/b/c").await.is_ok());
    let token = Credentials { token: Some("good"), ..Credentials::default() };
    assert!(matches!(open.authenticate(&token).await, Err(Refusal::Unauthorized { .. })));
}

#[test]
fn answers_are_kept_for_exactly_one_user_and_access() {
    let access = |verb, subresource| Access { verb, subresource };
    let user = |name: &str, groups: &[&str], extra: &[(&str, &[&str])]| User {
        name: name.into(),
        uid: String::new(),
        groups: groups.iter().map(ToString::to_string).collect(),
        extra: extra
            .iter()
            .map(|(key, values)| (key.to_string(), values.iter().map(ToString::to_string).collect()))
            .collect(),
    };
    let all = [
        key_of(&user("a", &[], &[]), &access("get", "pods")),
        key_of(&user("a", &[], &[]), &access("create", "pods")),
        key_of(&user("a", &[], &[]), &access("get", "proxy")),
        key_of(&user("b", &[], &[]), &access("get", "pods")),
        key_of(&user("a", &["g"], &[]), &access("get", "pods")),
        key_of(&user("a", &["g", "h"], &[]), &access("get", "pods")),
        key_of(&user("a", &["gh"], &[]), &access("get", "pods")),
        key_of(&user("a", &[], &[("g", &[])]), &access("get", "pods")),
        key_of(&user("a", &[], &[("g", &["h"])]), &access("get", "pods")),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn bearer_tokens_of_headers() {
    for (header, expected) in [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("  BEARER   abc ", Some("abc")),
        ("Bearer abc def", Some("abc")),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("", None),
    ] {
        assert_eq!(bearer(header), expected, "{header:?}");
    }
}
