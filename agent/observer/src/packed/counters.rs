//! What the kernel programs had counted for a cgroup at the last reading.

use std::sync::Arc;

use nodewarden_model::{
    BlockCounters, CpuCounters, KernelCounters, Log2Histogram, NetworkCounters, ProcessCounters,
    ReclaimCounters,
};

use super::{Figures, Packed};

/// [`KernelCounters`] in little memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptCounters {
    /// As they are: most cgroups share one value.
    block: Option<Arc<BlockCounters>>,
    figures: Packed,
}

impl KeptCounters {
    /// What was kept.
    pub fn get(&self) -> KernelCounters {
        let mut counters = KernelCounters { block: self.block.clone(), ..KernelCounters::default() };
        each(&mut self.figures.reader(), &mut counters);
        counters
    }

    /// Keeps these instead.
    pub fn set(&mut self, counters: &mut KernelCounters) {
        self.figures.set(|figures| each(figures, counters));
        self.block.clone_from(&counters.block);
    }

    /// How often the cgroup's tasks were switched out ([`CpuCounters::switches`]), if that is counted. Takes
    /// less time than [`Self::get`].
    pub fn switches(&self) -> Option<u64> {
        let mut cpu = None;
        // The first that is written, see `each`.
        self.figures.reader().part(&mut cpu, switches);
        cpu.as_ref().map(CpuCounters::switches)
    }
}

/// Every figure but those of the topic block.
fn each(f: &mut impl Figures, counters: &mut KernelCounters) {
    let KernelCounters { cpu: of_cpu, oom_kills, reclaim, process, network, block: _ } = counters;
    f.part(of_cpu, cpu);
    f.optional(oom_kills);
    f.part(reclaim, |f, reclaim| {
        let ReclaimCounters {
            direct_count,
            direct_stall_ns,
            direct_pages,
            memcg_count,
            memcg_stall_ns,
            memcg_pages,
        } = reclaim;
        for figure in [direct_count, direct_stall_ns, direct_pages, memcg_count, memcg_stall_ns, memcg_pages]
        {
            f.number(figure);
        }
    });
    f.part(process, |f, process| {
        let ProcessCounters { forks, execs, exits, signal_exits } = process;
        for figure in [forks, execs, exits, signal_exits] {
            f.number(figure);
        }
    });
    f.part(network, |f, network| {
        let NetworkCounters { rx_bytes, rx_packets, tx_bytes, tx_packets } = network;
        for figure in [rx_bytes, rx_packets, tx_bytes, tx_packets] {
            f.number(figure);
        }
    });
}

fn cpu(f: &mut impl Figures, cpu: &mut CpuCounters) {
    switches(f, cpu);
    let CpuCounters {
        on_cpu_ns,
        wait: Log2Histogram { buckets, sum_ns },
        voluntary_switches: _,
        preempted_switches: _,
    } = cpu;
    f.number(on_cpu_ns);
    f.number(sum_ns);
    for bucket in buckets {
        f.number(bucket);
    }
}

fn switches(f: &mut impl Figures, cpu: &mut CpuCounters) {
    f.number(&mut cpu.voluntary_switches);
    f.number(&mut cpu.preempted_switches);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counters() -> impl Strategy<Value = KernelCounters> {
        let number = || prop_oneof![Just(0), 0..200_u64, any::<u64>()];
        let numbers = |length| prop::collection::vec(number(), length);
        let cpu = numbers(28).prop_map(|n| {
            let wait = Log2Histogram { buckets: std::array::from_fn(|i| n[i]), sum_ns: n[24] };
            // Their sum has to be a number too.
            let [voluntary_switches, preempted_switches] = [n[25] / 2, n[26] / 2];
            CpuCounters { on_cpu_ns: n[27], wait, voluntary_switches, preempted_switches }
        });
        let reclaim = numbers(6).prop_map(|n| ReclaimCounters {
            direct_count: n[0],
            direct_stall_ns: n[1],
            direct_pages: n[2],
            memcg_count: n[3],
            memcg_stall_ns: n[4],
            memcg_pages: n[5],
        });
        let process = numbers(4).prop_map(|n| ProcessCounters {
            forks: n[0],
            execs: n[1],
            exits: n[2],
            signal_exits: n[3],
        });
        let network = numbers(4).prop_map(|n| NetworkCounters {
            rx_bytes: n[0],
            rx_packets: n[1],
            tx_bytes: n[2],
            tx_packets: n[3],
        });
        let block = number().prop_map(|n| {
            let read = Log2Histogram { sum_ns: n, ..Log2Histogram::default() };
            Arc::new(BlockCounters { read, ..BlockCounters::default() })
        });
        use prop::option::of as maybe;
        (maybe(cpu), maybe(number()), maybe(reclaim), maybe(process), maybe(network), maybe(block)).prop_map(
            |(cpu, oom_kills, reclaim, process, network, block)| KernelCounters {
                cpu,
                oom_kills,
                reclaim,
                process,
                network,
                block,
            },
        )
    }

    proptest! {
        #[test]
        fn counters_are_kept_as_they_are(first in counters(), second in counters()) {
            let mut kept = KeptCounters::default();
            for mut counters in [first, second] {
                let written = counters.clone();
                kept.set(&mut counters);
                prop_assert_eq!(&counters, &written, "writing changes nothing");
                prop_assert_eq!(kept.get(), counters.clone());
                prop_assert_eq!(kept.switches(), counters.cpu.as_ref().map(CpuCounters::switches));
            }
        }
    }

    #[test]
    fn new_ones_are_the_default() {
        assert_eq!(KeptCounters::default().get(), KernelCounters::default());
        assert_eq!(KeptCounters::default().switches(), None);
    }

    #[test]
    fn counters_of_an_idle_cgroup_take_little_memory() {
        let mut kept = KeptCounters::default();
        kept.set(&mut KernelCounters::idle());
        assert!(kept.figures.len() <= 10, "{}", kept.figures.len());
        kept.set(&mut KernelCounters::example());
        assert!(kept.figures.len() <= 80, "{}", kept.figures.len());
        assert!(size_of::<KeptCounters>() <= 24, "{}", size_of::<KeptCounters>());
    }
}
