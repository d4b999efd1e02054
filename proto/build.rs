//! Compiles the .proto files with protox: no protoc needed.

use std::path::PathBuf;

const FILES: [&str; 7] = [
    "proto/deviceplugin/v1beta1/api.proto",
    "proto/nodewarden/v1/nodewarden.proto",
    "proto/nodewarden/v1/streams.proto",
    "proto/nodewarden/v1/pods.proto",
    "proto/pluginregistration/v1/api.proto",
    "proto/podresources/v1/api.proto",
    "proto/runtime/v1/api.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, [PathBuf::from("proto")])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
