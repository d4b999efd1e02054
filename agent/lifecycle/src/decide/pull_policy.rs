//! When a container's image is pulled.

/// `imagePullPolicy`, by default Always for `latest` or no tag and IfNotPresent otherwise.
pub fn pull_policy<'a>(policy: Option<&'a str>, image: &str) -> &'a str {
    let untagged = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or(image);
        !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
    };
    match policy {
        Some(policy) if !policy.is_empty() => policy,
        _ if untagged(image) => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn the_tag_decides_where_no_policy_is_given() {
        for (policy, image, expected) in [
            (None, "busybox", "Always"),
            (None, "busybox:latest", "Always"),
            (Some(""), "busybox:1", "IfNotPresent"),
            (None, "registry:5000/busybox", "Always"),
            (None, "registry:5000/a/busybox:1.36", "IfNotPresent"),
            (None, "busybox@sha256:00", "IfNotPresent"),
            (Some("Never"), "busybox", "Never"),
        ] {
            assert_eq!(pull_policy(policy, image), expected, "{image}");
        }
    }
}
