//! Certificates that last two minutes: the agent renews them and goes on working.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::NEEDS;
use super::fixture::{CERTIFICATES, ClusterFixture, condition, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use super::requests;
use crate::fixture::HttpsServer;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_renewal", renewal).timeout(480).needs(NEEDS)];

/// The controller manager of 1.20 signs from 5 minutes before: two of these 7 are left, and the renewal is
/// due up to 78 s later.
const SIGNED_FOR: Duration = Duration::from_secs(7 * 60);
/// The first certificate has certainly ended then.
const ENDED: Duration = Duration::from_secs(125);

fn renewal(context: &Context) -> Result<(), Failure> {
    let prepared = Prepared::alone(context, Some(SIGNED_FOR))?;
    let kubectl = prepared.cluster().kubectl();
    let token = prepared.cluster().bootstrap().to_string_lossy().into_owned();
    let kubeconfig = context.temp.join("node.kubeconfig");
    let fixture = prepared.start(NodeOptions {
        kubeconfig: Some(kubeconfig.clone()),
        lines: "rotateCertificates: true\nserverTLSBootstrap: true\n".into(),
        arguments: vec!["--bootstrap-kubeconfig".into(), token],
        ..NodeOptions::default()
    })?;
    let begun = Instant::now();
    let first = keep_first(context, &kubeconfig)?;
    ensure!(works(&fixture, &first), "the first certificate is not good for anything");
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let before = fixture.wait_ready("stays")?;
    let pid = fixture.agent()?.pid();

    let (authority, name) = (fixture.cluster().authority(), fixture.name().to_owned());
    let server = HttpsServer { port: fixture.port(), name: &name, authority: &authority };
    let mut shown = Vec::new();
    // A certificate that has ended is not accepted by this client.
    while begun.elapsed() < ENDED {
        requests::approve_serving(&kubectl, &name)?;
        if let Ok(certificate) = server.certificate()
            && !shown.contains(&certificate)
        {
            println!("{REPORTED}a serving certificate after {:.0} s", begun.elapsed().as_secs_f64());
            shown.push(certificate);
        }
        let node = fixture.node()?;
        ensure_eq!(condition(&node, "Ready"), Some("True"), "Ready while certificates are renewed");
        std::thread::sleep(Duration::from_secs(2));
    }
    ensure!(!works(&fixture, &first), "the first certificate has not ended");
    ensure!(server.certificate().is_ok(), "the serving certificate has ended: {:?}", server.certificate());
    ensure!(shown.len() >= 2, "the serving certificate was not renewed");
    fixture.wait_renewed(30)?;
    fixture.apply(&pod("later", &name, WAIT))?;
    fixture.wait_ready("later")?;
    ensure_eq!(fixture.run(&["exec", "later", "--", "echo", "there"])?, "there\n", "output of exec");
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&before), "the container that ran all the time");
    ensure_eq!(fixture.agent()?.pid(), pid, "the agent's process");
    // The certificate and, at most, one that is renewed too early for the spread of the first.
    let made = requests::all(&kubectl)?.into_iter().filter(|one| one.signer == requests::CLIENT).count();
    println!("{REPORTED}client certificates requested in {} s: {made}", begun.elapsed().as_secs());
    ensure!((2..=8).contains(&made), "{made} requests for client certificates");
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

/// A kubeconfig with a copy of the certificate that the node has now.
fn keep_first(context: &Context, kubeconfig: &Path) -> Result<PathBuf, Failure> {
    let current = context.temp.join(CERTIFICATES).join("kubelet-client-current.pem");
    let copy = context.temp.join("first.pem");
    fs::copy(&current, &copy).map_err(Failure::file(&current))?;
    let text = fs::read_to_string(kubeconfig).map_err(Failure::file(kubeconfig))?;
    let text = text.replace(&*current.to_string_lossy(), &copy.to_string_lossy());
    let path = context.temp.join("first.kubeconfig");
    fs::write(&path, text).map_err(Failure::file(&path))?;
    Ok(path)
}

fn works(fixture: &ClusterFixture<'_>, kubeconfig: &Path) -> bool {
    let kubectl = fixture.cluster().kubectl_with(kubeconfig);
    kubectl.get(&["node", fixture.name()]).is_ok()
}
