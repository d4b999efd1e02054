//! `nodewarden gc`: a collection of images and dead containers now, or its plan.

mod told;

use std::collections::HashMap;
use std::io::Write;

use clap::Args;
use nodewarden_proto::nodewarden::v1::collect_garbage_response::Message;
use nodewarden_proto::nodewarden::v1::{CollectGarbageRequest, ListImagesRequest};

use super::events::Output;
use super::format::printable;
use super::output::stdout;
use super::{CliError, SocketArg, client};
use told::Told;

/// Remove dead containers, their logs and unused images that are due now
#[derive(Debug, Args)]
#[command(after_help = "\
What is due: dead containers beyond those that are kept, sandboxes without
containers, logs of what is gone; images unused for longer than
imageMaximumGCAge; and when imageGCHighThresholdPercent of their file system are
in use, unused ones until imageGCLowThresholdPercent are. Nothing in use goes. A
plan goes by the sizes that the runtime tells; a collection looks at the file
system after each image.

The collection goes on when this program is interrupted. Exit status 1: a
removal failed, or not enough could be freed.

Examples:
  nodewarden gc --dry-run                what would go
  nodewarden gc                          remove it, and tell each step
  nodewarden gc --output json | jq 'select(.error and .error != \"\")'")]
pub struct GcArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Only print the plan
    #[arg(long)]
    dry_run: bool,
    /// A line for people or a JSON object for programs, one a step, and the outcome last
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: GcArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let refused = client::refused(socket.clone());
    let mut client = client::garbage(client::channel(&socket).await?);
    // What a step does not tell: sizes, and how much is wanted.
    let known = client.list_images(ListImagesRequest {}).await.map_err(&refused)?.into_inner();
    let sizes: HashMap<_, _> = known.images.into_iter().map(|own| (own.id, own.size_bytes)).collect();
    if !known.problem.is_empty() {
        eprintln!("nodewarden: {}", printable(&known.problem));
    }
    let mut told = Told::new(sizes, known.wanted_bytes, args.dry_run);
    let request = CollectGarbageRequest { dry_run: args.dry_run };
    let mut stream = client.collect_garbage(request).await.map_err(&refused)?.into_inner();
    while let Some(answer) = stream.message().await.map_err(&refused)? {
        match answer.message {
            Some(Message::Step(step)) => print(&match args.output {
                Output::Text => told.step(&step),
                Output::Json => {
                    told.count(&step);
                    told::step_json(&step).to_string()
                }
            })?,
            Some(Message::Outcome(outcome)) => {
                print(&match args.output {
                    Output::Text => told.summary(&outcome),
                    Output::Json => told::outcome_json(&outcome).to_string(),
                })?;
                let problems = told.problems(&outcome);
                return if problems.is_empty() { Ok(()) } else { Err(CliError::Collection { problems }) };
            }
            None => {}
        }
    }
    Err(CliError::Stopped { socket })
}

/// Writes a line and flushes: each step is shown as it is done.
fn print(line: &str) -> Result<(), CliError> {
    let mut out = stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
