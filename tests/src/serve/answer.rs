//! How a request is answered. The path of the request says it.

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `/ok`, `/bad`, `/status/418`: this status with a short body.
    Status(u16),
    /// `/hang`: no answer, and the connection stays open.
    Hang,
    /// `/half`: the head and only the beginning of the body.
    Half,
    /// `/reset`: the connection is reset.
    Reset,
    /// `/flood`: 200 and an endless body.
    Flood,
    /// `/to/x/y`: redirects to `/x/y` on the same host.
    Redirect(String),
    /// `/away`: redirects to another host.
    RedirectElsewhere,
    /// `/has?X-Name=value`: 200 if the request has this header with this value, else 400.
    IfHeader { header: String, value: String },
    /// `/file/NAME`: the answer for the path that the file NAME contains; 503 if there is no such file.
    File(String),
    /// `/steps/NAME/ok.bad.hang`: one answer after the other, then the last one repeatedly. Each NAME is
    /// counted separately.
    Steps { name: String, steps: Vec<Answer> },
    /// `/blink/2.5`: 200 for 2.5 seconds after the start, then 503 for as long, and so on.
    Blink(f64),
    /// `/exit/3`: the process exits with this code, without an answer.
    Exit(u8),
    /// Any other path: 404.
    Unknown,
}

/// The target of a redirect to another host: a name that never resolves (RFC 6761).
pub const ELSEWHERE: &str = "http://elsewhere.invalid/ok";

impl Answer {
    /// The answer for a request's path with its query.
    pub fn of(path: &str) -> Self {
        let path = path.trim();
        let (before, query) = path.split_once('?').unwrap_or((path, ""));
        let mut words = before.trim_start_matches('/').splitn(2, '/');
        let (word, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let answer = match word {
            "ok" => Some(Self::Status(200)),
            "bad" => Some(Self::Status(503)),
            "status" => rest.parse().ok().filter(|status| (200..1000).contains(status)).map(Self::Status),
            "hang" => Some(Self::Hang),
            "half" => Some(Self::Half),
            "reset" => Some(Self::Reset),
            "flood" => Some(Self::Flood),
            "to" => Some(Self::Redirect(format!("/{rest}"))),
            "away" => Some(Self::RedirectElsewhere),
            "has" => query.split_once('=').map(|(header, value)| Self::IfHeader {
                header: header.to_ascii_lowercase(),
                value: value.to_owned(),
            }),
            "file" => is_name(rest).then(|| Self::File(rest.to_owned())),
            "steps" => rest.split_once('/').and_then(|(name, steps)| {
                let steps: Vec<_> = steps.split('.').map(Self::of).collect();
                is_name(name).then(|| Self::Steps { name: name.to_owned(), steps })
            }),
            "blink" => rest.parse().ok().filter(|seconds| *seconds > 0.0).map(Self::Blink),
            "exit" => rest.parse().ok().map(Self::Exit),
            _ => None,
        };
        answer.unwrap_or(Self::Unknown)
    }
}

/// Whether `text` is a plain file name, so that only files in the server's directory are read.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_answer() {
        let steps = |name: &str, steps: &[Answer]| Answer::Steps { name: name.into(), steps: steps.to_vec() };
        for (path, answer) in [
            ("/ok", Answer::Status(200)),
            ("ok", Answer::Status(200)),
            ("/ok?any=thing", Answer::Status(200)),
            ("/status/399", Answer::Status(399)),
            ("/status/99", Answer::Unknown),
            ("/to/status/503", Answer::Redirect("/status/503".into())),
            ("/has?X-Probe=yes", Answer::IfHeader { header: "x-probe".into(), value: "yes".into() }),
            ("/has", Answer::Unknown),
            ("/file/ready", Answer::File("ready".into())),
            ("/file/../secret", Answer::Unknown),
            ("/file/", Answer::Unknown),
            ("/steps/a/ok.bad.hang", steps("a", &[Answer::Status(200), Answer::Status(503), Answer::Hang])),
            ("/steps/a", Answer::Unknown),
            ("/blink/1.5", Answer::Blink(1.5)),
            ("/blink/0", Answer::Unknown),
            ("/exit/3\n", Answer::Exit(3)),
            ("/", Answer::Unknown),
            ("", Answer::Unknown),
        ] {
            assert_eq!(Answer::of(path), answer, "{path}");
        }
    }
}
