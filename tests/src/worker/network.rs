//! Workloads over loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use super::report::{Moved, Port};
use super::{WorkError, say, wait_for_line};

/// Reports its port, receives datagrams until it has `packets` or none came for 2 s, and reports the count.
pub fn udp_receive(packets: u64) -> Result<(), WorkError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(WorkError::system("bind"))?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).map_err(WorkError::system("setsockopt"))?;
    say(&Port { port: socket.local_addr().map_err(WorkError::system("getsockname"))?.port() })?;
    let mut moved = Moved { count: 0, bytes: 0 };
    let mut buffer = [0; 65536];
    while moved.count < packets {
        let Ok(bytes) = socket.recv(&mut buffer) else { break };
        moved.count += 1;
        moved.bytes += bytes as u64;
    }
    say(&moved)
}

/// Sends datagrams of `payload` bytes, slowly enough not to overflow the receiver's buffer.
pub fn udp_send(port: u16, packets: u64, payload: usize) -> Result<Moved, WorkError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(WorkError::system("bind"))?;
    send(&socket, port, packets, payload)
}

/// Makes a socket and reports its port. Sends the datagrams through it after the next line.
pub fn udp_send_later(port: u16, packets: u64, payload: usize) -> Result<(), WorkError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(WorkError::system("bind"))?;
    say(&Port { port: socket.local_addr().map_err(WorkError::system("getsockname"))?.port() })?;
    if wait_for_line() {
        say(&send(&socket, port, packets, payload)?)?;
    }
    Ok(())
}

fn send(socket: &UdpSocket, port: u16, packets: u64, payload: usize) -> Result<Moved, WorkError> {
    let buffer = vec![7; payload];
    let mut moved = Moved { count: 0, bytes: 0 };
    for i in 0..packets {
        let sent =
            socket.send_to(&buffer, (Ipv4Addr::LOCALHOST, port)).map_err(WorkError::system("sendto"))?;
        moved.count += 1;
        moved.bytes += sent as u64;
        if i % 20 == 19 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(moved)
}

/// Reports its port, receives one stream to its end, and reports the number of bytes.
pub fn tcp_receive() -> Result<(), WorkError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(WorkError::system("bind"))?;
    say(&Port { port: listener.local_addr().map_err(WorkError::system("getsockname"))?.port() })?;
    let (mut stream, _) = listener.accept().map_err(WorkError::system("accept"))?;
    let mut moved = Moved { count: 1, bytes: 0 };
    let mut buffer = vec![0; 65536];
    loop {
        match stream.read(&mut buffer).map_err(WorkError::system("read"))? {
            0 => return say(&moved),
            bytes => moved.bytes += bytes as u64,
        }
    }
}

/// Sends one stream of `bytes`.
pub fn tcp_send(port: u16, bytes: u64) -> Result<Moved, WorkError> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(WorkError::system("connect"))?;
    let buffer = vec![7; 65536];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(buffer.len() as u64) as usize;
        stream.write_all(&buffer[..part]).map_err(WorkError::system("write"))?;
        left -= part as u64;
    }
    Ok(Moved { count: 1, bytes })
}
