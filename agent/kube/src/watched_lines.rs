//! The events of a watch, one a line.
//!
//! The client's own reader (`request_events` of kube) leaves out a line that breaks off in the middle of an
//! event, as if it were the end of the stream: the event would be lost. Here that is an error, after which
//! everything is listed again.

use futures_util::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, Stream, stream};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use kube::Error;
use kube::core::{Status, WatchEvent};
use serde::de::DeserializeOwned;

/// The longest line that is read, in bytes. The API server's largest objects have 3 MB.
const LONGEST: u64 = 32 << 20;

/// Asks for a watch. The stream ends with the watch, and at an error that nothing can follow.
///
/// # Errors
/// The API server refuses the request or does not answer.
pub async fn events<K: DeserializeOwned + Clone>(
    client: &kube::Client,
    mut request: http::Request<Vec<u8>>,
) -> Result<impl Stream<Item = Result<WatchEvent<K>, Error>> + Send + use<K>, Error> {
    // A compressed stream may hold events back.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let reader = Box::pin(client.request_stream(request).await?);
    Ok(stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        match line(&mut reader).await {
            Ok(Some(line)) => Some((event(&line), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// The next line that is not empty; `None` at the end, which may be in the middle of a line.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Error> {
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut *reader).take(LONGEST);
        limited.read_until(b'\n', &mut line).await.map_err(Error::ReadEvents)?;
        match line.pop() {
            Some(b'\n') if line.trim_ascii().is_empty() => {}
            Some(b'\n') => return Ok(Some(line)),
            Some(_) if limited.limit() == 0 => return Err(Error::LinesCodecMaxLineLengthExceeded),
            _ => return Ok(None),
        }
    }
}

fn event<K: DeserializeOwned>(line: &[u8]) -> Result<WatchEvent<K>, Error> {
    serde_json::from_slice(line).map_err(|error| match serde_json::from_slice::<Status>(line) {
        // An error in place of an event. Every object reads as a status without a code.
        Ok(status) if status.code >= 400 => Error::Api(status.boxed()),
        _ => Error::SerdeError(error),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn lines_until_the_end() {
        let mut reader = futures_util::io::Cursor::new(&b"one\n\n \ntwo\nthr"[..]);
        for expected in [Some(&b"one"[..]), Some(b"two"), None] {
            assert_eq!(line(&mut reader).await.unwrap().as_deref(), expected);
        }
    }

    #[test]
    fn what_a_line_says() {
        let read = |line: &str| event::<Value>(line.as_bytes());
        assert!(matches!(read(r#"{"type":"ADDED","object":{"a":1}}"#), Ok(WatchEvent::Added(_))));
        for broken in
            ["nonsense", "{}", "null", r#"{"type":"ADDED","object":{"a""#, r#"{"type":"X","object":{}}"#]
        {
            assert!(matches!(read(broken), Err(Error::SerdeError(_))), "{broken}");
        }
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":403}"#;
        assert!(matches!(read(status), Err(Error::Api(status)) if status.code == 403));
    }
}
