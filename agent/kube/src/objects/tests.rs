//! Objects against the stand-in, on bad days of an API server.

use serde_json::json;

use super::fixture::Script;
use super::*;
use nodewarden_pods::objects::ObjectKind;

fn map(value: &str) -> String {
    json!({"metadata": {"name": "m", "namespace": "ns", "resourceVersion": "11"}, "data": {"k": value}})
        .to_string()
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\": \"{kind}\", \"object\": {object}}}\n")
}

fn key() -> Key {
    Key { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: "m".into() }
}

fn watched(script: &Script) -> (Watched, mpsc::UnboundedReceiver<String>) {
    let (changes, changed) = mpsc::unbounded_channel();
    (Watched::new(script.connection(), ChangeDetection::Watch, changes), changed)
}

fn text(value: Value) -> String {
    match value {
        Value::ConfigMap(map) => map.data["k"].clone(),
        Value::Secret(_) => String::new(),
    }
}

/// Waits for the uid of a pod of which an object has changed.
async fn next(changed: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(600), changed.recv()).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_listed_by_its_name_and_watched_from_there() {
    let gone = event("ERROR", r#"{"code": 410, "message": "too old", "reason": "Expired"}"#);
    let script = Script::default()
        .list(&map("1"))
        .then(200, event("MODIFIED", &map("2")) + &event("MODIFIED", &map("2")) + &gone)
        .list(&map("3"))
        .then(200, event("DELETED", &map("3")))
        .list("");
    let (watched, mut changed) = watched(&script);
    watched.register("u", [key()].into());
    for value in ["1", "2", "3"] {
        assert_eq!(next(&mut changed).await, "u");
        // What comes next may be known already, the deletion too; it is never older.
        match watched.get(key()).await {
            Ok(found) => assert!(text(found).as_str() >= value),
            Err(error) => assert!(error.is_not_found(), "{error}"),
        }
    }
    assert_eq!(next(&mut changed).await, "u");
    assert!(watched.get(key()).await.unwrap_err().is_not_found());
    let requests = script.requests();
    let path = "GET /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dm";
    assert_eq!(requests[0], path);
    assert!(
        requests[1].starts_with(&format!("{path}&watch=true")) && requests[1].ends_with("resourceVersion=10")
    );
    // Repeated events are no changes.
    assert!(changed.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_known_stays_through_errors_and_garbage() {
    let script = Script::default()
        .list(&map("1"))
        .then(200, "no json\n")
        .then(500, "")
        .then(200, "[]")
        .then(403, json!({"kind": "Status", "status": "Failure", "code": 403, "message": "no"}).to_string())
        .then(
            429,
            json!({"kind": "Status", "status": "Failure", "code": 429, "message": "later"}).to_string(),
        )
        .list(&map("2"));
    let (watched, mut changed) = watched(&script);
    watched.register("u", [key()].into());
    next(&mut changed).await;
    assert_eq!(text(watched.get(key()).await.unwrap()), "1");
    next(&mut changed).await;
    assert_eq!(text(watched.get(key()).await.unwrap()), "2");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_never_read_says_why() {
    let (refusing, _changed) = watched(
        &Script::default().then(403, json!({"kind": "Status", "code": 403, "message": "no way"}).to_string()),
    );
    refusing.register("u", [key()].into());
    let error = refusing.get(key()).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to get configmap \"m\": no way");
    let (silent, _changed) = watched(&Script::default());
    silent.register("u", [key()].into());
    let error = silent.get(key()).await.unwrap_err().to_string();
    assert_eq!(error, "failed to get configmap \"m\": the API server has not answered yet");
}

#[tokio::test(start_paused = true)]
async fn an_immutable_object_is_read_once() {
    let fixed = json!({"metadata": {"name": "m"}, "data": {"k": "1"}, "immutable": true}).to_string();
    let script = Script::default().list(&fixed);
    let (watched, mut changed) = watched(&script);
    watched.register("u", [key()].into());
    next(&mut changed).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(script.requests().len(), 1);
    assert_eq!(text(watched.get(key()).await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn an_object_is_followed_as_long_as_a_pod_names_it() {
    let script = Script::default().list(&map("1"));
    let (watched, mut changed) = watched(&script);
    watched.register("u", [key()].into());
    next(&mut changed).await;
    watched.register("v", [key()].into());
    watched.register("u", Default::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(text(watched.get(key()).await.unwrap()), "1");
    // A list and a watch.
    assert_eq!(script.requests().len(), 2);
    watched.register("v", Default::default());
    // No pod names it: a read asks the API server, which does not answer.
    assert!(watched.get(key()).await.is_err());
}

fn token(text: &str, seconds: i64) -> String {
    json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"audiences": ["a"], "expirationSeconds": seconds},
        "status": {"token": text, "expirationTimestamp": "2020-01-01T00:00:00Z"},
    })
    .to_string()
}

/// The clock of the API server is years behind: only the token's life counts.
#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_in_time_and_kept_while_no_other_can_be_had() {
    let script = Script::default()
        .then(201, token("one", 600))
        .then(503, "")
        .then(201, token("two", 600))
        .then(503, "");
    let (changes, mut changed) = mpsc::unbounded_channel();
    let tokens = Tokens::start(script.connection(), changes);
    let request = TokenRequest {
        namespace: "ns".into(),
        account: "default".into(),
        pod: "p".into(),
        uid: "u".into(),
        audience: String::new(),
        expiration_seconds: 600,
    };
    let begun = tokio::time::Instant::now();
    assert_eq!(&*tokens.get(&request).await.unwrap(), "one");
    assert_eq!(&*tokens.get(&request).await.unwrap(), "one");
    assert_eq!(next(&mut changed).await, "u");
    let due = begun.elapsed().as_secs();
    assert!((469..=480).contains(&due), "{due}");
    // It cannot be renewed, and is reported again.
    assert_eq!(&*tokens.get(&request).await.unwrap(), "one");
    assert_eq!(next(&mut changed).await, "u");
    assert_eq!(&*tokens.get(&request).await.unwrap(), "two");
    tokio::time::sleep(Duration::from_secs(601)).await;
    let error = tokens.get(&request).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to fetch token: "), "{error}");
    let first = script.requests().remove(0);
    assert!(first.starts_with("POST /api/v1/namespaces/ns/serviceaccounts/default/token"), "{first}");
}

#[tokio::test(start_paused = true)]
async fn services_are_seen_from_a_namespace() {
    let service = |namespace: &str, name: &str| {
        json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": "10.0.0.1", "ports": []}}).to_string()
    };
    let all = [service("default", "kubernetes"), service("ns", "own"), service("other", "x")].join(",");
    let script = Script::default().list(&all).then(200, event("ADDED", &service("ns", "new")));
    let services = Services::new(script.connection());
    let names = |seen: Vec<Service>| seen.into_iter().map(|service| service.name).collect::<Vec<_>>();
    let seen = names(services.seen_from("ns").await.unwrap());
    assert!(seen.contains(&"own".to_owned()) && !seen.contains(&"x".to_owned()), "{seen:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = names(services.seen_from("ns").await.unwrap());
    assert_eq!(seen, ["kubernetes", "new", "own"]);
    let silent = Services::new(Script::default().connection());
    assert!(silent.seen_from("ns").await.is_err());
}
