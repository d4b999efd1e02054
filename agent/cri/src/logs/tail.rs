//! The end of a log.

use super::reader::Step;
use super::{LogError, LogPath, Reader, Request};

/// The last `lines` lines of a log, with both streams in order of writing, cut to the last `bytes` bytes.
/// Empty if there is no log.
///
/// For `terminationMessagePolicy: FallbackToLogsOnError` the kubelet takes 80 lines and 2048 bytes
/// (`readLastStringFromContainerLogs`, `pkg/kubelet/kuberuntime`).
///
/// # Errors
/// A call failed.
pub fn tail(path: &LogPath, lines: u64, bytes: usize) -> Result<Vec<u8>, LogError> {
    let mut reader = Reader::open(path, &Request { tail: Some(lines), ..Request::default() })?;
    let mut text: Vec<u8> = Vec::new();
    let mut pieces = Vec::new();
    while reader.found() {
        let step = reader.read(&mut pieces)?;
        if step != Step::More {
            reader.finish(&mut pieces);
        }
        for piece in pieces.drain(..) {
            text.extend(piece.bytes);
        }
        text.drain(..text.len().saturating_sub(bytes));
        if step != Step::More {
            break;
        }
    }
    Ok(text)
}
