//! What cells are: the counters of one cgroup, in arrays by slot that the agent maps into its memory. The
//! table of them is in `topics`.

use crate::Space;

/// Buckets of a latency histogram.
pub const LATENCY_BUCKETS: usize = 24;
/// Bucket `i` counts values below 2^(LATENCY_FIRST_SHIFT + i) ns; the last one counts all greater values too.
pub const LATENCY_FIRST_SHIFT: u32 = 10;

/// How an array of cells is indexed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// By slot: all CPUs count into the same cell.
    Slot,
    /// By CPU × slot: each CPU counts into its own cell.
    CpuAndSlot,
}

/// One array of cells.
#[derive(Clone, Copy, Debug)]
pub struct CellArray {
    /// Name of the eBPF map.
    pub name: &'static str,
    /// Size of a cell in bytes.
    pub bytes: usize,
    /// What a cell of it is the counter of.
    pub index: Index,
    /// The hierarchy whose slots these are.
    pub space: Space,
}

/// The counters of one cgroup in one array.
///
/// # Safety
/// A `repr(C)` structure of integers without implicit padding, whose size is a multiple of 8 bytes: any bytes
/// are a value. `ARRAY` must be the place of its own array in `CELL_ARRAYS`.
pub unsafe trait Cell: Copy + 'static {
    /// Its array: an index into `CELL_ARRAYS`.
    const ARRAY: usize;
}

/// Defines `CELL_ARRAYS` from one line for each array: `Cell: "MAP" Index Space;`.
macro_rules! cell_arrays {
    ($($cell:ident: $name:literal $index:ident $space:ident;)*) => {
        #[expect(clippy::enum_variant_names, reason = "the variants are the names of the cells' types")]
        enum Array {
            $($cell,)*
        }

        /// Every array of cells.
        pub const CELL_ARRAYS: &[CellArray] = &[
            $(CellArray {
                name: $name,
                bytes: size_of::<$cell>(),
                index: Index::$index,
                space: Space::$space,
            },)*
        ];

        $(
            const _: () = assert!(size_of::<$cell>() % 8 == 0);
            // SAFETY: integers without padding (see the structure), whose size is checked above; the index is
            // that of its line.
            unsafe impl Cell for $cell {
                const ARRAY: usize = Array::$cell as usize;
            }
        )*
    };
}
pub(crate) use cell_arrays;

/// Reads the cells of loaded programs.
pub trait CellReader {
    /// A copy of the cell of a slot, in an array that is indexed by slot; `None` when there is no such slot.
    fn cell<T: Cell>(&self, slot: u32) -> Option<T>;
    /// Copies of the cells of a slot, one of each CPU, in an array that is indexed by CPU and slot.
    fn cells<T: Cell>(&self, slot: u32) -> impl Iterator<Item = T>;
}
