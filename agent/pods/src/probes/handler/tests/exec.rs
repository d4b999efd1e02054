use parking_lot::Mutex;
use std::collections::VecDeque;

use tonic::Status;

use super::*;
use crate::spec::{Exec, Executed};
use nodewarden_config::Endpoint;
use nodewarden_cri::{About, RuntimeError};

/// A runtime with scripted responses, one per call, that records the calls.
#[derive(Debug, Default)]
pub(super) struct Commands {
    answers: Mutex<VecDeque<Result<Executed, RuntimeError>>>,
    seen: Mutex<Vec<String>>,
    /// Whether it is reachable.
    there: bool,
}

impl Exec for Commands {
    async fn execute(
        &self,
        container: &str,
        command: &[String],
        limit: Option<Duration>,
    ) -> Result<Executed, RuntimeError> {
        self.seen.lock().push(format!("{container}: {command:?} {limit:?}"));
        self.answers.lock().pop_front().expect("an answer for each call")
    }
}

impl Runtime for Commands {
    async fn answers(&self) -> bool {
        self.there
    }
}

fn ended(exit_code: i32, output: &str) -> Result<Executed, RuntimeError> {
    Ok(Executed { exit_code, output: output.into() })
}

fn endpoint() -> Endpoint {
    Endpoint::parse("/run/test.sock").expect("an endpoint")
}

fn refused(status: Status) -> Result<Executed, RuntimeError> {
    let about = About("id".into());
    Err(RuntimeError::Call { call: "ExecSync", endpoint: endpoint(), about, status: Box::new(status) })
}

fn silence() -> Result<Executed, RuntimeError> {
    let (about, limit) = (About("id".into()), Duration::from_secs(121));
    Err(RuntimeError::TimedOut { call: "ExecSync", endpoint: endpoint(), about, limit })
}

/// The result of a run, and the number of calls to the runtime.
async fn probe<const N: usize>(
    there: bool,
    answers: [Result<Executed, RuntimeError>; N],
) -> (Result<Answer, String>, usize) {
    let runtime = Commands { answers: Mutex::new(answers.into()), there, ..Commands::default() };
    let handlers = Handlers { runtime };
    let command = ProbeHandler::Exec(vec!["a".into(), "b c".into()]);
    let done = handlers.probe(&target(None), &spec(command, Duration::from_secs(2))).await;
    let seen = handlers.runtime.seen.into_inner();
    assert!(seen.iter().all(|call| call == "id: [\"a\", \"b c\"] Some(2s)"), "{seen:?}");
    (done.map_err(|error| error.to_string()), seen.len())
}

#[tokio::test]
async fn the_exit_code_is_the_result_and_output_is_cut() {
    let success = answer(Outcome::Success, "fine\n");
    assert_eq!(probe(true, [ended(0, "fine\n")]).await, (Ok(success), 1));
    for code in [1, 126, 127, 137, 255, -1] {
        let failure = answer(Outcome::Failure, "no");
        assert_eq!(probe(true, [ended(code, "no")]).await, (Ok(failure), 1), "{code}");
    }
    let flood = "x".repeat(1 << 20);
    let cut = answer(Outcome::Failure, &flood[..LONGEST_OUTPUT]);
    assert_eq!(probe(true, [ended(1, &flood)]).await, (Ok(cut), 1));
}

/// A time-out reported by the runtime is a failure of the application and is not retried.
#[tokio::test]
async fn a_command_that_takes_too_long() {
    let late = || Ok(answer(Outcome::Failure, "command \"a b c\" timed out"));
    let status = || refused(Status::deadline_exceeded("timeout 2s exceeded"));
    assert_eq!(probe(true, [status()]).await, (late(), 1));
    assert_eq!(probe(false, [status()]).await, (late(), 1));
    // It is not the runtime's fault either if it cannot kill a command.
    assert_eq!(probe(true, [silence()]).await, (late(), 1));
    let (error, calls) = probe(false, [silence()]).await;
    let error = error.unwrap_err();
    assert!(error.starts_with("exec \"a b c\": the runtime does not answer: "), "{error}");
    assert_eq!(calls, 1, "who is silent is not asked again");
}

#[tokio::test]
async fn three_tries() {
    let error = || refused(Status::unknown("no such program"));
    let (done, calls) = probe(true, [error(), error(), error()]).await;
    assert_eq!(calls, 3);
    let expected = "exec \"a b c\": unix:///run/test.sock: ExecSync id: no such program (Unknown error)";
    assert_eq!(done.unwrap_err(), expected);
    let success = answer(Outcome::Success, "");
    assert_eq!(probe(true, [error(), error(), ended(0, "")]).await, (Ok(success), 3));
    // A failure of the application ends the attempts as well.
    let failure = answer(Outcome::Failure, "");
    assert_eq!(probe(true, [error(), ended(1, "")]).await, (Ok(failure), 2));
    // Without an address there is no second attempt.
    let handlers = Handlers { runtime: Commands::default() };
    for handler in
        [ProbeHandler::Grpc { port: 1, service: "".into() }, ProbeHandler::TcpSocket { host: None, port: 1 }]
    {
        let done = handlers.probe(&target(None), &spec(handler, Duration::from_secs(2))).await;
        assert!(matches!(done, Err(ProbeError::NoAddress)), "{done:?}");
    }
}
