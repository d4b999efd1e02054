//! `nodewarden pods`: the pods that the agent runs.

mod describe;
pub(super) mod list;
mod page;
mod probe;
pub(super) mod reason;
mod used;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{ListPodsRequest, ListPodsResponse, Pod, WatchEventsRequest};
use tonic::transport::Channel;

use super::output::{print, reader_is_gone};
use super::{CliError, SocketArg, client, event_line};
use nodewarden_api::grpc::event;

/// Time between the two readings from which CPU usage is computed.
const BETWEEN: Duration = Duration::from_millis(500);
/// The same for `--watch`, where changes are to be shown soon.
const SHORTLY: Duration = Duration::from_millis(30);

/// Print the pods that the agent runs, with state, restarts and resource usage
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
READY counts sidecars and containers; REASON is NotReady if one of them runs and is not ready. CPU is the usage of the
last half second in cores; MEMORY is the working set. A dash means unknown.

Examples:
  nodewarden pods                                  all of them
  nodewarden pods --namespace shop --output wide   with address, uid and manifest
  nodewarden pods --watch                          then each pod again when it changes
  nodewarden pods --output yaml                    as kubectl writes them
  nodewarden pods --output json | jq '.items[].status.phase'
  nodewarden pods describe shop/cart               details of one pod, with its events"
)]
pub struct PodsArgs {
    #[command(subcommand)]
    command: Option<PodsCommand>,
    #[command(flatten)]
    socket: SocketArg,
    /// Print only pods of this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// More columns (wide), or v1 pods with their status (json, yaml)
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Keep running and print each pod again when it changes
    #[arg(long, short)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Wide,
    Json,
    Yaml,
}

#[derive(Debug, Subcommand)]
enum PodsCommand {
    Describe(DescribeArgs),
}

/// Print the details of one pod: containers and how they ended, limits and usage, probes, events
#[derive(Debug, Args)]
#[command(after_help = "\
Probes are described as kubectl does it, with their result, their last run with its output, and when they run next or
what they wait for. Events are those of the agent's journal, newest last.

Examples:
  nodewarden pods describe cart
  nodewarden pods describe shop/cart
  nodewarden pods describe 8c5e1f2a9b3d4c6e8f0a1b2c3d4e5f60   by uid")]
struct DescribeArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Name, namespace/name or uid
    pod: String,
}

pub async fn run(args: PodsArgs) -> Result<(), CliError> {
    match args.command {
        Some(PodsCommand::Describe(args)) => describe(args).await,
        None => list(args).await,
    }
}

async fn list(args: PodsArgs) -> Result<(), CliError> {
    let channel = client::channel(&args.socket.socket).await?;
    let request = ListPodsRequest {
        namespace: args.namespace.unwrap_or_default(),
        pod: String::new(),
        kubernetes: matches!(args.output, Some(Output::Json | Output::Yaml)),
        probes: false,
    };
    let wide = args.output == Some(Output::Wide);
    if let Some(written) = match args.output {
        Some(Output::Json) => Some(list::json as fn(&ListPodsResponse) -> String),
        Some(Output::Yaml) => Some(list::yaml as fn(&ListPodsResponse) -> String),
        _ => None,
    } {
        return Ok(print(&written(&ask(&channel, &request).await?))?);
    }
    let (before, mut now) = twice(&channel, &request, BETWEEN).await?;
    print(&list::text(&before, &now, wide, Timestamp::now()))?;
    while args.watch && !reader_is_gone() {
        tokio::time::sleep(BETWEEN).await;
        let next = ask(&channel, &request).await?;
        print(&list::changed(&now, &next, wide, Timestamp::now()))?;
        now = next;
    }
    Ok(())
}

async fn describe(args: DescribeArgs) -> Result<(), CliError> {
    let channel = client::channel(&args.socket.socket).await?;
    let request = ListPodsRequest { pod: args.pod.clone(), probes: true, ..ListPodsRequest::default() };
    let (before, now) = twice(&channel, &request, SHORTLY).await?;
    if now.pods.is_empty() {
        return Err(CliError::NoPod { pod: args.pod });
    }
    for (index, pod) in now.pods.iter().enumerate() {
        if index > 0 {
            print("\n")?;
        }
        let events = events(&channel, pod).await?;
        let old = before.pods.iter().find(|old| old.uid == pod.uid);
        print(&describe::text(old, pod, &events, Timestamp::now()))?;
    }
    Ok(())
}

/// Takes two readings, from which rates are computed.
async fn twice(
    channel: &Channel,
    request: &ListPodsRequest,
    between: Duration,
) -> Result<(ListPodsResponse, ListPodsResponse), CliError> {
    let before = ask(channel, request).await?;
    if !before.pods.is_empty() {
        tokio::time::sleep(between).await;
        let now = ask(channel, request).await?;
        return Ok((before, now));
    }
    Ok((before.clone(), before))
}

async fn ask(channel: &Channel, request: &ListPodsRequest) -> Result<ListPodsResponse, CliError> {
    let answer = client::pods(channel.clone()).list(request.clone()).await;
    Ok(answer.map_err(CliError::call("Pods.List"))?.into_inner())
}

/// The journal's events of a pod as lines, newest last.
async fn events(channel: &Channel, pod: &Pod) -> Result<Vec<String>, CliError> {
    let request =
        WatchEventsRequest { pod: pod.uid.clone(), no_follow: true, ..WatchEventsRequest::default() };
    let failed = || CliError::call("WatchEvents");
    let mut stream =
        client::service(channel.clone()).watch_events(request).await.map_err(failed())?.into_inner();
    let mut lines = Vec::new();
    while let Some(message) = stream.message().await.map_err(failed())? {
        // An event of a newer agent whose type is unknown here is skipped.
        if let Some(Ok(event)) = message.event.map(event::from_proto) {
            lines.push(event_line::line(&event));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;
