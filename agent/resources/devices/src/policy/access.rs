//! Kinds of access to a device: read, write, create its node.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use nodewarden_ebpf_abi::{DEVICE_MKNOD, DEVICE_READ, DEVICE_WRITE};

/// A set of accesses, with the kernel's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Access(u32);

impl Access {
    pub const NONE: Self = Self(0);
    pub const READ: Self = Self(DEVICE_READ);
    pub const MKNOD: Self = Self(DEVICE_MKNOD);
    pub const READ_WRITE: Self = Self(DEVICE_READ | DEVICE_WRITE);
    pub const ALL: Self = Self(DEVICE_READ | DEVICE_WRITE | DEVICE_MKNOD);
    const LETTERS: [(char, u32); 3] = [('r', DEVICE_READ), ('w', DEVICE_WRITE), ('m', DEVICE_MKNOD)];

    /// Parses letters of `rwm` in any order, as plugins and the v1 controller write them. Other letters add
    /// nothing.
    pub fn parse(letters: &str) -> Self {
        let bit = |letter| Self::LETTERS.iter().find(|(l, _)| *l == letter).map_or(0, |(_, bit)| *bit);
        Self(letters.chars().fold(0, |set, letter| set | bit(letter)))
    }

    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    #[cfg(test)]
    pub fn contains(self, other: Self) -> bool {
        (other - self).is_empty()
    }

    /// The bits that the kernel programs use.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Access {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Access {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, bit) in Self::LETTERS {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}
