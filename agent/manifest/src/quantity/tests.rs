use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn texts_are_parsed_and_displayed_as_by_apimachinery() {
    // Text, canonical form, value, milli value.
    let cases: [(&str, &str, i64, i64); 41] = [
        ("0", "0", 0, 0),
        ("-0", "0", 0, 0),
        ("000", "0", 0, 0),
        ("0Gi", "0", 0, 0),
        ("0e400", "0", 0, 0),
        ("0.0000000000000000000000", "0", 0, 0),
        ("100m", "100m", 1, 100),
        ("1.5", "1500m", 2, 1500),
        ("1e3", "1e3", 1000, 1_000_000),
        ("128974848", "128974848", 128_974_848, 128_974_848_000),
        ("1.", "1.", 1, 1000),
        (".5Gi", "512Mi", 536_870_912, 536_870_912_000),
        ("007", "007", 7, 7000),
        // Signs. Small numbers round away from zero.
        ("+5", "+5", 5, 5000),
        ("+10000", "10k", 10_000, 10_000_000),
        ("-1.5", "-1500m", -2, -1500),
        ("-1.5Ki", "-1536", -1536, -1_536_000),
        ("-1u", "-1u", -1, -1),
        // Displayed as written although another form is the canonical one.
        ("1E3", "1E3", 1000, 1_000_000),
        ("1.500", "1.500", 2, 1500),
        ("1001Ki", "1001Ki", 1_025_024, 1_025_024_000),
        ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
        ("1000", "1k", 1000, 1_000_000),
        ("1023", "1023", 1023, 1_023_000),
        ("0.5Ki", "512", 512, 512_000),
        ("0.0001Ki", "102400u", 1, 103),
        // Finer than a billionth.
        ("0.1n", "1n", 1, 1),
        ("1e-10", "1e-9", 1, 1),
        ("1e-2000000000", "1e-9", 1, 1),
        ("-1e-2000000000", "-1e-9", 1, 1),
        // apimachinery reads a text without digits as zero.
        ("+", "0", 0, 0),
        ("-", "0", 0, 0),
        (".", "0", 0, 0),
        ("k", "0", 0, 0),
        ("e3", "0", 0, 0),
        // Beyond an i64: with a kubelet's results.
        ("9223372036854775807", "9223372036854775807", i64::MAX, -1000),
        ("-9223372036854775808", "-9223372036854775808", 0, 0),
        ("100E", "100E", 0, 0),
        ("1000E", "1", 0, 0),
        ("16Ei", "9223372036854775807", i64::MAX, -1000),
        ("1e30", "1e30", 0, 0),
    ];
    let made = cases.map(|(text, ..)| (text, q(text).to_string(), q(text).value(), q(text).milli_value()));
    let wanted = cases.map(|(text, canonical, value, milli)| (text, canonical.to_owned(), value, milli));
    let differing: Vec<_> = made.iter().zip(&wanted).filter(|(made, wanted)| made != wanted).collect();
    assert!(differing.is_empty(), "made, wanted: {differing:#?}");
}

#[test]
fn texts_that_are_no_quantities_are_refused() {
    use QuantityFault as F;
    let suffix = |s: &str| F::Suffix { suffix: s.into() };
    let cases = [
        ("", F::Empty),
        (" ", F::Form),
        ("1 ", F::Form),
        ("1_000", F::Form),
        ("1,5", F::Form),
        ("1.5.5", F::Form),
        ("0x10", F::Form),
        ("5µ", F::Form),
        ("--1", suffix("-1")),
        ("3Ki1", suffix("Ki1")),
        ("1mi", suffix("mi")),
        ("1K", suffix("K")),
        ("1e", suffix("e")),
        ("1e+", suffix("e+")),
        ("1e1e1", F::Form),
        ("1e99999999999999999999", suffix("e99999999999999999999")),
        ("e-12", F::NoDigits),
        ("1e513", F::TooLarge),
        ("1e2147483647", F::TooLarge),
    ];
    for (text, fault) in cases {
        let error = QuantityError { text: text.into(), fault };
        assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text:?}");
    }
    assert_eq!(Quantity::parse(&"1".repeat(513)).unwrap_err().fault, F::TooLarge);
    assert_eq!(
        Quantity::parse("1K").unwrap_err().to_string(),
        "\"1K\" is not a quantity: no suffix is called \"K\"; there are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and e with \
         an exponent"
    );
}

#[test]
fn sums_are_exact_and_have_the_format_of_the_first_nonzero_amount() {
    let cases = [
        ("100m", "200m", "300m"),
        ("1Gi", "1G", "2073741824"),
        ("1G", "1Gi", "2073741824"),
        ("512Mi", "512Mi", "1Gi"),
        // The first amount that is not zero decides the format of the sum.
        ("0", "1Gi", "1Gi"),
        ("1024", "1Mi", "1049600"),
        ("0Mi", "1e3", "1e3"),
        ("1e3", "1Ki", "2024"),
        ("+5", "0", "5"),
        ("8Ei", "8Ei", "18446744073709551614"),
        ("9223372036854775807", "1n", "9223372036854775807000000001n"),
        ("1", "-1", "0"),
    ];
    for (a, b, sum) in cases {
        assert_eq!((q(a) + q(b)).to_string(), sum, "{a} + {b}");
        assert_eq!((q(a) + q(b)) - q(b), q(a), "{a} + {b} - {b}");
    }
    // Each fits an i64, but their sum does not.
    let sum = Quantity::from_whole(i64::MAX) + Quantity::from_whole(1);
    assert_eq!((sum.to_string().as_str(), sum.value()), ("9223372036854775808", i64::MIN));
    assert!(!sum.fits_i64() && !sum.fits_i64_milli());
    assert_eq!(Quantity::from_whole(0) - Quantity::from_whole(i64::MIN), sum);
}

#[test]
fn amounts_are_rounded_up_to_thousandths() {
    let cases = [("0.1m", "1m"), ("1.0001", "1001m"), ("1500m", "1500m"), ("-0.1m", "-1m"), ("1E3", "1E3")];
    for (text, rounded) in cases {
        assert_eq!(q(text).rounded_up_to_milli().to_string(), rounded, "{text}");
    }
}

#[test]
fn constructors_set_amount_and_format() {
    assert_eq!(Quantity::default().to_string(), "0");
    assert_eq!(Quantity::from_milli(1500).to_string(), "1500m");
    assert_eq!(Quantity::from_milli(-2000), q("-2"));
    assert_eq!(Quantity::from_whole(4000).to_string(), "4k");
    assert_eq!(Quantity::from_bytes(1 << 31).to_string(), "2Gi");
    assert_eq!("250m".parse(), Ok(Quantity::from_milli(250)));
    assert!(q("1500m") > q("1") && !q("1500m").is_whole() && q("1.5Ki").is_whole());
}

/// A text, and its exact value in units of 10^-18.
fn written() -> impl Strategy<Value = (String, BigInt)> {
    let suffix = prop_oneof![
        prop::sample::select(&DECIMAL[..]).prop_map(|(name, exponent)| (name.to_owned(), 10, exponent)),
        prop::sample::select(&BINARY[..]).prop_map(|(name, power)| (name.to_owned(), 2, power.cast_signed())),
        (-9..20_i32).prop_map(|exponent| (format!("e{exponent}"), 10, exponent)),
    ];
    ("-?", "[0-9]{1,20}", "(\\.[0-9]{0,9})?", suffix).prop_map(|(sign, whole, fraction, suffix)| {
        let (name, base, power) = suffix;
        let digits = fraction.trim_start_matches('.');
        let mut number: BigInt = format!("{sign}{whole}{digits}").parse().unwrap();
        let places = 18 - i32::try_from(digits.len()).unwrap() + if base == 10 { power } else { 0 };
        number *= BigInt::from(10).pow(places.cast_unsigned());
        if base == 2 {
            number <<= power;
        }
        (format!("{sign}{whole}{fraction}{name}"), number)
    })
}

/// The exact value in units of 10^-18.
fn exact(quantity: &Quantity) -> BigInt {
    let decimal = quantity.amount.to_decimal();
    decimal.digits * BigInt::from(10).pow((decimal.exponent + 18).cast_unsigned())
}

proptest! {
    #[test]
    fn parsed_amounts_are_exact_to_a_billionth_or_capped((text, number) in written()) {
        let quantity = q(&text);
        let nano = BigInt::from(1_000_000_000);
        let most = BigInt::from(i64::MAX) * &nano * &nano;
        if text.ends_with('i') && number.magnitude() > most.magnitude() {
            prop_assert!(exact(&quantity).magnitude() == most.magnitude(), "{text}");
        } else {
            // Away from zero, by less than a billionth.
            let more = if number < BigInt::ZERO { number - exact(&quantity) } else { exact(&quantity) - number };
            prop_assert!(more >= BigInt::ZERO && more < nano, "{text} is {more} more");
        }
    }

    #[test]
    fn the_canonical_form_is_the_same_number((text, _) in written()) {
        let quantity = q(&text);
        prop_assume!(quantity.fits_i64());
        let canonical = quantity.to_string();
        prop_assert_eq!(&q(&canonical), &quantity, "{}", &text);
        // As in Kubernetes, 31.25Ki is 32000, which is read as a decimal number and written as 32k.
        let lost_its_suffix = text.ends_with('i') && !canonical.ends_with('i');
        if !lost_its_suffix {
            prop_assert_eq!(q(&canonical).to_string(), canonical, "{}", text);
        }
    }

    #[test]
    fn ordered_as_the_numbers_are((a, _) in written(), (b, _) in written()) {
        let (a, b) = (q(&a), q(&b));
        prop_assert_eq!(a.cmp(&b), exact(&a).cmp(&exact(&b)));
        prop_assert_eq!(a == b, exact(&a) == exact(&b));
        prop_assert_eq!(a.is_zero(), exact(&a) == BigInt::ZERO);
    }

    #[test]
    fn sums_are_exact((a, _) in written(), (b, _) in written()) {
        let (a, b) = (q(&a), q(&b));
        let sum = a.clone() + b.clone();
        prop_assert_eq!(exact(&sum), exact(&a) + exact(&b));
        prop_assert_eq!(exact(&(a.clone() - b.clone())), exact(&a) - exact(&b));
        prop_assert_eq!(sum, b + a);
    }

    #[test]
    fn values_are_the_next_whole_number((text, _) in written()) {
        let quantity = q(&text);
        prop_assume!(!quantity.is_negative());
        if quantity.fits_i64() {
            let value = quantity.value();
            prop_assert!(Quantity::from_whole(value) >= quantity);
            prop_assert!(value == 0 || Quantity::from_whole(value - 1) < quantity);
            prop_assert_eq!(quantity.is_whole(), Quantity::from_whole(value) == quantity);
        }
        if quantity.fits_i64_milli() {
            let value = quantity.milli_value();
            prop_assert!(Quantity::from_milli(value) >= quantity);
            prop_assert!(value == 0 || Quantity::from_milli(value - 1) < quantity);
            prop_assert_eq!(quantity.rounded_up_to_milli(), Quantity::from_milli(value));
        }
    }

    #[test]
    fn whole_numbers_survive_conversion(number: i64) {
        prop_assert_eq!(Quantity::from_whole(number).value(), number);
        prop_assert_eq!(Quantity::from_bytes(number).value(), number);
        prop_assert_eq!(Quantity::from_milli(number).milli_value(), number);
        // -8Ei is one beyond the cap.
        prop_assume!(number != i64::MIN);
        prop_assert_eq!(q(&Quantity::from_bytes(number).to_string()), Quantity::from_whole(number));
    }

    #[test]
    fn no_text_causes_a_panic(text in "[-+]?[0-9.]{0,24}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,11}", other in "\\PC{0,8}") {
        let _ = Quantity::parse(&other);
        if let Ok(quantity) = Quantity::parse(&text) {
            let sum = quantity.clone() + q("1e512") + q("1n");
            prop_assert!(sum > quantity || quantity.is_zero() || !quantity.fits_i64());
            for quantity in [quantity, sum] {
                let _ = (quantity.value(), quantity.milli_value(), quantity.to_string());
                let _ = quantity.rounded_up_to_milli();
            }
        }
    }
}
