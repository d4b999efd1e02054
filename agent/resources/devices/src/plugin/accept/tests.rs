//! Requests as other programs send them, byte by byte, to a real server.

use std::time::Duration;

use nodewarden_proto::deviceplugin::v1beta1::RegisterRequest;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::super::fixture::{Script, request};
use super::super::tests::Fixture;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A literal field that enters the dynamic table; `start` encodes its name.
fn literal(start: &[u8], value: &str) -> Vec<u8> {
    [start, &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
}

/// A Register request on this stream with these header fields.
fn call(stream: u8, headers: &[u8], request: &RegisterRequest) -> Vec<u8> {
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0][..], &length, &message].concat();
    [frame(1, 4, stream, headers), frame(0, 1, stream, &message)].concat()
}

/// grpc-go sends the path, grpc-core the percent-encoded path with a literal name, others an empty authority.
#[tokio::test]
async fn requests_with_any_authority_are_accepted() {
    let go = literal(&[0x41], "/var/lib/kubelet/device-plugins/kubelet.sock");
    let core =
        literal(&literal(&[0x40], ":authority"), "%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2Fkubelet.sock");
    let nothing = literal(&[0x41], "");
    for authority in [go, core, nothing] {
        let mut fixture = Fixture::start().await;
        let _fakes = ["1.sock", "2.sock"].map(|name| fixture.plugin(name, Script::good(&["a"])));
        // POST, http, path, authority, content type, te: all but the first two enter the dynamic table.
        let headers = [
            &[0x83, 0x86][..],
            &literal(&[0x44], "/v1beta1.Registration/Register"),
            &authority,
            &literal(&[0x5f], "application/grpc"),
            &literal(&literal(&[0x40], "te"), "trailers"),
        ]
        .concat();
        // The same fields from the table: te, content type, authority and path are its entries 62 to 65.
        let again = [0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];
        let mut stream = UnixStream::connect(fixture.plugin_dir().join("kubelet.sock")).await.unwrap();
        let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..]].concat();
        stream.write_all(&start).await.unwrap();
        stream.write_all(&call(1, &headers, &request("v.com/one", "1.sock"))).await.unwrap();
        assert_eq!(fixture.registration().await.resource(), "v.com/one");
        fixture.devices().await;
        stream.write_all(&call(3, &again, &request("v.com/two", "2.sock"))).await.unwrap();
        assert_eq!(fixture.registration().await.resource(), "v.com/two");
        // No stream was reset.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answer = vec![0; 1 << 16];
        let bytes = stream.read(&mut answer).await.unwrap();
        let mut rest = &answer[..bytes];
        let mut kinds = Vec::new();
        while let Some((header, after)) = rest.split_at_checked(9) {
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            kinds.push(header[3]);
            rest = &after[length..];
        }
        assert_eq!(kinds.iter().filter(|kind| **kind == 3).count(), 0, "{kinds:?}");
        assert_eq!(
            kinds.iter().filter(|kind| **kind == 1).count(),
            4,
            "headers and trailers of both: {kinds:?}"
        );
    }
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_at_once() {
    let mut fixture = Fixture::start().await;
    let _fake = fixture.plugin("1.sock", Script::good(&["a"]));
    let socket = fixture.plugin_dir().join("kubelet.sock");
    let connect = || UnixStream::connect(&socket);
    let mut open = Vec::new();
    for _ in 0..super::CONNECTIONS {
        open.push(connect().await.unwrap());
    }
    let mut more = connect().await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(5), more.read(&mut [0; 8])).await;
    assert!(matches!(read.expect("it is closed"), Ok(0) | Err(_)));
    drop(open);
    // A plugin that registers when there are places again.
    let headers = [
        &[0x83, 0x86][..],
        &literal(&[0x44], "/v1beta1.Registration/Register"),
        &literal(&[0x41], "l"),
        &literal(&[0x5f], "application/grpc"),
        &literal(&literal(&[0x40], "te"), "trailers"),
    ]
    .concat();
    let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..]].concat();
    let begun = std::time::Instant::now();
    loop {
        let mut stream = connect().await.unwrap();
        let whole = [&start[..], &call(1, &headers, &request("v.com/one", "1.sock"))].concat();
        if stream.write_all(&whole).await.is_ok() && stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {
            assert_eq!(fixture.registration().await.resource(), "v.com/one");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "there are places again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
