//! The node's server on port 10250, as a kubelet's: TLS, authentication and authorization by the API server,
//! pods, logs, exec, attach and port forwarding.

#![deny(missing_docs)]
