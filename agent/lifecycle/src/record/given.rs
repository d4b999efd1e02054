//! The resources that the runtime was last given for a container: on disk as Kubernetes writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use nodewarden_manifest::{Quantity, ResourceList, Resources};

/// For serde.
pub fn serialize<S: Serializer>(given: &Option<Arc<Resources>>, serializer: S) -> Result<S::Ok, S::Error> {
    given.as_deref().map(Resources::to_kubernetes).serialize(serializer)
}

/// For serde. What is not a quantity is left out.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Resources>>, D::Error> {
    let given = Option::<v1::ResourceRequirements>::deserialize(deserializer)?;
    Ok(given.map(|given| {
        let (requests, limits) = (list(given.requests.as_ref()), list(given.limits.as_ref()));
        Arc::new(Resources { requests, limits })
    }))
}

fn list(text: Option<&BTreeMap<String, Text>>) -> ResourceList {
    let read =
        |(name, Text(text)): (&String, &Text)| Some((name.clone(), Quantity::parse(text.trim()).ok()?));
    text.into_iter().flatten().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::record::ContainerRecord;

    #[test]
    fn it_is_on_disk_as_kubernetes_writes_it() {
        let resources = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "1E3", "memory": "64Mi"}});
        let record: ContainerRecord = serde_json::from_value(json!({"told": resources})).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap()["told"], resources);
        let none: ContainerRecord = serde_json::from_value(json!({"told": null})).unwrap();
        assert_eq!(none, ContainerRecord::default());
        assert!(serde_json::to_value(&none).unwrap()["told"].is_null());
        let part: ContainerRecord =
            serde_json::from_value(json!({"told": {"limits": {"cpu": "?"}}})).unwrap();
        assert!(part.given.unwrap().is_empty());
    }
}
