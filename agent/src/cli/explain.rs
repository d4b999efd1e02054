//! `nodewarden explain`: what was decided under pressure, and why.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{ListDecisionsRequest, ListDecisionsResponse, ListPodsRequest, Pod};
use serde_json::{Value, json};

use super::decision::{self, Detail};
use super::events::Output;
use super::format::printable;
use super::output::print;
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::pressure::convert;
use nodewarden_model::Decision;

/// Decisions in a text for people, if nobody says how many.
const LIMIT: u32 = 3;

/// Explain what was decided under pressure: evictions, preemptions, and what had to make way for whom
#[derive(Debug, Args)]
#[command(after_help = "\
Of each decision, newest first: what woke it; every signal with what was read and
its threshold; the pods in the order in which they would have gone, with what
they used and requested of what was short; what was done, when after the wake
and for how long. OVER is the use above the request, by which pods are ranked
first. Pods at the end of the order never go: they are critical.

With POD, those decisions in which it had to go; --considered adds those in which
it was only among the candidates. The agent keeps the last 256 decisions, also
over its restarts. In mode observe nothing is done, and each says what would have
been.

Examples:
  nodewarden explain node                  the last three decisions
  nodewarden explain shop/cart             why it had to go, or why it waits
  nodewarden explain shop/cart --considered --limit 0
  nodewarden explain node --output json | jq '.[] | {number, time, outcome}'
  nodewarden simulate --signal memory.available=4Gi    what would happen now")]
pub struct ExplainArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// `node` for all decisions, or a pod: its name, namespace/name or uid
    #[arg(value_name = "POD|node")]
    subject: String,
    /// Of a pod: also decisions in which it did not have to go
    #[arg(long)]
    considered: bool,
    /// At most so many decisions, 0 for all [default: 3, all with --output json]
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u32>,
    /// Every candidate, also those far from having to go
    #[arg(long)]
    all: bool,
    /// Text for people or a JSON list of the decisions for programs
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: ExplainArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let refused = client::refused(socket.clone());
    let channel = client::channel(&socket).await?;
    let pod = if args.subject == "node" { String::new() } else { args.subject };
    let limit = args.limit.unwrap_or(match args.output {
        Output::Text => LIMIT,
        Output::Json => 0,
    });
    let request = ListDecisionsRequest { pod: pod.clone(), considered: args.considered, limit };
    let answer =
        client::pressure(channel.clone()).list_decisions(request).await.map_err(&refused)?.into_inner();
    let pods = match pod.is_empty() {
        true => Vec::new(),
        false => {
            let request = ListPodsRequest { pod: pod.clone(), ..ListPodsRequest::default() };
            client::pods(channel).list(request).await.map_err(&refused)?.into_inner().pods
        }
    };
    let told = Told::new(pod, args.considered, answer, pods);
    let text = match args.output {
        Output::Text => told.text(args.all, Timestamp::now()),
        Output::Json => format!("{}\n", told.json()),
    };
    Ok(print(&text)?)
}

/// What is told. Pure.
struct Told {
    /// Empty: the node.
    pod: String,
    with_considered: bool,
    decisions: Vec<Decision>,
    total: u32,
    considered: u32,
    /// What the agent runs of that name.
    pods: Vec<Pod>,
}

impl Told {
    fn new(pod: String, with_considered: bool, answer: ListDecisionsResponse, pods: Vec<Pod>) -> Self {
        Self {
            pod,
            with_considered,
            decisions: answer.decisions.into_iter().filter_map(convert::decided).collect(),
            total: answer.total,
            considered: answer.considered,
            pods,
        }
    }

    fn text(&self, all: bool, now: Timestamp) -> String {
        let mut parts = Vec::new();
        if !self.pods.is_empty() {
            parts.push(self.pods.iter().map(state).collect());
        }
        let detail = Detail { all, pod: Some(self.pod.as_str()).filter(|pod| !pod.is_empty()) };
        parts.extend(self.decisions.iter().map(|own| decision::text(own, detail, now)));
        let mut end = String::new();
        let older = (self.total as usize).saturating_sub(self.decisions.len());
        let pod = printable(&self.pod);
        // Writing to a String cannot fail.
        let _ = match (self.decisions.is_empty(), pod.is_empty()) {
            _ if older > 0 => writeln!(end, "{older} older: --limit 0 shows all"),
            (true, true) => writeln!(end, "Nothing was decided yet: the node was not under pressure"),
            (true, false) if self.considered == 0 => writeln!(end, "Nothing was decided about {pod}"),
            (true, false) => writeln!(end, "{pod} did not have to go in any decision that is kept"),
            (false, _) => Ok(()),
        };
        if self.considered > 0 && !self.with_considered {
            let _ = writeln!(
                end,
                "{pod} was among the candidates of {} and stayed: --considered shows them",
                decisions(self.considered)
            );
        }
        if !end.is_empty() {
            parts.push(end);
        }
        parts.join("\n")
    }

    /// The decisions alone, so that programs read one list whoever is asked about.
    fn json(&self) -> Value {
        json!(self.decisions)
    }
}

/// How a pod stands now, in a line.
fn state(own: &Pod) -> String {
    let reason = match own.reason.as_str() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    let message = match own.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!("{}\n", printable(&format!("{}/{} is {}{reason}{message}", own.namespace, own.name, own.phase)))
}

fn decisions(n: u32) -> String {
    format!("{n} decision{}", if n == 1 { "" } else { "s" })
}
