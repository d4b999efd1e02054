//! The longest turns of the last 30 to 60 seconds, so that a scrape twice a minute misses none.

use std::time::Duration;

use nodewarden_model::CpuTurn;

/// Half of the time for which a turn is shown at most.
const HALF: Duration = Duration::from_secs(30);

/// The longest turns of one CPU, one of each user.
#[derive(Debug, Default)]
pub struct Recent {
    begun: Duration,
    now: Vec<CpuTurn>,
    before: Vec<CpuTurn>,
}

impl Recent {
    /// Takes the turns of a reading at `now`, a time since the agent's start.
    pub fn take(&mut self, turns: &[CpuTurn], now: Duration) {
        if now.saturating_sub(self.begun) >= HALF {
            let gone = now.saturating_sub(self.begun) >= HALF * 2;
            self.before = if gone { Vec::new() } else { std::mem::take(&mut self.now) };
            self.now.clear();
            self.begun = now;
        }
        merge(&mut self.now, turns);
    }

    /// The longest of each user, in the order of users.
    pub fn longest(&self) -> Vec<CpuTurn> {
        let mut all = self.before.clone();
        merge(&mut all, &self.now);
        all.sort_by_key(|turn| turn.user);
        all
    }
}

fn merge(longest: &mut Vec<CpuTurn>, turns: &[CpuTurn]) {
    for turn in turns {
        match longest.iter_mut().find(|known| known.user == turn.user) {
            Some(known) if known.ns >= turn.ns => {}
            Some(known) => known.clone_from(turn),
            None => longest.push(turn.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::CpuUser;

    use super::*;

    #[test]
    fn a_turn_is_shown_for_half_a_minute_to_a_minute() {
        let mut recent = Recent::default();
        let turn = |user, ns| CpuTurn { user, ns, pid: 1, name: String::new() };
        let mut shown = Vec::new();
        for second in 0..120 {
            let ns = if second == 40 { 500 } else { 1 };
            recent.take(&[turn(CpuUser::Other, ns)], Duration::from_secs(second));
            if recent.longest() == [turn(CpuUser::Other, 500)] {
                shown.push(second);
            }
        }
        assert_eq!((shown.first(), shown.last()), (Some(&40), Some(&89)));
    }

    #[test]
    fn each_user_has_its_own() {
        let mut recent = Recent::default();
        let turn = |user, ns| CpuTurn { user, ns, pid: 1, name: String::new() };
        recent.take(&[turn(CpuUser::Softirq, 5), turn(CpuUser::Other, 3)], Duration::from_secs(1));
        recent.take(&[turn(CpuUser::Softirq, 2), turn(CpuUser::Other, 4)], Duration::from_secs(2));
        assert_eq!(recent.longest(), [turn(CpuUser::Other, 4), turn(CpuUser::Softirq, 5)]);
        // Nothing was read for long.
        recent.take(&[], Duration::from_secs(200));
        assert_eq!(recent.longest(), []);
    }
}
