//! The tests in the code, by `cargo test`.

use std::path::Path;
use std::process::Command;

use super::TestError;
use xtask_common::layout::{GOLDEN_VARIABLE, Layout};
use xtask_common::process;
use xtask_common::tally::Tally;

/// Part of the name of each test that reads them.
const GOLDEN: &str = "golden::";

/// Which of the unit tests.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Only those that read recorded values.
    pub golden_only: bool,
    /// Only those with this in their name.
    pub filter: Option<&'a str>,
}

/// Runs them, going on after failures.
///
/// # Errors
/// When cargo can't be started or a test does not compile.
pub fn run(layout: &Layout, scope: Scope, tally: &mut Tally) -> Result<(), TestError> {
    // Compiled apart, so that an error of the compiler is not taken for a failed test.
    process::show(cargo_test(layout).arg("--no-run"))?;
    let golden = layout.golden();
    let names = if golden.is_none() || scope.golden_only { golden_names(layout, scope)? } else { Vec::new() };
    let mut ours = Tally::default();
    if golden.is_none() {
        for name in &names {
            ours.skip(name, format!("no recorded values: set {GOLDEN_VARIABLE} to their folder"));
        }
    }
    if let Some(arguments) = libtest_arguments(scope, golden.as_deref(), &names) {
        let mut command = cargo_test(layout);
        command.arg("--no-fail-fast").arg("--").args(arguments).env("PATH", layout.path_with_tools());
        if let Some(folder) = &golden {
            command.env(GOLDEN_VARIABLE, folder);
        }
        let status = process::each_output_line(&mut command, |line| {
            println!("{line}");
            ours.line(line);
        })?;
        if !status.success() && ours.counts.failed == 0 {
            ours.fail(format!("a unit test program, which did not come to its end ({status})"));
        }
    }
    tally.add(ours);
    Ok(())
}

/// What libtest is told, or `None` when there is nothing to run. `names` are the golden tests in scope.
fn libtest_arguments<'a>(
    scope: Scope<'a>,
    golden: Option<&Path>,
    names: &'a [String],
) -> Option<Vec<&'a str>> {
    match (scope.golden_only, golden) {
        // Several filters mean any of them; to have both, the names themselves are given.
        (true, Some(_)) if !names.is_empty() => {
            Some(["--exact"].into_iter().chain(names.iter().map(String::as_str)).collect())
        }
        (true, _) => None,
        (false, Some(_)) => Some(scope.filter.into_iter().collect()),
        (false, None) => Some(["--skip", GOLDEN].into_iter().chain(scope.filter).collect()),
    }
}

/// `cargo test` for the host's code, in which the kernel programs have no part.
fn cargo_test(layout: &Layout) -> Command {
    let mut command = layout.cargo();
    command.args(["test", "--workspace", "--exclude", "nodewarden-ebpf", "--lib", "--bins"]);
    command
}

/// The names of the tests in scope that read recorded values.
fn golden_names(layout: &Layout, scope: Scope) -> Result<Vec<String>, TestError> {
    let list = process::capture(cargo_test(layout).args(["--", "--list", GOLDEN]))?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let names = names.filter(|name| scope.filter.is_none_or(|filter| name.contains(filter)));
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_gets_both_filters() {
        let names = ["a::golden::x".to_owned(), "b::golden::y".to_owned()];
        let folder = Some(Path::new("/golden"));
        let scope = |golden_only, filter| Scope { golden_only, filter };
        let told =
            |scope, folder, names| libtest_arguments(scope, folder, names).map(|words| words.join(" "));
        for (scope, folder, names, expected) in [
            (scope(false, None), folder, &[][..], Some("")),
            (scope(false, Some("oom")), folder, &[], Some("oom")),
            (scope(false, Some("oom")), None, &names, Some("--skip golden:: oom")),
            (scope(true, None), folder, &names, Some("--exact a::golden::x b::golden::y")),
            (scope(true, Some("z")), folder, &[], None),
            (scope(true, None), None, &names, None),
        ] {
            assert_eq!(told(scope, folder, names).as_deref(), expected, "{scope:?} {folder:?}");
        }
    }
}
