//! Where a serving certificate is from, and when another one is requested.

use nodewarden_tasks::parts::Parts;

use super::*;
use crate::objects::fixture::Script;

fn source(directory: &std::path::Path) -> Source {
    Source { node: "node-1".into(), files: None, request: false, directory: directory.to_owned() }
}

#[test]
fn a_self_signed_certificate_is_kept_until_it_ends_soon() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(&dir.path().join("pki"));
    let now = Timestamp::now();
    let first = source.self_signed(now).unwrap();
    assert_eq!(source.read().unwrap().chain, first.chain);
    let life = first.validity.until.duration_since(first.validity.from).as_secs();
    assert_eq!(life, 365 * 86_400 + 3600);
    let later = now.checked_add(Duration::from_secs(340 * 86_400)).unwrap();
    assert_ne!(source.self_signed(later).unwrap().chain, first.chain);
}

#[test]
fn a_requested_certificate_is_used_once_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source { request: true, ..source(dir.path()) };
    let own = source.read().unwrap();
    let key = KeyPair::generate().unwrap();
    let text = self_signed("node-1", &key, Timestamp::now()).unwrap();
    Store::server(dir.path()).add(&text, &key.serialize_pem(), Timestamp::now()).unwrap();
    assert_ne!(source.read().unwrap().chain, own.chain);
}

#[test]
fn given_files_win_and_damaged_ones_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let files = (dir.path().join("c"), dir.path().join("k"));
    let source = Source { files: Some(files.clone()), ..source(dir.path()) };
    assert!(source.read().unwrap_err().to_string().contains("No such file"));
    let key = KeyPair::generate().unwrap();
    fs::write(&files.0, self_signed("x", &key, Timestamp::now()).unwrap()).unwrap();
    fs::write(&files.1, "nothing").unwrap();
    assert!(source.read().unwrap_err().to_string().contains("no certificate and its key"));
    fs::write(&files.1, key.serialize_pem()).unwrap();
    assert_eq!(source.read().unwrap().chain.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn given_files_that_are_replaced_are_served_once_they_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    let files = (dir.path().join("c"), dir.path().join("k"));
    let source = Source { files: Some(files.clone()), ..source(dir.path()) };
    let made = || {
        let key = KeyPair::generate().unwrap();
        (self_signed("x", &key, Timestamp::now()).unwrap(), key.serialize_pem())
    };
    let (first, second) = (made(), made());
    fs::write(&files.0, &first.0).unwrap();
    fs::write(&files.1, &first.1).unwrap();
    let pair = source.read().unwrap();
    let (to, certificates) = watch::channel(Arc::new(pair.clone().into()));
    let (_moves, addresses) = watch::channel(Vec::new());
    let work = Work { source, pair, to, addresses, connection: None };
    let part = Parts::default().register("serving certificate", LIMIT);
    let running = tokio::spawn(part.task_with(|pulse| work.run(pulse)));
    let shown = || certificates.borrow().chain[0].clone();
    let before = shown();
    fs::write(&files.0, &second.0).unwrap();
    tokio::time::sleep(3 * LOOK).await;
    assert_eq!(shown(), before, "the key is that of the old one");
    fs::write(&files.1, &second.1).unwrap();
    tokio::time::sleep(3 * LOOK).await;
    assert_ne!(shown(), before);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_requested_before_addresses_are_known_and_again_for_others_also_while_a_request_waits() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source { request: true, ..source(dir.path()) };
    // Nothing is approved or refused.
    let script = (0..1000).fold(Script::default(), |script, _| {
        script.then(200, r#"{"metadata": {"name": "r"}, "spec": {"request": "", "signerName": "s"}}"#)
    });
    let ips = |text: &str| vec![text.parse::<IpAddr>().unwrap()];
    let (moves, addresses) = watch::channel(Vec::new());
    let pair = source.read().unwrap();
    let (to, _certificates) = watch::channel(Arc::new(pair.clone().into()));
    let work = Work { source, pair, to, addresses, connection: Some(script.connection()) };
    let part = Parts::default().register("serving certificate", LIMIT);
    let running = tokio::spawn(part.task_with(|pulse| work.run(pulse)));
    let requested = || {
        let requests = script.requests();
        requests.iter().filter(|own| own.starts_with("POST ")).count()
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(requested(), 0, "the node has no address yet");
    moves.send_replace(ips("10.0.0.1"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(requested(), 1, "at once");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(requested(), 1);
    moves.send_replace(ips("10.0.0.2"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(requested(), 2, "{:?}", script.requests());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_requested_once_for_addresses_that_it_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source { request: true, ..source(dir.path()) };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    for name in [SanType::DnsName("node-1".try_into().unwrap()), SanType::IpAddress([10, 0, 0, 1].into())] {
        params.subject_alt_names.push(name);
    }
    let text = params.self_signed(&key).unwrap().pem();
    Store::server(dir.path()).add(&text, &key.serialize_pem(), Timestamp::now()).unwrap();
    let pair = source.read().unwrap();
    let (to, _certificates) = watch::channel(Arc::new(pair.clone().into()));
    let (_moves, addresses) = watch::channel(Vec::new());
    let work = Work { source, pair, to, addresses, connection: None };
    for (now, moved, expected) in [
        ("10.0.0.1", true, false),
        ("10.0.0.1", false, false),
        ("10.0.0.2", true, true),
        // It was requested for these, and the signer has left them out.
        ("10.0.0.2", false, false),
    ] {
        assert_eq!(work.wants_request(&[now.parse().unwrap()], moved).await, expected, "{now} {moved}");
    }
}

#[tokio::test]
async fn the_addresses_of_the_node_object_are_followed() {
    use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeStatus};

    let node = |address: Option<&str>| {
        let of = |address: &str| NodeAddress { type_: "InternalIP".into(), address: address.into() };
        let addresses = Some(address.into_iter().map(of).collect());
        Arc::new(Node { status: Some(NodeStatus { addresses, ..NodeStatus::default() }), ..Node::default() })
    };
    let (shows, nodes) = NodeObject::channel();
    let (to, mut addresses) = watch::channel(vec!["10.0.0.1".parse::<IpAddr>().unwrap()]);
    let following = tokio::spawn(follow_addresses(nodes, to));
    shows(node(Some("10.0.0.2")));
    addresses.changed().await.unwrap();
    assert_eq!(*addresses.borrow_and_update(), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
    // It has none for a moment.
    shows(node(None));
    tokio::task::yield_now().await;
    shows(node(Some("10.0.0.3")));
    addresses.changed().await.unwrap();
    assert_eq!(*addresses.borrow_and_update(), ["10.0.0.3".parse::<IpAddr>().unwrap()]);
    drop(addresses);
    following.await.unwrap();
}
