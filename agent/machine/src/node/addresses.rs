//! The node's own addresses, and when they change.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    ip: IpAddr,
    /// The interface is up and is not the loopback interface.
    usable: bool,
}

/// The node's addresses now, IPv4 first: those that the kernel would send from on the way out. Without a
/// route out, the first global unicast address of each family that an interface has (as k8s.io/apimachinery
/// `ResolveBindAddress`, which a kubelet uses). Nothing is sent.
pub fn node_addresses() -> Vec<IpAddr> {
    let routed = routed();
    if routed.is_empty() { first_global(&own()) } else { routed }
}

fn routed() -> Vec<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): routed by the default route wherever there is one.
    let ways = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    ways.into_iter()
        .filter_map(|(from, to)| {
            let socket = UdpSocket::bind(from).ok()?;
            socket.connect(to).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
        .filter(|ip| is_global(*ip))
        .collect()
}

/// The addresses of all interfaces, in the kernel's order.
fn own() -> Vec<Own> {
    let interfaces = getifaddrs().into_iter().flatten();
    interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            let v6 = || address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()));
            let up = interface.flags.contains(InterfaceFlags::IFF_UP);
            let usable = up && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
            Some(Own { ip: v4.or_else(v6)?, usable })
        })
        .collect()
}

/// The first global unicast address of each family, IPv4 first.
fn first_global(own: &[Own]) -> Vec<IpAddr> {
    let first = |is_v4: bool| {
        let mut usable = own.iter().filter(|own| own.usable && is_global(own.ip));
        usable.find(|own| own.ip.is_ipv4() == is_v4).map(|own| own.ip)
    };
    [true, false].into_iter().filter_map(first).collect()
}

/// Neither loopback, link-local, multicast nor unspecified (Go's `IP.IsGlobalUnicast`).
fn is_global(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(link_local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

/// Groups of rtnetlink messages (include/uapi/linux/rtnetlink.h): addresses and routes of IPv4 and IPv6, and
/// interfaces.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// A change of the network is many messages: they are waited for this long.
const SETTLE: Duration = Duration::from_millis(200);

/// Reports changes of interfaces, addresses and routes in the network namespace in which it was opened.
#[derive(Debug)]
pub struct NetworkChanges(AsyncFd<OwnedFd>);

impl NetworkChanges {
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// There is no rtnetlink socket.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        // SAFETY: the socket is owned by what is registered, and nothing else closes it.
        let readable = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Self(readable))
    }

    /// Waits for the next change, and then until the messages of it have come.
    ///
    /// # Errors
    /// The socket fails.
    pub async fn next(&mut self) -> io::Result<()> {
        drop(self.0.readable().await?);
        tokio::time::sleep(SETTLE).await;
        let mut buffer = [0u8; 8192];
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|socket| {
                recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).map_err(io::Error::from)
            }) {
                // What the messages say is not read: the addresses are looked up.
                Ok(Ok(_)) => {}
                // Some were lost because there were too many.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn without_a_route_the_first_global_unicast_address_of_each_family_is_chosen() {
        let own = |list: &[(&str, bool)]| -> Vec<Own> {
            list.iter().map(|(ip, usable)| Own { ip: ip.parse().unwrap(), usable: *usable }).collect()
        };
        for (list, expected) in [
            (vec![], vec![]),
            (vec![("127.0.0.1", false), ("::1", false)], vec![]),
            (vec![("169.254.3.4", true), ("fe80::1", true), ("224.0.0.1", true)], vec![]),
            (vec![("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.3", true)], vec!["10.0.0.2"]),
            (vec![("fd00::1", true), ("10.0.0.2", true), ("fd00::2", true)], vec!["10.0.0.2", "fd00::1"]),
        ] {
            assert_eq!(first_global(&own(&list)), ips(&expected), "{list:?}");
        }
    }

    fn ip(arguments: &str) {
        let done = Command::new("ip").args(arguments.split(' ')).status();
        assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
    }

    /// Runs in a network namespace of this thread's own; its only interface is the loopback one, which is
    /// down.
    async fn in_a_namespace_of_its_own() {
        let mut changes = NetworkChanges::open().unwrap();
        let mut changed = async || {
            let next = tokio::time::timeout(Duration::from_secs(10), changes.next()).await;
            next.expect("a change is reported").unwrap();
            node_addresses()
        };
        assert_eq!(node_addresses(), ips(&[]), "before DHCP");
        ip("link add n0 type veth peer name n1");
        ip("link set n0 up");
        ip("link set n1 up");
        ip("address add 10.9.0.1/24 dev n0");
        assert_eq!(changed().await, ips(&["10.9.0.1"]), "no default route");
        ip("address add 10.9.0.7/24 dev n0");
        ip("route add default via 10.9.0.99 src 10.9.0.7");
        assert_eq!(changed().await, ips(&["10.9.0.7"]), "the address of the route out");
        ip("address add 10.10.0.1/24 dev n0");
        ip("address delete 10.9.0.1/24 dev n0");
        ip("address flush dev n0 to 10.9.0.0/24");
        assert_eq!(changed().await, ips(&["10.10.0.1"]), "the node has moved to another network");
    }

    #[test]
    fn changes_of_the_network_are_seen() {
        nodewarden_testing::in_network_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(in_a_namespace_of_its_own());
        });
    }
}
