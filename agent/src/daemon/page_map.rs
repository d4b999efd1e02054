//! Keeps only those pages of the program's code and constants mapped that are used.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use tracing::debug;

/// Unmaps code and constants: half of them are only used at the start, and much of the rest once in hours. A
/// page that is used again is mapped from the page cache (some hundred faults, well below a millisecond).
pub fn unmap_code() {
    for (start, length) in mappings() {
        // SAFETY: a private mapping of a file that is not writable and so has no page of its own: each page
        // is read again as it was (madvise(2), MADV_DONTNEED).
        let _ = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Has the kernel map each page of code and constants only when that page is used. By default it maps 64 KiB
/// around a used page (mm/memory.c, `do_fault_around`), which suits programs that start and end; an agent
/// would keep nearly all of its 15 MB mapped for the few functions that run. Ranges that userfaultfd(2) may
/// write-protect are exempt (`uffd_disable_fault_around`); nothing is ever protected here. Where the kernel
/// cannot do that (before 6.7, or without `CONFIG_USERFAULTFD`), nothing changes.
pub fn map_page_by_page() {
    match page_by_page() {
        Ok(()) => unmap_code(),
        Err(error) => debug!("code is mapped 64 KiB at a time: userfaultfd: {error}"),
    }
}

fn page_by_page() -> Result<()> {
    // SAFETY: integers only (userfaultfd(2)).
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(Error::last_os_error)?;
    // SAFETY: a descriptor that the kernel has just returned, owned by nothing else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    call(&fd, UFFDIO_API, &mut Api { api: UFFD_API, features: FEATURE_WP_ASYNC, ioctls: 0 })?;
    for (start, length) in mappings() {
        let (start, length) = (start as u64, length as u64);
        call(&fd, UFFDIO_REGISTER, &mut Register { start, length, mode: MODE_WP, ioctls: 0 })?;
    }
    // In effect for as long as the descriptor is open, which is until the process ends.
    let _ = fd.into_raw_fd();
    Ok(())
}

/// Address and length in bytes of each mapping of the program and its libraries that is not written to and
/// never was.
fn mappings() -> Vec<(usize, usize)> {
    let Ok(maps) = Process::myself().and_then(|own| own.maps()) else { return Vec::new() };
    let Ok(program) = std::env::current_exe() else { return Vec::new() };
    let is_program = |map: &MemoryMap| matches!(&map.pathname, MMapPath::Path(path) if *path == program);
    let is_file = |map: &MemoryMap| matches!(&map.pathname, MMapPath::Path(_));
    let constant = MMPermissions::READ | MMPermissions::PRIVATE;
    let code = constant | MMPermissions::EXECUTE;
    let is_untouched = |map: &MemoryMap| {
        // Constants that the linker relocated are read-only too by now; they lie further back in the file.
        (map.perms == code && is_file(map)) || (map.perms == constant && map.offset == 0 && is_program(map))
    };
    let range = |map: MemoryMap| {
        let (from, to) = map.address;
        Some((usize::try_from(from).ok()?, usize::try_from(to.checked_sub(from)?).ok()?))
    };
    maps.into_iter().filter(is_untouched).filter_map(range).collect()
}

fn call<T>(fd: &OwnedFd, request: libc::c_ulong, argument: &mut T) -> Result<()> {
    // SAFETY: both requests take a pointer to the structure whose size is in their number, which `argument`
    // is.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

// include/uapi/linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 1 << 1;
const USER_MODE_ONLY: libc::c_int = 1;

/// `struct uffdio_api`
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`
#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB of this program's code: mapped, and in all.
    fn mapped() -> (u64, u64) {
        let program = std::env::current_exe().unwrap();
        let maps = Process::myself().unwrap().smaps().unwrap();
        let own = maps.into_iter().filter(|map| {
            map.perms.contains(MMPermissions::EXECUTE)
                && matches!(&map.pathname, MMapPath::Path(path) if *path == program)
        });
        own.fold((0, 0), |(mapped, all), map| {
            let size = |key| map.extension.map.get(key).copied().unwrap_or(0) / 1024;
            (mapped + size("Rss"), all + size("Size"))
        })
    }

    #[test]
    fn code_that_does_not_run_is_not_mapped() {
        if let Err(error) = page_by_page() {
            nodewarden_testing::skip(format!("userfaultfd: {error}"));
            return;
        }
        // Other tests run at the same time.
        let mapped = (0..20).map(|_| {
            unmap_code();
            mapped()
        });
        let least = mapped.min().unwrap();
        assert!(least.1 > 4_000, "{least:?}");
        assert!(least.0 < least.1 / 8, "{least:?} KiB");
    }

    #[test]
    fn mappings_hold_the_programs_code_and_no_heap() {
        let here = code_that_does_not_run_is_not_mapped as *const () as usize;
        assert!(mappings().iter().any(|(start, length)| (*start..start + length).contains(&here)));
        let written = Box::new(0u8);
        let there = std::ptr::from_ref(&*written) as usize;
        assert!(!mappings().iter().any(|(start, length)| (*start..start + length).contains(&there)));
    }
}
