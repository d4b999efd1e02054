//! Inputs with random changes, for machines without libFuzzer: always the same ones of the same input.

use std::env;

/// Variants of each input, in the unit tests.
const NUMBER: usize = 200;
/// Names another number of variants.
const VARIABLE: &str = "NODEWARDEN_FUZZ_VARIANTS";
/// What a change may put in, besides parts of the input itself.
const WORDS: [&[u8]; 16] = [
    b"\0",
    b"\xff",
    b"\n",
    b" ",
    b"---\n",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"\xff\xff\xff\xff",
    b"\xc3\xa4",
    b"max",
    b"null",
    b"{",
    b"\"",
];

/// How many variants of each input are read.
pub fn number() -> usize {
    env::var(VARIABLE).ok().and_then(|number| number.parse().ok()).unwrap_or(NUMBER)
}

/// Endless variants of an input, each with one to four changes.
pub fn of(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || {
        let mut variant = input.to_vec();
        for _ in 0..=random.below(4) {
            change(&mut variant, &mut random);
        }
        variant
    })
}

fn change(input: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(input.len() + 1);
    let to = from + random.below((input.len() - from).min(32) + 1);
    match random.below(6) {
        0 => drop(input.splice(from..to, WORDS[random.below(WORDS.len())].iter().copied())),
        1 => drop(input.splice(from..from, WORDS[random.below(WORDS.len())].iter().copied())),
        2 => drop(input.drain(from..to)),
        3 => {
            let part = input[from..to].to_vec();
            let at = random.below(input.len() + 1);
            input.splice(at..at, part);
        }
        4 => input.truncate(from),
        _ => {
            if let Some(byte) = input.get_mut(from) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

#[test]
fn variants_are_the_same_every_time_and_differ() {
    let some: Vec<_> = of(b"some input").take(100).collect();
    assert_eq!(some, of(b"some input").take(100).collect::<Vec<_>>());
    let different: std::collections::BTreeSet<_> = some.iter().collect();
    assert!(different.len() > 80, "{}", different.len());
    assert_eq!(of(b"").take(10).count(), 10);
}
