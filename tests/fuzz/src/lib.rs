//! What each fuzz target does with an input: it reads it as the agent does, and checks what holds for every
//! input.
//!
//! `cargo xtask fuzz` runs them with inputs of libFuzzer's making (the programs are in `targets`); the unit
//! tests here run them with every file in `corpus`, and with variants of it.

#![deny(missing_docs)]

mod kernel;
mod kubernetes;
mod plugins;
mod runtime;
mod server;
mod state;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its program, its corpus and its function.
    pub name: &'static str,
    /// Reads an input.
    ///
    /// # Panics
    /// When something does not hold that holds for every input: that is what a fuzzer looks for.
    pub run: fn(&[u8]),
}

/// Defines [`TARGETS`] and one unit test for each.
macro_rules! targets {
    ($($module:ident: $($name:ident)*;)*) => {
        $(pub use $module::{$($name),*};)*

        /// Every target.
        pub const TARGETS: &[Target] = &[$($(Target { name: stringify!($name), run: $name }),*),*];

        #[cfg(test)]
        mod every_file_of_the_corpus_is_read_well {
            $($(
                #[test]
                fn $name() {
                    crate::tests::read_corpus(stringify!($name), crate::$name);
                }
            )*)*
        }
    };
}

targets! {
    kubernetes: manifest quantity config;
    kernel: mountinfo cgroup_usage cgroup_limits proc_files btf kernel_record;
    state: checkpoint cpu_manager_state memory_manager_state record journal;
    runtime: log spdy websocket cri redirect;
    plugins: device_plugin http2;
    server: node_request client_certificate;
}

/// The input as text; `None` when it is not UTF-8.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// The parts of an input that stands for several files: they are separated by lines of three dashes.
fn parts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    const LINE: &[u8] = b"---\n";
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let now = rest?;
        let at = now.windows(LINE.len()).position(|window| window == LINE);
        let (part, after) = at.map_or((now, None), |at| (&now[..at], Some(&now[at + LINE.len()..])));
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod variants;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn names(of: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(of).unwrap_or_else(|error| panic!("{}: {error}", of.display()));
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }

    pub(crate) fn read_corpus(target: &str, run: fn(&[u8])) {
        let files = names(&folder("corpus").join(target));
        assert!(!files.is_empty());
        for file in files {
            println!("{}", file.display());
            let input = fs::read(&file).unwrap();
            run(&input);
            for variant in variants::of(&input).take(variants::number()) {
                let _shown = Shown(&variant);
                run(&variant);
            }
        }
        run(b"");
    }

    /// Prints an input when reading it panics.
    struct Shown<'a>(&'a [u8]);

    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("the input was b\"{}\"", self.0.escape_ascii());
            }
        }
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
        let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        let programs: BTreeSet<String> = names(&folder("targets")).into_iter().map(stem).collect();
        let corpora: BTreeSet<String> = names(&folder("corpus")).into_iter().map(stem).collect();
        assert_eq!((&programs, &corpora), (&targets, &targets));
        let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
        for name in &targets {
            assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")), "{name}");
            let program = fs::read_to_string(folder("targets").join(format!("{name}.rs"))).unwrap();
            assert!(program.contains(&format!("nodewarden_fuzz::{name}(input)")), "{program}");
        }
    }

    #[test]
    fn an_input_is_several_files() {
        let found: Vec<&[u8]> = parts(b"a\n---\n---\nb").collect();
        assert_eq!(found, [&b"a\n"[..], b"", b"b"]);
        assert_eq!(parts(b"").count(), 1);
    }
}
