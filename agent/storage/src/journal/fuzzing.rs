//! Entry points for fuzzing: the journal's files.

use nodewarden_model::Event;

use super::Limits;
use super::memory::Memory;
use super::packed::Parts;
use super::restore::take;

/// Reads the lines of a file of the journal: the events that are kept, how many lines were skipped, and the
/// number of the next event.
pub fn journal(lines: &[u8]) -> (Vec<Event>, u64, u64) {
    let mut memory =
        Memory::new(&Limits { memory_events: 1000, memory_bytes: 64 << 10, ..Limits::default() });
    let skipped = take(lines, &mut memory);
    let events = memory.from(0, usize::MAX).events.iter().map(super::packed::Packed::unpack).collect();
    (events, skipped, memory.next_seq())
}

/// The event after it was packed into memory and unpacked, and the estimated bytes that are left after it was
/// dropped.
pub fn repacked(event: &Event) -> (Event, usize) {
    let mut parts = Parts::default();
    let packed = parts.pack(event);
    parts.forget(&packed);
    (packed.unpack(), parts.bytes())
}
