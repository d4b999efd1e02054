//! Probes of kind `httpGet` (pkg/probe/http `DoHTTPProbe`).

use std::net::IpAddr;

use super::ProbeError;
use crate::http_get;
use crate::http_get::{Fault, HttpError, Purpose, Response};
use crate::probes::Answer;
use nodewarden_manifest::HttpGetProbe;
use nodewarden_model::Outcome;

/// Maximum length of a response body in bytes.
const LONGEST: usize = 10 << 10;

/// One run, without a time limit.
///
/// # Errors
/// The run says nothing about the application.
pub(super) async fn probe(asked: &HttpGetProbe, address: Option<IpAddr>) -> Result<Answer, ProbeError> {
    let done = match (&asked.host, address) {
        (Some(host), _) => http_get::get(asked, host, Purpose::Probe).await,
        (None, Some(address)) => http_get::get(asked, &address.to_string(), Purpose::Probe).await,
        (None, None) => return Err(ProbeError::NoAddress),
    };
    judged(done)
}

/// Judges a response by its status. As in the kubelet, a request that cannot be sent and an incomplete body
/// are errors of the prober; so is a lack of sockets on this machine.
fn judged(done: Result<Response, HttpError>) -> Result<Answer, ProbeError> {
    let response = match done {
        Ok(response) => response,
        Err(error) => {
            let not_sent_or_cut = matches!(error.fault, Fault::Host(_) | Fault::Path(_) | Fault::Body(_));
            if not_sent_or_cut || error.fault.is_ours() {
                return Err(error.into());
            }
            return Ok(Answer { outcome: Outcome::Failure, output: cut(error.to_string()) });
        }
    };
    let body = String::from_utf8_lossy(&response.body);
    let (outcome, output) = match response.status {
        200..=299 => (Outcome::Success, body.into_owned()),
        // Redirects within the host were followed, so this one leads to another host.
        300..=399 => (Outcome::Warning, format!("Probe terminated redirects, Response body: {body}")),
        // Without the body, because it may contain secrets that events must not show.
        status => (Outcome::Failure, format!("HTTP probe failed with statuscode: {status}")),
    };
    Ok(Answer { outcome, output: cut(output) })
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn response(status: u16, body: &[u8]) -> Result<Response, HttpError> {
        Ok(Response { status, body: body.to_vec(), foreign_redirect: None })
    }

    fn fault(fault: Fault) -> Result<Response, HttpError> {
        Err(HttpError { url: "http://10.0.0.1:80/".to_owned(), fault })
    }

    fn connect(code: i32) -> Fault {
        let source = io::Error::from_raw_os_error(code);
        Fault::Connect { address: "10.0.0.1:80".parse().unwrap(), source }
    }

    #[test]
    fn by_status() {
        for (status, outcome, output) in [
            (199, Outcome::Failure, "HTTP probe failed with statuscode: 199"),
            (200, Outcome::Success, "hello"),
            (204, Outcome::Success, "hello"),
            (299, Outcome::Success, "hello"),
            (300, Outcome::Warning, "Probe terminated redirects, Response body: hello"),
            (399, Outcome::Warning, "Probe terminated redirects, Response body: hello"),
            (400, Outcome::Failure, "HTTP probe failed with statuscode: 400"),
            (503, Outcome::Failure, "HTTP probe failed with statuscode: 503"),
        ] {
            let answer = judged(response(status, b"hello")).unwrap();
            assert_eq!(answer, Answer { outcome, output: output.to_owned() });
        }
    }

    #[test]
    fn whose_fault() {
        for (of_application, output) in [
            (connect(libc::ECONNREFUSED), "dial tcp 10.0.0.1:80: connect: connection refused"),
            (connect(libc::EHOSTUNREACH), "dial tcp 10.0.0.1:80: connect: no route to host"),
            (Fault::Closed, "EOF"),
            (Fault::Redirects, "stopped after 10 redirects"),
            (Fault::PlainAnswer, "server gave HTTP response to HTTPS client"),
        ] {
            let answer = judged(fault(of_application)).unwrap();
            let output = format!("Get \"http://10.0.0.1:80/\": {output}");
            assert_eq!(answer, Answer { outcome: Outcome::Failure, output });
        }
        for not_sent_or_cut in [
            Fault::Host("a b".into()),
            Fault::Body(Box::new(Fault::Closed)),
            connect(libc::EMFILE),
            connect(libc::EADDRNOTAVAIL),
        ] {
            assert!(matches!(judged(fault(not_sent_or_cut)), Err(ProbeError::Http(_))));
        }
    }

    #[test]
    fn long_output() {
        let answer = judged(response(302, "ä".repeat(5120).as_bytes())).unwrap();
        assert!(
            answer.output.len() <= LONGEST
                && answer.output.len() > LONGEST - 2
                && answer.output.ends_with('ä')
        );
        let garbage = judged(response(200, &[0xff; LONGEST])).unwrap();
        assert_eq!(garbage.output.len(), LONGEST / 3 * 3);
    }

    /// Thousands of such futures are made and moved a second. (With TLS in it, it took 22 kB.)
    #[test]
    fn a_probe_takes_little_memory() {
        let scheme = nodewarden_manifest::Scheme::Http;
        let asked = HttpGetProbe { scheme, host: None, port: 80, path: "/".into(), headers: Vec::new() };
        let size = size_of_val(&probe(&asked, None));
        assert!(size < 4_096, "{size} bytes");
    }

    #[tokio::test]
    async fn without_an_address() {
        let scheme = nodewarden_manifest::Scheme::Http;
        let asked = HttpGetProbe { scheme, host: None, port: 80, path: "/".into(), headers: Vec::new() };
        assert!(matches!(probe(&asked, None).await, Err(ProbeError::NoAddress)));
    }
}
