//! The order of Debian versions (deb-version(7)).

use std::cmp::Ordering;

/// Which of two versions is newer, as `dpkg --compare-versions` says.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (Parts::of(a), Parts::of(b));
    a.epoch
        .cmp(&b.epoch)
        .then_with(|| compare_part(a.upstream, b.upstream))
        .then_with(|| compare_part(a.revision, b.revision))
}

/// `[epoch:]upstream[-revision]`.
struct Parts<'a> {
    epoch: u64,
    upstream: &'a str,
    revision: &'a str,
}

impl<'a> Parts<'a> {
    fn of(version: &'a str) -> Self {
        let (epoch, rest) = match version.split_once(':') {
            Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
            None => (0, version),
        };
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Self { epoch, upstream, revision }
    }
}

/// Compares alternately a part without digits, character by character, and a number.
fn compare_part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (text_a, rest_a) = split(a, |c| !c.is_ascii_digit());
        let (text_b, rest_b) = split(b, |c| !c.is_ascii_digit());
        let (number_a, end_a) = split(rest_a, |c| c.is_ascii_digit());
        let (number_b, end_b) = split(rest_b, |c| c.is_ascii_digit());
        let order = compare_text(text_a, text_b).then_with(|| compare_number(number_a, number_b));
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (end_a, end_b);
    }
    Ordering::Equal
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `~` sorts before the end, which sorts before letters, which sort before everything else.
fn compare_text(a: &str, b: &str) -> Ordering {
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 256,
    };
    let (mut a, mut b) = (a.chars(), b.chars());
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let order = x.map_or(0, weight).cmp(&y.map_or(0, weight));
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Compares numbers of any length.
fn compare_number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_ordered_as_debian_orders_them() {
        for (older, newer) in [
            ("6.1.158-1", "6.1.176-1"),
            ("7.2.13-1~bpo13+1", "7.2.13-1"),
            ("1:7.2+dfsg-7+deb12u18", "1:10.0.2+ds-2+deb13u1~bpo12+1"),
            ("9.9", "1:1.0"),
            ("1.0~rc1-1", "1.0-1"),
            ("1.0~~", "1.0~"),
            ("1.0", "1.0a"),
            ("1.0a", "1.0+b"),
            ("1.0-1", "1.0-1+deb13u1"),
            ("1.9", "1.10"),
            ("1.0", "1.0-1"),
        ] {
            assert_eq!(compare(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
        }
        for (a, b) in [("1.0", "0:1.0"), ("1.01", "1.1"), ("1.0-0", "1.0"), ("", "")] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn it_is_a_total_order(versions in proptest::collection::vec("[0-9][a1~+.:-]{0,5}", 3)) {
            let [a, b, c] = versions.as_slice() else { unreachable!() };
            prop_assert_eq!(compare(a, a), Ordering::Equal);
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            if compare(a, b).is_le() && compare(b, c).is_le() {
                prop_assert!(compare(a, c).is_le());
            }
        }
    }
}
