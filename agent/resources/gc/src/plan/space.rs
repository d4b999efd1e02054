//! How many bytes have to be freed, with the kubelet's arithmetic (`realImageGCManager.GarbageCollect`).

use std::path::PathBuf;

use nodewarden_model::{FsUse, GcSettings};

/// The high threshold that disables periodic collection for space (`Kubelet.StartGarbageCollection`).
const OFF: u8 = 100;

/// The figures of a file system are not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FsFault {
    #[error("invalid capacity 0 on the image file system at {}", path.display())]
    /// The capacity is 0.
    NoCapacity {
        /// Directory of the file system.
        path: PathBuf,
    },
}

/// Bytes to free now to reach the low threshold; 0 while the usage is below the high threshold, or if that is
/// 100.
///
/// As in the kubelet, the usage is 100 minus the whole percentage that is available, so a started percent
/// counts as used, and reaching the high threshold is enough. If more is available than the capacity, the
/// capacity is used.
///
/// # Errors
/// The capacity is 0.
pub fn wanted(fs: &FsUse, settings: &GcSettings) -> Result<u64, FsFault> {
    if fs.capacity == 0 {
        return Err(FsFault::NoCapacity { path: fs.path.clone() });
    }
    if settings.high_percent >= OFF {
        return Ok(0);
    }
    let available = fs.available.min(fs.capacity);
    let free_percent = u128::from(available) * 100 / u128::from(fs.capacity);
    if 100 - free_percent < u128::from(settings.high_percent) {
        return Ok(0);
    }
    Ok(target(fs, settings).saturating_sub(available))
}

/// Whether the usage is at or below the low threshold, so that enough has been freed.
pub fn reached(fs: &FsUse, settings: &GcSettings) -> bool {
    fs.available.min(fs.capacity) >= target(fs, settings)
}

/// Available bytes at the low threshold.
fn target(fs: &FsUse, settings: &GcSettings) -> u64 {
    let share = u128::from(100 - settings.low_percent.min(100));
    // At most the capacity.
    u64::try_from(u128::from(fs.capacity) * share / 100).unwrap_or(fs.capacity)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn fs(capacity: u64, available: u64) -> FsUse {
        FsUse {
            path: PathBuf::from("/var/lib/containerd"),
            device: 1,
            capacity,
            available,
            inodes: 1000,
            inodes_free: 500,
            used: None,
            inodes_used: None,
        }
    }

    fn settings(high_percent: u8, low_percent: u8) -> GcSettings {
        GcSettings { high_percent, low_percent, ..GcSettings::default() }
    }

    #[test]
    fn bytes_are_freed_from_the_high_to_the_low_threshold() {
        for (capacity, available, high, low, expected) in [
            // TestGarbageCollectBelowLowThreshold and its neighbours in image_gc_manager_test.go.
            (1000, 600, 90, 80, 0),
            (1000, 50, 90, 80, 150),
            (1000, 160, 85, 80, 0),
            (1000, 151, 85, 80, 49),
            (1000, 150, 85, 80, 50),
            // 84.1 % counts as a started 85th percent.
            (1000, 159, 85, 80, 41),
            (1000, 0, 85, 80, 200),
            (1000, 0, 85, 0, 1000),
            (1000, 1000, 1, 0, 0),
            (1000, 999, 1, 0, 1),
            // The whole percent that is available is 0.
            (1000, 9, 99, 98, 11),
            (1000, 10, 99, 98, 10),
            (3, 0, 85, 80, 0),
            (1, 0, 85, 50, 0),
            (8 * GIB, GIB, 85, 80, 8 * GIB / 5 - GIB),
            // No product overflows.
            (u64::MAX, 0, 85, 0, u64::MAX),
            // 100 disables it, however full the file system is.
            (1000, 0, 100, 80, 0),
            // More available than the capacity.
            (1000, 2000, 85, 80, 0),
        ] {
            let case = (capacity, available, high, low);
            assert_eq!(wanted(&fs(capacity, available), &settings(high, low)), Ok(expected), "{case:?}");
        }
    }

    #[test]
    fn no_capacity_is_an_error() {
        for high in [85, 100] {
            let fault = wanted(&fs(0, 0), &settings(high, 80)).unwrap_err();
            assert_eq!(
                fault.to_string(),
                "invalid capacity 0 on the image file system at /var/lib/containerd"
            );
        }
    }

    #[test]
    fn enough_is_freed_at_the_low_threshold() {
        for (capacity, available, low, expected) in [
            (1000, 199, 80, false),
            (1000, 200, 80, true),
            (1000, 5000, 80, true),
            (1000, 999, 0, false),
            (1000, 1000, 0, true),
            (u64::MAX, u64::MAX / 5, 80, true),
            (u64::MAX, u64::MAX / 5 - 1, 80, false),
            // A file system without capacity is no reason to remove anything.
            (0, 0, 80, true),
        ] {
            let case = (capacity, available, low);
            assert_eq!(reached(&fs(capacity, available), &settings(85, low)), expected, "{case:?}");
        }
    }

    proptest! {
        #[test]
        fn freeing_the_wanted_bytes_reaches_the_low_threshold(
            capacity in 1..u64::MAX, available in any::<u64>(), low in 0..99u8, above in 1..=100u8,
        ) {
            let settings = settings(low.saturating_add(above).min(99), low);
            let fs = fs(capacity, available);
            let wanted = wanted(&fs, &settings).unwrap();
            if wanted > 0 {
                prop_assert!(!reached(&fs, &settings));
                let after = |freed| FsUse { available: available + freed, ..fs.clone() };
                prop_assert!(reached(&after(wanted), &settings));
                prop_assert!(!reached(&after(wanted - 1), &settings));
            }
        }
    }
}
