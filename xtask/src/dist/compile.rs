//! Compiles the binary so that it runs with an older C library, and so that no path of this machine gets into
//! it.

use std::env;
use std::path::{Path, PathBuf};

use nodewarden_dist::Release;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;

use super::{DistRunError, step};
use crate::build::{self, KERNEL_OBJECT};
use crate::setup::debian_root::C_LIBRARY;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const PROFILE: &str = "dist";
/// Below the root of the C library.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// Stand for folders of this machine in debug information and messages.
const SOURCE: &str = "/usr/src/nodewarden";
const CRATES: &str = "/usr/src/crates";
const RUST: &str = "/usr/src/rust";
const BUILD: &str = "/usr/src/build";

/// The kernel programs, then the binary with debug information.
///
/// # Errors
/// When cargo fails, and has shown why.
pub fn binary(layout: &Layout, release: &Release) -> Result<Vec<u8>, DistRunError> {
    let paths = Paths::of(layout)?;
    let mut progress = step(1, "kernel programs", "compiling, about half a minute");
    let target = layout.dist().join("ebpf");
    let mut kernel = build::kernel_cargo_with(layout, "build", &target, &paths.compiler_flags());
    process::follow(kernel.arg("--locked"), |line| progress.tick(line))?;
    let object = target.join("nodewarden-ebpf.o");
    build::carry(&target.join(KERNEL_OBJECT), &object)?;
    progress.end_timed();

    let mut progress = step(2, "binary", "compiling as a whole, about 15 minutes");
    let root = C_LIBRARY.folder(layout);
    let flags: Vec<_> = paths.compiler_flags().into_iter().chain(linker_flags(&root)).collect();
    let c_flags = [format!("--sysroot={}", root.display())].into_iter().chain(paths.c_flags());
    let mut cargo = layout.cargo();
    cargo
        .args(["build", "--locked", "--package", "nodewarden", "--bin", "nodewarden"])
        .args(["--profile", PROFILE, "--target", TARGET, "--target-dir"])
        .arg(&paths.build)
        .env("CARGO_ENCODED_RUSTFLAGS", build::encoded(flags.iter().map(String::as_str)))
        .env(format!("CFLAGS_{}", TARGET.replace('-', "_")), c_flags.collect::<Vec<_>>().join(" "))
        .env("NODEWARDEN_EBPF_OBJECT", object)
        .env("SOURCE_DATE_EPOCH", release.time.to_string())
        // How many digits of a commit git shows depends on how many objects the clone has.
        .envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "core.abbrev"), ("GIT_CONFIG_VALUE_0", "12")])
        // No user's environment changes what is shipped.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_RUSTFLAGS");
    process::follow(&mut cargo, |line| progress.tick(line))?;
    progress.end_timed();
    Ok(files::read(&paths.build.join(TARGET).join(PROFILE).join("nodewarden"))?)
}

/// Links with the C library below `root` in place of this machine's.
fn linker_flags(root: &Path) -> Vec<String> {
    let argument = |text: String| format!("-Clink-arg={text}");
    let mut flags = vec![argument(format!("--sysroot={}", root.display()))];
    // gcc looks beside itself before it looks below --sysroot, unless -B says so.
    flags.push(argument(format!("-B{}", root.join(LIBRARIES[0]).display())));
    flags.extend(LIBRARIES.map(|folder| argument(format!("-L{}", root.join(folder).display()))));
    // Functions that were compiled to the same code are kept once.
    flags.push(argument("-Wl,--icf=all".to_owned()));
    flags
}

/// The folders of this machine that the compilers see.
struct Paths {
    /// The target directory of the binary.
    build: PathBuf,
    /// Each folder with what stands for it; a folder comes before those inside it.
    map: Vec<(PathBuf, &'static str)>,
}

impl Paths {
    fn of(layout: &Layout) -> Result<Self, DistRunError> {
        let build = layout.dist().join("build");
        let sysroot = process::capture(layout.command("rustc").args(["--print", "sysroot"]))?;
        let mut map = vec![(layout.root.clone(), SOURCE), (layout.dist(), BUILD)];
        map.extend(registries().into_iter().map(|folder| (folder, CRATES)));
        map.push((Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), RUST));
        Ok(Self { build, map })
    }

    /// For rustc, which takes the last one that matches.
    fn compiler_flags(&self) -> Vec<String> {
        let flags = self.map.iter();
        flags.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect()
    }

    /// For gcc, which takes the last one too.
    fn c_flags(&self) -> Vec<String> {
        let flags = self.map.iter();
        flags.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect()
    }
}

/// Where cargo unpacks crates: a folder for each registry.
fn registries() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let folders = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let mut found: Vec<_> = folders.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_this_machine_is_mapped() {
        let paths = Paths {
            build: "/w/target/dist/build".into(),
            map: vec![("/w".into(), SOURCE), ("/w/target/dist".into(), BUILD), ("/c".into(), CRATES)],
        };
        assert_eq!(
            paths.compiler_flags()[1..],
            ["--remap-path-prefix=/w/target/dist=/usr/src/build", "--remap-path-prefix=/c=/usr/src/crates"]
        );
        assert_eq!(paths.c_flags()[0], "-ffile-prefix-map=/w=/usr/src/nodewarden");
    }

    #[test]
    fn the_older_library_comes_first() {
        let flags = linker_flags(Path::new("/r"));
        assert_eq!(flags[0], "-Clink-arg=--sysroot=/r");
        assert!(flags.contains(&"-Clink-arg=-L/r/lib/x86_64-linux-gnu".to_owned()), "{flags:?}");
    }
}
