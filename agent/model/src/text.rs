//! Text for people: numbers with units, and strings that the kernel gives as bytes.

/// Bytes with a binary unit and three significant digits: `64.0Mi`, `512`, `1.50Gi`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// A count with a decimal unit: `12.3k`.
pub fn count(n: u64) -> String {
    scaled(n as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(mut n: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // A number that would be rounded up to four digits gets the next unit.
    while (n >= 999.5 && unit > 0 || n >= 1000.0) && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    match n {
        n if unit == 0 || n >= 99.95 => format!("{n:.0}{}", units[unit]),
        n if n >= 9.995 => format!("{n:.1}{}", units[unit]),
        n => format!("{n:.2}{}", units[unit]),
    }
}

/// Text up to the first zero byte; bytes that are not UTF-8 are replaced.
pub fn until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_end_at_zero() {
        assert_eq!(until_zero(b"sh\0junk"), "sh");
        assert_eq!(until_zero(b"full"), "full");
    }
}
