//! The values of field references in environment variables and downward API files: `fieldRef` ([`pod_field`])
//! and `resourceFieldRef` ([`resource_value`]).

mod error;
mod field;
mod resource;

pub use error::FieldError;
pub use field::pod_field;
pub use resource::resource_value;
