//! How a request is answered: its path says it.

/// What is done with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// `/ok`, `/bad`, `/status/418`: this status with a short body.
    Status(u16),
    /// `/hang`: no answer.
    Hang,
    /// `/half`: a head, and of the body only the beginning.
    Half,
    /// `/reset`: the connection is reset.
    Reset,
    /// `/flood`: 200, and a body without an end.
    Flood,
    /// `/to/x/y`: a redirect to `/x/y` on the same host.
    To(String),
    /// `/away`: a redirect to another host.
    Away,
    /// `/has?X-Name=value`: 200 if the request has this header, else 400.
    Has { header: String, value: String },
    /// `/file/NAME`: as the path in the file of this name says; 503 if there is none.
    File(String),
    /// `/steps/NAME/ok.bad.hang`: one after the other, the last again and again; each name counts for itself.
    Steps { name: String, steps: Vec<Act> },
    /// `/blink/2.5`: for so many seconds after the start 200, for as many 503, and so on.
    Blink(f64),
    /// `/exit/3`: the process exits with this code, without an answer.
    Exit(u8),
    /// Any other path: 404.
    Unknown,
}

/// Where a redirect to another host goes: a name that nobody has (RFC 6761).
pub const ELSEWHERE: &str = "http://elsewhere.invalid/ok";

impl Act {
    /// By a request's path with its query.
    pub fn of(path: &str) -> Self {
        let path = path.trim();
        let (before, query) = path.split_once('?').unwrap_or((path, ""));
        let mut words = before.trim_start_matches('/').splitn(2, '/');
        let (word, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let act = match word {
            "ok" => Some(Self::Status(200)),
            "bad" => Some(Self::Status(503)),
            "status" => rest.parse().ok().filter(|status| (200..1000).contains(status)).map(Self::Status),
            "hang" => Some(Self::Hang),
            "half" => Some(Self::Half),
            "reset" => Some(Self::Reset),
            "flood" => Some(Self::Flood),
            "to" => Some(Self::To(format!("/{rest}"))),
            "away" => Some(Self::Away),
            "has" => query.split_once('=').map(|(header, value)| Self::Has {
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
        act.unwrap_or(Self::Unknown)
    }
}

/// Of a file in our folder, and of nothing elsewhere.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_done() {
        let steps = |name: &str, steps: &[Act]| Act::Steps { name: name.into(), steps: steps.to_vec() };
        for (path, act) in [
            ("/ok", Act::Status(200)),
            ("ok", Act::Status(200)),
            ("/ok?any=thing", Act::Status(200)),
            ("/status/399", Act::Status(399)),
            ("/status/99", Act::Unknown),
            ("/to/status/503", Act::To("/status/503".into())),
            ("/has?X-Probe=yes", Act::Has { header: "x-probe".into(), value: "yes".into() }),
            ("/has", Act::Unknown),
            ("/file/ready", Act::File("ready".into())),
            ("/file/../secret", Act::Unknown),
            ("/file/", Act::Unknown),
            ("/steps/a/ok.bad.hang", steps("a", &[Act::Status(200), Act::Status(503), Act::Hang])),
            ("/steps/a", Act::Unknown),
            ("/blink/1.5", Act::Blink(1.5)),
            ("/blink/0", Act::Unknown),
            ("/exit/3\n", Act::Exit(3)),
            ("/", Act::Unknown),
            ("", Act::Unknown),
        ] {
            assert_eq!(Act::of(path), act, "{path}");
        }
    }
}
