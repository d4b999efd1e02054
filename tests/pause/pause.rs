//! Process 1 of pods' sandboxes and of measured containers. It has 2 KB and no library, so that measurements
//! contain the runtime's work and not the start of a program.
//!
//! It waits for SIGINT or SIGTERM and reaps orphans (in a pod with a shared pid namespace, those of all
//! containers). If it has an argument `FILE`, it first appends a line with the time of its first instruction
//! to the file: CLOCK_MONOTONIC in nanoseconds.
//!
//! The build script of the package compiles it as a separate program.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

// The kernel puts argc and argv on the stack (System V ABI, "Process Initialization").
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
/// Size of the kernel's signal set in bytes.
const SET: usize = 8;
const CLOCK_MONOTONIC: usize = 1;
const AT_FDCWD: usize = -100isize as usize;
/// O_WRONLY | O_CREAT | O_APPEND, with the same values on both architectures.
const APPEND: usize = 0o1 | 0o100 | 0o2000;
const WNOHANG: usize = 1;
const ANY_CHILD: usize = -1isize as usize;

/// # Safety
/// The arguments must be valid for this system call.
unsafe fn call(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result: isize;
    // SAFETY: as the caller promises; the kernel changes only these registers.
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
/// `stack` must be the stack as the kernel set it up: the number of arguments, then a pointer to each.
unsafe extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: makes only a system call that writes to a local value.
    let now = unsafe { monotonic() };
    // SAFETY: as the caller promises; the pointer to the argument is read only if the argument exists.
    unsafe {
        if *stack > 1 {
            append(*stack.add(2), now);
        }
        wait()
    }
}

/// # Safety
/// None: it only makes a system call.
unsafe fn monotonic() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: room for a struct timespec of two words.
    unsafe { call(number::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// # Safety
/// `path` must point to a string that ends with a zero byte.
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
    // SAFETY: the path is a C string, and the bytes are initialised. An error is noticed by the missing file.
    unsafe {
        let file = call(number::OPENAT, [AT_FDCWD, path, APPEND, 0o644]);
        call(number::WRITE, [file as usize, line[start..].as_ptr() as usize, line.len() - start, 0]);
    }
}

/// Waits for signals in a loop. Process 1 gets only signals that it handles, so they are blocked and taken
/// one by one.
///
/// # Safety
/// None: it only makes system calls.
unsafe fn wait() -> ! {
    let signals: u64 = 1 << (SIGINT - 1) | 1 << (SIGTERM - 1) | 1 << (SIGCHLD - 1);
    let set = (&raw const signals) as usize;
    // SAFETY: the set lives as long as the process; null pointers mean that no result is returned.
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
