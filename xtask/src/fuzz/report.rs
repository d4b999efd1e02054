//! What is printed when all targets have run.

use std::fmt::Write;

use super::libfuzzer::Run;

/// A table with one line a target.
pub fn table(runs: &[Run]) -> String {
    let width = runs.iter().map(|run| run.name.len()).max().unwrap_or_default().max("target".len());
    let mut out = format!(
        "{:width$}  {:>12}  {:>8}  {:>10}  {:>6}  {:>7}\n",
        "target", "runs", "runs/s", "new inputs", "MB", "crashes"
    );
    for run in runs {
        let crashes = u32::from(run.is_bad());
        let Run { name, runs, runs_per_second, new_inputs, memory_mb, .. } = run;
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "{name:width$}  {runs:>12}  {runs_per_second:>8}  {new_inputs:>10}  {memory_mb:>6}  {crashes:>7}"
        );
    }
    out
}

/// What is known of a crash; empty without one.
pub fn crash(run: &Run) -> String {
    if !run.is_bad() {
        return String::new();
    }
    let tail: String = run.tail.iter().map(|line| format!("    {line}\n")).collect();
    let found = match &run.crash {
        Some(input) => format!("crashed by the input {}", input.display()),
        None => "failed without an input".to_owned(),
    };
    format!("\n{}: {found}\n{tail}  to see it again: {}\n", run.name, run.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stand_in_columns() {
        let run = Run {
            name: "quantity".into(),
            runs: 1_234_567,
            runs_per_second: 20_576,
            new_inputs: 12,
            memory_mb: 88,
            ..Run::default()
        };
        let crashed = Run { name: "btf".into(), failed: true, ..Run::default() };
        let expected = "\
target            runs    runs/s  new inputs      MB  crashes
quantity       1234567     20576          12      88        0
btf                  0         0           0       0        1
";
        assert_eq!(table(&[run, crashed]), expected);
    }

    #[test]
    fn a_crash_is_shown_with_its_input_and_command() {
        let run = Run {
            name: "btf".into(),
            crash: Some("/t/crash-1".into()),
            command: "/t/btf /t/crash-1".into(),
            tail: vec!["panicked".into()],
            failed: true,
            ..Run::default()
        };
        let expected =
            "\nbtf: crashed by the input /t/crash-1\n    panicked\n  to see it again: /t/btf /t/crash-1\n";
        assert_eq!(crash(&run), expected);
        assert_eq!(crash(&Run::default()), "");
    }
}
