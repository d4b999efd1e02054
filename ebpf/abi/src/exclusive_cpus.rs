//! CPUs that one container has for itself: what the agent writes for the kernel programs, and what these
//! count.

use crate::COMMAND_LEN;

/// Who uses a CPU, as the index of what is counted of them.
pub const BY_OWNER: usize = 0;
/// A kernel thread (PF_KTHREAD).
pub const BY_KERNEL_THREAD: usize = 1;
/// A task of another cgroup than the owner's and those below it.
pub const BY_OTHER: usize = 2;
/// Nothing: the idle task.
pub const BY_IDLE: usize = 3;
/// Number of those.
pub const TASK_KINDS: usize = 4;

/// Index in `ExclusiveCpu::longest`: turns of kernel threads.
pub const LONGEST_KERNEL_THREAD: usize = 0;
/// Turns of tasks of other cgroups.
pub const LONGEST_OTHER: usize = 1;
/// Interrupt handlers.
pub const LONGEST_INTERRUPT: usize = 2;
/// Softirqs.
pub const LONGEST_SOFTIRQ: usize = 3;
/// Number of those.
pub const LONGEST_KINDS: usize = 4;

/// In `LongestTurn::number` of an interrupt: one of the vectors that are not in /proc/interrupts by number
/// (x86), which is the rest of the number.
pub const VECTOR: u32 = 1 << 31;

/// Bits of a cgroup's kernel id in the word of a CPU's owner.
const ID_BITS: u32 = 48;

/// The word that says whose a CPU is: the owner's cgroup in the cpu controller's hierarchy by its kernel id
/// and its level (the root has 0), and how often the CPU became exclusive. Never 0, which is for a CPU that
/// is not exclusive. It is one word, so that a program never reads half of a change.
pub const fn owner_word(id: u64, level: u8, generation: u8) -> u64 {
    (id & ((1 << ID_BITS) - 1)) | (level as u64) << ID_BITS | (generation as u64) << (ID_BITS + 8)
}

/// The owner's kernel id in that word.
pub const fn owner_id(word: u64) -> u64 {
    word & ((1 << ID_BITS) - 1)
}

/// The owner's level in that word.
pub const fn owner_level(word: u64) -> u32 {
    (word >> ID_BITS) as u32 & 0xff
}

/// The longest time that the owner was kept off its CPU at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestTurn {
    /// The period between two readings in which it ended; what is left of an earlier one does not count.
    pub period: u64,
    /// How long it took, in ns.
    pub ns: u64,
    /// The task; 0 for interrupts and softirqs.
    pub pid: u32,
    /// The number of the interrupt (see `VECTOR`) or of the softirq; 0 for tasks.
    pub number: u32,
    /// The task's command; zeroes for interrupts and softirqs.
    pub command: [u8; COMMAND_LEN],
}

/// What is counted on one CPU, and what runs there now. Only that CPU writes it: the program at
/// `sched_switch` and those of interrupts with interrupts disabled, those of softirqs their own words, so
/// that none interrupts another that writes the same word. Times are in ns, moments CLOCK_MONOTONIC.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct ExclusiveCpu {
    /// Time of each kind of task (`BY_OWNER` …), without interrupts and softirqs, and without the turn that
    /// is still running.
    pub task_ns: [u64; TASK_KINDS],
    /// Switches to each kind of task.
    pub switches: [u64; TASK_KINDS],
    /// Time in handlers of interrupts.
    pub interrupt_ns: u64,
    /// How many handlers ran.
    pub interrupts: u64,
    /// Time in softirqs, without the interrupts that came meanwhile.
    pub softirq_ns: u64,
    /// How many softirqs ran.
    pub softirqs: u64,

    /// The owner's word when the running turn began; 0 before the first switch.
    pub owner: u64,
    /// When the running turn began.
    pub since_ns: u64,
    /// `interrupt_ns` at that moment.
    pub interrupt_ns_before: u64,
    /// `softirq_ns` at that moment.
    pub softirq_ns_before: u64,
    /// The running task; 0 is the idle task.
    pub pid: u32,
    /// Its kind.
    pub kind: u32,
    /// Kernel id of the cgroup, other than the owner's, whose task was looked at last; 0 for none.
    pub looked_up: u64,
    /// The kind of its tasks.
    pub looked_up_kind: u64,
    /// The scheduler's clock minus CLOCK_MONOTONIC, measured at the last turn.
    pub clock_offset_ns: u64,
    /// Number of switches that the kernel made without calling the tracepoint.
    pub untraced: u64,

    /// When the running handler of an interrupt began; 0 if none runs.
    pub interrupt_since_ns: u64,
    /// When the running softirq began; 0 if none runs.
    pub softirq_since_ns: u64,
    /// `interrupt_ns` at that moment.
    pub softirq_interrupt_ns_before: u64,

    /// The longest turns (`LONGEST_KERNEL_THREAD` …) of the running period and of the one before: of period
    /// `p` at index `p & 1`. The agent begins a period before it reads those of the one before.
    pub longest: [[LongestTurn; LONGEST_KINDS]; 2],
}

const _: () = assert!(size_of::<ExclusiveCpu>().is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_id_and_level() {
        for (id, level, generation) in [(1, 1, 0), (0xffff_ffff_ffff, 255, 255), (0x1_0000_002a, 3, 7)] {
            let word = owner_word(id, level, generation);
            assert_eq!((owner_id(word), owner_level(word)), (id, u32::from(level)));
        }
        assert_ne!(owner_word(1, 2, 3), owner_word(1, 2, 4));
        assert_ne!(owner_word(1, 0, 0), 0);
    }
}
