//! `resourceFieldRef`: a request or limit of a container as a number (pkg/api/v1/resource/helpers.go).

use k8s_openapi::api::core::v1::ResourceFieldSelector;

use crate::fields::FieldError;
use nodewarden_manifest::names::{CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, page_size};
use nodewarden_manifest::{Container, Pod, Quantity};
use nodewarden_qos::Node;
use nodewarden_qos::allocatable;

/// The value of a variable of the container `own`, or of a file, in units of the divisor and rounded up. A
/// limit that is not set is that of the pod, or what is allocatable on the node.
pub fn resource_value(
    selector: &ResourceFieldSelector,
    own: Option<&str>,
    pod: &Pod,
    node: Node<'_>,
) -> Result<String, FieldError> {
    let name = selector.container_name.as_deref().filter(|name| !name.is_empty()).or(own).unwrap_or_default();
    let (_, container) =
        nodewarden_manifest::find(pod, name).ok_or_else(|| FieldError::NoContainer(name.to_owned()))?;
    let divisor = divisor(selector)?;
    let unsupported = || FieldError::UnsupportedResource(selector.resource.clone());
    let (what, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let known = matches!(resource, CPU | MEMORY | EPHEMERAL_STORAGE) || is_hugepages(resource);
    let quantity = match what {
        "limits" if known => limit(resource, container, pod, node),
        "requests" if known => container.resources.requests.get(resource).cloned().unwrap_or_default(),
        _ => return Err(unsupported()),
    };
    let of = |quantity: &Quantity| match resource {
        CPU => quantity.milli_value(),
        _ => quantity.value(),
    };
    // In floating point, as in the kubelet.
    Ok(((of(&quantity) as f64 / of(&divisor) as f64).ceil() as i64).to_string())
}

/// The divisor; 1 if it is not set.
fn divisor(selector: &ResourceFieldSelector) -> Result<Quantity, FieldError> {
    let Some(text) = &selector.divisor else { return Ok(Quantity::from_whole(1)) };
    let bad = || FieldError::Divisor(text.0.clone());
    match Quantity::parse(text.0.trim()) {
        Ok(zero) if zero.is_zero() => Ok(Quantity::from_whole(1)),
        Ok(divisor) if divisor.is_positive() => Ok(divisor),
        _ => Err(bad()),
    }
}

/// The limit of the container, else that of the pod (KEP-2837), else what is allocatable (kubelet
/// `defaultPodLimitsForDownwardAPI`).
fn limit(resource: &str, container: &Container, pod: &Pod, node: Node<'_>) -> Quantity {
    let set = |quantity: &&Quantity| !quantity.is_zero();
    let own = container.resources.limits.get(resource).filter(set);
    let of_pod = || pod.resources.as_ref().and_then(|all| all.limits.get(resource)).filter(set);
    own.or_else(of_pod).cloned().unwrap_or_else(|| available(resource, node))
}

fn available(resource: &str, node: Node<'_>) -> Quantity {
    let all = allocatable::allocatable(node.capacity, node.settings);
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    match resource {
        CPU => Quantity::from_milli(signed(all.cpu_milli)),
        MEMORY => Quantity::from_bytes(signed(all.memory_bytes)),
        EPHEMERAL_STORAGE => {
            all.ephemeral_storage_bytes.map(|n| Quantity::from_bytes(signed(n))).unwrap_or_default()
        }
        _ => {
            let pages = page_size(resource).and_then(|size| {
                all.hugepages.iter().find(|(page, _)| signed(page.0) == size.value()).map(|(_, bytes)| *bytes)
            });
            pages.map(|n| Quantity::from_bytes(signed(n))).unwrap_or_default()
        }
    }
}
