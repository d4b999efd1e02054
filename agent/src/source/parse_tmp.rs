//! Until pod::manifest is there.
use serde::Deserialize as _;
pub fn parse(text: &str) -> Vec<Result<crate::pod::Pod, String>> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|d| {
            let v = serde_json::Value::deserialize(d).map_err(|e| e.to_string())?;
            let pod = serde_json::from_value(v).map_err(|e| e.to_string())?;
            crate::pod::Pod::from_kubernetes(pod).map_err(|p| format!("{p:?}"))
        })
        .collect()
}
