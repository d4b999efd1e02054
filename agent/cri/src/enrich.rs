//! Adds names to an identity. Pure.

use super::Table;
use nodewarden_model::Identity;

/// The identity with the names in the table; `None` if the table adds nothing.
pub fn enrich(identity: &Identity, table: &Table) -> Option<Identity> {
    let mut named = identity.clone();
    match &mut named {
        Identity::Pod { uid, names, .. } => {
            if let Some(known) = table.pod(uid) {
                *names = Some(known.clone());
            }
        }
        Identity::Container { pod_uid, id, sandbox, pod, names, .. } => {
            if let Some(known) = table.pod(pod_uid) {
                *pod = Some(known.clone());
            }
            *sandbox |= table.is_sandbox(id);
            if let Some(known) = table.container(id) {
                *names = Some(known.clone());
            }
        }
        _ => {}
    }
    (named != *identity).then_some(named)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::super::table::tests::listing;
    use super::*;
    use nodewarden_manifest::QosClass;
    use nodewarden_model::{ContainerNames, PodNames};

    pub fn pod(uid: &str) -> Identity {
        Identity::Pod { uid: uid.into(), qos: QosClass::Burstable, names: None }
    }

    pub fn container(uid: &str, id: &str) -> Identity {
        Identity::Container {
            pod_uid: uid.into(),
            qos: QosClass::Burstable,
            id: id.into(),
            runtime: "cri-containerd".into(),
            sandbox: false,
            pod: None,
            names: None,
        }
    }

    #[test]
    fn adds_what_is_known_and_nothing_else() {
        let mut table = Table::default();
        table.learn(&listing(), Instant::now());
        let web = Some(Arc::new(PodNames { namespace: "shop".into(), name: "web-0".into() }));
        let nginx = Some(Arc::new(ContainerNames { name: "nginx".into(), image: "sha256:1".into() }));
        let of = |uid: &str,
                  id: &str,
                  is_sandbox,
                  pod_names: &Option<Arc<PodNames>>,
                  container_names: &Option<_>| {
            let mut identity = container(uid, id);
            if let Identity::Container { sandbox, pod, names, .. } = &mut identity {
                *sandbox = is_sandbox;
                pod.clone_from(pod_names);
                names.clone_from(container_names);
            }
            Some(identity)
        };
        let (this, main, pause) = ("uid-1", "c0c0c0c0c0c0", "5a5a5a5a5a5a");
        let nested = Identity::Nested { pod_uid: this.into(), container_id: main.into() };
        // identity, enriched, still lacking
        let named_pod = Identity::Pod { uid: this.into(), qos: QosClass::Burstable, names: web.clone() };
        for (identity, expected, lacks) in [
            (pod(this), Some(named_pod), false),
            (pod("uid-2"), None, true),
            (container(this, main), of(this, main, false, &web, &nginx), false),
            (container(this, pause), of(this, pause, true, &web, &None), false),
            (container(this, "unknown"), of(this, "unknown", false, &web, &None), true),
            (container("uid-2", main), of("uid-2", main, false, &None, &nginx), true),
            (container("uid-2", "unknown"), None, true),
            (nested, None, false),
            (Identity::Kubepods, None, false),
            (Identity::Other, None, false),
        ] {
            let enriched = enrich(&identity, &table);
            assert_eq!(enriched, expected, "{identity:?}");
            assert_eq!(enriched.unwrap_or(identity).lacks_names(), lacks);
        }
    }
}
