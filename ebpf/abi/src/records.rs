//! What records are: the events that go through the ring buffer. The table of them is in `topics`.

/// Bytes of a task's command, as the kernel keeps it.
pub const COMMAND_LEN: usize = 16;

/// The beginning of every record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    /// Number of the `Kind`.
    pub kind: u32,
    /// The space of the hierarchy that the record's cgroup is in.
    pub space: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Kernel id of the cgroup that the record is about.
    pub cgroup: u64,
}

/// Defines `Kind` and `Record` from one line for each kind: `Kind(Structure);`. The structures are `repr(C)`,
/// begin with a `header` and have only integers and arrays of bytes, so that any bytes are a value.
macro_rules! records {
    ($($(#[$doc:meta])* $kind:ident($record:ident);)*) => {
        /// What a record is about. Also the index of its loss counter.
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Number of kinds.
            pub const COUNT: usize = [$(stringify!($kind)),*].len();
            /// All kinds, in the order of their numbers.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$kind),*];
        }

        /// One record, as a program wrote it.
        #[derive(Clone, Copy)]
        pub enum Record {
            $($(#[$doc])* $kind($record),)*
        }

        impl Record {
            /// Its header.
            pub fn header(&self) -> &Header {
                match self {
                    $(Self::$kind(record) => &record.header,)*
                }
            }

            /// What it is about.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                }
            }

            /// Decodes one record; `None` when its kind is unknown or it is too short for its kind.
            pub fn decode(bytes: &[u8]) -> Option<Self> {
                let (kind, _) = bytes.split_first_chunk()?;
                let kind = *Kind::ALL.get(u32::from_ne_bytes(*kind) as usize)?;
                match kind {
                    $(Kind::$kind => {
                        if bytes.len() < size_of::<$record>() {
                            return None;
                        }
                        // SAFETY: long enough, read unaligned, and any bytes are a value of a record's
                        // structure.
                        let record = unsafe { bytes.as_ptr().cast::<$record>().read_unaligned() };
                        Some(Self::$kind(record))
                    })*
                }
            }
        }
    };
}
pub(crate) use records;
