//! Reads the report of the suite: JUnit's XML, as Ginkgo 1 writes it (`reporters/junit_reporter.go`).

/// A test of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub name: String,
    pub seconds: f64,
    pub outcome: Outcome,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The message that it failed with.
    Failed(String),
    /// It did not run: left out by the focus, or it found that it cannot run here.
    Skipped,
}

/// The tests that were run. Those that the focus leaves out are in the report too, as skipped after no time
/// at all.
pub fn ran(report: &str) -> Vec<Case> {
    let cases = report.split("<testcase ").skip(1).filter_map(case);
    cases.filter(|case| case.outcome != Outcome::Skipped || case.seconds > 0.0).collect()
}

fn case(text: &str) -> Option<Case> {
    let text = text.split("</testcase>").next()?;
    let (head, body) = text.split_once('>')?;
    let outcome = if let Some((_, failure)) = body.split_once("<failure") {
        let (_, message) = failure.split_once('>')?;
        Outcome::Failed(unescape(message.split("</failure>").next()?.trim()))
    } else if body.contains("<skipped") {
        Outcome::Skipped
    } else {
        Outcome::Passed
    };
    Some(Case { name: attribute(head, "name")?, seconds: attribute(head, "time")?.parse().ok()?, outcome })
}

/// The value of an attribute. `name` is not also the end of another one's name: a space is before it, or
/// nothing.
fn attribute(head: &str, name: &str) -> Option<String> {
    let head = format!(" {head}");
    let (_, rest) = head.split_once(&format!(" {name}=\""))?;
    Some(unescape(rest.split('"').next()?))
}

/// Entities as Go's encoding/xml writes them.
fn unescape(text: &str) -> String {
    const ENTITIES: [(&str, &str); 8] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#xA;", "\n"),
        ("&#x9;", "\t"),
        ("&#xD;", "\r"),
        // Last: what it stands for may be the beginning of another.
        ("&amp;", "&"),
    ];
    ENTITIES.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
  <testsuite name="E2eNode Suite" tests="3" failures="1" errors="0" time="12.5">
      <testcase name="[k8s.io] Pods should &#34;run&#34; [NodeConformance]" classname="E2eNode Suite" time="3.5"></testcase>
      <testcase name="Left out" classname="E2eNode Suite" time="0">
          <skipped></skipped>
      </testcase>
      <testcase name="Not here" classname="E2eNode Suite" time="0.25">
          <skipped></skipped>
      </testcase>
      <testcase name="Fails" classname="E2eNode Suite" time="8.75">
          <failure type="Failure">/x/pods.go:12&#xA;Expected&#xA;    &lt;int&gt;: 1 &amp;amp; 2</failure>
          <system-out>text with &lt;failure and </system-out>
      </testcase>
  </testsuite>"#;

    #[test]
    fn tests_that_ran_are_read_with_their_outcome() {
        let cases = ran(REPORT);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["[k8s.io] Pods should \"run\" [NodeConformance]", "Not here", "Fails"]);
        assert_eq!((cases[0].seconds, &cases[0].outcome), (3.5, &Outcome::Passed));
        assert_eq!(cases[1].outcome, Outcome::Skipped);
        let message = "/x/pods.go:12\nExpected\n    <int>: 1 &amp; 2".to_owned();
        assert_eq!(cases[2].outcome, Outcome::Failed(message));
    }

    #[test]
    fn an_unfinished_report_gives_what_is_whole() {
        let half = &REPORT[..REPORT.find("<failure type").unwrap()];
        assert_eq!(ran(half).len(), 3);
        assert!(ran("").is_empty());
    }
}
