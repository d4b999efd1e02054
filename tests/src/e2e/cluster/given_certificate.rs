//! A serving certificate from given files, which are replaced while the agent runs.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::NEEDS;
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::fixture::{HttpsServer, Signed};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_given_certificate", given).timeout(240).needs(NEEDS)];

/// Both of the node's TLS addresses show a new certificate soon after its files were replaced, without a
/// restart. Of a new certificate with the key of the old one none is shown: the old one stays.
fn given(context: &Context) -> Result<(), Failure> {
    let prepared = Prepared::new(context)?;
    let (cluster, name) = (prepared.cluster().clone(), prepared.name().to_owned());
    let signer = cluster.signer()?;
    let sign = || signer.server(&name, &[name.as_str()], &[Ipv4Addr::LOCALHOST]);
    let (first, second) = (sign()?, sign()?);
    let files = Files { certificate: context.temp.join("given.crt"), key: context.temp.join("given.key") };
    replace(&files.certificate, &first.certificate)?;
    replace(&files.key, &first.key)?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let lines = format!("tlsCertFile: {certificate}\ntlsPrivateKeyFile: {key}\n");
    let fixture = prepared.start(NodeOptions { lines, remote_http: true, ..NodeOptions::default() })?;
    let authority = cluster.authority();
    let ports = [fixture.port(), fixture.agent()?.http().port()];
    let shown = |port| {
        let server = HttpsServer { port, name: &name, authority: &authority };
        server.certificate().map_err(Failure::file("the node's server"))
    };
    let of = |signed: &Signed| {
        let parsed = CertificateDer::from_pem_slice(signed.certificate.as_bytes());
        parsed.map(|own| own.to_vec()).map_err(|error| Failure::Unexpected(error.to_string()))
    };
    for port in ports {
        ensure!(shown(port)? == of(&first)?, "port {port} shows another certificate than the given one");
    }
    fixture.apply(&pod("talker", fixture.name(), WAIT))?;
    fixture.wait_ready("talker")?;
    let pid = fixture.agent()?.pid();

    replace(&files.certificate, &second.certificate)?;
    eventually(context.patiently(20), "the log says nothing of a key that does not belong there", || {
        Ok(fixture.agent()?.log().contains("the serving certificate stays as it was").then_some(()))
    })?;
    for port in ports {
        ensure!(shown(port)? == of(&first)?, "port {port} shows a certificate whose key is not there");
    }
    replace(&files.key, &second.key)?;
    for port in ports {
        eventually(context.patiently(20), &format!("port {port} does not show the new certificate"), || {
            Ok((shown(port)? == of(&second)?).then_some(()))
        })?;
    }
    ensure_eq!(fixture.run(&["exec", "talker", "--", "echo", "there"])?, "there\n", "output of exec");
    ensure_eq!(fixture.agent()?.pid(), pid, "pid of the agent");
    fixture.finish()
}

/// What is replaced.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, text).map_err(Failure::file(&temporary))?;
    std::fs::rename(&temporary, path).map_err(Failure::file(path))
}
