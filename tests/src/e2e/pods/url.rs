//! Pods of `staticPodURL`: what a web server has runs, and nothing that goes wrong with the server ends it.

use serde_json::json;

use super::NEEDS;
use super::fixture::PodFixture;
use super::listed::ListedPod;
use super::manifest::{STAY, one};
use crate::e2e::support::eventually;
use crate::fixture::PodServer;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pods_of_a_url", served).timeout(180).needs(NEEDS)];

/// Uid and container id.
fn identity(pod: &ListedPod) -> Result<(String, String), Failure> {
    Ok((pod.uid().to_owned(), pod.container("c")?.id().to_owned()))
}

fn served(context: &Context) -> Result<(), Failure> {
    let server = PodServer::start().map_err(Failure::file("a web server"))?;
    let with = |word: &str| one("served", &format!("echo {word}; {STAY}"), json!({}));
    server.has(&[with("one")]);
    let lines = format!(
        "staticPodURL: {}\nstaticPodURLHeader: {{X-Secret: [abc]}}\nhttpCheckFrequency: 1s\n",
        server.url()
    );
    let mut fixture = PodFixture::with_config(context, &lines, "")?;
    // One of the manifest directory beside it.
    fixture.put([one("file", STAY, json!({}))])?;
    let bystander = identity(&fixture.wait_up("file")?)?;
    let first = fixture.wait_up("served")?;
    fixture.log_until(&first, "c", 0, "one\n")?;
    ensure_eq!(first.text("/metadata/annotations/kubernetes.io~1config.source"), "http", "its source");
    let described = fixture.command(&["pods", "describe", "served"])?;
    let described = String::from_utf8_lossy(&described.stdout).into_owned();
    ensure!(described.contains(&format!("http:{}", server.url())), "pods describe: {described}");
    let requests = server.requests();
    let head = requests.last().cloned().unwrap_or_default().to_lowercase();
    ensure!(head.starts_with("get /pods http/1.1\r\n") && head.contains("x-secret: abc\r\n"), "{head}");

    server.has(&[with("two")]);
    let second =
        fixture.wait_until("served", "another pod", 40, |pod| pod.is_up() && pod.uid() != first.uid())?;
    fixture.log_until(&second, "c", 0, "two\n")?;

    // Whatever the server answers meanwhile, and though another agent starts, the pod stays.
    let problem = |fixture: &PodFixture<'_>, text: &str| {
        eventually(context.patiently(20), &format!("the status has no {text:?}"), || {
            let output = fixture.command(&["status"])?;
            Ok(String::from_utf8_lossy(&output.stdout).contains(text).then_some(()))
        })
    };
    server.answers("503 Service Unavailable", b"later");
    problem(&fixture, "/pods: 503 Service Unavailable")?;
    fixture.kill_agent()?;
    fixture.start_agent()?;
    problem(&fixture, "/pods: 503 Service Unavailable")?;
    server.answers("200 OK", b"");
    problem(&fixture, "/pods: nothing in it")?;
    server
        .answers("200 OK", b"apiVersion: v1\nkind: Pod\nmetadata: {name: served}\nspec: {containers: []}\n");
    problem(&fixture, "/pods: document 1, line")?;
    ensure_eq!(identity(&fixture.wait_up("served")?)?, identity(&second)?, "the pod after all this");

    let asked = server.requests().len();
    server.has(&[]);
    fixture.wait_gone(&["served"])?;
    eventually(context.patiently(10), "the server is not asked any more", || {
        Ok((server.requests().len() > asked + 1).then_some(()))
    })?;
    ensure_eq!(identity(&fixture.wait_up("file")?)?, bystander, "the pod of a manifest");
    fixture.finish()
}
