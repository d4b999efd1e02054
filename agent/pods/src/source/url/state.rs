//! What is known of the pods of a URL. Pure.

use nodewarden_model::Origin;

use super::read::ReadError;
use crate::source::merge::choose;
use crate::source::origin::LastTaken;
use crate::source::text::{Place, PodText};
use crate::source::{Desired, PodOrigins, SourceProblem, SourcedPod, Unread};

/// The pods of the last text that could be read.
#[derive(Debug)]
pub struct Served {
    url: String,
    /// The node's name, if those of the pods end with it.
    suffix: Option<String>,
    /// Whether a text could be read since the start.
    is_known: bool,
    text: PodText,
    /// Where the pods were taken from the last time.
    last: LastTaken,
}

impl Served {
    /// Nothing is known yet.
    pub fn new(url: &str, suffix: Option<&str>) -> Self {
        Self {
            url: url.to_owned(),
            suffix: suffix.map(str::to_owned),
            is_known: false,
            text: PodText::default(),
            last: LastTaken::default(),
        }
    }

    /// As [`PodSource::set_running`](crate::source::PodSource::set_running).
    pub fn set_running(&mut self, running: PodOrigins) {
        self.last = LastTaken::Running(running);
    }

    /// Takes over what one request had as its result.
    pub fn take(&mut self, read: Result<String, ReadError>) {
        let before = std::mem::take(&mut self.text);
        self.text = match read {
            Ok(text) if before.is(&text) => before,
            Ok(text) => {
                let place = Place { seed: format!("url:{}", self.url), suffix: self.suffix.as_deref() };
                let empty = ReadError::Empty { url: self.url.clone() }.to_string();
                PodText::parse(&self.url, &place, &text, &empty, before)
            }
            Err(error) => before.unreadable(error.to_string()),
        };
        self.is_known |= self.text.problems.is_empty();
    }

    /// The pods that the URL wants.
    pub fn desired(&mut self) -> Desired {
        let origin = Origin::Http(self.url.as_str().into());
        let mut desired = Desired::default();
        let problem =
            |message: &String| SourceProblem { origin: Some(origin.clone()), message: message.clone() };
        desired.problems.extend(self.text.problems.iter().map(problem));
        if !self.is_known || !self.text.problems.is_empty() {
            // Of another URL than before too: its pods stay until this one has answered.
            desired.unread = Unread::of_source(Origin::HTTP);
        }
        let candidates = self.text.pods.iter().map(|pod| SourcedPod::new(pod.clone(), origin.clone()));
        let choice = choose(candidates.collect(), &self.last);
        desired.problems.extend(choice.problems);
        desired.pods = choice.pods.into();
        self.last = LastTaken::Pods(desired.pods.clone());
        desired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://h/pods";

    fn pod(name: &str, image: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
        )
    }

    fn gone() -> ReadError {
        ReadError::Status { url: URL.into(), status: 503 }
    }

    fn names(desired: &Desired) -> Vec<&str> {
        desired.pods.iter().map(|pod| pod.pod.name.as_str()).collect()
    }

    #[test]
    fn nothing_is_complete_before_the_first_text() {
        let mut served = Served::new(URL, None);
        let first = served.desired();
        assert!(first.pods.is_empty() && first.problems.is_empty());
        assert!(
            first.unread.may_have(&"http:http://h/pods".into())
                && first.unread.may_have(&"http:http://other/".into())
        );
        assert!(!first.unread.may_have(&"/etc/manifests/a.yaml".into()));
        served.take(Err(gone()));
        assert!(!served.desired().is_complete());
        served.take(Ok(r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#.into()));
        assert!(served.desired().is_complete());
    }

    #[test]
    fn a_text_is_a_pod_or_a_list_in_yaml_or_json() {
        let json = |name: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
            )
        };
        let list = |kind: &str| {
            format!(r#"{{"apiVersion":"v1","kind":"{kind}","items":[{},{}]}}"#, json("a"), json("b"))
        };
        let yaml = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}\n";
        for (text, expected) in [
            (pod("a", "i"), &["a"][..]),
            (json("a"), &["a"]),
            (list("PodList"), &["a", "b"]),
            (list("List"), &["a", "b"]),
            (yaml.to_owned(), &["a"]),
        ] {
            let mut served = Served::new(URL, None);
            served.take(Ok(text.clone()));
            let desired = served.desired();
            assert_eq!((names(&desired), desired.problems.len()), (expected.to_vec(), 0), "{text}");
            assert_eq!(desired.pods[0].origin, "http:http://h/pods".into());
        }
    }

    #[test]
    fn what_cannot_be_read_keeps_the_last_pods() {
        let mut served = Served::new(URL, None);
        served.take(Ok(pod("a", "i")));
        let good = served.desired();
        for (read, problem) in [
            (Err(gone()), "http://h/pods: 503 Service Unavailable"),
            (
                Ok(String::new()),
                "http://h/pods: nothing in it: to remove its pods, an empty list has to be served",
            ),
            (
                Ok("# later\n".into()),
                "http://h/pods: nothing in it: to remove its pods, an empty list has to be served",
            ),
            (
                Ok("{apiVersion: v1, kind: Secret}".into()),
                "http://h/pods: document 1, line 1: apiVersion \"v1\" and kind \"Secret\" must be \"v1\" and \"Pod\", or a list of these",
            ),
        ] {
            served.take(read);
            let desired = served.desired();
            assert_eq!(desired.pods, good.pods, "{problem}");
            assert_eq!(desired.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
            assert!(!desired.is_complete());
        }
        served.take(Ok(pod("a", "i")));
        assert_eq!(served.desired(), good, "the same text after a failure");
        served.take(Ok("{apiVersion: v1, kind: List, items: []}".into()));
        let none = served.desired();
        assert!(none.pods.is_empty() && none.is_complete());
    }

    #[test]
    fn an_unchanged_text_is_not_parsed_again() {
        let mut served = Served::new(URL, None);
        served.take(Ok(pod("a", "i")));
        let first = served.desired().pods[0].pod.clone();
        served.take(Ok(pod("a", "i")));
        assert!(std::sync::Arc::ptr_eq(&first, &served.desired().pods[0].pod));
    }

    #[test]
    fn names_end_with_the_node_and_the_uid_is_of_content_and_url() {
        let uid = |url: &str, node: Option<&str>, image: &str| {
            let mut served = Served::new(url, node);
            served.take(Ok(pod("a", image)));
            let desired = served.desired();
            (desired.pods[0].pod.name.clone(), desired.pods[0].pod.uid.clone())
        };
        let (name, first) = uid(URL, Some("Node-1"), "i");
        assert_eq!((name.as_str(), first.len()), ("a-node-1", 32));
        assert_eq!(uid(URL, None, "i"), ("a".into(), first.clone()));
        assert_ne!(uid("http://h/other", None, "i").1, first);
        assert_ne!(uid(URL, None, "j").1, first);
    }
}
