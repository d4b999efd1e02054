//! The parameters of requests. Pure.

use jiff::{SignedDuration, Timestamp};
use nodewarden_cri::logs::{Request, Stream};

/// Name and value of each parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// The parameters of a request's URL.
    pub fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter; empty if there is none.
    pub fn first(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// A boolean as the API's parameters have it (`Convert_Slice_string_To_bool`): present is true.
    pub fn flag(&self, name: &str) -> bool {
        self.all(name).next().is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, name: &'static str) -> Result<Option<i64>, QueryError> {
        // An empty value is 0 there (`Convert_Slice_string_To_Pointer_int64`).
        let parse = |value: &str| if value.is_empty() { Ok(0) } else { value.parse() };
        self.all(name).next().map(parse).transpose().map_err(|_| QueryError::Decode)
    }
}

/// Why parameters are refused.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// A value has another type.
    #[error(r#"{{"message": "Unable to decode query."}}"#)]
    Decode,
    /// A value is out of range, or two exclude each other.
    #[error(r#"{{"message": "Invalid request."}}"#)]
    Invalid,
}

/// What a client wants of a log: `v1.PodLogOptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// The part of the log.
    pub request: Request,
    /// Whether what is written later is sent too.
    pub follow: bool,
    /// Whether the log of the container before is meant.
    pub previous: bool,
}

/// Reads the options of a log, with the checks of `ValidatePodLogOptions` (pkg/apis/core/validation).
///
/// # Errors
/// A value has another type, is out of range, or two exclude each other.
pub fn log_options(query: &Query, now: Timestamp) -> Result<LogOptions, QueryError> {
    // The older name, whose "all" means no limit.
    let tail = match query.first("tail") {
        "" => query.number("tailLines")?,
        "all" => None,
        lines => Some(lines.parse().map_err(|_| QueryError::Decode)?),
    };
    let (limit, seconds) = (query.number("limitBytes")?, query.number("sinceSeconds")?);
    let time = match query.first("sinceTime") {
        "" => None,
        text => Some(text.parse::<Timestamp>().map_err(|_| QueryError::Decode)?),
    };
    if tail.is_some_and(|lines| lines < 0)
        || limit.is_some_and(|bytes| bytes < 1)
        || seconds.is_some_and(|seconds| seconds < 1)
        || seconds.is_some() && time.is_some()
    {
        return Err(QueryError::Invalid);
    }
    let stream = match query.first("stream") {
        "" | "All" => None,
        "Stdout" => Some(Stream::Stdout),
        "Stderr" => Some(Stream::Stderr),
        _ => return Err(QueryError::Invalid),
    };
    if stream.is_some() && tail.is_some() {
        return Err(QueryError::Invalid);
    }
    let ago = |seconds| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let request = Request {
        tail: tail.map(unsigned),
        since: time.or(seconds.map(ago)),
        timestamps: query.flag("timestamps"),
        limit_bytes: limit.map(unsigned),
        stream,
    };
    Ok(LogOptions { request, follow: query.flag("follow"), previous: query.flag("previous") })
}

/// The streams of a command or of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Whether there is input.
    pub stdin: bool,
    /// Whether there is output.
    pub stdout: bool,
    /// Whether there are errors apart from the output.
    pub stderr: bool,
    /// Whether there is a terminal; errors are then part of the output.
    pub tty: bool,
}

/// Why streams are refused.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// There is no stream.
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStream,
    /// A WebSocket needs the ports in the request.
    #[error("query parameter \"port\" is required")]
    NoPort,
    /// A port is no port.
    #[error("unable to parse {0:?} as a port: it has to be a number from 1 to 65535")]
    Port(String),
}

/// Reads the streams (`remotecommand.NewOptions`).
///
/// # Errors
/// There is none.
pub fn stream_options(query: &Query) -> Result<StreamOptions, StreamError> {
    let is = |name| query.first(name) == "1";
    let tty = is("tty");
    let options =
        StreamOptions { stdin: is("input"), stdout: is("output"), stderr: is("error") && !tty, tty };
    if options.stdin || options.stdout || options.stderr { Ok(options) } else { Err(StreamError::NoStream) }
}

/// Reads the ports, which only a WebSocket has in its request (`portforward.NewV4Options`).
///
/// # Errors
/// There is none, or one is no port.
pub fn ports(query: &Query, websocket: bool) -> Result<Vec<i32>, StreamError> {
    if !websocket {
        return Ok(Vec::new());
    }
    let texts: Vec<&str> = query.all("port").flat_map(|list| list.split(',')).collect();
    if texts.is_empty() {
        return Err(StreamError::NoPort);
    }
    let parse = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(i32::from(port)),
        _ => Err(StreamError::Port(text.to_owned())),
    };
    texts.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-23T08:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_options_of_a_log() {
        let read = |query: &str| log_options(&Query::parse(query), now());
        let plain = LogOptions { request: Request::default(), follow: false, previous: false };
        assert_eq!(read("").unwrap(), plain);
        let all = read("follow=true&previous=1&timestamps&tailLines=0&limitBytes=1&sinceSeconds=60").unwrap();
        assert_eq!((all.follow, all.previous, all.request.timestamps), (true, true, true));
        assert_eq!((all.request.tail, all.request.limit_bytes), (Some(0), Some(1)));
        assert_eq!(all.request.since.unwrap().to_string(), "2026-11-23T07:59:00Z");
        let time = read("sinceTime=2026-11-23T07%3A00%3A00%2B01%3A00&follow=false&previous=0&stream=Stderr")
            .unwrap();
        assert_eq!(time.request.since.unwrap().to_string(), "2026-11-23T06:00:00Z");
        assert_eq!((time.follow, time.previous, time.request.stream), (false, false, Some(Stream::Stderr)));
        assert_eq!(read("tail=7").unwrap().request.tail, Some(7));
        assert_eq!(read("tail=all&tailLines=3").unwrap().request.tail, None);
        let long_ago = read(&format!("sinceSeconds={}", i64::MAX)).unwrap();
        assert_eq!(long_ago.request.since, Some(Timestamp::MIN));
        for (query, expected) in [
            ("tailLines=x", QueryError::Decode),
            ("sinceTime=yesterday", QueryError::Decode),
            ("limitBytes=1.5", QueryError::Decode),
            ("tailLines=-1", QueryError::Invalid),
            ("limitBytes=0", QueryError::Invalid),
            ("sinceSeconds=0", QueryError::Invalid),
            ("sinceSeconds=1&sinceTime=2026-11-23T07:00:00Z", QueryError::Invalid),
            ("stream=Both", QueryError::Invalid),
            ("stream=Stdout&tailLines=1", QueryError::Invalid),
        ] {
            assert_eq!(read(query), Err(expected), "{query}");
        }
    }

    #[test]
    fn streams_and_ports() {
        let streams = |query: &str| stream_options(&Query::parse(query));
        let (stdin, stdout, stderr, tty) = (true, true, true, true);
        let none = StreamOptions::default();
        for (query, expected) in [
            ("output=1&error=1", Ok(StreamOptions { stdout, stderr, ..none })),
            ("input=1&output=1&error=1&tty=1", Ok(StreamOptions { stdin, stdout, tty, ..none })),
            ("command=ls&output=true", Err(StreamError::NoStream)),
            ("error=1&tty=1", Err(StreamError::NoStream)),
        ] {
            assert_eq!(streams(query), expected, "{query}");
        }
        let ports = |query: &str, websocket| ports(&Query::parse(query), websocket);
        assert_eq!(ports("", false), Ok(vec![]));
        assert_eq!(ports("port=80&port=443,8080", true), Ok(vec![80, 443, 8080]));
        assert_eq!(ports("", true), Err(StreamError::NoPort));
        for bad in ["0", "65536", "http", ""] {
            assert_eq!(ports(&format!("port={bad}"), true), Err(StreamError::Port(bad.into())));
        }
    }
}
