//! The fixture for tests of probes: pods with servers, the servers' notes of requests, and the probes' events
//! in the journal.

use std::time::SystemTime;

use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::{Value, json};

use super::manifest::Ports;
use crate::e2e::pods::fixture::{PodFixture, SHORT_BACKOFF};
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::{eventually, since};
use crate::ensure;
use crate::fixture::{Agent, Containerd, Sample, ServerProgram, parse_samples};
use crate::harness::{Context, Failure};
use crate::serve::Noted;

/// Paths of probes' metrics: with the agent's own, or separate as in the kubelet.
const METRICS: [&str; 2] = ["/metrics", "/metrics/probes"];

/// Pods with servers.
pub struct ProbeFixture<'c> {
    pub pods: PodFixture<'c>,
    pub program: ServerProgram,
    begun: SystemTime,
    own_network: bool,
}

/// An event of a container in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeEvent {
    pub at: SystemTime,
    pub container: String,
    /// Of probes: `Unhealthy`, `Healthy`, `ProbeWarning`, `ProbeError`.
    pub reason: String,
    pub message: String,
}

impl<'c> ProbeFixture<'c> {
    /// With short back-offs; `section` are further lines of nodewarden's own section.
    pub fn new(context: &'c Context, section: &str) -> Result<Self, Failure> {
        Ok(Self {
            program: ServerProgram::new(context)?,
            begun: SystemTime::now(),
            own_network: Containerd::probe_network().is_ok(),
            pods: PodFixture::with_config(context, "", &format!("{SHORT_BACKOFF}\n{section}"))?,
        })
    }

    pub fn context(&self) -> &'c Context {
        self.pods.context()
    }

    /// Whether pods on this machine can have networks of their own.
    pub fn own_network(&self) -> bool {
        self.own_network
    }

    /// Fields with a long timeout for a probe that must succeed: commands in containers take long on emulated
    /// machines.
    pub fn patient(&self) -> Value {
        json!({ "timeoutSeconds": self.context().scaled([5, 30]), "failureThreshold": 3 })
    }

    /// `more` with an initial delay, so that the server listens before the first run.
    pub fn delayed(&self, more: Value) -> Value {
        merged(json!({ "initialDelaySeconds": self.context().scaled([1, 30]) }), more)
    }

    /// Free ports for one server.
    pub fn ports(&mut self) -> Result<Ports, Failure> {
        let mut port = || self.program.port();
        Ok(Ports {
            http: port()?,
            https: port()?,
            tcp: port()?,
            deaf: port()?,
            grpc: port()?,
            closed: port()?,
        })
    }

    /// A pod that can have servers, on a network of its own if that is possible.
    pub fn pod(&self, name: &str, spec: Value) -> Value {
        let usual = json!({ "hostNetwork": !self.own_network, "volumes": self.program.volumes() });
        pod(name, merged(usual, spec))
    }

    /// A container with a server whose notes are called `<pod>-<name>`.
    pub fn server(&self, pod: &str, name: &str, arguments: &[String], more: Value) -> Value {
        let command = self.program.command(&format!("{pod}-{name}"), arguments);
        let usual = json!({ "command": command, "volumeMounts": self.program.mounts() });
        shell(name, "", merged(usual, more))
    }

    /// A container with a server of HTTP alone.
    pub fn http_server(&self, pod: &str, name: &str, port: u16, more: Value) -> Value {
        self.server(pod, name, &["--http".to_owned(), port.to_string()], more)
    }

    /// The handler `httpGet` for the pod.
    pub fn http(&self, port: u16, path: &str) -> Value {
        json!({ "httpGet": self.with_host(json!({ "port": port, "path": path })) })
    }

    /// The handler `tcpSocket` for the pod.
    pub fn tcp(&self, port: u16) -> Value {
        json!({ "tcpSocket": self.with_host(json!({ "port": port })) })
    }

    /// The handler with the host 127.0.0.1 for pods on the machine's network, which have no address if the
    /// machine has none.
    fn with_host(&self, handler: Value) -> Value {
        if self.own_network { handler } else { merged(handler, json!({ "host": "127.0.0.1" })) }
    }

    /// The requests that a pod's server has noted so far.
    pub fn notes_of(&self, pod: &str, name: &str) -> Vec<Noted> {
        self.program.noted(&format!("{pod}-{name}"))
    }

    /// Waits until `wanted` returns a value for the server's notes. The failure has `what`.
    pub fn wait_notes<T>(
        &self,
        pod: &str,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&[Noted]) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut last = Vec::new();
        let found = eventually(self.context().patiently(seconds), "", || {
            last = self.notes_of(pod, name);
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

    /// Events of a pod and its containers since the start of the test, oldest first.
    pub fn events(&self, pod: &str) -> Result<Vec<ProbeEvent>, Failure> {
        // The stream ends by itself.
        let quiet = self.context().patiently(10);
        let received = self.pods.agent()?.client()?.watch(since(self.begun, &["pod"]))?.collect(
            quiet,
            quiet,
            |event| event.pod.as_ref().is_some_and(|of| of.name == pod),
        )?;
        let mut events = Vec::new();
        for received in received {
            let at = received.time()?;
            if let Some(Detail::PodNote(note)) = received.event.detail {
                let container = received.event.pod.unwrap_or_default().container_name;
                events.push(ProbeEvent { at, container, reason: note.reason, message: note.message });
            }
        }
        Ok(events)
    }

    /// Events of one container with these reasons.
    pub fn events_of(
        &self,
        pod: &str,
        container: &str,
        reasons: &[&str],
    ) -> Result<Vec<ProbeEvent>, Failure> {
        let mut events = self.events(pod)?;
        events.retain(|event| event.container == container && reasons.contains(&event.reason.as_str()));
        Ok(events)
    }

    /// Every sample of the agent's own metrics and of those of probes.
    pub fn samples(&self) -> Result<Vec<Sample>, Failure> {
        samples(self.pods.agent()?)
    }

    /// `prober_probe_total` of a container's probe: the number of its runs with this result.
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

/// Every sample of an agent's own metrics and of those of probes.
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
