//! Names and numbers of TLS that a kubelet's file has: cipher suites and key exchanges of Go (crypto/tls).

use crate::fields::{Fields, shown};
use crate::shape::Shape;

/// Names of cipher suites that Go knows (crypto/tls): those of TLS 1.2 that the agent offers are marked.
/// Others are taken, for files written for a kubelet, and not offered.
const SUITES: [(&str, bool); 26] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", true),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", true),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", true),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", true),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", true),
    // Of TLS 1.3, which cannot be chosen, as in Go.
    ("TLS_AES_128_GCM_SHA256", true),
    ("TLS_AES_256_GCM_SHA384", true),
    ("TLS_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", false),
    ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", false),
    ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", false),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_256_GCM_SHA384", false),
];

/// Reads `tlsCipherSuites`.
pub(super) fn suites(top: &mut Fields<'_>) -> Vec<String> {
    let key = "tlsCipherSuites";
    let names = top.texts(key).unwrap_or_default();
    for name in &names {
        if !SUITES.iter().any(|(known, _)| known == name) {
            top.refuse(key, name, "names of cipher suites like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        }
    }
    let offered = |name: &String| SUITES.iter().any(|(known, offered)| known == name && *offered);
    if !names.is_empty() && !names.iter().any(offered) && !top.has_problem(key) {
        let all = SUITES.iter().filter(|(_, offered)| *offered).map(|(name, _)| *name).collect::<Vec<_>>();
        top.refuse(key, &names.join(", "), &format!("at least one of {}", all.join(", ")));
    }
    names
}

const CURVE: Shape = Shape::Integer { least: 0, most: u16::MAX as i64 };

/// Numbers of key exchanges that Go knows (tls.CurveID), each with whether the agent offers it. Others are
/// taken, for files written for a kubelet, and not offered.
const CURVES: [(u16, bool); 7] = [
    (23, true),    // P-256
    (24, true),    // P-384
    (25, false),   // P-521
    (29, true),    // X25519
    (4587, false), // SecP256r1MLKEM768
    (4588, false), // X25519MLKEM768
    (4589, false), // SecP384r1MLKEM1024
];

/// Reads `tlsCurvePreferences`; empty for all that are built in. Their order has no meaning, as in Go.
pub(super) fn curves(top: &mut Fields<'_>) -> Vec<u16> {
    let key = "tlsCurvePreferences";
    let names = |all: &[(u16, bool)]| all.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(", ");
    let given = top.list(key, &CURVE, "a list of numbers");
    let mut found = Vec::new();
    for value in &given {
        match value.as_u64().and_then(|id| CURVES.iter().find(|(known, _)| u64::from(*known) == id)) {
            Some((id, _)) => found.push(*id),
            None => top.refuse(key, &shown(value), &format!("numbers of key exchanges: {}", names(&CURVES))),
        }
    }
    let offered = CURVES.iter().filter(|(_, offered)| *offered).copied().collect::<Vec<_>>();
    if !found.is_empty() && !offered.iter().any(|(id, _)| found.contains(id)) && !top.has_problem(key) {
        let given = found.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        top.refuse(key, &given, &format!("at least one of {}", names(&offered)));
    }
    found
}
