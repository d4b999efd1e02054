//! How long credentials are followed, and how long a request is waited for.

use std::path::Path;

use nodewarden_tasks::parts::Parts;
use serde_json::json;

use super::*;
use crate::objects::fixture::Script;

#[test]
fn waits_grow_to_a_minute() {
    let seconds: Vec<u64> = [0, 1, 5, 6, 99].map(|failures| AGAIN.nth(failures).as_secs()).into();
    assert_eq!(seconds, [1, 2, 32, 60, 60]);
}

fn kubeconfig(path: &Path, token: &str) {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    std::fs::write(path, content.to_string()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_comes_while_a_request_waits_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    kubeconfig(&path("bootstrap"), "first");
    let settings = KubernetesSettings {
        kubeconfig: Some(path("kubeconfig")),
        bootstrap_kubeconfig: Some(path("bootstrap")),
        cert_dir: path("pki"),
        ..KubernetesSettings::default()
    };
    let (connection, credentials) = connect(&settings, "n1", true).await.unwrap();
    // The request is neither approved nor refused.
    let script = (0..1000).fold(Script::default(), |script, _| {
        script.then(200, r#"{"metadata": {"name": "r"}, "spec": {"request": "", "signerName": "s"}}"#)
    });
    let credentials = Credentials { connection: script.connection(), ..credentials };
    let part = Parts::default().register("credentials", LIMIT);
    let running = tokio::spawn(part.task_with(|pulse| credentials.run(pulse)));
    while script.requests().len() < 5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(script.requests()[0].starts_with("POST /apis/certificates.k8s.io/"), "{:?}", script.requests());
    let begun = Instant::now();
    kubeconfig(&path("kubeconfig"), "second");
    connection.identified().await;
    assert!(begun.elapsed() <= LOOK * 2, "after {:?}", begun.elapsed());
    let requests = script.requests().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(script.requests().len(), requests, "the request is not waited for any more");
    running.abort();
}
