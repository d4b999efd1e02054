//! What a kernel says of the fault for which it panicked: the lines of its console before the panic.

/// What `die` writes after the kind of each fault, with the number of faults so far (Linux:
/// arch/x86/kernel/dumpstack.c).
const FIRST_FAULT: &str = " [#1]";
/// How many functions of the call trace are named.
const FUNCTIONS: usize = 8;

/// Where the text of the first fault begins, in lines of `console`: also that of a line before it that says
/// at which address it was. `None` if there was no fault, as in a panic that was asked for.
pub fn first_line<'a>(console: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let mut reported = None;
    for (at, line) in console.into_iter().enumerate() {
        if line.contains("BUG: ") && reported.is_none() {
            reported = Some(at);
        }
        if line.contains(FIRST_FAULT) {
            return Some(reported.unwrap_or(at));
        }
    }
    None
}

/// The first fault in one line: its kind, the process, the instruction and the functions that led there, as
/// far as `console` shows them. `None` if there was none.
pub fn summary(console: &str) -> Option<String> {
    let lines = || console.lines().map(without_time);
    let from = first_line(lines())?;
    let lines = || lines().skip(from);
    let mut parts = Vec::new();
    parts.extend(lines().find(|line| line.starts_with("BUG: ")));
    parts.extend(lines().find(|line| line.contains(FIRST_FAULT)));
    let process = lines().filter(|line| line.starts_with("CPU: ")).find_map(|line| line.split_once("Comm: "));
    let process = process.map(|(_, name)| format!("in {}", name.split_whitespace().next().unwrap_or("?")));
    parts.extend(process.as_deref());
    parts.extend(lines().find(|line| line.starts_with("RIP: ")));
    // Lines with a question mark are addresses that only lay on the stack.
    let trace = lines().skip_while(|line| !line.starts_with("Call Trace:")).skip(1);
    let trace = trace.take_while(|line| !line.starts_with("RIP: ") && !line.starts_with("Modules linked in"));
    let trace = trace.map(str::trim).filter(|line| !line.starts_with(['<', '?']) && line.contains("+0x"));
    let trace = trace.take(FUNCTIONS).collect::<Vec<_>>().join(", ");
    if !trace.is_empty() {
        parts.push(&trace);
    }
    Some(parts.join("; "))
}

/// A line of the kernel without the time in front of it.
fn without_time(line: &str) -> &str {
    let line = line.trim_end();
    match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((time, text)) if time.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => text,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULT: &str = "\
[    1.0] fine
[   12.1] BUG: unable to handle page fault for address: ffff888000000000\r
[   12.1] #PF: supervisor read access in kernel mode\r
[   12.1] Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI\r
[   12.1] CPU: 1 UID: 0 PID: 77 Comm: nodewarden Not tainted 6.12.0 #1\r
[   12.1] RIP: 0010:bpf_prog_1+0x12/0x20\r
[   12.1] Call Trace:\r
[   12.1]  <IRQ>\r
[   12.1]  ? __die+0x23/0x70\r
[   12.1]  trace_call_bpf+0x1/0x2\r
[   12.1]  perf_trace+0x3/0x4\r
[   12.1]  </IRQ>\r
[   12.1] RIP: 0033:0x7f\r
[   12.2] Kernel panic - not syncing: Fatal exception in interrupt\r
";

    #[test]
    fn a_fault_is_described_in_one_line() {
        let expected = "BUG: unable to handle page fault for address: ffff888000000000; \
                        Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI; in nodewarden; \
                        RIP: 0010:bpf_prog_1+0x12/0x20; trace_call_bpf+0x1/0x2, perf_trace+0x3/0x4";
        assert_eq!(summary(FAULT).as_deref(), Some(expected));
        assert_eq!(first_line(FAULT.lines()), Some(1));
        let short = "int3: 0000 [#1] SMP\nKernel panic - not syncing: x";
        assert_eq!(summary(short).as_deref(), Some("int3: 0000 [#1] SMP"));
    }

    #[test]
    fn a_panic_without_a_fault_has_none() {
        let asked_for = "[ 2.1] sysrq: Trigger a crash\n[ 2.1] Kernel panic - not syncing: sysrq";
        assert_eq!((summary(asked_for), first_line(asked_for.lines())), (None, None));
    }
}
