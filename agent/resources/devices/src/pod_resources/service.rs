//! The calls of the services.

use std::sync::Arc;

use nodewarden_proto::podresources::v1 as api;
use nodewarden_proto::podresources::v1::pod_resources_lister_server::PodResourcesLister;
use nodewarden_proto::podresources::v1alpha1 as alpha;
use nodewarden_proto::podresources::v1alpha1::pod_resources_lister_server::PodResourcesLister as AlphaLister;
use tonic::{Request, Response, Status};

use super::{PodResources, convert};

pub struct Service {
    source: Arc<dyn PodResources>,
}

impl Service {
    pub fn new(source: Arc<dyn PodResources>) -> Self {
        Self { source }
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Service {
    async fn list(
        &self,
        _: Request<api::ListPodResourcesRequest>,
    ) -> Result<Response<api::ListPodResourcesResponse>, Status> {
        let pod_resources = self.source.pods().into_iter().map(convert::pod).collect();
        Ok(Response::new(api::ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<api::AllocatableResourcesRequest>,
    ) -> Result<Response<api::AllocatableResourcesResponse>, Status> {
        let devices = self.source.allocatable().into_iter().flat_map(convert::allocatable).collect();
        let cpu_ids = self.source.allocatable_cpus().into_iter().map(i64::from).collect();
        let memory = self.source.allocatable_memory().into_iter().map(convert::memory).collect();
        Ok(Response::new(api::AllocatableResourcesResponse { devices, cpu_ids, memory }))
    }

    async fn get(
        &self,
        request: Request<api::GetPodResourcesRequest>,
    ) -> Result<Response<api::GetPodResourcesResponse>, Status> {
        let api::GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let mut pods = self.source.pods().into_iter();
        match pods.find(|pod| pod.name == pod_name && pod.namespace == pod_namespace) {
            Some(pod) => {
                let pod_resources = Some(convert::pod(pod));
                Ok(Response::new(api::GetPodResourcesResponse { pod_resources }))
            }
            None => Err(Status::not_found(format!("pod {pod_name} in namespace {pod_namespace} not found"))),
        }
    }
}

#[tonic::async_trait]
impl AlphaLister for Service {
    async fn list(
        &self,
        _: Request<alpha::ListPodResourcesRequest>,
    ) -> Result<Response<alpha::ListPodResourcesResponse>, Status> {
        let pod_resources = self.source.pods().into_iter().map(convert::alpha_pod).collect();
        Ok(Response::new(alpha::ListPodResourcesResponse { pod_resources }))
    }
}
