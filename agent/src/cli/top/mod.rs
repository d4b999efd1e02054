//! `nodewarden top`: resource usage, live on a terminal or as plain text to a pipe.

mod columns;
mod cursor;
mod draw;
#[cfg(test)]
mod example;
mod filter;
mod header;
mod history;
mod keys;
mod lines;
mod news;
mod page;
#[cfg(test)]
mod picture;
mod plain;
pub mod rates;
mod screen;
mod shown;
mod sort;
mod spark;
mod state;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use nodewarden_proto::nodewarden::v1::nodewarden_client::NodewardenClient;
use nodewarden_proto::nodewarden::v1::{ListCgroupsRequest, ListCgroupsResponse};
use tonic::transport::Channel;

use super::output::{is_terminal, stdout};
use super::{CliError, SocketArg, client};
use sort::{Show, Sort};
use state::State;

/// Show the resource usage of pods, containers or cgroups, live
#[derive(Debug, Args)]
#[command(after_help = "\
CPU is in cores, WAIT is the time tasks were ready but had no CPU (in percent of real time, above 100 when
several waited), P99WAIT the 99th percentile of one such wait, THROTT the share of periods throttled by the
CPU limit, MEM the working set. The figures of a cgroup include its descendants. A dash means unknown. HIST has
a bar for each of the last readings, the newest at the right: of memory if the rows are sorted by it, then a full
bar is the limit; of waits if they are sorted by these; else of CPU. There a full bar is the highest that is shown.

Keys: c m w i n p a   sort by cpu, memory, wait, io, net, pids, name
      Tab             pods, containers, all cgroups
      /               filter by words in name or path, Enter keeps it, Esc clears it
      arrows, PgUp/Dn choose a row
      Enter           page of its pod: history, waits, pressure, limits, containers with probes, events
      Esc, q, left    back from the page
      + -             slower, faster
      ?               all keys
      q               quit

To a pipe, plain text is written once, or --iterations times.

Examples:
  nodewarden top
  nodewarden top --show all --sort memory
  nodewarden top --iterations 10 --interval 5 > usage.txt")]
pub struct TopArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Seconds between two readings
    #[arg(long, short, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    interval: f64,
    /// Order of the rows, largest first
    #[arg(long, value_enum, default_value_t = Sort::Cpu)]
    sort: Sort,
    /// What to show [default: pods if there are any, else all]
    #[arg(long, value_enum)]
    show: Option<Show>,
    /// Write plain text this many times, then end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|s| (0.25..=60.0).contains(s))
        .ok_or_else(|| "expected seconds from 0.25 to 60".to_owned())
}

pub async fn run(args: TopArgs) -> Result<(), CliError> {
    let channel = client::channel(&args.socket.socket).await?;
    let mut client = client::service(channel.clone());
    let interval = Duration::from_secs_f64(args.interval);
    let first = list(&mut client).await?;
    let any_pod = first.cgroups.iter().any(|c| c.kind == "pod" && c.removed.is_none());
    let show = args.show.unwrap_or(if any_pod { Show::Pods } else { Show::All });
    let state = State::new(args.sort, show, interval);
    match args.iterations {
        None if is_terminal() => screen::run(channel, first, state).await,
        iterations => print(client, first, &state, iterations.unwrap_or(1)).await,
    }
}

async fn list(client: &mut NodewardenClient<Channel>) -> Result<ListCgroupsResponse, CliError> {
    let answer = client.list_cgroups(ListCgroupsRequest::default()).await;
    Ok(answer.map_err(CliError::call("ListCgroups"))?.into_inner())
}

/// Prints plain text; each table shows rates since the previous one.
async fn print(
    mut client: NodewardenClient<Channel>,
    mut before: ListCgroupsResponse,
    state: &State,
    iterations: u64,
) -> Result<(), CliError> {
    for i in 0..iterations {
        tokio::time::sleep(state.interval).await;
        let now = list(&mut client).await?;
        let rows = rates::rows(Some(&before), &now);
        let mut out = stdout();
        if i > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", header::node(&now, &rows))?;
        out.write_all(plain::text(&state.pick(&rows)).as_bytes())?;
        out.flush()?;
        before = now;
    }
    Ok(())
}
