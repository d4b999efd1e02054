//! `cargo xtask vm`: real Debian kernels in QEMU, to run the end-to-end tests where this machine's kernel can't.

pub mod assets;
