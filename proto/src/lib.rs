//! Protocol definitions and the clients and servers generated from them. One module a package.

/// nodewarden's own interface.
pub mod nodewarden {
    pub mod v1 {
        tonic::include_proto!("nodewarden.v1");
    }
}
