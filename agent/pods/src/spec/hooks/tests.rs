use parking_lot::Mutex;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::spec::fixture::pod;
use nodewarden_manifest::Scheme;

/// Returns the same result for every command after a delay, and records the commands.
#[derive(Debug, Default)]
struct Commands {
    answer: Executed,
    after: Duration,
    seen: Mutex<Vec<String>>,
}

impl Exec for Commands {
    async fn execute(
        &self,
        container: &str,
        command: &[String],
        limit: Option<Duration>,
    ) -> Result<Executed, RuntimeError> {
        self.seen.lock().push(format!("{container}: {command:?} {limit:?}"));
        tokio::time::sleep(self.after).await;
        Ok(self.answer.clone())
    }
}

async fn run(handler: &Handler, ips: &[&str], limit: Option<u64>) -> Result<(), String> {
    let ips: Vec<_> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let limit = limit.map(Duration::from_millis);
    run_hook(handler, &Commands::default(), "id", &ips, limit).await.map_err(|error| error.to_string())
}

/// A server that sends these responses, one per connection, and returns the requests it got.
async fn server(answers: Vec<String>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
    let (port, served) = clear_server(answers).await;
    let texts =
        async { served.await.unwrap().into_iter().map(|sent| String::from_utf8(sent).unwrap()).collect() };
    (port, tokio::spawn(texts))
}

/// The same for any bytes received.
async fn clear_server(answers: Vec<String>) -> (u16, tokio::task::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4096];
            let mut request = Vec::new();
            // A request, or the first record of a TLS handshake.
            while !request.ends_with(b"\r\n\r\n") && request.first() != Some(&22) {
                match stream.read(&mut bytes).await.unwrap() {
                    0 => break,
                    n => request.extend_from_slice(&bytes[..n]),
                }
            }
            requests.push(request);
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        requests
    };
    (port, tokio::spawn(serve))
}

fn get(port: u16, path: &str, headers: &[(&str, &str)]) -> Handler {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Handler::HttpGet(HttpGetAction { scheme: Scheme::Http, host: None, port, path: path.to_owned(), headers })
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

#[test]
fn handlers_are_read_from_the_manifest() {
    let pod = pod(
        "initContainers: [{name: s, restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 3}}}}]\ncontainers: [{name: c, ports: [{name: web, containerPort: 8080}], lifecycle: {postStart: {exec: {command: [a, b]}}, preStop: {httpGet: {port: web, scheme: HTTPS, path: /x, host: h, httpHeaders: [{name: A, value: b}]}}}}]",
    );
    assert_eq!(post_start(&pod, "c"), Some(Handler::Exec(vec!["a".into(), "b".into()])));
    let expected = HttpGetAction {
        scheme: Scheme::Https,
        host: Some("h".into()),
        port: 8080,
        path: "/x".into(),
        headers: vec![("A".into(), "b".into())],
    };
    assert_eq!(pre_stop(&pod, "c"), Some(Handler::HttpGet(expected)));
    assert_eq!(pre_stop(&pod, "s"), Some(Handler::Sleep(Duration::from_secs(3))));
    assert_eq!((post_start(&pod, "s"), post_start(&pod, "none")), (None, None));
}

#[tokio::test]
async fn commands() {
    let handler = Handler::Exec(vec!["x".into()]);
    let runtime = Commands::default();
    let limit = Some(Duration::from_secs(2));
    run_hook(&handler, &runtime, "id", &[], limit).await.unwrap();
    assert_eq!(*runtime.seen.lock(), ["id: [\"x\"] Some(2s)"]);
    let failing =
        Commands { answer: Executed { exit_code: 3, output: b"no\n".to_vec() }, ..Commands::default() };
    let error = run_hook(&handler, &failing, "id", &[], None).await.unwrap_err();
    assert_eq!(error.to_string(), "exec hook [\"x\"] exited with 3, message: \"no\"");
    let slow = Commands { after: Duration::from_secs(60), ..Commands::default() };
    let error = run_hook(&handler, &slow, "id", &[], Some(Duration::from_millis(20))).await.unwrap_err();
    assert!(matches!(error, HookError::TimedOut(_)), "{error}");
}

#[tokio::test]
async fn a_sleep_ends_with_its_limit() {
    let begun = Instant::now();
    assert_eq!(run(&Handler::Sleep(Duration::from_secs(60)), &[], Some(30)).await, Ok(()));
    assert_eq!(run(&Handler::Sleep(Duration::from_millis(10)), &[], None).await, Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_request_and_its_headers() {
    let (port, served) = server(vec![answer("500 Oh", "", "bad"), answer("200 OK", "", "")]).await;
    // Every status is a success.
    assert_eq!(run(&get(port, "stop?now=1", &[]), &["127.0.0.1"], None).await, Ok(()));
    let own = [("Host", "web"), ("User-Agent", "me"), ("Accept", ""), ("X", "1"), ("X", "2")];
    assert_eq!(run(&get(port, "", &own), &["127.0.0.1"], Some(5000)).await, Ok(()));
    let requests = served.await.unwrap();
    assert!(requests[0].starts_with("GET /stop?now=1 HTTP/1.1\r\n"), "{requests:?}");
    for header in [format!("Host: 127.0.0.1:{port}"), "Accept: */*".into(), "Connection: close".into()] {
        assert!(requests[0].contains(&format!("{header}\r\n")), "{header}: {requests:?}");
    }
    assert!(requests[0].contains("User-Agent: kube-lifecycle/"), "{requests:?}");
    assert!(requests[1].contains("Host: web\r\n") && requests[1].contains("User-Agent: me\r\n"));
    assert!(requests[1].contains("X: 1\r\nX: 2\r\n") && !requests[1].contains("Accept"), "{requests:?}");
}

#[tokio::test]
async fn redirects_on_the_same_host() {
    let to = |location: &str| answer("302 Found", &format!("Location: {location}\r\n"), "");
    let (port, served) = server(vec![to("/b?c"), answer("200 OK", "", "")]).await;
    assert_eq!(run(&get(port, "/a", &[]), &["127.0.0.1"], None).await, Ok(()));
    assert!(served.await.unwrap()[1].starts_with("GET /b?c "));
    // A redirect to another host is not followed.
    let (port, served) = server(vec![to("http://localhost:1/")]).await;
    assert_eq!(run(&get(port, "/a", &[]), &["127.0.0.1"], None).await, Ok(()));
    assert_eq!(served.await.unwrap().len(), 1);
    let (port, _) = server(vec![to("/a"); 20]).await;
    let error = run(&get(port, "/a", &[]), &["127.0.0.1"], None).await.unwrap_err();
    assert_eq!(error, format!("httpGet hook: Get \"http://127.0.0.1:{port}/a\": stopped after 10 redirects"));
}

/// A server that responds to HTTPS in plain HTTP gets the request again over HTTP, without the secret header.
#[tokio::test]
async fn https_to_a_plain_server() {
    let plain = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let (port, served) = clear_server(vec![plain.into(), answer("200 OK", "", "")]).await;
    let Handler::HttpGet(action) = get(port, "/stop", &[("authorization", "secret"), ("X", "1")]) else {
        unreachable!()
    };
    let secure = Handler::HttpGet(HttpGetAction { scheme: Scheme::Https, ..action });
    assert_eq!(run(&secure, &["127.0.0.1"], Some(5000)).await, Ok(()));
    let requests = served.await.unwrap();
    assert_eq!(requests[0][0], 22, "a handshake");
    let second = String::from_utf8_lossy(&requests[1]);
    assert!(second.starts_with("GET /stop HTTP/1.1\r\n") && second.contains("X: 1\r\n"), "{second}");
    assert!(!second.contains("secret"), "{second}");
    // If the repetition fails, the first error is returned.
    let (port, _served) = clear_server(vec![plain.into(), "SSH-2.0\r\n".into()]).await;
    let secure = Handler::HttpGet(HttpGetAction {
        scheme: Scheme::Https,
        host: None,
        port,
        path: "/".into(),
        headers: Vec::new(),
    });
    let error = run(&secure, &["127.0.0.1"], Some(5000)).await.unwrap_err();
    assert!(error.ends_with("server gave HTTP response to HTTPS client"), "{error}");
}

#[tokio::test]
async fn a_request_without_response_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = run(&get(port, "/", &[]), &["127.0.0.1"], Some(50)).await.unwrap_err();
    assert_eq!(silent, "the hook was not done within 0.05 s");
    drop(listener);
    let refused = run(&get(port, "/", &[]), &["127.0.0.1"], None).await.unwrap_err();
    assert!(refused.contains("connect: connection refused"), "{refused}");
    let lost = run(&get(port, "/", &[]), &[], None).await.unwrap_err();
    assert_eq!(lost, "httpGet hook: the pod has no address");
}

/// An endless response does not block the hook.
#[tokio::test]
async fn a_long_answer_is_not_read_to_its_end() {
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{}", "x".repeat(20_000));
    let (port, _served) = server(vec![endless]).await;
    assert_eq!(run(&get(port, "/", &[]), &["127.0.0.1"], Some(5000)).await, Ok(()));
}
