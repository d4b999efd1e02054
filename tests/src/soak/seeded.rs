//! Rounds that are begun until the time is over, each of which its seed decides, and what was done in them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::e2e::hierarchy::pods::Dice;
use crate::harness::Failure;

/// How long to run, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct SeededRounds {
    /// How long rounds are begun.
    pub duration: Duration,
    /// The seed of the rounds' seeds.
    pub seed: u64,
    /// Only the round with this seed.
    pub round: Option<u64>,
}

/// What one kind of soak does in its rounds.
pub trait Rounds {
    /// What happens in a round.
    type Plan;
    /// What was done in it.
    type Done: fmt::Display;

    /// The seed of round `number`, from 0 on.
    fn seed(dice: &mut Dice, number: u64) -> u64;

    /// The round with this seed, and what distinguishes it, in a few words.
    fn plan(&self, seed: u64) -> (Self::Plan, String);

    /// Runs the round.
    ///
    /// # Errors
    /// A requirement is violated, or a step fails.
    fn run(&mut self, plan: &Self::Plan) -> Result<Self::Done, Failure>;
}

impl SeededRounds {
    /// Runs rounds until the time is over, at least one. `progress` is called with messages for the user.
    ///
    /// # Errors
    /// A round fails; the text has its seed.
    pub fn run<R: Rounds>(&self, rounds: &mut R, progress: impl Fn(&str)) -> Result<Vec<R::Done>, Failure> {
        progress(&format!("{} s, --seed {}", self.duration.as_secs(), self.seed));
        let begun = Instant::now();
        let mut dice = Dice::new(self.seed);
        let mut all = Vec::new();
        while all.is_empty() || self.round.is_none() && begun.elapsed() < self.duration {
            let own = R::seed(&mut dice, all.len() as u64);
            let (seed, number) = (self.round.unwrap_or(own), all.len() + 1);
            let (plan, title) = rounds.plan(seed);
            let before = begun.elapsed();
            let done = rounds.run(&plan);
            let after = begun.elapsed();
            let heading = format!("{:4} s round {number:3} (--round {seed:10}) {title:31}", after.as_secs());
            match done {
                Ok(done) => {
                    progress(&format!("{heading} {:3} s: {done}", (after - before).as_secs()));
                    all.push(done);
                }
                Err(failure) => {
                    progress(&format!("{heading} FAILED: {failure}"));
                    return Err(Failure::Unexpected(format!("round {number} (--round {seed}): {failure}")));
                }
            }
        }
        Ok(all)
    }
}

/// The seed of round `number` where a round has one of `kinds` kinds: they come in turn.
pub fn seed_in_turn(dice: &mut Dice, number: u64, kinds: usize) -> u64 {
    dice.roll(1 << 24) * kinds as u64 + number % kinds as u64
}

/// The kind of the round with such a seed.
pub fn kind_of<K: Copy>(seed: u64, kinds: &[K]) -> K {
    kinds[(seed % kinds.len() as u64) as usize]
}

/// How often what was done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// This was done once.
    pub fn one(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// This was done so often.
    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        other.0.into_iter().for_each(|(what, count)| self.add(what, count));
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, own| {
            sum += own;
            sum
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(what, count)| format!("{what} {count}")).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KINDS: [&str; 3] = ["a", "b", "c"];

    /// Fails in its third round.
    struct Three(Vec<u64>);

    impl Rounds for Three {
        type Plan = u64;
        type Done = Counts;

        fn seed(dice: &mut Dice, number: u64) -> u64 {
            seed_in_turn(dice, number, KINDS.len())
        }

        fn plan(&self, seed: u64) -> (u64, String) {
            (seed, kind_of(seed, &KINDS).to_owned())
        }

        fn run(&mut self, plan: &u64) -> Result<Counts, Failure> {
            self.0.push(*plan);
            if self.0.len() == 3 {
                return Err(Failure::Unexpected("wrong".into()));
            }
            let mut counts = Counts::default();
            counts.one(kind_of(*plan, &KINDS));
            Ok(counts)
        }
    }

    fn rounds(seconds: u64, round: Option<u64>) -> SeededRounds {
        SeededRounds { duration: Duration::from_secs(seconds), seed: 1, round }
    }

    #[test]
    fn kinds_come_in_turn_and_a_failure_names_the_seed_of_its_round() {
        let mut three = Three(Vec::new());
        let failure = rounds(60, None).run(&mut three, |_| {}).unwrap_err().to_string();
        let seed = three.0[2];
        assert!(failure.contains(&format!("round 3 (--round {seed}): ")), "{failure}");
        assert_eq!(three.0.iter().map(|seed| kind_of(*seed, &KINDS)).collect::<Vec<_>>(), KINDS);
        assert_eq!(three.0.iter().collect::<BTreeSet<_>>().len(), 3);
        let mut again = Three(vec![0, 0]);
        rounds(60, Some(seed)).run(&mut again, |_| {}).unwrap_err();
        assert_eq!(again.0[2], seed);
    }

    #[test]
    fn one_round_is_run_however_short_the_time() {
        assert_eq!(rounds(0, None).run(&mut Three(Vec::new()), |_| {}).unwrap().len(), 1);
        assert_eq!(rounds(60, Some(4)).run(&mut Three(Vec::new()), |_| {}).unwrap().len(), 1);
    }

    #[test]
    fn counts_are_added_by_what_was_done() {
        let of = |what: &[&'static str]| {
            let mut counts = Counts::default();
            what.iter().for_each(|what| counts.one(what));
            counts
        };
        let sum: Counts = [of(&["a"]), of(&["b", "a"])].into_iter().sum();
        assert_eq!(sum.to_string(), "a 2, b 1");
    }
}
