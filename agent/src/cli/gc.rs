//! `nodewarden gc`: removes unused images and dead containers now, or prints the plan.

mod progress;

use std::collections::HashMap;
use std::io::Write;

use clap::Args;
use nodewarden_proto::nodewarden::v1::collect_garbage_response::Message;
use nodewarden_proto::nodewarden::v1::{CollectGarbageRequest, ListImagesRequest};

use super::events::Output;
use super::format::printable;
use super::output::stdout;
use super::{CliError, SocketArg, client};
use progress::Progress;

/// Remove the dead containers, logs and unused images that are due
#[derive(Debug, Args)]
#[command(after_help = "\
Due are dead containers beyond the number that is kept, sandboxes without
containers, and logs of removed containers and pods; images unused for longer
than imageMaximumGCAge; and, if more than imageGCHighThresholdPercent of the
images' file system is in use, unused images until usage falls to
imageGCLowThresholdPercent. Nothing that is in use is removed. A plan adds up the
image sizes reported by the runtime; a collection measures the file system after
each image.

The agent finishes the collection even if this program is interrupted. Exit
status 1: a removal failed, or not enough could be freed.

Examples:
  nodewarden gc --dry-run                what would be removed
  nodewarden gc                          remove it and print each step
  nodewarden gc --output json | jq 'select(.error and .error != \"\")'")]
pub struct GcArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Only print the plan
    #[arg(long)]
    dry_run: bool,
    /// One line of text or one JSON object per step, and the outcome last
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: GcArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let refused = client::refused(socket.clone());
    let mut client = client::garbage(client::channel(&socket).await?);
    // The steps contain neither the sizes of images nor the number of bytes wanted.
    let known = client.list_images(ListImagesRequest {}).await.map_err(&refused)?.into_inner();
    let sizes: HashMap<_, _> = known.images.into_iter().map(|own| (own.id, own.size_bytes)).collect();
    if !known.problem.is_empty() {
        eprintln!("nodewarden: {}", printable(&known.problem));
    }
    let mut progress = Progress::new(sizes, known.wanted_bytes, args.dry_run);
    let request = CollectGarbageRequest { dry_run: args.dry_run };
    let mut stream = client.collect_garbage(request).await.map_err(&refused)?.into_inner();
    while let Some(answer) = stream.message().await.map_err(&refused)? {
        match answer.message {
            Some(Message::Step(step)) => print(&match args.output {
                Output::Text => progress.step(&step),
                Output::Json => {
                    progress.count(&step);
                    progress::step_json(&step).to_string()
                }
            })?,
            Some(Message::Outcome(outcome)) => {
                print(&match args.output {
                    Output::Text => progress.summary(&outcome),
                    Output::Json => progress::outcome_json(&outcome).to_string(),
                })?;
                let problems = progress.problems(&outcome);
                return if problems.is_empty() { Ok(()) } else { Err(CliError::Collection { problems }) };
            }
            None => {}
        }
    }
    Err(CliError::Stopped { socket })
}

/// Writes a line and flushes, so that each step is shown when it is done.
fn print(line: &str) -> Result<(), CliError> {
    let mut out = stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
