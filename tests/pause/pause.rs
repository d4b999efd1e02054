//! Process 1 of a pod's sandbox, and the first instruction of a measured container: 2 KB, without a library,
//! so that what is measured is the runtime and not a program's start.
//!
//! Without arguments it waits for its end and reaps what is handed to it (in a pod whose containers share one
//! process namespace these are the orphans of all). With arguments `FILE` it first appends one line to the
//! file: the time of its first instruction, CLOCK_MONOTONIC in nanoseconds.
//!
//! The package's build script compiles it, as a program of its own.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

// What the kernel leaves on the stack is argc and argv (System V ABI, "Process Initialization").
#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "mov rdi, rsp", "and rsp, -16", "call {main}", main = sym main);
#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x0, sp", "bl {main}", main = sym main);

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: usize = 1;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const WAIT4: usize = 61;
    pub const EXIT: usize = 60;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const WRITE: usize = 64;
    pub const CLOCK_GETTIME: usize = 113;
    pub const OPENAT: usize = 56;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const WAIT4: usize = 260;
    pub const EXIT: usize = 93;
}

const SIGINT: isize = 2;
const SIGTERM: isize = 15;
const SIGCHLD: isize = 17;
const SIG_BLOCK: usize = 0;
/// Bytes of the kernel's signal set.
const SET: usize = 8;
const CLOCK_MONOTONIC: usize = 1;
const AT_FDCWD: usize = -100isize as usize;
/// O_WRONLY | O_CREAT | O_APPEND, the same on both machines.
const APPEND: usize = 0o1 | 0o100 | 0o2000;
const WNOHANG: usize = 1;
const ANY_CHILD: usize = -1isize as usize;

/// # Safety
/// The arguments are what this call takes.
unsafe fn call(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result: isize;
    // SAFETY: as the caller promises; the kernel changes no register but these.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, lateout("rcx") _, lateout("r11") _);
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d,
            in("x8") number);
    }
    result
}

/// # Safety
/// `stack` is the stack as the kernel left it: the number of arguments, then a pointer to each.
unsafe extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: a clock's time is written to a local value.
    let now = unsafe { monotonic() };
    // SAFETY: as the caller promises; there is a pointer to an argument only where it is counted.
    unsafe {
        if *stack > 1 {
            append(*stack.add(2), now);
        }
        wait()
    }
}

/// # Safety
/// None but that it makes a system call.
unsafe fn monotonic() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: room for a struct timespec of two words.
    unsafe { call(number::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// # Safety
/// `path` points to a text that ends with a zero.
unsafe fn append(path: usize, mut number: u64) {
    let mut line = [b'\n'; 21];
    let mut start = line.len() - 1;
    loop {
        start -= 1;
        line[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || start == 0 {
            break;
        }
    }
    // SAFETY: the path is one, and the bytes are there. A file that cannot be written is seen by its absence.
    unsafe {
        let file = call(number::OPENAT, [AT_FDCWD, path, APPEND, 0o644]);
        call(number::WRITE, [file as usize, line[start..].as_ptr() as usize, line.len() - start, 0]);
    }
}

/// Process 1 gets only signals that it asks for: they are blocked and taken one by one.
///
/// # Safety
/// None but that it makes system calls.
unsafe fn wait() -> ! {
    let signals: u64 = 1 << (SIGINT - 1) | 1 << (SIGTERM - 1) | 1 << (SIGCHLD - 1);
    let set = (&raw const signals) as usize;
    // SAFETY: the set lives as long as the process; null pointers mean that nothing is wanted back.
    unsafe {
        call(number::RT_SIGPROCMASK, [SIG_BLOCK, set, 0, SET]);
        loop {
            match call(number::RT_SIGTIMEDWAIT, [set, 0, 0, SET]) {
                SIGCHLD => while call(number::WAIT4, [ANY_CHILD, 0, WNOHANG, 0]) > 0 {},
                SIGINT | SIGTERM => {
                    call(number::EXIT, [0; 4]);
                }
                _ => {}
            }
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(number::EXIT, [101, 0, 0, 0]) };
    }
}
