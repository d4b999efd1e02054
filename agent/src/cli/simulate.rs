//! `nodewarden simulate`: which pods would be evicted now with another threshold; evicts nothing.

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::SimulateRequest;
use strum::VariantNames;

use super::decision::{self, Detail};
use super::events::Output;
use super::output::print;
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::pressure::convert;
use nodewarden_config::Signal;
use nodewarden_model::Decision;

/// Show which pods would be evicted now if a signal had another threshold; evicts nothing
#[derive(Debug, Args)]
#[command(after_help = "\
The agent reads the node, uses the threshold as a hard one in place of the
configured one, and reports which pods it would evict and in which order. This
tries a threshold before it is configured, and shows the order of eviction before
the node is short: with a threshold above what is available now, pods would be
evicted.

Signals: memory.available, allocatableMemory.available, nodefs.available,
nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available,
containerfs.inodesFree, pid.available.

Examples:
  nodewarden simulate --signal memory.available=80Mi      evictions below 80Mi, if less is available now
  nodewarden simulate --signal memory.available=100Gi     the first pod in order, however much is free
  nodewarden simulate --signal 'nodefs.available<15%'     in the notation of the kubelet's flag
  nodewarden simulate --signal pid.available=90% --output json | jq -r '.candidates[] | select(.chosen) | .name'
  nodewarden explain node                                 what really was decided")]
pub struct SimulateArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The signal and its threshold: a quantity, or a percentage of the capacity
    #[arg(long, value_name = "SIGNAL=THRESHOLD", value_parser = parse)]
    signal: (Signal, String),
    /// Show every candidate, not only those next in order
    #[arg(long)]
    all: bool,
    /// Text or one JSON object
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: SimulateArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let refused = client::refused(socket.clone());
    let mut client = client::pressure(client::channel(&socket).await?);
    let (signal, threshold) = args.signal;
    let request = SimulateRequest { signal: signal.name().to_owned(), threshold };
    let answer = client.simulate(request).await.map_err(&refused)?.into_inner();
    let Some(decision) = answer.decision.and_then(convert::decided) else {
        return Err(CliError::Stopped { socket });
    };
    let text = match args.output {
        Output::Text => text(&decision, args.all),
        Output::Json => format!("{}\n", serde_json::json!(decision)),
    };
    Ok(print(&text)?)
}

fn text(decision: &Decision, all: bool) -> String {
    decision::text(decision, Detail { all, pod: None }, Timestamp::now())
}

/// Parses `memory.available=80Mi`, or the kubelet's `memory.available<80Mi`. The agent validates the
/// threshold.
fn parse(text: &str) -> Result<(Signal, String), String> {
    let (name, threshold) = text
        .split_once(['=', '<'])
        .ok_or("expected a signal and its threshold, like memory.available=80Mi")?;
    let signal = Signal::parse(name)
        .ok_or_else(|| format!("unknown signal {name:?}: expected one of {}", Signal::VARIANTS.join(", ")))?;
    match threshold {
        "" => Err("expected a threshold like 80Mi or 5%".into()),
        threshold => Ok((signal, threshold.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_api::grpc::fixture::Running;
    use nodewarden_model::fixture::Node;

    #[test]
    fn signals_and_thresholds() {
        let memory = |threshold: &str| Ok((Signal::MemoryAvailable, threshold.to_owned()));
        assert_eq!(parse("memory.available=80Mi"), memory("80Mi"));
        assert_eq!(parse("memory.available<5%"), memory("5%"));
        for (text, message) in [
            ("memory.available", "expected a signal and its threshold"),
            ("memory.available=", "expected a threshold"),
            ("memory.free=1Gi", "unknown signal \"memory.free\": expected one of memory.available, nodefs"),
        ] {
            assert!(parse(text).unwrap_err().contains(message), "{text}");
        }
    }

    async fn simulated(node: Node, threshold: &str, output: Output) -> Result<(), CliError> {
        let running = Running::serving(node).await;
        let signal = (Signal::MemoryAvailable, threshold.to_owned());
        run(SimulateArgs { socket: SocketArg { socket: running.socket.clone() }, signal, all: false, output })
            .await
    }

    #[tokio::test]
    async fn an_error_of_the_agent_is_returned() {
        for output in [Output::Text, Output::Json] {
            simulated(Node::under_pressure(), "80Mi", output).await.unwrap();
        }
        let refused = simulated(Node::under_pressure(), "many", Output::Text).await.unwrap_err();
        assert_eq!(refused.exit_status(), 1);
        assert!(refused.to_string().starts_with("\"many\" is no threshold"), "{refused}");
        let refused = simulated(Node::default(), "80Mi", Output::Text).await.unwrap_err();
        assert!(refused.to_string().contains("does not watch this node"), "{refused}");
    }

    #[test]
    fn a_simulation_is_shown_as_a_decision() {
        use nodewarden_model::Decision;
        let own = (*nodewarden_model::fixture::decisions()[0]).clone();
        let own = Decision { number: 0, would: true, steps: Vec::new(), ..own };
        let shown = text(&own, false);
        let lines: Vec<_> = shown.lines().take(2).collect();
        assert_eq!(lines[0], "Simulated at 2023-11-14T22:14:30.000Z, nothing was done: eviction");
        assert!(shown.contains("800Mi  would be evicted\n"), "{shown}");
    }
}
