//! What a text that is written to a limit's file sets, as the kernel reads it: pure.

/// From here on a limit of memory is none. The kernel takes it for the greatest number of pages
/// (`page_counter_memparse`), which v1 shows as a number of bytes.
pub const NO_LIMIT: u64 = i64::MAX as u64 / 2;

/// Whether this text, written to this file, gives this value; `None` is no limit. Limits of memory are
/// rounded down to whole pages.
pub fn sets(text: &str, file: &str, value: Option<u64>, page: u64) -> bool {
    let text = text.trim();
    let of_memory = file.starts_with("memory.");
    // `max` is a word of v2, a negative number one of v1; the period may follow the quota.
    let first = text.split_whitespace().next().unwrap_or_default();
    if first == "max" || first.starts_with('-') {
        return value.is_none();
    }
    let written = if of_memory { bytes(text) } else { number(first).map(|(number, _)| number) };
    match (written, value) {
        (None, _) => false,
        (Some(written), None) => of_memory && written >= NO_LIMIT,
        (Some(written), Some(value)) if of_memory => written - written % page == value,
        (Some(written), Some(value)) => written == value,
    }
}

/// Bytes of a text such as `64M` (`memparse`): a number with one letter behind it, for powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (number, rest) = number(text)?;
    let shift = match rest {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        "p" | "P" => 50,
        "e" | "E" => 60,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// The number at the begin of a text and what follows it, in the bases of C (`simple_strtoull`).
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, base) = match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text) {
        (Some(digits), _) => (digits, 16),
        (None, _) if text.len() > 1 && text.starts_with('0') => (text, 8),
        (None, _) => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    Some((u64::from_str_radix(digits, base).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_the_kernel_reads_them() {
        let memory = |text: &str, value| sets(text, "memory.max", value, 4096);
        let memory_v1 = |text: &str, value| sets(text, "memory.limit_in_bytes", value, 4096);
        let cpu = |text: &str, value| sets(text, "cpu.max", value, 4096);
        let cpu_v1 = |text: &str, value| sets(text, "cpu.cfs_quota_us", value, 4096);
        for (of, text, value) in [
            (&memory as &dyn Fn(&str, Option<u64>) -> bool, "8192", Some(8192)),
            (&memory, " 8192\n", Some(8192)),
            (&memory, "8193", Some(8192)),
            (&memory, "64M", Some(64 << 20)),
            (&memory, "0x2000", Some(8192)),
            (&memory, "020000", Some(8192)),
            (&memory, "0", Some(0)),
            (&memory, "1k", Some(0)),
            (&memory, "max", None),
            (&memory_v1, "-1", None),
            (&memory_v1, "9223372036854771712", None),
            (&memory_v1, "2g\n", Some(2 << 30)),
            (&cpu, "50000 100000\n", Some(50_000)),
            (&cpu, "50000", Some(50_000)),
            (&cpu, "max 100000", None),
            (&cpu_v1, "-1", None),
            (&cpu_v1, "50000", Some(50_000)),
        ] {
            assert!(of(text, value), "{text:?} gives {value:?}");
        }
        for (of, text, value) in [
            (&memory as &dyn Fn(&str, Option<u64>) -> bool, "", None),
            (&memory, "", Some(0)),
            (&memory, "x", Some(0)),
            (&memory, "64Q", Some(64)),
            (&memory, "64M", None),
            (&memory, "max", Some(0)),
            (&memory, "99999999999E", None),
            (&cpu, "50000 100000", Some(100_000)),
            (&cpu, "50001", Some(50_000)),
            (&cpu_v1, "50000", None),
        ] {
            assert!(!of(text, value), "{text:?} does not give {value:?}");
        }
    }
}
