//! `nodewarden events`: prints events of the journal and new ones as they happen.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{WatchEventsRequest, WatchEventsResponse};
use tokio::time::MissedTickBehavior;

use super::output::{reader_is_gone, stdout};
use super::{CliError, SocketArg, client, event_line, since};
use nodewarden_api::grpc::{event, time};
use nodewarden_model::{Event, EventType};

/// Print events: out-of-memory kills, crashes, cgroups created and removed
#[derive(Debug, Args)]
#[command(after_help = "\
Without --since only new events are shown. With --no-follow and without --since, the whole journal is shown.

Examples:
  nodewarden events                                   follow everything
  nodewarden events --since 1h --type oom,exit        what ended in the last hour, then follow
  nodewarden events --since 2026-11-21T04:00:00Z --pod shop/cart --no-follow
  nodewarden events --no-follow --output json | jq 'select(.type == \"oom\") | .cgroup'")]
pub struct EventsArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Start with the events recorded since then: a duration before now (10m, 1h30m, 2d) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = |t: &str| since::parse(t, Timestamp::now()))]
    since: Option<Timestamp>,
    /// Only events of these types, separated by commas
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',',
          value_parser = EventType::ALL.map(EventType::name))]
    types: Vec<String>,
    /// Only events of this pod: its uid, name or namespace/name
    #[arg(long)]
    pod: Option<String>,
    /// End after the recorded events
    #[arg(long)]
    no_follow: bool,
    /// One line of text or one JSON object per event
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

pub async fn run(args: EventsArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let request = WatchEventsRequest {
        since: args.since.map(time::from_timestamp),
        types: args.types,
        pod: args.pod.unwrap_or_default(),
        no_follow: args.no_follow,
    };
    let mut client = client::connect(&socket).await?;
    let mut stream = client.watch_events(request).await.map_err(CliError::call("WatchEvents"))?.into_inner();
    // A closed pipe is noticed even if no event occurs.
    let mut check = tokio::time::interval(Duration::from_secs(1));
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = stream.message() => match message.map_err(CliError::call("WatchEvents"))? {
                Some(message) => print(message, args.output)?,
                None if args.no_follow => return Ok(()),
                None => return Err(CliError::Stopped { socket }),
            },
            _ = check.tick() => if reader_is_gone() { return Ok(()) },
        }
    }
}

/// Writes one event and flushes, so that a reader of the pipe gets it at once.
fn print(message: WatchEventsResponse, output: Output) -> Result<(), CliError> {
    let Some(message) = message.event else { return Ok(()) };
    match event::from_proto(message) {
        Ok(event) => {
            let mut out = stdout();
            writeln!(out, "{}", text(&event, output))?;
            out.flush()?;
        }
        // An event type of a newer agent: report it and continue.
        Err(e) => eprintln!("nodewarden: {e}"),
    }
    Ok(())
}

fn text(event: &Event, output: Output) -> String {
    match output {
        Output::Text => event_line::line(event),
        // Serializing fails only for maps with non-string keys, and an event has none.
        Output::Json => serde_json::to_string(event).unwrap_or_default(),
    }
}
