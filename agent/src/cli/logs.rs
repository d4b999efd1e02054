//! `nodewarden logs`: what a container wrote and writes.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::LogsRequest;
use nodewarden_proto::nodewarden::v1::logs_response::Message;
use tokio::time::MissedTickBehavior;

use super::output::{reader_is_gone, stdout};
use super::target::{self, TargetArgs};
use super::{CliError, since};
use nodewarden_api::grpc::time;

/// Print what a container of a managed pod has written
#[derive(Debug, Args)]
#[command(after_help = "\
Both of the container's streams are printed on standard output, in the order in
which they were written. Files that were rotated away are read too, unless they
were compressed. --follow ends with the container.

Examples:
  nodewarden logs shop/cart                       all that the pod's first container has written
  nodewarden logs -f --tail 20 cart               its last 20 lines, and what comes
  nodewarden logs -c setup --timestamps cart      of another container, each line with its time
  nodewarden logs --previous cart                 of the run before: why did it crash?
  nodewarden logs --since 10m cart | grep error")]
pub struct LogsArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Go on with what is written from now on
    #[arg(long, short)]
    follow: bool,
    /// Only the last N lines; -1 for all
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..))]
    tail: i64,
    /// Only lines since then: a span before now (10m, 1h30m, 2d) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = |t: &str| since::parse(t, Timestamp::now()))]
    since: Option<Timestamp>,
    /// The container's run before the newest one
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Begin each line with the time at which it was written
    #[arg(long)]
    timestamps: bool,
    /// No more bytes than so
    #[arg(long, value_name = "BYTES")]
    limit_bytes: Option<u64>,
}

pub async fn run(args: LogsArgs) -> Result<(), CliError> {
    let target = args.target;
    let request = LogsRequest {
        pod: target.pod(),
        container: target.container(),
        previous: args.previous,
        follow: args.follow,
        // -1: all of them.
        tail_lines: u64::try_from(args.tail).ok(),
        since: args.since.map(time::from_timestamp),
        timestamps: args.timestamps,
        limit_bytes: args.limit_bytes,
    };
    let refused = target::refused(&target);
    let mut client = target.connect().await?;
    let mut stream = client.logs(request).await.map_err(&refused)?.into_inner();
    // A reader that went away is noticed also when nothing is written.
    let mut check = tokio::time::interval(Duration::from_secs(1));
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let answer = tokio::select! {
            answer = stream.message() => answer.map_err(&refused)?,
            _ = check.tick() => if reader_is_gone() { return Ok(()) } else { continue },
        };
        let Some(answer) = answer else { return Ok(()) };
        match answer.message {
            Some(Message::Chosen(chosen)) => {
                if let Some(line) = target::defaulted(&chosen) {
                    eprintln!("{line}");
                }
            }
            Some(Message::Stdout(bytes) | Message::Stderr(bytes)) => {
                let mut out = stdout();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            None => {}
        }
    }
}
