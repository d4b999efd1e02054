//! The request for the pods of a URL.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::StatusCode;

use crate::http_get::{self, HttpError, Trust};

/// How long a request may take with its redirects and its body (`NewSourceURL` of the kubelet).
pub const TIME: Duration = Duration::from_secs(10);
/// Longest text in bytes: the kubelet's `maxConfigLength`.
const LONGEST: usize = 10 << 20;

/// Reading the URL failed. This ends no pod.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The answer did not come in time.
    #[error("Get {url:?}: no whole answer within {} s", TIME.as_secs())]
    Slow {
        /// The URL that was asked for.
        url: String,
    },
    /// The server answers with a status other than 200.
    #[error("{url}: {}", status_line(*status))]
    Status {
        /// The URL that was asked for.
        url: String,
        /// The status code.
        status: u16,
    },
    /// The text is longer than a manifest may be.
    #[error("{url}: more than {LONGEST} bytes, the most that are read")]
    TooLong {
        /// The URL that was asked for.
        url: String,
    },
    /// The text is not UTF-8.
    #[error("{url}: not UTF-8 from byte {at} on")]
    NotText {
        /// The URL that was asked for.
        url: String,
        /// Offset in bytes of the first byte that is not valid.
        at: usize,
    },
    /// The text is empty or has only white space and comments.
    #[error("{url}: nothing in it: to remove its pods, an empty list has to be served")]
    Empty {
        /// The URL that was asked for.
        url: String,
    },
}

fn status_line(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |code| code.to_string())
}

/// A request that can be sent again and again.
#[derive(Debug)]
pub struct Request {
    url: String,
    headers: Vec<(String, String)>,
    /// Whom the server's certificate must be from: the authorities of this machine, read when the first
    /// request is sent.
    trust: Option<Trust>,
}

impl Request {
    pub fn new(url: &str, headers: &BTreeMap<String, Vec<String>>) -> Self {
        let each = headers.iter().flat_map(|(name, values)| values.iter().map(|v| (name.clone(), v.clone())));
        Self { url: url.to_owned(), headers: each.collect(), trust: None }
    }

    /// Sends it and returns the text that the server has. There is no time limit here.
    ///
    /// # Errors
    /// There is no answer, it is none with status 200, or it is no text of at most 10 MiB.
    pub async fn send(&mut self) -> Result<String, ReadError> {
        let trust = self.trust.get_or_insert_with(Trust::of_machine);
        let response = http_get::fetch(&self.url, &self.headers, trust, LONGEST + 1).await?;
        let url = || self.url.clone();
        if response.status != 200 {
            return Err(ReadError::Status { url: url(), status: response.status });
        }
        if response.body.len() > LONGEST {
            return Err(ReadError::TooLong { url: url() });
        }
        String::from_utf8(response.body)
            .map_err(|error| ReadError::NotText { url: url(), at: error.utf8_error().valid_up_to() })
    }

    /// What is reported when [`TIME`] is over.
    pub fn too_slow(&self) -> ReadError {
        ReadError::Slow { url: self.url.clone() }
    }
}
