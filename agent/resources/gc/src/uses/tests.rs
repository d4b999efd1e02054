//! Detection: every way in which an image's times change, and which changes are saved.

use std::collections::BTreeMap;

use nodewarden_model::Used;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn image(id: &str) -> ImageSeen {
    ImageSeen { id: id.to_owned(), names: Vec::new(), size: 1, pinned: false }
}

fn used(ids: &[&str]) -> Users {
    Users(ids.iter().map(|id| ((*id).to_owned(), (Used::Container, Vec::new()))).collect())
}

fn times(uses: &Uses, id: &str) -> Option<(i64, Option<i64>)> {
    let second = |time: Timestamp| time.as_second() - at(0).as_second();
    uses.get(id).map(|known| (second(known.first_detected), known.last_used.map(second)))
}

#[test]
fn times_follow_detection_use_and_removal() {
    let mut uses = Uses::default();
    assert!(uses.is_empty() && !uses.detect(&[], &used(&[]), at(0)));
    let (a, b) = (image("a"), image("b"));
    for (second, images, in_use, save, a_times, b_times) in [
        // Both are new, even at the very first detection.
        (0, vec![&a, &b], vec!["a"], true, Some((0, Some(0))), Some((0, None))),
        // No other change, and less than a minute since the last save.
        (59, vec![&a, &b], vec!["a"], false, Some((0, Some(59))), Some((0, None))),
        (60, vec![&a, &b], vec!["a"], true, Some((0, Some(60))), Some((0, None))),
        // The same time again.
        (60, vec![&a, &b], vec!["a"], false, Some((0, Some(60))), Some((0, None))),
        // Used for the first time.
        (61, vec![&a, &b], vec!["a", "b"], true, Some((0, Some(61))), Some((0, Some(61)))),
        // Nothing is used any more: nothing to save, however long it takes.
        (500, vec![&a, &b], vec![], false, Some((0, Some(61))), Some((0, Some(61)))),
        // One image was removed.
        (501, vec![&b], vec![], true, None, Some((0, Some(61)))),
        // It is pulled again as a new image. A used image that does not exist is ignored.
        (600, vec![&a, &b], vec!["c"], true, Some((600, None)), Some((0, Some(61)))),
    ] {
        let images: Vec<ImageSeen> = images.into_iter().cloned().collect();
        assert_eq!(uses.detect(&images, &used(&in_use), at(second)), save, "{second}");
        assert_eq!((times(&uses, "a"), times(&uses, "b")), (a_times, b_times), "{second}");
    }
    uses.forget("a");
    uses.forget("never there");
    assert_eq!((uses.get("a"), uses.len()), (None, 1));
}

#[test]
fn a_pinned_image_counts_as_used() {
    let mut uses = Uses::default();
    let pinned = ImageSeen { pinned: true, ..image("p") };
    uses.detect(&[pinned], &used(&[]), at(5));
    assert_eq!(times(&uses, "p"), Some((5, Some(5))));
}

#[test]
fn an_image_without_an_id_is_ignored() {
    let mut uses = Uses::default();
    assert!(!uses.detect(&[image("")], &used(&[""]), at(0)));
    assert!(uses.is_empty());
}

#[test]
fn times_in_the_future_are_corrected_after_the_clock_was_set_back() {
    let future = ImageUse { first_detected: at(9000), last_used: Some(at(9001)) };
    let mut uses = Uses { images: BTreeMap::from([("a".to_owned(), future)]), last_save: Some(at(9001)) };
    assert!(uses.detect(&[image("a")], &used(&[]), at(0)));
    assert_eq!(times(&uses, "a"), Some((0, Some(0))));
    // A later save time does not prevent saving either.
    uses.last_save = Some(at(9001));
    assert!(uses.detect(&[image("a")], &used(&["a"]), at(1)));
}
