//! The result of a command: a `metav1.Status` in JSON on the error channel (`v4WriteStatusFunc`,
//! `staging/…/kubelet/pkg/cri/streaming/remotecommand`). Pure.

use serde::Deserialize;

use super::ExecError;

#[derive(Debug, Deserialize)]
struct Status {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Debug, Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// Longest status in bytes: a message and a few causes.
const LONGEST: usize = 256 << 10;

/// A status that comes in pieces.
#[derive(Debug, Default)]
pub struct Collected(Vec<u8>);

impl Collected {
    /// Adds a piece and returns the exit code; `None` while the status is incomplete. What gets longer than
    /// [`LONGEST`] is no status: a server cannot make the agent keep more.
    pub fn add(&mut self, piece: &[u8]) -> Option<Result<i32, ExecError>> {
        if self.0.len() + piece.len() > LONGEST {
            let message = format!("the runtime sent more than {LONGEST} bytes that are no status");
            return Some(Err(ExecError::NotRun { message }));
        }
        self.0.extend_from_slice(piece);
        read(&self.0)
    }
}

/// The exit code; `None` while the status is incomplete.
fn read(text: &[u8]) -> Option<Result<i32, ExecError>> {
    let status: Status = serde_json::from_slice(text).ok()?;
    if status.status == "Success" {
        return Some(Ok(0));
    }
    if status.reason == "NonZeroExitCode" {
        let causes = status.details.unwrap_or_default().causes;
        let code = causes.iter().find(|c| c.reason == "ExitCode").and_then(|c| c.message.parse().ok());
        if let Some(code) = code {
            return Some(Ok(code));
        }
    }
    // The prefix of the API server adds nothing to the runtime's message.
    let message = status.message.strip_prefix("Internal error occurred: ").unwrap_or(&status.message);
    Some(Err(ExecError::NotRun { message: message.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_pieces_is_bounded() {
        let mut status = Collected::default();
        assert!(status.add(br#"{"metadata":{},"#).is_none());
        assert!(matches!(status.add(br#""status":"Success"}"#), Some(Ok(0))));
        let mut endless = Collected::default();
        let pieces = (0..1000).find_map(|_| endless.add(&[b' '; 1024]));
        let error = pieces.unwrap().unwrap_err().to_string();
        assert!(error.contains("more than 262144 bytes"), "{error}");
        assert!(endless.0.len() <= LONGEST);
    }

    #[test]
    fn table() {
        let code = |text: &str| match read(text.as_bytes()) {
            None => "more".to_owned(),
            Some(Ok(code)) => code.to_string(),
            Some(Err(e)) => e.to_string(),
        };
        for (text, expected) in [
            (r#"{"metadata":{},"status":"Success"}"#, "0"),
            (
                r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit 3",
                    "reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
                "3",
            ),
            (
                r#"{"status":"Failure","message":"Internal error occurred: error executing command in container: x",
                    "reason":"InternalError","details":{"causes":[{"message":"x"}]},"code":500}"#,
                "error executing command in container: x",
            ),
            (r#"{"status":"Failure","reason":"NonZeroExitCode","message":"odd"}"#, "odd"),
            (r#"{"metadata":{},"stat"#, "more"),
            ("", "more"),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }
}
