//! The volumes of a pod: made before its containers, removed after them.
