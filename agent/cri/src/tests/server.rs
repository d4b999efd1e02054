//! Tests with a fake runtime, for responses that an installed runtime cannot be made to give.

use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use crate::runtime_fixture::{self, FakeRuntime};
use crate::*;
use nodewarden_machine::cgroup::control::DriverKind;

/// The responses of the fake runtime.
#[derive(Debug, Clone, Default)]
struct Answers {
    config: Option<Result<cri::RuntimeConfigResponse, tonic::Code>>,
    conditions: Vec<cri::RuntimeCondition>,
}

#[tonic::async_trait]
impl FakeRuntime for Answers {
    async fn runtime_config(
        &self,
        _: cri::RuntimeConfigRequest,
    ) -> Result<cri::RuntimeConfigResponse, Status> {
        match self.config {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(code)) => Err(Status::new(code, "no")),
            None => Err(Status::unimplemented("unknown method RuntimeConfig")),
        }
    }

    async fn status(&self, _: cri::StatusRequest) -> Result<cri::StatusResponse, Status> {
        let status = Some(cri::RuntimeStatus { conditions: self.conditions.clone() });
        Ok(cri::StatusResponse { status, ..Default::default() })
    }
}

/// A client of a runtime with these responses, which exists as long as the directory.
fn serve(answers: Answers) -> (tempfile::TempDir, Client) {
    let directory = tempfile::tempdir().unwrap();
    let client = runtime_fixture::serve(answers, &directory.path().join("cri.sock"));
    (directory, client)
}

#[tokio::test]
async fn the_cgroup_driver_is_the_one_that_the_runtime_reports() {
    let linux = |driver| cri::RuntimeConfigResponse {
        linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver: driver }),
    };
    for (config, driver) in [
        (Some(Ok(linux(0))), Some(DriverKind::Systemd)),
        (Some(Ok(linux(1))), Some(DriverKind::Cgroupfs)),
        (Some(Ok(cri::RuntimeConfigResponse { linux: None })), None),
        (Some(Err(tonic::Code::Unimplemented)), None),
        (None, None),
    ] {
        let (_directory, client) = serve(Answers { config, ..Answers::default() });
        assert_eq!(client.cgroup_driver().await.unwrap(), driver, "{config:?}");
    }
}

#[tokio::test]
async fn an_unknown_driver_or_a_refusal_is_an_error() {
    let unknown =
        cri::RuntimeConfigResponse { linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver: 7 }) };
    let (_directory, client) = serve(Answers { config: Some(Ok(unknown)), ..Answers::default() });
    let error = client.cgroup_driver().await.unwrap_err();
    assert!(
        error.to_string().ends_with("cgroup driver 7 is neither systemd (0) nor cgroupfs (1)"),
        "{error}"
    );
    let refused = Some(Err(tonic::Code::PermissionDenied));
    let (_directory, client) = serve(Answers { config: refused, ..Answers::default() });
    assert!(matches!(client.cgroup_driver().await, Err(RuntimeError::Call { call: "RuntimeConfig", .. })));
}

#[tokio::test]
async fn conditions_with_their_reasons() {
    let conditions = vec![
        cri::RuntimeCondition { r#type: "RuntimeReady".into(), status: true, ..Default::default() },
        cri::RuntimeCondition {
            r#type: "NetworkReady".into(),
            reason: "NetworkPluginNotReady".into(),
            message: "cni config uninitialized".into(),
            ..Default::default()
        },
    ];
    let (_directory, client) = serve(Answers { conditions, ..Answers::default() });
    let texts: Vec<String> = client.conditions().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["RuntimeReady: true", "NetworkReady: false NetworkPluginNotReady: cni config uninitialized"]
    );
}
