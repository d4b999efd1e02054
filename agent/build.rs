fn main() {
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=../target/ebpf/bpfel-unknown-none/bpf/nodewarden-ebpf");
    std::fs::copy("../target/ebpf/bpfel-unknown-none/bpf/nodewarden-ebpf", format!("{out}/nodewarden-ebpf.o")).ok();
}
