//! The settings of pods and units without nodewarden, and what differs from them.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::kinds::KINDS;
use super::node::Node;
use super::round::settle;
use super::values::{Values, differences, of_units};
use crate::ensure;
use crate::harness::{Context, Failure};

/// The settings without nodewarden.
#[derive(Debug, Default, PartialEq)]
pub struct Baseline {
    /// Of one pod of each Deployment, by the Deployment's name.
    apps: BTreeMap<String, Values>,
    /// Of systemd's units.
    units: Values,
}

impl Baseline {
    /// Reads them while there is no agent.
    ///
    /// # Errors
    /// They cannot be read, or do not become stable.
    pub fn read(context: &Context, node: &mut Node<'_>) -> Result<Self, Failure> {
        let pods = settle(context, node)?;
        let read = |node: &Node<'_>| -> Result<Self, Failure> {
            let of = |pod: &Value| -> Result<(String, Values), Failure> {
                let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default();
                Ok((app.to_owned(), node.values(pod)?))
            };
            let apps = pods.iter().map(of).collect::<Result<_, _>>()?;
            Ok(Self { apps, units: of_units(&context.layout)? })
        };
        // What the kubelet gives a new pod late.
        let begun = Instant::now();
        let mut last = read(node)?;
        loop {
            std::thread::sleep(context.patiently(10));
            let now = read(node)?;
            if now == last {
                ensure!(now.apps.len() == KINDS, "pods of {:?} only", now.apps.keys());
                return Ok(now);
            }
            ensure!(
                begun.elapsed() < context.patiently(60),
                "the kubelet's values are not stable: {last:?} {now:?}"
            );
            last = now;
        }
    }

    /// What differs of these pods: of all settings, or with `beside` of those that mode augment may not
    /// write.
    ///
    /// # Errors
    /// A setting cannot be read.
    pub fn differences(&self, node: &Node<'_>, pods: &[Value], beside: bool) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for pod in pods {
            let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default();
            let without = self.apps.get(app).cloned().unwrap_or_default();
            let own = differences(&without, &node.values(pod)?, beside);
            let own = own.into_iter().filter(|(key, _)| !node.was_never_set(pod, key));
            all.extend(own.map(|(_, text)| format!("{} {text}", pod["metadata"]["name"])));
        }
        Ok(all)
    }

    /// What differs of the units that are still there.
    ///
    /// # Errors
    /// A setting cannot be read.
    pub fn differences_of_units(&self, context: &Context) -> Result<Vec<String>, Failure> {
        let now = of_units(&context.layout)?;
        let changed = self.units.iter().filter(|(path, text)| now.get(*path).is_some_and(|now| now != *text));
        Ok(changed.map(|(path, text)| format!("{path}: {text} -> {:?}", now.get(path))).collect())
    }
}
