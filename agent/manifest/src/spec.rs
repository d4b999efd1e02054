//! The spec of a pod, kept as JSON. Kubernetes' type for it takes 8 KB for a pod of two small containers, ten
//! times its text, and is needed only while the pod is admitted, started, changed or ended.

use std::fmt;
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::PodSpec;
use parking_lot::Mutex;

/// A spec as Kubernetes' type, shared by those that use it at the same time. Boxed: what is left of it after
/// the last of them, which is what a weak reference keeps, has room for a pointer.
pub type Decoded = Arc<Box<PodSpec>>;

/// A pod's spec. Cloning shares it.
#[derive(Clone)]
pub struct Spec(Arc<Kept>);

struct Kept {
    text: Box<str>,
    /// As long as somewhere it is in use.
    decoded: Mutex<Weak<Box<PodSpec>>>,
    /// A spec that its own text does not describe, as it is. None is known.
    whole: Option<Decoded>,
}

impl Spec {
    /// Keeps a spec.
    pub fn new(spec: PodSpec) -> Self {
        let text = serde_json::to_string(&spec).unwrap_or_default().into_boxed_str();
        let is_described = serde_json::from_str::<PodSpec>(&text).is_ok_and(|read| read == spec);
        let whole = (!is_described).then(|| Arc::new(Box::new(spec)));
        Self(Arc::new(Kept { text, decoded: Mutex::default(), whole }))
    }

    /// The spec as Kubernetes' type: decoded, unless it is in use elsewhere.
    pub fn get(&self) -> Decoded {
        let Kept { text, decoded, whole } = &*self.0;
        if let Some(whole) = whole {
            return whole.clone();
        }
        let mut decoded = decoded.lock();
        decoded.upgrade().unwrap_or_else(|| {
            // It was read and compared when it was kept.
            let spec: Decoded = Arc::new(Box::new(serde_json::from_str(text).unwrap_or_default()));
            *decoded = Arc::downgrade(&spec);
            spec
        })
    }

    /// Whether both are the same in memory.
    pub fn is_shared(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        let is_whole = self.0.whole.is_some() || other.0.whole.is_some();
        self.is_shared(other)
            || if is_whole { self.get() == other.get() } else { self.0.text == other.0.text }
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> PodSpec {
        serde_json::from_value(json!({
            "hostNetwork": true, "restartPolicy": "Never", "priority": -5,
            "containers": [{
                "name": "c", "image": "i", "args": [], "command": ["sh", "-c", "exit \"$?\" # ü"],
                "env": [{"name": "A", "value": ""}], "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "0.50", "memory": "1e3"}, "requests": {}},
                "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
                "readinessProbe": {"tcpSocket": {"port": 80}}}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "bare"}],
            "tolerations": [{"operator": "Exists"}], "nodeSelector": {"b": "1", "a": "2"},
        }))
        .unwrap()
    }

    #[test]
    fn it_is_decoded_as_it_was() {
        let kept = Spec::new(spec());
        assert!(kept.0.whole.is_none());
        assert_eq!(**kept.get(), spec());
        assert_eq!(kept, Spec::new(spec()));
        let mut other = spec();
        other.containers[0].args = None;
        assert_ne!(kept, Spec::new(other), "no arguments are not the same as an empty list");
    }

    /// It is shared by those that use it at the same time, and dropped after the last of them.
    #[test]
    fn it_is_decoded_once_at_a_time() {
        let kept = Spec::new(spec());
        assert!(kept.0.decoded.lock().upgrade().is_none(), "nothing uses it");
        let first = kept.get();
        assert!(Arc::ptr_eq(&first, &kept.clone().get()));
        drop(first);
        assert!(kept.0.decoded.lock().upgrade().is_none());
    }

    #[test]
    fn one_that_its_text_does_not_describe_is_kept_whole() {
        let described = Spec::new(spec());
        let whole = |text: &str| {
            let spec = Arc::new(Box::new(spec()));
            Spec(Arc::new(Kept { text: text.into(), decoded: Mutex::default(), whole: Some(spec) }))
        };
        assert_eq!(**whole("").get(), spec());
        assert_eq!(whole("{}"), described);
        assert_eq!(whole("{}"), whole(""));
    }
}
