//! An id that the runtime has given. It is as long as the rest of what is known of a container, and stands in
//! several places, which share it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The runtime's id of a container or sandbox; empty by default. Cloning shares it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(Arc<str>);

impl Id {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Id {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&str> for Id {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<&String> for Id {
    fn from(id: &String) -> Self {
        id.as_str().into()
    }
}

impl From<String> for Id {
    fn from(id: String) -> Self {
        id.as_str().into()
    }
}

impl PartialEq<str> for Id {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Id {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Id {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Id> for String {
    fn eq(&self, other: &Id) -> bool {
        **self == **other
    }
}

impl PartialEq<Id> for str {
    fn eq(&self, other: &Id) -> bool {
        *self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shared_and_written_as_its_text() {
        let id = Id::from("c0ffee");
        assert!(std::ptr::eq(id.clone().as_str(), id.as_str()));
        let text = "c0ffee".to_owned();
        assert!(id == "c0ffee" && text == id && *text == id);
        assert_eq!((Id::default().as_str(), id.to_string()), ("", "c0ffee".to_owned()));
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""c0ffee""#);
        assert_eq!(serde_json::from_str::<Id>(r#""c0ffee""#).unwrap(), id);
    }
}
