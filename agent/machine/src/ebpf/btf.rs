//! The kernel's type information (BTF), as far as the layout needs it: structures, typedefs, enums,
//! prototypes.
//!
//! Documentation/bpf/btf.rst and include/uapi/linux/btf.h describe the format. One pass records the offset of
//! each type; a type is decoded when it is requested. aya has a reader of its own, which finds ids by name
//! but does not publish members: both get the same bytes.

use memchr::{memchr, memmem};

use super::layout::CGROUP_ITERATOR;

/// BTF_MAGIC in this machine's byte order.
const MAGIC: u16 = 0xeb9f;
/// `struct btf_type`: name_off, info, size or type.
const RECORD: usize = 12;

/// How many typedefs and qualifiers of one type are followed; the kernel's have fewer than ten.
const MOST_ALIASES: usize = 64;

/// Why type information cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    #[error("begins with {0:#06x}, not with {MAGIC:#06x}")]
    Magic(u16),
    #[error("ends in the middle of something: nothing at byte {0}")]
    Truncated(usize),
    #[error("type {id} is of kind {kind}, which is not known")]
    Kind { id: usize, kind: u32 },
}

/// BTF as a kernel shows it in `/sys/kernel/btf/vmlinux`.
pub struct Btf<'a> {
    bytes: &'a [u8],
    /// Where the string section begins and ends.
    strings: (usize, usize),
    /// Where each type's record is; type 0 is `void` and has none.
    records: Vec<usize>,
    /// Name offset and id of each named structure, union, typedef and enum.
    named: Vec<(u32, u32)>,
}

/// One type, decoded as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Pointer(u32),
    Array,
    /// A structure or union.
    Struct(Struct),
    /// Another name for a type, or a type with a qualifier: typedef, const, volatile, restrict, type tag.
    Alias(u32),
    Enum(Members),
    Integer,
    /// A function's prototype; its members are the parameters.
    Prototype(Members),
    Other,
}

/// A structure or union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Struct {
    /// Bytes.
    pub size: u32,
    members: Members,
    /// Whether an offset's upper 8 bits are the size of a bit field (kind_flag).
    bit_fields: bool,
}

/// Where the members of a type are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members {
    at: usize,
    count: usize,
}

/// A member of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Empty for an anonymous structure or union.
    pub name: &'a str,
    pub type_id: u32,
    /// Bits from the structure's beginning.
    pub offset: u32,
}

impl<'a> Btf<'a> {
    /// Finds the types in the bytes of a file.
    ///
    /// # Errors
    /// They are cut off, or not BTF of this machine's byte order.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let word = |at: usize| word(bytes, at).ok_or(BtfError::Truncated(at));
        let magic = (word(0)? & 0xffff) as u16;
        if magic != MAGIC {
            return Err(BtfError::Magic(magic));
        }
        // struct btf_header: magic, version, flags, hdr_len, type_off, type_len, str_off, str_len
        let header = word(4)? as usize;
        let types = header + word(8)? as usize;
        let end = types + word(12)? as usize;
        let strings = header + word(16)? as usize;
        let strings = (strings, strings + word(20)? as usize);
        if bytes.len() < end.max(strings.1) {
            return Err(BtfError::Truncated(bytes.len()));
        }
        let (mut records, mut named) = (vec![0], Vec::new());
        let mut at = types;
        while at < end {
            let info = word(at + 4)?;
            let (kind, count) = kind_and_count(info);
            let id = records.len();
            let more = match kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => count * 12,
                kind::ENUM | kind::FUNC_PROTO => count * 8,
                kind::PTR..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
                _ => return Err(BtfError::Kind { id, kind }),
            };
            let name = word(at)?;
            if name != 0 && matches!(kind, kind::STRUCT | kind::UNION | kind::TYPEDEF | kind::ENUM) {
                named.push((name, id as u32));
            }
            records.push(at);
            at += RECORD + more;
        }
        if at != end {
            return Err(BtfError::Truncated(at));
        }
        Ok(Self { bytes, strings, records, named })
    }

    /// Structures, unions, typedefs and enums of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = Type> {
        // Each string is stored once (btf__dedup() in libbpf), between zero bytes.
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        let strings = self.bytes.get(self.strings.0..self.strings.1).unwrap_or_default();
        let offset = memmem::find(strings, &wanted).map(|before| before as u32 + 1);
        self.named.iter().filter(move |(name, _)| Some(*name) == offset).map(|(_, id)| self.get(*id))
    }

    /// The type of an id.
    pub fn get(&self, id: u32) -> Type {
        let Some(&at) = self.records.get(id as usize).filter(|_| id != 0) else { return Type::Other };
        let (Some(info), Some(third)) = (word(self.bytes, at + 4), word(self.bytes, at + 8)) else {
            return Type::Other;
        };
        let (kind, count) = kind_and_count(info);
        let members = Members { at: at + RECORD, count };
        match kind {
            kind::PTR => Type::Pointer(third),
            kind::ARRAY => Type::Array,
            kind::STRUCT | kind::UNION => {
                Type::Struct(Struct { size: third, members, bit_fields: info >> 31 == 1 })
            }
            kind::INT => Type::Integer,
            kind::ENUM => Type::Enum(members),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                Type::Alias(third)
            }
            kind::FUNC_PROTO => Type::Prototype(members),
            _ => Type::Other,
        }
    }

    /// The type of an id without typedefs and qualifiers.
    pub fn plain(&self, mut id: u32) -> Type {
        // Bounded, in case the file has a cycle.
        for _ in 0..MOST_ALIASES {
            match self.get(id) {
                Type::Alias(next) => id = next,
                other => return other,
            }
        }
        Type::Other
    }

    /// The members of a structure, in their order.
    pub fn members(&self, of: Struct) -> impl Iterator<Item = Member<'_>> {
        self.entries(of.members, 12).map(move |at| {
            let offset = self.word(at + 8);
            Member {
                name: self.string(self.word(at)),
                type_id: self.word(at + 4),
                offset: if of.bit_fields { offset & 0x00ff_ffff } else { offset },
            }
        })
    }

    /// Names and values of an enum.
    pub fn enumerators(&self, of: Members) -> impl Iterator<Item = (&str, u32)> {
        self.entries(of, 8).map(|at| (self.string(self.word(at)), self.word(at + 4)))
    }

    /// The ids of the types of a prototype's parameters, in their order.
    pub fn parameters(&self, of: Members) -> impl Iterator<Item = u32> {
        self.entries(of, 8).map(|at| self.word(at + 4))
    }

    /// The name of a type, of what it points to if it is a pointer: `request` for `const struct request *`.
    /// `void` for what has no name.
    pub fn name(&self, mut id: u32) -> &str {
        for _ in 0..self.records.len() {
            let Some(&at) = self.records.get(id as usize).filter(|_| id != 0) else { break };
            let name = self.string(self.word(at));
            if !name.is_empty() {
                return name;
            }
            match self.get(id) {
                Type::Pointer(to) | Type::Alias(to) => id = to,
                _ => break,
            }
        }
        "void"
    }

    /// Whether there is a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        let is_it = |at: &usize| self.is_function(*at) && self.string(self.word(*at)) == name;
        // Functions come late.
        self.records.iter().skip(1).rev().any(is_it)
    }

    fn is_function(&self, at: usize) -> bool {
        kind_and_count(self.word(at + 4)).0 == kind::FUNC
    }

    /// BTF in which the typedefs `btf_trace_NAME` and the function [`CGROUP_ITERATOR`] have the ids that they
    /// have here, and all other types are replaced by a nameless one without members. It is all that
    /// attaching to tracepoints and iterating over cgroups need: aya decodes every type of what it is given,
    /// which takes tens of milliseconds and megabytes for the kernel's own.
    pub fn only_hooks(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut types: Vec<u32> = Vec::new();
        // Where the last typedef ends: nothing after it is needed.
        let mut end = 0;
        for &at in self.records.iter().skip(1) {
            let (mut name, mut info, mut third) = (0, kind::FWD << 24, 0);
            let text = || self.string(self.word(at));
            let is_hook = match kind_and_count(self.word(at + 4)).0 {
                kind::TYPEDEF => text().starts_with("btf_trace_"),
                kind::FUNC => text() == CGROUP_ITERATOR,
                _ => false,
            };
            if is_hook {
                (name, info, third) = (strings.len() as u32, self.word(at + 4), self.word(at + 8));
                strings.extend(text().bytes().chain([0]));
                end = types.len() + RECORD / 4;
            }
            types.extend([name, info, third]);
        }
        types.truncate(end);
        let length = (types.len() * 4) as u32;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(strings).collect()
    }

    fn entries(&self, of: Members, size: usize) -> impl Iterator<Item = usize> + use<> {
        (0..of.count).map(move |i| of.at + i * size)
    }

    /// A word whose presence the walk has checked.
    fn word(&self, at: usize) -> u32 {
        word(self.bytes, at).unwrap_or_default()
    }

    fn string(&self, offset: u32) -> &str {
        let begin = self.strings.0 + offset as usize;
        let rest = self.bytes.get(begin..self.strings.1).unwrap_or_default();
        let end = memchr(0, rest).unwrap_or_default();
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Bits 24 to 28 and 0 to 15 of `btf_type.info`.
fn kind_and_count(info: u32) -> (u32, usize) {
    ((info >> 24) & 0x1f, (info & 0xffff) as usize)
}

/// BTF_KIND_*.
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct s { union { u64 a; }; const int b : 3; }; typedef struct s t; enum e { E = 7 };`
    fn sample() -> Vec<u8> {
        let strings = b"\0s\0a\0b\0t\0e\0E\0int\0";
        let name = |n: &str| {
            let wanted = format!("\0{n}\0");
            strings.windows(wanted.len()).position(|w| w == wanted.as_bytes()).unwrap() as u32 + 1
        };
        let types: Vec<u32> = [
            vec![name("int"), kind::INT << 24, 4, 32],          // 1
            vec![0, kind::UNION << 24 | 1, 8, name("a"), 1, 0], // 2
            vec![0, kind::CONST << 24, 1],                      // 3
            vec![name("s"), 1 << 31 | kind::STRUCT << 24 | 2, 16, 0, 2, 0, name("b"), 3, 3 << 24 | 64], // 4
            vec![name("t"), kind::TYPEDEF << 24, 4],            // 5
            vec![name("e"), kind::ENUM << 24 | 1, 4, name("E"), 7], // 6
            vec![0, kind::PTR << 24, 5],                        // 7
            vec![0, kind::FUNC_PROTO << 24 | 2, 0, 0, 1, 0, 7], // 8
        ]
        .concat();
        let length = (types.len() * 4) as u32;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn structures_with_their_members() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        let Some(Type::Struct(s)) = btf.named("s").next() else { panic!() };
        assert_eq!(s.size, 16);
        let members: Vec<_> = btf.members(s).collect();
        assert_eq!(members[0], Member { name: "", type_id: 2, offset: 0 });
        assert_eq!(members[1], Member { name: "b", type_id: 3, offset: 64 });
        assert_eq!(btf.plain(3), Type::Integer);
        assert_eq!(btf.plain(5), Type::Struct(s));
        assert_eq!(btf.named("a").next(), None, "a member is no type");
        assert_eq!(btf.named("no").next(), None);
    }

    #[test]
    fn enums_and_prototypes() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        let Some(Type::Enum(e)) = btf.named("e").next() else { panic!() };
        assert_eq!(btf.enumerators(e).collect::<Vec<_>>(), [("E", 7)]);
        let Type::Prototype(p) = btf.get(8) else { panic!() };
        assert_eq!(btf.parameters(p).collect::<Vec<_>>(), [1, 7]);
        assert_eq!((btf.name(1), btf.name(7), btf.name(3)), ("int", "t", "int"));
        assert_eq!((btf.name(0), btf.name(8), btf.name(99)), ("void", "void", "void"));
        assert_eq!((btf.get(0), btf.get(99)), (Type::Other, Type::Other));
    }

    #[test]
    fn hooks_keep_their_ids_and_nothing_else_its_name() {
        let strings = b"\0btf_trace_a\0t\0btf_trace_b\0s\0bpf_iter_cgroup\0";
        let types: Vec<u32> = [
            vec![27, kind::STRUCT << 24 | 1, 8, 0, 2, 0], // 1: s
            vec![1, kind::TYPEDEF << 24, 7],              // 2: btf_trace_a
            vec![13, kind::TYPEDEF << 24, 1],             // 3: t
            vec![1, kind::FUNC << 24, 1],                 // 4: a function of a tracepoint's name
            vec![15, kind::TYPEDEF << 24, 1],             // 5: btf_trace_b
            vec![29, kind::FUNC << 24, 5],                // 6: bpf_iter_cgroup
            vec![0, kind::PTR << 24, 1],                  // 7
        ]
        .concat();
        let length = (types.len() * 4) as u32;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        let bytes: Vec<u8> = words.chain(strings.iter().copied()).collect();
        let only = Btf::parse(&bytes).unwrap().only_hooks();
        let btf = Btf::parse(&only).unwrap();
        assert_eq!(btf.records.len(), 7, "nothing after the last hook");
        let name = |id: usize| btf.string(btf.word(btf.records[id])).to_owned();
        let names: Vec<String> = (1..7).map(name).collect();
        assert_eq!(names, ["", "btf_trace_a", "", "", "btf_trace_b", "bpf_iter_cgroup"]);
        assert!(btf.has_function("bpf_iter_cgroup") && !btf.has_function("btf_trace_a"));
        assert_eq!(btf.get(2), Type::Alias(7));
        assert_eq!([1, 3, 4].map(|id| btf.get(id)), [Type::Other; 3]);
    }

    #[test]
    fn whatever_is_cut_off_is_an_error() {
        let whole = sample();
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(Btf::parse(b"\x7fELF...."), Err(BtfError::Magic(0x457f))));
        let mut unknown = sample();
        unknown[24 + 7] = 31;
        assert!(matches!(Btf::parse(&unknown), Err(BtfError::Kind { id: 1, kind: 31 })));
    }

    proptest::proptest! {
        #[test]
        fn no_byte_makes_it_panic(at in 0usize..200, value: u8) {
            let mut bytes = sample();
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(btf) = Btf::parse(&bytes) {
                for found in ["s", "t", "e"].into_iter().flat_map(|name| btf.named(name)) {
                    if let Type::Struct(s) = found {
                        proptest::prop_assert!(btf.members(s).all(|m| m.name.len() < 200));
                    }
                }
                proptest::prop_assert!((0..10).all(|id| !matches!(btf.plain(id), Type::Alias(_))));
            }
        }
    }
}
