//! Threads and tasks of the agent: blocking work, bounded by purpose ([`blocking`]), and the long-lived
//! parts, whose end or standstill is noticed ([`parts`]); pauses of periodic tasks ([`mod@pause`]); how often
//! something may be done ([`rate`]); whose work a panic is laid to ([`faults`]).

#![deny(missing_docs)]

pub mod blocking;
pub mod faults;
pub mod parts;
pub mod pause;
pub mod rate;
