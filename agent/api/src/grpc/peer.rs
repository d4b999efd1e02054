//! Access control: only root may call, by the credentials that the kernel recorded when the peer connected.

use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// Interceptor for every call on the socket.
pub fn check(request: Request<()>) -> Result<Request<()>, Status> {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred.as_ref());
    match allowed(peer.map(|p| p.uid())) {
        Ok(()) => Ok(request),
        Err(why) => Err(Status::permission_denied(why)),
    }
}

/// Allows root; for other or unknown users the error says why not.
fn allowed(uid: Option<u32>) -> Result<(), String> {
    match uid {
        Some(0) => Ok(()),
        Some(uid) => Err(format!("nodewarden answers root only, and you are uid {uid}")),
        None => Err("nodewarden answers root only, and the kernel did not say who you are".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_only() {
        assert!(allowed(Some(0)).is_ok());
        assert!(allowed(Some(1000)).unwrap_err().contains("uid 1000"));
        assert!(allowed(None).is_err());
    }
}
