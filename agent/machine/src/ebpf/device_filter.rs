//! What a device program of a cgroup decides, found out without running it: its instructions are followed
//! with the device as its context. Pure.
//!
//! Container runtimes and systemd write such programs from lists of rules: they load the three words of the
//! context, compare, jump forward and return. A program that does anything else is not understood, and
//! nothing is said of it.

use nodewarden_ebpf_abi::{DEVICE_READ, DEVICE_WRITE};

/// An access to a device, as the kernel gives it to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceQuestion {
    /// `DEVICE_BLOCK` or `DEVICE_CHAR`.
    pub kind: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Bits of the kinds of access.
    pub access: u32,
}

impl DeviceQuestion {
    /// The questions that come of opening a device with some of these accesses: each of them on its own.
    pub fn of_opening(self) -> impl Iterator<Item = Self> {
        let kinds = [DEVICE_READ, DEVICE_WRITE].into_iter();
        kinds.filter(move |bit| self.access & bit != 0).map(move |access| Self { access, ..self })
    }

    fn word(self, offset: i16) -> Option<u32> {
        match offset {
            0 => Some(self.access << 16 | self.kind),
            4 => Some(self.major),
            8 => Some(self.minor),
            _ => None,
        }
    }
}

/// More steps than any list of rules needs.
const STEPS: usize = 65_536;
/// The register that holds the context at the start, and the one that is returned.
const CONTEXT: usize = 1;
const RESULT: usize = 0;

/// A value of a register.
#[derive(Debug, Clone, Copy)]
enum Value {
    Number(u64),
    Context,
}

/// Whether the program (8 bytes an instruction) allows the access; `None` if it is not understood.
pub fn allows(program: &[u8], question: DeviceQuestion) -> Option<bool> {
    let mut registers = [None; 11];
    registers[CONTEXT] = Some(Value::Context);
    let mut at = 0_usize;
    for _ in 0..STEPS {
        let code: &[u8; 8] = program.get(at * 8..at * 8 + 8)?.try_into().ok()?;
        let code = Code::of(code);
        at = match step(&code, &mut registers, question)? {
            Step::Next => at + 1,
            Step::Jump(by) => at.checked_add_signed(1 + by)?,
            Step::Return(value) => return Some(value & 1 == 1),
        };
    }
    None
}

struct Code {
    operation: u8,
    to: usize,
    from: usize,
    offset: i16,
    constant: i32,
}

impl Code {
    fn of(bytes: &[u8; 8]) -> Self {
        Self {
            operation: bytes[0],
            to: usize::from(bytes[1] & 0xf),
            from: usize::from(bytes[1] >> 4),
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            constant: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }
}

enum Step {
    Next,
    Jump(isize),
    Return(u64),
}

/// Classes of instructions (include/uapi/linux/bpf_common.h, bpf.h).
const LOAD: u8 = 1;
const ARITHMETIC_32: u8 = 4;
const JUMP: u8 = 5;
const JUMP_32: u8 = 6;
const ARITHMETIC_64: u8 = 7;
/// BPF_ST | BPF_NOSPEC: a barrier that the verifier adds.
const BARRIER: u8 = 0xc2;

fn step(code: &Code, registers: &mut [Option<Value>; 11], question: DeviceQuestion) -> Option<Step> {
    let number = |register: usize| match registers.get(register).copied().flatten() {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    };
    let operand = if code.operation & 8 != 0 { number(code.from) } else { Some(code.constant as i64 as u64) };
    match code.operation & 7 {
        _ if code.operation == BARRIER => Some(Step::Next),
        LOAD => {
            let loaded = load(code, registers, question)?;
            *registers.get_mut(code.to)? = Some(Value::Number(loaded));
            Some(Step::Next)
        }
        class @ (ARITHMETIC_32 | ARITHMETIC_64) => {
            // A move may copy the context.
            let copied = registers.get(code.from).copied().flatten();
            let result = match (code.operation, copied) {
                (0xbf, Some(Value::Context)) if code.offset == 0 => Value::Context,
                _ => Value::Number(compute(code, class == ARITHMETIC_32, number(code.to), operand?)?),
            };
            *registers.get_mut(code.to)? = Some(result);
            Some(Step::Next)
        }
        JUMP if code.operation == 0x95 => number(RESULT).map(Step::Return),
        JUMP if code.operation == 0x05 => Some(Step::Jump(code.offset.into())),
        class @ (JUMP | JUMP_32) => {
            let (left, right) = (number(code.to)?, operand?);
            let holds = match class {
                JUMP => compare(code.operation, left, right)?,
                _ => compare_32(code.operation, left as u32, right as u32)?,
            };
            Some(if holds { Step::Jump(code.offset.into()) } else { Step::Next })
        }
        _ => None,
    }
}

/// A load from the context: whole words, and the halves and bytes of a word.
fn load(code: &Code, registers: &[Option<Value>; 11], question: DeviceQuestion) -> Option<u64> {
    if code.operation & 0xe0 != 0x60 || !matches!(registers.get(code.from)?, Some(Value::Context)) {
        return None;
    }
    let word = question.word(code.offset & !3)?;
    let shifted = word >> (8 * u32::from(code.offset.unsigned_abs() & 3));
    let loaded = match code.operation & 0x18 {
        0x00 if code.offset & 3 == 0 => word,
        0x08 => shifted & 0xffff,
        0x10 => shifted & 0xff,
        _ => return None,
    };
    Some(loaded.into())
}

fn compute(code: &Code, is_32: bool, to: Option<u64>, operand: u64) -> Option<u64> {
    // An offset means another operation in newer instruction sets.
    if code.offset != 0 {
        return None;
    }
    let bits = if is_32 { 31 } else { 63 };
    let (operand, cut) =
        if is_32 { (u64::from(operand as u32), u64::from(u32::MAX)) } else { (operand, u64::MAX) };
    let by = (operand & bits) as u32;
    let result = match code.operation & 0xf0 {
        0xb0 => operand,
        operation => {
            let to = to? & cut;
            match operation {
                0x00 => to.wrapping_add(operand),
                0x10 => to.wrapping_sub(operand),
                0x40 => to | operand,
                0x50 => to & operand,
                0x60 => to << by,
                0x70 => to >> by,
                0xa0 => to ^ operand,
                _ => return None,
            }
        }
    };
    Some(result & cut)
}

fn compare(operation: u8, left: u64, right: u64) -> Option<bool> {
    let signed = (left as i64, right as i64);
    holds(operation, (left, right), signed)
}

fn compare_32(operation: u8, left: u32, right: u32) -> Option<bool> {
    let signed = (i64::from(left as i32), i64::from(right as i32));
    holds(operation, (left.into(), right.into()), signed)
}

fn holds(operation: u8, (left, right): (u64, u64), signed: (i64, i64)) -> Option<bool> {
    Some(match operation & 0xf0 {
        0x10 => left == right,
        0x20 => left > right,
        0x30 => left >= right,
        0x40 => left & right != 0,
        0x50 => left != right,
        0x60 => signed.0 > signed.1,
        0x70 => signed.0 >= signed.1,
        0xa0 => left < right,
        0xb0 => left <= right,
        0xc0 => signed.0 < signed.1,
        0xd0 => signed.0 <= signed.1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
