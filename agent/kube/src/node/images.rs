//! The images in the node's status.

use k8s_openapi::api::core::v1::ContainerImage;

use super::facts::Image;

/// Most names of one image (kubelet `MaxNamesPerImageInNodeStatus`).
const MOST_NAMES: usize = 5;

/// The largest images first, at most `most` of them; `None` for all. Equally large ones are ordered by their
/// names, so that the status stays the same.
pub fn images(images: &[Image], most: Option<usize>) -> Vec<ContainerImage> {
    let mut sorted: Vec<&Image> = images.iter().collect();
    sorted.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.names.cmp(&b.names)));
    let shown = sorted.into_iter().take(most.unwrap_or(usize::MAX));
    shown
        .map(|image| ContainerImage {
            names: Some(image.names.iter().take(MOST_NAMES).cloned().collect()),
            size_bytes: i64::try_from(image.size).ok(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_shown() {
        let image = |name: &str, size| Image { names: vec![name.to_owned()], size };
        let all = [image("b", 1), image("c", 9), image("a", 1)];
        let names = |most| -> Vec<String> {
            images(&all, most).into_iter().flat_map(|image| image.names.unwrap()).collect()
        };
        assert_eq!(names(None), ["c", "a", "b"]);
        assert_eq!(names(Some(2)), ["c", "a"]);
        assert!(names(Some(0)).is_empty());
        let many = Image { names: (0..9).map(|n| n.to_string()).collect(), size: 1 };
        assert_eq!(images(&[many], None)[0].names.as_ref().map(Vec::len), Some(5));
    }
}
