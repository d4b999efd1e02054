//! `nodewarden explain`: prints eviction and preemption decisions and what led to them.

mod devices;
mod limits;
mod neighbours;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{
    ListCgroupsRequest, ListDecisionsRequest, ListDecisionsResponse, ListDevicesRequest, ListPodsRequest, Pod,
};
use serde_json::{Value, json};

use super::decision::{self, Detail};
use super::events::Output;
use super::format::printable;
use super::output::print;
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::pressure::convert;
use nodewarden_model::Decision;

/// Number of decisions in text output without `--limit`.
const LIMIT: u32 = 3;

/// Explain evictions and preemptions: why each was decided, and which pod was chosen
#[derive(Debug, Args)]
#[command(after_help = "\
Each decision, newest first, shows what triggered it; every signal with its
reading and threshold; the pods in the order of eviction, with their usage and
request of the resource that was short; and every step with its time after the
trigger and its duration. OVER is the usage above the request, which the ranking
compares first. Pods without a number are exempt because they are critical.

With POD, the pod's devices come first, with those that it has lost, and its
accesses to devices that it was not given; then the last limits of it that
another program changed, with its process, and whom its containers waited for:
a CPU, memory or a disk (mode augment). Only decisions that chose this pod are shown;
--considered adds those in which it was a candidate and was not chosen. The
agent keeps the last 256 decisions, also across restarts. In mode observe no pod
is evicted; a decision then shows what mode manage would have done.

Examples:
  nodewarden explain node                  the last three decisions
  nodewarden explain shop/cart             why it was evicted, or why it waits
  nodewarden explain shop/cart --considered --limit 0
  nodewarden explain node --output json | jq '.[] | {number, time, outcome}'
  nodewarden simulate --signal memory.available=4Gi    what would happen now")]
pub struct ExplainArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// `node` for all decisions, or one pod: its name, namespace/name or uid
    #[arg(value_name = "POD|node")]
    subject: String,
    /// With a pod: also decisions in which it was a candidate but was not chosen
    #[arg(long)]
    considered: bool,
    /// Maximum number of decisions, 0 for all [default: 3, all with --output json]
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u32>,
    /// Show every candidate, not only those next in order
    #[arg(long)]
    all: bool,
    /// Text, or a JSON list of the decisions
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
    let mut explanation = Explanation::new(pod.clone(), args.considered, answer);
    if !pod.is_empty() {
        let request = ListPodsRequest { pod: pod.clone(), ..ListPodsRequest::default() };
        let pods = client::pods(channel.clone()).list(request).await.map_err(&refused)?;
        explanation.pods = pods.into_inner().pods;
        let mut service = client::service(channel.clone());
        let devices = service.list_devices(ListDevicesRequest {}).await.map_err(&refused)?;
        explanation.devices = devices::of_pod(&pod, devices.get_ref());
        explanation.limits = limits::of_pod(&pod, channel).await?;
        let request = ListCgroupsRequest { pods_only: true, ..ListCgroupsRequest::default() };
        let cgroups = service.list_cgroups(request).await.map_err(&refused)?;
        explanation.neighbours = neighbours::of_pod(&pod, cgroups.get_ref());
    }
    let text = match args.output {
        Output::Text => explanation.text(args.all, Timestamp::now()),
        Output::Json => format!("{}\n", explanation.json()),
    };
    Ok(print(&text)?)
}

/// The content of the explanation: the decisions and the pods concerned. Pure.
struct Explanation {
    /// Empty for the whole node.
    pod: String,
    with_considered: bool,
    decisions: Vec<Decision>,
    total: u32,
    considered: u32,
    /// The pods of that name that the agent runs.
    pods: Vec<Pod>,
    /// What is to be said of its devices.
    devices: String,
    /// Which of its limits were changed by others.
    limits: String,
    /// Whom its containers waited for.
    neighbours: String,
}

impl Explanation {
    fn new(pod: String, with_considered: bool, answer: ListDecisionsResponse) -> Self {
        Self {
            pod,
            with_considered,
            decisions: answer.decisions.into_iter().filter_map(convert::decided).collect(),
            total: answer.total,
            considered: answer.considered,
            pods: Vec::new(),
            devices: String::new(),
            limits: String::new(),
            neighbours: String::new(),
        }
    }

    fn text(&self, all: bool, now: Timestamp) -> String {
        let mut parts = Vec::new();
        if !self.pods.is_empty() {
            parts.push(self.pods.iter().map(state).collect());
        }
        let of_pod = [&self.devices, &self.limits, &self.neighbours].into_iter();
        parts.extend(of_pod.filter(|text| !text.is_empty()).cloned());
        let detail = Detail { all, pod: Some(self.pod.as_str()).filter(|pod| !pod.is_empty()) };
        parts.extend(self.decisions.iter().map(|own| decision::text(own, detail, now)));
        let mut end = String::new();
        let older = (self.total as usize).saturating_sub(self.decisions.len());
        let pod = printable(&self.pod);
        // Writing to a String cannot fail.
        let _ = match (self.decisions.is_empty(), pod.is_empty()) {
            _ if older > 0 => writeln!(end, "{older} older decisions: --limit 0 shows all"),
            (true, true) => writeln!(end, "No decisions yet: the node was not under pressure"),
            (true, false) if self.considered == 0 => writeln!(end, "No decisions about {pod}"),
            (true, false) => writeln!(end, "{pod} was chosen in none of the recorded decisions"),
            (false, _) => Ok(()),
        };
        if self.considered > 0 && !self.with_considered {
            let _ = writeln!(
                end,
                "{pod} was a candidate in {} and was not chosen: --considered shows them",
                decisions(self.considered)
            );
        }
        if !end.is_empty() {
            parts.push(end);
        }
        parts.join("\n")
    }

    /// Only the list of decisions, so that its form does not depend on the subject.
    fn json(&self) -> Value {
        json!(self.decisions)
    }
}

/// The state of a pod in one line.
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
