//! Converts points in time between our types and those of protobuf.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use prost_types::Timestamp as Proto;

/// The protobuf message of a point in time.
pub fn from_timestamp(time: Timestamp) -> Proto {
    // jiff gives both parts the same sign; protobuf requires nonnegative nanoseconds.
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    if nanos < 0 {
        Proto { seconds: seconds - 1, nanos: nanos + 1_000_000_000 }
    } else {
        Proto { seconds, nanos }
    }
}

/// The point in time; `None` if it is out of range.
pub fn to_timestamp(time: &Proto) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// The protobuf message of a point in time.
pub fn from_system_time(time: SystemTime) -> Proto {
    Proto::from(time)
}

/// Time from `a` to `b`; `None` if it is negative.
pub fn between(a: &Proto, b: &Proto) -> Option<Duration> {
    let nanos = |t: &Proto| i128::from(t.seconds) * 1_000_000_000 + i128::from(t.nanos);
    u64::try_from(nanos(b) - nanos(a)).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn there_and_back(seconds in -10_000_000_000i64..10_000_000_000, nanos in 0i32..1_000_000_000) {
            let time = Timestamp::new(seconds, nanos).unwrap();
            let proto = from_timestamp(time);
            prop_assert!((0..1_000_000_000).contains(&proto.nanos));
            prop_assert_eq!(to_timestamp(&proto), Some(time));
            let later = Proto { seconds: proto.seconds + 2, ..proto };
            prop_assert_eq!(between(&proto, &later), Some(Duration::from_secs(2)));
            prop_assert_eq!(between(&later, &proto), None);
        }
    }

    #[test]
    fn out_of_range() {
        assert_eq!(to_timestamp(&Proto { seconds: i64::MAX, nanos: 0 }), None);
    }
}
