//! Parses numbers in the kernel's files without allocating.

use nodewarden_model::{Pressure, PressureLine};

/// A decimal number at the start of `text`, white space around it ignored. `None` for anything else (`max`,
/// empty, too large).
pub fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, b| {
        let digit = b.wrapping_sub(b'0');
        (digit < 10).then(|| n.checked_mul(10)?.checked_add(digit.into()))?
    })
}

/// Lines of a file.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

/// `key value` lines (flat-keyed files such as memory.stat).
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    lines(text).filter_map(|line| {
        let space = line.iter().position(|b| *b == b' ')?;
        Some((&line[..space], number(&line[space + 1..])?))
    })
}

/// `key=value` words of a line (nested-keyed files such as io.stat).
pub fn fields(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|b| *b == b' ').filter_map(|word| {
        let equals = word.iter().position(|b| *b == b'=')?;
        Some((&word[..equals], &word[equals + 1..]))
    })
}

/// `major:minor` of a block device.
pub fn device(text: &[u8]) -> Option<(u32, u32)> {
    let colon = text.iter().position(|b| *b == b':')?;
    let part = |t| number(t).and_then(|n| u32::try_from(n).ok());
    Some((part(&text[..colon])?, part(&text[colon + 1..])?))
}

/// A cgroup's pressure file (Documentation/accounting/psi.rst). Not parsed with procfs, which allocates a
/// string and a map for every line: three such files of every cgroup are read for each snapshot.
pub fn pressure(text: &[u8]) -> Option<Pressure> {
    let mut some = None;
    let mut full = None;
    for line in lines(text) {
        let mut parsed = PressureLine::default();
        for (key, value) in fields(line) {
            match key {
                b"avg10" => parsed.avg10 = float(value)?,
                b"avg60" => parsed.avg60 = float(value)?,
                b"avg300" => parsed.avg300 = float(value)?,
                b"total" => parsed.total_us = number(value)?,
                _ => {}
            }
        }
        if line.starts_with(b"some ") {
            some = Some(parsed);
        } else if line.starts_with(b"full ") {
            full = Some(parsed);
        }
    }
    Some(Pressure { some: some?, full })
}

fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"12\n"), Some(12));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b"max\n"[..], b"", b"-1", b"18446744073709551616", b"1 2"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn keyed_files() {
        let stat: Vec<_> = pairs(b"anon 5\nfile 7\nbroken\n").collect();
        assert_eq!(stat, [(&b"anon"[..], 5), (b"file", 7)]);
        let io: Vec<_> = fields(b"8:0 rbytes=1 wbytes=2").collect();
        assert_eq!(io, [(&b"rbytes"[..], &b"1"[..]), (b"wbytes", b"2")]);
        assert_eq!(device(b"254:16"), Some((254, 16)));
        assert_eq!(device(b"254"), None);
    }

    #[test]
    fn pressures() {
        let text = b"some avg10=1.50 avg60=0.20 avg300=0.00 total=77\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=3\n";
        let p = pressure(text).unwrap();
        assert_eq!((p.some.avg10, p.some.total_us), (1.5, 77));
        assert_eq!(p.full.unwrap().total_us, 3);
        let some_only = pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n").unwrap();
        assert!(some_only.full.is_none());
        assert!(pressure(b"").is_none());
    }

    proptest! {
        #[test]
        fn any_number_is_parsed(n: u64) {
            prop_assert_eq!(number(format!("{n}\n").as_bytes()), Some(n));
        }

        #[test]
        fn nothing_panics(text: Vec<u8>) {
            let _ = (number(&text), pairs(&text).count(), pressure(&text), device(&text));
        }
    }
}
