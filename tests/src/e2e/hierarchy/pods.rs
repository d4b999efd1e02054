//! Generated manifests, and numbers in a random but repeatable order.

use serde_json::{Value, json};

/// Manifest number `i`: QoS classes in turn, with different kinds of limits.
pub fn pod(i: u64) -> Value {
    let resources = match i % 4 {
        0 => json!({}),
        1 => json!({ "requests": { "cpu": format!("{}m", 20 + i), "memory": "16Mi" } }),
        2 => {
            json!({ "requests": { "cpu": "10m" }, "limits": { "cpu": format!("{}m", 100 + i), "memory": "64Mi" } })
        }
        _ => json!({ "limits": { "cpu": "50m", "memory": format!("{}Mi", 32 + i) } }),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("p{i}"), "uid": uid(i) },
        "spec": { "containers": [{ "name": "c", "image": "nodewarden.test/none:1", "resources": resources }] },
    })
}

/// The uid of pod number `i`.
pub fn uid(i: u64) -> String {
    format!("7e57e57e-0000-4000-8000-{i:012}")
}

/// The path of the cgroup of pod number `i` below the root, as the cgroupfs driver names it.
pub fn path(i: u64) -> String {
    let level = match i % 4 {
        0 => "/besteffort",
        3 => "",
        _ => "/burstable",
    };
    format!("/kubepods{level}/pod{}", uid(i))
}

/// Random small numbers, the same in every run with one seed (a linear congruential generator with Knuth's
/// constants).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, from 0 to `sides` - 1.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }
}
