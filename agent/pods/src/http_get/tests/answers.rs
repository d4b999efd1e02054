use super::*;

#[tokio::test]
async fn every_status_is_an_answer() {
    let texts = ["200 OK", "204 No Content", "304 Not Modified", "404 Not Found", "503 Busy"];
    let server = Server::answering(move |number| answer(texts[number], "", "")).await;
    for text in texts {
        let response = plain(&server, "/").await.unwrap();
        assert_eq!((response.status.to_string(), response.foreign_redirect), (text[..3].to_owned(), None));
    }
}

#[tokio::test]
async fn what_is_sent() {
    let server = Server::answering(|_| answer("200 OK", "", "")).await;
    let mut action = action(Scheme::Http, server.port, "/a?b");
    action.headers = vec![("x-one".into(), "1".into()), ("Host".into(), "web".into())];
    ask(&action, "127.0.0.1").await.unwrap();
    let version = nodewarden_model::version();
    let expected = format!(
        "GET /a?b HTTP/1.1\r\nX-One: 1\r\nUser-Agent: kube-probe/{version}\r\nAccept: */*\r\nHost: web\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(server.requests(), [expected]);
}

#[tokio::test]
async fn bodies_of_every_form() {
    let bodies: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        // A body that ends with the connection.
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
    ];
    let server = Server::answering(move |number| bodies[number].to_vec()).await;
    for body in bodies {
        assert_eq!(plain(&server, "/").await, good("hello"), "{}", String::from_utf8_lossy(body));
    }
}

/// A request ends with its response, even if the server keeps the connection open.
#[tokio::test]
async fn a_kept_connection() {
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        server::request(&mut stream).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &answer("200 OK", "", "hello")).await.unwrap();
        tokio::time::sleep(LIMIT * 2).await;
    })
    .await;
    assert_eq!(plain(&server, "/").await, good("hello"));
}

#[tokio::test]
async fn ten_kibibytes_of_a_body() {
    for (size, expected) in
        [(LONGEST_BODY - 1, LONGEST_BODY - 1), (LONGEST_BODY, LONGEST_BODY), (1 << 20, LONGEST_BODY)]
    {
        let server = Server::answering(move |_| answer("200 OK", "", &"x".repeat(size))).await;
        assert_eq!(plain(&server, "/").await.unwrap().body.len(), expected, "{size}");
    }
}

#[tokio::test]
async fn a_flood_is_shut_out() {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"] {
        let (result_sender, result) = tokio::sync::oneshot::channel();
        let mut result_sender = Some(result_sender);
        let server = Server::at("127.0.0.1:0", move |mut stream, _| {
            let result_sender = result_sender.take().unwrap();
            async move {
                server::request(&mut stream).await.unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
                result_sender.send(server::flood(&mut stream).await).unwrap();
            }
        })
        .await;
        assert_eq!(plain(&server, "/").await.unwrap().body, vec![b'x'; LONGEST_BODY]);
        let written = timeout(LIMIT, result).await.expect("it was reset").unwrap();
        assert!(written > LONGEST_BODY);
    }
}

#[tokio::test]
async fn over_ipv6() {
    let server = Server::answering_at("[::1]:0", |_| answer("200 OK", "", "six")).await;
    assert_eq!(ask(&action(Scheme::Http, server.port, "/"), "::1").await, good("six"));
    assert!(server.requests()[0].contains(&format!("Host: [::1]:{}\r\n", server.port)));
}

#[tokio::test]
async fn by_name() {
    let server = Server::answering(|_| answer("200 OK", "", "named")).await;
    let mut action = action(Scheme::Http, server.port, "/");
    // One of the addresses of the name responds.
    assert_eq!(ask(&action, "localhost").await, good("named"));
    let error = ask(&action, "host.invalid").await.unwrap_err();
    assert!(error.contains("dial tcp: lookup host.invalid: "), "{error}");
    action.path = "/x".into();
    let error = ask(&action, "a b").await.unwrap_err();
    assert!(error.ends_with("invalid host name \"a b\""), "{error}");
}
