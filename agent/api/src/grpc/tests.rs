//! Tests of the interface over a real socket.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::nodewarden_client::NodewardenClient;
use proto::pods_client::PodsClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use super::fixture::Running;
use nodewarden_model::{Detail, PodRef};

async fn over(stream: std::io::Result<tokio::net::UnixStream>) -> Channel {
    let mut stream = stream.ok();
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.map(TokioIo::new).ok_or_else(|| std::io::Error::other("no stream")) }
    });
    Endpoint::from_static("http://nodewarden").connect_with_connector(connector).await.unwrap()
}

async fn channel(path: &Path) -> Channel {
    over(tokio::net::UnixStream::connect(path).await).await
}

fn watch_all(since: i64) -> proto::WatchEventsRequest {
    proto::WatchEventsRequest {
        since: Some(prost_types::Timestamp { seconds: since, nanos: 0 }),
        ..Default::default()
    }
}

#[tokio::test]
async fn status_and_cgroups() {
    let running = Running::start().await;
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let status = client.get_status(proto::GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.mode.as_str(), status.topics.len()), ("observe", 2));
    let mut list = async |path_prefix: &str, pods_only| {
        let request = proto::ListCgroupsRequest { path_prefix: path_prefix.into(), pods_only };
        client.list_cgroups(request).await.unwrap().into_inner().cgroups.len()
    };
    assert_eq!(list("", false).await, 8);
    assert_eq!(list("/system.slice", false).await, 3);
    assert_eq!(list("", true).await, 2);
    assert_eq!(list("/system.slice", true).await, 0);
}

#[tokio::test]
async fn managed_pods() {
    let running = Running::start().await;
    let mut client = PodsClient::new(channel(&running.socket).await);
    let answer = client.list(proto::ListPodsRequest::default()).await.unwrap().into_inner();
    assert_eq!((answer.mode.as_str(), answer.pods[0].name.as_str()), ("observe", "cart-5d9c"));
    let probes = |answer: &proto::ListPodsResponse| {
        answer.pods[0].containers.iter().map(|own| own.probes.len()).collect::<Vec<_>>()
    };
    assert_eq!(probes(&answer), [0, 0]);
    let request = proto::ListPodsRequest { probes: true, ..proto::ListPodsRequest::default() };
    assert_eq!(probes(&client.list(request).await.unwrap().into_inner()), [0, 3]);
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let status = client.get_status(proto::GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.pods.unwrap().running, 1);
}

#[tokio::test]
async fn events_from_the_journal_then_live_filtered() {
    let running = Running::start().await;
    let time = Timestamp::now();
    let pod = Some(PodRef { uid: "8c5e".into(), ..PodRef::default() });
    let journal = running.journal.clone();
    journal.append(time, "/a", None, Detail::CgroupCreated {});
    journal.append(time, "/p", pod.clone(), Detail::CgroupCreated {});
    journal.append(time, "/p", pod.clone(), Detail::CgroupRemoved {});
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let request = proto::WatchEventsRequest {
        types: vec!["cgroupRemoved".into(), "cgroupEmptied".into()],
        pod: "8c5e".into(),
        ..watch_all(0)
    };
    let mut stream = client.watch_events(request).await.unwrap().into_inner();
    let mut next = async || stream.message().await.unwrap().unwrap().event.unwrap().seq;
    assert_eq!(next().await, 3);
    journal.append(time, "/p", None, Detail::CgroupRemoved {});
    journal.append(time, "/p", pod, Detail::CgroupEmptied {});
    assert_eq!(next().await, 5);

    let backlog = proto::WatchEventsRequest { no_follow: true, ..Default::default() };
    let mut stream = client.watch_events(backlog).await.unwrap().into_inner();
    let mut count = 0;
    while stream.message().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 5);
}

#[tokio::test]
async fn what_cannot_be_asked() {
    let running = Running::start().await;
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let request = proto::WatchEventsRequest { types: vec!["quake".into()], ..Default::default() };
    let refused = client.watch_events(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("\"quake\": known are oom, exit"), "{refused}");
    let refused = client.watch_events(watch_all(i64::MAX)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn health() {
    let running = Running::start().await;
    let mut client = HealthClient::new(channel(&running.socket).await);
    for service in ["", "nodewarden.v1.Nodewarden"] {
        let answer = client.check(HealthCheckRequest { service: service.into() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "{service}");
    }
}

#[tokio::test]
async fn a_stop_ends_streams_and_removes_the_socket() {
    let running = Running::start().await;
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let mut stream = client.watch_events(watch_all(0)).await.unwrap().into_inner();
    let mut health = HealthClient::new(channel(&running.socket).await);
    let watched = health.watch(HealthCheckRequest::default()).await.unwrap();
    let socket = running.socket.clone();
    let begin = Instant::now();
    running.stop().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert!(stream.message().await.unwrap().is_none());
    assert!(!socket.exists());
    drop(watched);
}

/// Connects as another user: from a thread with that uid, to a socket that all users may open.
#[tokio::test]
async fn others_are_refused() {
    const NOBODY: u32 = 65_534;
    let running = Running::start().await;
    let open =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(running.dir.path(), 0o755);
    open(running.socket.parent().unwrap(), 0o755);
    open(&running.socket, 0o666);
    let socket = running.socket.clone();
    let stream = tokio::task::spawn_blocking(|| {
        std::thread::spawn(move || {
            // SAFETY: plain integers in; the raw call changes this thread alone, which ends right after.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            (changed == 0).then(|| StdUnixStream::connect(socket).unwrap())
        })
        .join()
        .unwrap()
    })
    .await
    .unwrap();
    let Some(stream) = stream else {
        nodewarden_testing::skip("may not change the uid here");
        return;
    };
    stream.set_nonblocking(true).unwrap();
    let channel = over(tokio::net::UnixStream::from_std(stream)).await;
    let refused =
        NodewardenClient::new(channel.clone()).get_status(proto::GetStatusRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("uid 65534"), "{refused}");
    let refused = HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

/// Measures the time from appending an event until the client has it. The limit is far above the usual tens
/// of microseconds, because the machine may be loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_arrive_at_once() {
    let running = Running::start().await;
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    let mut stream = client.watch_events(watch_all(0)).await.unwrap().into_inner();
    let mut times = Vec::new();
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let journal = running.journal.clone();
        let appender = std::thread::spawn(move || {
            let begin = Instant::now();
            journal.append(Timestamp::now(), "/a", None, Detail::CgroupCreated {});
            begin
        });
        stream.message().await.unwrap().unwrap();
        let arrived = Instant::now();
        times.push(arrived - appender.join().unwrap());
    }
    times.sort_unstable();
    let (p50, p99) = (times[100], times[198]);
    println!("append to client: p50 {p50:?}, p99 {p99:?}");
    assert!(p50 < Duration::from_millis(5), "{p50:?}");
}

#[tokio::test]
async fn subscribers_are_bounded_with_a_clear_error() {
    let running = Running::start().await;
    let mut client = NodewardenClient::new(channel(&running.socket).await);
    // Of one connection no more calls are taken at a time.
    let mut other = NodewardenClient::new(channel(&running.socket).await);
    let mut streams = Vec::new();
    for n in 0..super::connections::SUBSCRIBERS {
        let client = if n % 2 == 0 { &mut client } else { &mut other };
        streams.push(client.watch_events(proto::WatchEventsRequest::default()).await.unwrap());
    }
    let refused = client.watch_events(proto::WatchEventsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "the agent serves 64 subscribers to events already");
    assert!(client.get_status(proto::GetStatusRequest {}).await.is_ok(), "other calls are answered");
    streams.pop();
    let begun = Instant::now();
    while client.watch_events(proto::WatchEventsRequest::default()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the place of one that left is free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_at_once() {
    let running = Running::start().await;
    let connect = || tokio::net::UnixStream::connect(&running.socket);
    let mut open = Vec::new();
    for _ in 0..super::connections::CONNECTIONS {
        open.push(connect().await.unwrap());
    }
    let more = connect().await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), more.readable()).await.expect("it is closed").unwrap();
    assert_eq!(more.try_read(&mut [0; 8]).unwrap_or(0), 0);
    drop(open);
    let begun = Instant::now();
    loop {
        let stream = connect().await.unwrap();
        let mut client = NodewardenClient::new(over(Ok(stream)).await);
        if client.get_status(proto::GetStatusRequest {}).await.is_ok() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "there are places again");
    }
}
