//! `nodewarden logs`: prints the output of a container.

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

/// Print the logs of a container of a managed pod
#[derive(Debug, Args)]
#[command(after_help = "\
Standard output and standard error of the container are both printed on standard
output, in the order of writing. Rotated files are read too, unless they are
compressed. --follow ends when the container ends.

Examples:
  nodewarden logs shop/cart                       the whole log of the pod's first container
  nodewarden logs -f --tail 20 cart               its last 20 lines, then new ones
  nodewarden logs -c setup --timestamps cart      of another container, each line with its time
  nodewarden logs --previous cart                 the run before the last restart: why did it crash?
  nodewarden logs --since 10m cart | grep error")]
pub struct LogsArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Continue with new lines as they are written
    #[arg(long, short)]
    follow: bool,
    /// Only the last N lines; -1 for all
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..))]
    tail: i64,
    /// Only lines since then: a duration before now (10m, 1h30m, 2d) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = |t: &str| since::parse(t, Timestamp::now()))]
    since: Option<Timestamp>,
    /// Logs of the container's previous run, before its last restart
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Prefix each line with the time at which it was written
    #[arg(long)]
    timestamps: bool,
    /// Maximum number of bytes
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
        // -1 means all lines.
        tail_lines: u64::try_from(args.tail).ok(),
        since: args.since.map(time::from_timestamp),
        timestamps: args.timestamps,
        limit_bytes: args.limit_bytes,
    };
    let refused = target::refused(&target);
    let mut client = target.connect().await?;
    let mut stream = client.logs(request).await.map_err(&refused)?.into_inner();
    // A closed pipe is noticed even if nothing is written.
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
