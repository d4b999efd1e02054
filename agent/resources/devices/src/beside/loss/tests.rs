use nodewarden_model::HostDeviceKind;

use super::*;

fn look(id: &str, certain: bool, access: Access) -> Look {
    Look {
        place: Place { id: id.into(), device: (HostDeviceKind::Char, 240, 1) },
        uid: "u".into(),
        container: "main".into(),
        path: "/dev/x".into(),
        certain,
        access,
    }
}

fn lost() -> Access {
    Access::Lost("why".into())
}

#[test]
fn a_device_is_lost_once_until_it_is_back() {
    for (certain, looks, expected) in [
        (false, vec![Access::Open, lost(), lost(), Access::Open, lost()], "-L-BL"),
        (false, vec![lost(), lost(), Access::Open, lost()], "---L"),
        (true, vec![lost(), lost(), Access::Open], "L-B"),
        (false, vec![Access::Open, Access::Unknown, lost(), Access::Unknown, lost(), Access::Open], "--L--B"),
        (true, vec![Access::Unknown, Access::Open, Access::Open], "---"),
    ] {
        let mut losses = Losses::default();
        let seen: String = looks
            .iter()
            .map(|access| match &losses.update(vec![look("c", certain, access.clone())])[..] {
                [] => '-',
                [own] if own.changed == Changed::Lost => 'L',
                [own] if own.changed == Changed::Back => 'B',
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen, expected, "{looks:?}");
    }
}

#[test]
fn what_is_reported_names_device_container_and_reason() {
    let mut losses = Losses::default();
    let changes = losses.update(vec![look("c", true, lost())]);
    assert_eq!(changes[0].message, "/dev/x (c 240:1) can no longer be opened: why");
    assert_eq!((&*changes[0].uid, &*changes[0].container), ("u", "main"));
    let place = look("c", true, lost()).place;
    assert_eq!((losses.count(), losses.why(&place)), (1, Some("why")));
}

#[test]
fn a_container_that_ended_has_lost_nothing() {
    let mut losses = Losses::default();
    losses.update(vec![look("old", true, lost())]);
    assert_eq!(losses.update(vec![look("new", true, Access::Open)]), []);
    assert_eq!(losses.count(), 0);
}
