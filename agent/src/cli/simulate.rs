//! `nodewarden simulate`: what would happen now with another threshold, without doing it.

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

/// Show what would happen now if a signal had another threshold; nothing is done
#[derive(Debug, Args)]
#[command(after_help = "\
The agent reads the node, takes the threshold as a hard one in place of the
configured, and tells which pods would go and in which order. So a threshold can
be tried before it is set, and the order of pods seen before the node is short:
with a threshold above what is available now, somebody would have to go.

Signals: memory.available, allocatableMemory.available, nodefs.available,
nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available,
containerfs.inodesFree, pid.available.

Examples:
  nodewarden simulate --signal memory.available=80Mi      who would go below 80Mi, if there is less now
  nodewarden simulate --signal memory.available=100Gi     who would be the first, whatever is free
  nodewarden simulate --signal 'nodefs.available<15%'     as the kubelet's flag has it
  nodewarden simulate --signal pid.available=90% --output json | jq -r '.candidates[] | select(.chosen) | .name'
  nodewarden explain node                                 what really was decided")]
pub struct SimulateArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The signal and its threshold: an amount, or a percentage of the capacity
    #[arg(long, value_name = "SIGNAL=THRESHOLD", value_parser = parse)]
    signal: (Signal, String),
    /// Every candidate, also those far from having to go
    #[arg(long)]
    all: bool,
    /// Text for people or one JSON object for programs
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

/// `memory.available=80Mi`, or with the kubelet's `<`. Whether the threshold can stand the agent knows.
fn parse(text: &str) -> Result<(Signal, String), String> {
    let (name, threshold) = text
        .split_once(['=', '<'])
        .ok_or("expected a signal and its threshold, like memory.available=80Mi")?;
    let signal = Signal::parse(name)
        .ok_or_else(|| format!("unknown signal {name:?}: there is {}", Signal::VARIANTS.join(", ")))?;
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
        for (text, told) in [
            ("memory.available", "expected a signal and its threshold"),
            ("memory.available=", "expected a threshold"),
            ("memory.free=1Gi", "unknown signal \"memory.free\": there is memory.available, nodefs"),
        ] {
            assert!(parse(text).unwrap_err().contains(told), "{text}");
        }
    }

    async fn simulated(node: Node, threshold: &str, output: Output) -> Result<(), CliError> {
        let running = Running::serving(node).await;
        let signal = (Signal::MemoryAvailable, threshold.to_owned());
        run(SimulateArgs { socket: SocketArg { socket: running.socket.clone() }, signal, all: false, output })
            .await
    }

    #[tokio::test]
    async fn what_the_agent_says_is_the_end() {
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
    fn as_a_decision_that_nobody_took() {
        use nodewarden_model::Decision;
        let own = (*nodewarden_model::fixture::decisions()[0]).clone();
        let own = Decision { number: 0, would: true, steps: Vec::new(), ..own };
        let told = text(&own, false);
        let lines: Vec<_> = told.lines().take(2).collect();
        assert_eq!(lines[0], "Simulated at 2023-11-14T22:14:30.000Z, nothing is done: eviction");
        assert!(told.contains("800Mi  would go\n"), "{told}");
    }
}
