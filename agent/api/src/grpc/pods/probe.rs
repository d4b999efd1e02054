//! Converts a `ProbesView` into protobuf, container by container.

use std::collections::HashMap;

use nodewarden_proto::nodewarden::v1 as proto;

use super::super::time;
use nodewarden_model::{Outcome, Verdict};
use nodewarden_model::{ProbeRun, ProbeView, ProbesView};

/// Probes by the pod's uid and the container's name.
#[derive(Default)]
pub struct Probes<'a>(HashMap<(&'a str, &'a str), Vec<&'a ProbeView>>);

impl<'a> Probes<'a> {
    pub fn of(view: &'a ProbesView) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for probe in &view.probes {
            all.entry((probe.uid.as_str(), probe.container.as_str())).or_default().push(probe);
        }
        for own in all.values_mut() {
            own.sort_by_key(|probe| probe.spec.kind);
        }
        Self(all)
    }

    /// The probes of one container, startup first.
    pub fn of_container(&self, uid: &str, container: &str) -> Vec<proto::Probe> {
        self.0.get(&(uid, container)).into_iter().flatten().map(|own| probe(own)).collect()
    }
}

fn probe(view: &ProbeView) -> proto::Probe {
    let spec = &view.spec;
    proto::Probe {
        r#type: spec.kind.name().to_owned(),
        handler: spec.handler.kind().name().to_owned(),
        spec: spec.describe(),
        success_threshold: spec.success_threshold,
        failure_threshold: spec.failure_threshold,
        termination_grace_period_seconds: spec.grace.map(|grace| grace.as_secs()),
        result: view.result.map_or("", Verdict::name).to_owned(),
        last: view.last.as_ref().map(run),
        in_a_row: view.in_a_row,
        next: view.next.map(time::from_timestamp),
        waits_for: view.waits_for.to_owned(),
        successful: view.counts.successful,
        failed: view.counts.failed,
        unknown: view.counts.unknown,
    }
}

fn run(run: &ProbeRun) -> proto::ProbeRun {
    let (outcome, output) = match &run.outcome {
        Ok(Outcome::Success) => ("success", &run.output),
        Ok(Outcome::Warning) => ("warning", &run.output),
        Ok(Outcome::Failure) => ("failure", &run.output),
        Err(error) => ("error", error),
    };
    proto::ProbeRun {
        begun: Some(time::from_timestamp(run.begun)),
        took_ns: u64::try_from(run.took.as_nanos()).unwrap_or(u64::MAX),
        outcome: outcome.to_owned(),
        output: output.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::fixture;

    #[test]
    fn in_the_order_in_which_they_count() {
        let mut view = fixture::probes();
        view.probes.reverse();
        let probes = Probes::of(&view);
        let kinds = |uid, container| -> Vec<String> {
            probes.of_container(uid, container).into_iter().map(|probe| probe.r#type).collect()
        };
        assert_eq!(kinds("8c5e", "web"), ["Startup", "Readiness", "Liveness"]);
        assert_eq!(kinds("8c5e", "other"), Vec::<String>::new());
        assert_eq!(kinds("other", "web"), Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_known() {
        let view = fixture::probes();
        let [startup, readiness, liveness] = &Probes::of(&view).of_container("8c5e", "web")[..] else {
            panic!("three probes")
        };
        assert_eq!((startup.handler.as_str(), startup.result.as_str()), ("exec", "success"));
        assert_eq!((startup.waits_for.as_str(), startup.next), ("a new container", None));
        assert_eq!(
            readiness.spec,
            "http-get http://:8080/ready delay=0s timeout=1s period=10s #success=2 #failure=3"
        );
        assert_eq!((readiness.success_threshold, readiness.failure_threshold), (2, 3));
        let last = readiness.last.as_ref().expect("it ran");
        assert_eq!((last.took_ns, last.outcome.as_str()), (2_000_000, "failure"));
        assert_eq!(last.output, "HTTP probe failed with statuscode: 503");
        assert_eq!(readiness.next.map(|t| t.seconds), Some(1_700_000_095));
        assert_eq!((readiness.successful, readiness.failed, readiness.unknown), (12, 4, 2));
        assert_eq!((liveness.result.as_str(), &liveness.last), ("", &None));
        assert_eq!(liveness.termination_grace_period_seconds, Some(5));
    }

    #[test]
    fn outcomes() {
        let result = |outcome: Result<Outcome, String>| {
            let view = fixture::probes().probes[1].last.clone().expect("it ran");
            let run = run(&ProbeRun { outcome, output: "said".into(), ..view });
            (run.outcome, run.output)
        };
        let is = |outcome: &str, output: &str| (outcome.to_owned(), output.to_owned());
        assert_eq!(result(Ok(Outcome::Success)), is("success", "said"));
        assert_eq!(result(Ok(Outcome::Warning)), is("warning", "said"));
        assert_eq!(result(Ok(Outcome::Failure)), is("failure", "said"));
        assert_eq!(result(Err("no runtime".into())), is("error", "no runtime"));
    }
}
