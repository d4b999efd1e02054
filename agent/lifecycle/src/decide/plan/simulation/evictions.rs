//! Evictions of the simulated pod.

use std::time::Duration;

use super::world::{World, lives};
use crate::decide::evicted::EndingChange;
use crate::decide::observed::Observed;
use crate::decide::plan::Plan;
use crate::fixture::at;
use nodewarden_config::{EvictionSettings, PodSettings};
use nodewarden_eviction::Eviction;

impl World {
    /// As a worker has it done. As far as is known it had not finished.
    pub(super) fn makes_way(&mut self, killed: bool, dies: [bool; 3]) {
        if killed {
            self.all_end();
        }
        let eviction = Eviction {
            reason: "Evicted".into(),
            message: "low".into(),
            grace: None,
            killed: false,
            condition: None,
        };
        let taken = self.record.evict(&eviction, Duration::from_secs(30), false, at(self.now));
        assert_eq!(taken, EndingChange::Started);
        self.nothing_starts(dies[0]);
        self.all_end();
        self.nothing_starts(dies[1]);
        self.observed = Observed::default();
        assert!(self.record.note_gone(at(self.now)));
        self.nothing_starts(dies[2]);
        let away = self.record.evicted().unwrap().restart_delay(&EvictionSettings::default(), at(self.now));
        self.now += i64::try_from(away.unwrap().as_secs()).unwrap();
        self.record.restart(at(self.now));
        // Another life: what was before counts for nothing.
        self.starts.clear();
        self.causes.clear();
        self.killed.clear();
        self.passed.clear();
        self.next_agent();
        assert_eq!(self.plan().actions, [crate::decide::plan::Action::CreateSandbox { attempt: 0 }]);
    }

    /// Whatever is to be seen of it, and by whichever agent.
    fn nothing_starts(&mut self, dies: bool) {
        if dies {
            self.next_agent();
        }
        assert_eq!(self.plan(), Plan::default());
        let settings = PodSettings::default();
        self.record.note_ends(&self.pod, &self.observed, &settings);
        self.now += 1;
    }

    fn all_end(&mut self) {
        for index in 0..self.observed.containers.len() {
            if lives(&self.observed.containers[index]) {
                self.end(index, 137);
            }
        }
    }
}
