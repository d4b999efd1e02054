//! Objects of the API as their requests and responses contain them: by way of JSON values, see [`of_value`].

use std::borrow::Cow;
use std::ops::Deref;

use kube::Resource;
use kube::core::metadata::ObjectMeta;
use nodewarden_manifest::of_value;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The API of objects of type `K`.
pub type Api<K> = kube::Api<ByValue<K>>;

/// An object that is decoded from, and encoded by way of, a JSON value.
#[derive(Debug, Clone, PartialEq)]
pub struct ByValue<K>(pub K);

impl<K> Deref for ByValue<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: Resource> Resource for ByValue<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for ByValue<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        of_value(Value::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<K: Serialize> Serialize for ByValue<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    #[test]
    fn an_object_is_the_same_by_its_value() {
        let text = r#"{"apiVersion":"v1","kind":"Node","metadata":{"labels":{"a":"b"},"name":"n"}}"#;
        let node: ByValue<Node> = serde_json::from_str(text).unwrap();
        assert_eq!(node.0, serde_json::from_str::<Node>(text).unwrap());
        assert_eq!(serde_json::to_string(&node).unwrap(), text);
        let error = serde_json::from_str::<ByValue<Node>>(r#"{"metadata":{"name":1}}"#).unwrap_err();
        assert!(error.to_string().starts_with("metadata.name: invalid type"), "{error}");
    }
}
