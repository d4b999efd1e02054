//! Compares with a recording of apimachinery's results for the same texts.

use serde::Deserialize;

use super::Quantity;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Case {
    #[serde(rename = "In")]
    text: String,
    canonical: String,
    value: i64,
    milli: i64,
    error: bool,
}

#[test]
fn results_are_those_of_apimachinery() {
    let Some(cases) = crate::golden::load::<Vec<Case>>("quantities.json") else { return };
    let mut differing = Vec::new();
    for case in &cases {
        let same = match Quantity::parse(&case.text) {
            Err(_) => case.error,
            Ok(quantity) => {
                !case.error
                    && quantity.to_string() == case.canonical
                    && quantity.value() == case.value
                    && quantity.milli_value() == case.milli
            }
        };
        if !same {
            let got = Quantity::parse(&case.text);
            let got = got.map(|q| (q.to_string(), q.value(), q.milli_value()));
            differing.push(format!("{case:?}: {got:?}"));
        }
    }
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), cases.len(), differing.join("\n"));
    assert!(!cases.is_empty());
}
