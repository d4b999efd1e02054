//! Who may use which image after which pulls, also across restarts of the agent.

use super::*;

const IMAGE: &str = "r.io/team/app:1";
const ID: &str = "sha256:1";

fn settings(policy: VerificationPolicy) -> ImageVerification {
    ImageVerification { policy, allowlist: vec!["r.io/base/*".to_owned()] }
}

fn open(dir: &Path) -> Verifier {
    let (verifier, problem) = Verifier::open(dir, settings(VerificationPolicy::NeverVerifyPreloadedImages));
    assert!(problem.is_none(), "{problem:?}");
    verifier
}

fn user(name: &str) -> Credential {
    Credential { username: name.to_owned(), password: format!("{name}'s") }
}

fn nothing_known() -> Required {
    Required::OneOf(BTreeSet::new())
}

#[test]
fn only_credentials_that_were_accepted_give_access() {
    let dir = tempfile::tempdir().unwrap();
    let verifier = open(dir.path());
    assert_eq!(verifier.required(IMAGE, ID), Required::Nothing, "preloaded");
    verifier.begin(IMAGE).unwrap();
    verifier.succeeded(IMAGE, ID, Some(&user("ann"))).unwrap();
    for verifier in [verifier, open(dir.path())] {
        let required = verifier.required(IMAGE, ID);
        assert!(required.is_met([&user("bob"), &user("ann")]));
        assert!(!required.is_met([&user("bob")]) && !required.is_met([]));
        let other = Credential { password: "guessed".into(), ..user("ann") };
        assert!(!required.is_met([&other]));
        // The same image under another name needs its own pull.
        assert_eq!(verifier.required("r.io/other/app:1", ID), nothing_known());
        // Another tag of the repository is the same image.
        assert!(verifier.required("r.io/team/app:2", ID).is_met([&user("ann")]));
        assert_eq!(verifier.required(IMAGE, "sha256:2"), Required::Nothing, "another image, preloaded");
    }
    let verifier = open(dir.path());
    verifier.begin(IMAGE).unwrap();
    verifier.succeeded(IMAGE, ID, None).unwrap();
    assert!(verifier.required(IMAGE, ID).is_met([]), "pulled without credentials");
}

/// An agent that ends between a pull and its record must not let every pod use the image.
#[test]
fn a_pull_whose_end_is_not_known_gives_access_to_none() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).begin(IMAGE).unwrap();
    let verifier = open(dir.path());
    assert_eq!(verifier.required(IMAGE, ID), nothing_known());
    verifier.begin(IMAGE).unwrap();
    verifier.begin(IMAGE).unwrap();
    verifier.failed(IMAGE).unwrap();
    assert_eq!(verifier.required(IMAGE, ID), nothing_known(), "one is still under way");
    verifier.failed(IMAGE).unwrap();
    assert_eq!(verifier.required(IMAGE, ID), Required::Nothing, "both failed");
}

#[test]
fn pulls_of_images_that_are_gone_are_forgotten_and_those_given_up_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let verifier = open(dir.path());
    for id in [ID, "sha256:2"] {
        verifier.begin(IMAGE).unwrap();
        verifier.succeeded(IMAGE, id, Some(&user("ann"))).unwrap();
    }
    verifier.begin("r.io/team/more:1").unwrap();
    verifier.given_up("r.io/team/more:1");
    verifier.keep(&["sha256:2".to_owned()].into()).unwrap();
    for verifier in [verifier, open(dir.path())] {
        assert_eq!(verifier.required(IMAGE, ID), Required::Nothing, "it would be preloaded now");
        assert!(!verifier.required(IMAGE, "sha256:2").is_met([]));
        assert_eq!(verifier.required("r.io/team/more:1", "sha256:3"), nothing_known());
    }
}

#[test]
fn after_a_damaged_file_every_image_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).begin(IMAGE).unwrap();
    std::fs::write(dir.path().join(NAME), "{").unwrap();
    let policy = settings(VerificationPolicy::NeverVerifyPreloadedImages);
    let (verifier, problem) = Verifier::open(dir.path(), policy);
    assert!(problem.is_some());
    assert_eq!(verifier.required("r.io/any:1", "sha256:9"), nothing_known());
    verifier.begin("r.io/any:1").unwrap();
    assert_eq!(open(dir.path()).required("r.io/more:1", "sha256:8"), nothing_known(), "it stays so");
}

#[test]
fn the_policy_says_which_images_are_verified() {
    use VerificationPolicy::{
        AlwaysVerify, NeverVerify, NeverVerifyAllowlistedImages, NeverVerifyPreloadedImages,
    };
    let pulled = Pulled {
        images: [(ID.to_owned(), [("r.io/base/os".to_owned(), Access::default())].into())].into(),
        ..Pulled::default()
    };
    for (policy, listed_pulled, listed, other) in [
        (NeverVerify, false, false, false),
        (NeverVerifyPreloadedImages, true, false, false),
        (NeverVerifyAllowlistedImages, true, false, true),
        (AlwaysVerify, true, true, true),
    ] {
        let verified =
            |image: &str, id: &str| pulled.required(&settings(policy), image, id) != Required::Nothing;
        let found = [verified("r.io/base/os:1", ID), verified("r.io/base/os:1", "x"), verified(IMAGE, "x")];
        assert_eq!(found, [listed_pulled, listed, other], "{policy:?}");
    }
}
