use super::*;

fn to(status: &str, location: &str) -> Vec<u8> {
    answer(status, &format!("Location: {location}\r\n"), "over there")
}

#[tokio::test]
async fn within_the_host() {
    for status in ["301 M", "302 F", "303 S", "307 T", "308 P"] {
        let server = Server::answering(move |number| match number {
            0 => to(status, "../b?c#d"),
            _ => answer("200 OK", "", "there"),
        })
        .await;
        assert_eq!(plain(&server, "/x/y").await, good("there"), "{status}");
        let requests = server.requests();
        assert!(requests[1].starts_with("GET /b?c HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[1].contains(&format!("Referer: http://127.0.0.1:{}/x/y\r\n", server.port)));
    }
}

#[tokio::test]
async fn to_another_port() {
    let there = Server::answering(|_| answer("503 Busy", "", "")).await;
    let port = there.port;
    let here = Server::answering(move |_| to("302 F", &format!("http://127.0.0.1:{port}/b"))).await;
    assert_eq!(plain(&here, "/").await.unwrap().status, 503);
}

#[tokio::test]
async fn a_redirect_to_another_host_is_the_result() {
    // The redirect is not followed: this response, with its body, is the result.
    for location in ["http://localhost:1/", "https://other.invalid/x", "//other.invalid/", "mailto:x@y"] {
        let server = Server::answering(move |_| to("302 F", location)).await;
        let expected = Response {
            status: 302,
            body: b"over there".to_vec(),
            foreign_redirect: Some(location.to_owned()),
        };
        assert_eq!(plain(&server, "/").await, Ok(expected));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn redirects_without_a_usable_location() {
    // Not every 3xx is a redirect.
    for (status, headers) in [("302 F", ""), ("304 N", "Location: /x\r\n"), ("300 M", "Location: /x\r\n")] {
        let server = Server::answering(move |_| answer(status, headers, "")).await;
        let response = plain(&server, "/").await.unwrap();
        assert_eq!((response.status.to_string(), response.foreign_redirect), (status[..3].to_owned(), None));
    }
    for (location, end) in [
        ("http://127.0.0.1:x/", "failed to parse Location header \"http://127.0.0.1:x/\""),
        ("ftp://127.0.0.1/", "unsupported protocol scheme \"ftp\""),
    ] {
        let server = Server::answering(move |_| to("302 F", location)).await;
        let error = plain(&server, "/").await.unwrap_err();
        assert!(error.ends_with(end), "{error}");
    }
}

#[tokio::test]
async fn ten_redirects_are_too_many() {
    let server = Server::answering(|number| to("302 F", &format!("/{number}"))).await;
    let error = plain(&server, "/").await.unwrap_err();
    assert_eq!(error, format!("Get \"http://127.0.0.1:{}/9\": stopped after 10 redirects", server.port));
    assert_eq!(server.requests().len(), 10);
    // The ninth redirect is the last that is followed.
    let server = Server::answering(|number| match number {
        9 => answer("200 OK", "", "at last"),
        number => to("302 F", &format!("/{number}")),
    })
    .await;
    assert_eq!(plain(&server, "/").await, good("at last"));
}

/// The body of a redirect is not waited for.
#[tokio::test]
async fn with_a_body_that_hangs() {
    let server = Server::at("127.0.0.1:0", |mut stream, number| async move {
        server::request(&mut stream).await.unwrap();
        let text = match number {
            0 => b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 99\r\n\r\n".to_vec(),
            _ => answer("200 OK", "", "x"),
        };
        tokio::io::AsyncWriteExt::write_all(&mut stream, &text).await.unwrap();
        tokio::time::sleep(LIMIT * 2).await;
    })
    .await;
    assert_eq!(plain(&server, "/").await, good("x"));
}
