//! What tests of probes stand on: a stage whose pods have servers, and what servers and journal say of probes.

use std::time::SystemTime;

use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::{Value, json};

use super::manifest::Ports;
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::pods::stage::{SHORT_BACKOFF, Stage};
use crate::e2e::support::{eventually, since};
use crate::ensure;
use crate::fixture::{Agent, Containerd, Sample, ServerProgram, parse_samples};
use crate::harness::{Context, Failure};
use crate::serve::Noted;

/// Where the agent shows metrics of probes: with its own, or apart as the kubelet does.
const METRICS: [&str; 2] = ["/metrics", "/metrics/probes"];

/// A stage with servers.
pub struct Site<'c> {
    pub stage: Stage<'c>,
    pub program: ServerProgram,
    begun: SystemTime,
    own_network: bool,
}

/// An event of a container's probes in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub at: SystemTime,
    pub container: String,
    /// `Unhealthy`, `Healthy`, `ProbeWarning`, `ProbeError`, and those of other things that happen to containers.
    pub reason: String,
    pub message: String,
}

impl<'c> Site<'c> {
    /// With short back-offs and `section` as more lines of our own section.
    pub fn new(context: &'c Context, section: &str) -> Result<Self, Failure> {
        Ok(Self {
            program: ServerProgram::new(context)?,
            begun: SystemTime::now(),
            own_network: Containerd::probe_network().is_ok(),
            stage: Stage::with(context, "", &format!("{SHORT_BACKOFF}\n{section}"))?,
        })
    }

    pub fn context(&self) -> &'c Context {
        self.stage.context()
    }

    /// Whether pods have networks of their own here.
    pub fn own_network(&self) -> bool {
        self.own_network
    }

    /// So many seconds for a run of a probe that is to succeed: commands in containers take long on emulated machines.
    pub fn patient(&self) -> Value {
        json!({ "timeoutSeconds": self.context().scaled([5, 30]), "failureThreshold": 3 })
    }

    /// A first run late enough for a server to listen, for probes that are not to see it refuse.
    pub fn delayed(&self, more: Value) -> Value {
        merged(json!({ "initialDelaySeconds": self.context().scaled([1, 30]) }), more)
    }

    /// Ports for one server.
    pub fn ports(&mut self) -> Result<Ports, Failure> {
        let mut port = || self.program.port();
        Ok(Ports {
            http: port()?,
            https: port()?,
            tcp: port()?,
            deaf: port()?,
            grpc: port()?,
            nobody: port()?,
        })
    }

    /// A pod that can have servers, on a network of its own if there is one.
    pub fn pod(&self, name: &str, spec: Value) -> Value {
        let usual = json!({ "hostNetwork": !self.own_network, "volumes": self.program.volumes() });
        pod(name, merged(usual, spec))
    }

    /// A server whose notes have the name of its pod and its own.
    pub fn server(&self, pod: &str, name: &str, arguments: &[String], more: Value) -> Value {
        let command = self.program.command(&format!("{pod}-{name}"), arguments);
        let usual = json!({ "command": command, "volumeMounts": self.program.mounts() });
        shell(name, "", merged(usual, more))
    }

    /// A server of HTTP alone.
    pub fn http_server(&self, pod: &str, name: &str, port: u16, more: Value) -> Value {
        self.server(pod, name, &["--http".to_owned(), port.to_string()], more)
    }

    /// `httpGet` of the pod.
    pub fn http(&self, port: u16, path: &str) -> Value {
        json!({ "httpGet": self.reached(json!({ "port": port, "path": path })) })
    }

    /// `tcpSocket` of the pod.
    pub fn tcp(&self, port: u16) -> Value {
        json!({ "tcpSocket": self.reached(json!({ "port": port })) })
    }

    /// On the machine's network a pod has no address where the machine has none.
    fn reached(&self, handler: Value) -> Value {
        if self.own_network { handler } else { merged(handler, json!({ "host": "127.0.0.1" })) }
    }

    /// What the server of a pod was asked so far.
    pub fn noted(&self, pod: &str, name: &str) -> Vec<Noted> {
        self.program.noted(&format!("{pod}-{name}"))
    }

    /// Waits until the server's notes are as wanted.
    pub fn until_noted<T>(
        &self,
        pod: &str,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&[Noted]) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut last = Vec::new();
        let found = eventually(self.context().patiently(seconds), "", || {
            last = self.noted(pod, name);
            Ok(wanted(&last))
        });
        found.map_err(|failure| {
            let end: Vec<_> = last.iter().rev().take(5).collect();
            Failure::Unexpected(format!(
                "server {name} of pod {pod} {what}{failure}: {} notes, the last {end:?}",
                last.len()
            ))
        })
    }

    /// Events of a pod and its containers since the site was set up, oldest first.
    pub fn told(&self, pod: &str) -> Result<Vec<Told>, Failure> {
        // The stream ends by itself.
        let quiet = self.context().patiently(10);
        let events = self.stage.agent()?.client()?.watch(since(self.begun, &["pod"]))?.collect(
            quiet,
            quiet,
            |event| event.pod.as_ref().is_some_and(|of| of.name == pod),
        )?;
        let mut told = Vec::new();
        for received in events {
            let at = received.time()?;
            if let Some(Detail::PodNote(note)) = received.event.detail {
                let container = received.event.pod.unwrap_or_default().container_name;
                told.push(Told { at, container, reason: note.reason, message: note.message });
            }
        }
        Ok(told)
    }

    /// The same of one container, of these reasons.
    pub fn told_of(&self, pod: &str, container: &str, reasons: &[&str]) -> Result<Vec<Told>, Failure> {
        let mut told = self.told(pod)?;
        told.retain(|told| told.container == container && reasons.contains(&told.reason.as_str()));
        Ok(told)
    }

    /// Every sample that the agent shows of itself and of probes.
    pub fn samples(&self) -> Result<Vec<Sample>, Failure> {
        samples(self.stage.agent()?)
    }

    /// `prober_probe_total` of one container's probe: its runs of this result.
    pub fn runs(&self, pod: &str, container: &str, kind: &str, result: &str) -> Result<f64, Failure> {
        let labels = [("pod", pod), ("container", container), ("probe_type", kind), ("result", result)];
        let of = |sample: &Sample| {
            sample.name == "prober_probe_total"
                && labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).map(String::as_str) == Some(*value))
        };
        Ok(self.samples()?.iter().filter(|sample| of(sample)).map(|sample| sample.value).sum())
    }
}

/// Every sample that an agent shows of itself and of probes.
pub fn samples(agent: &Agent) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for path in METRICS {
        let answer = agent.get(path)?;
        if answer.status == 200 {
            samples.extend(parse_samples(&answer.text()));
        }
    }
    ensure!(!samples.is_empty(), "no metrics at {METRICS:?}");
    Ok(samples)
}
