//! Decodes Kubernetes' types from JSON values. It is the one way in which this program does that: every other
//! one (from text, with another decoder) would need code of its own for each type, hundreds of kilobytes.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value that does not match a type; displayed as `FIELD: reason`.
pub type FieldError = serde_path_to_error::Error<serde_json::Error>;

/// Decodes `value` into a type.
///
/// # Errors
/// The value does not match the type; the error contains the field.
pub fn of_value<T: DeserializeOwned>(value: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_names_the_field() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": 80}]}});
        let error = of_value::<v1::Pod>(pod).unwrap_err();
        let expected = "spec.containers[0].ports: invalid type: integer `80`, expected a sequence";
        assert_eq!(error.to_string(), expected);
        assert_eq!(of_value::<v1::Pod>(json!({})).unwrap(), v1::Pod::default());
    }
}
