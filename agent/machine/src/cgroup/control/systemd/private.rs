//! systemd's private socket: D-Bus between two processes, without a daemon and without `Hello`.
//!
//! systemd sends its messages there with the sender `org.freedesktop.systemd1`. zbus accepts only a unique
//! name (`:1.5`) as a sender and would refuse every answer. So the first letter of that name is replaced by
//! `:`, in the sender's field only, which makes it a unique name.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use zbus::connection::Socket;
use zbus::connection::socket::{ReadHalf, Split, WriteHalf};

/// A connection to the socket, before it is passed to zbus.
#[derive(Debug)]
pub struct Private(UnixStream);

impl Private {
    /// Connects to systemd's private socket at `path`.
    pub async fn connect(path: &str) -> io::Result<Self> {
        UnixStream::connect(path).await.map(Self)
    }
}

impl Socket for Private {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let (read, write) = self.0.into_split();
        Split::new(Reader { read, senders: Senders::default() }, Writer(write))
    }
}

/// The direction from systemd.
#[derive(Debug)]
pub struct Reader {
    read: OwnedReadHalf,
    senders: Senders,
}

#[async_trait]
impl ReadHalf for Reader {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let length = self.read.read(buffer).await?;
        self.senders.mend(&mut buffer[..length]);
        Ok((length, Vec::new()))
    }
}

/// The direction to systemd, unchanged.
#[derive(Debug)]
pub struct Writer(OwnedWriteHalf);

#[async_trait]
impl WriteHalf for Writer {
    async fn sendmsg(&mut self, buffer: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.write(buffer).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

/// The sender's name in systemd's messages.
const NAME: &[u8] = b"org.freedesktop.systemd1";
/// The bytes before it in the sender's header field (D-Bus Specification, "Header Fields"): field 7, a
/// variant of a string, and its length. The texts in a message's body cannot contain these bytes, because
/// none contains a NUL.
const FIELD: [u8; 8] = {
    let [a, b, c, d] = (NAME.len() as u32).to_ne_bytes();
    [7, 1, b's', 0, a, b, c, d]
};

/// Finds the senders in a stream that is read in pieces.
#[derive(Debug, Default)]
struct Senders {
    /// The last bytes, the newest at the end.
    last: [u8; FIELD.len()],
}

impl Senders {
    fn mend(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.last == FIELD && *byte == NAME[0] {
                *byte = b':';
            }
            self.last.rotate_left(1);
            self.last[FIELD.len() - 1] = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut bytes, mut senders) = (bytes.to_owned(), Senders::default());
        bytes.chunks_mut(piece).for_each(|piece| senders.mend(piece));
        bytes
    }

    #[test]
    fn the_sender_is_replaced_by_a_unique_name() {
        let field = [&FIELD[..], NAME, b"\0"].concat();
        let text = [&b"l\x02\x01\x01........"[..], &field, b"org.freedesktop.systemd1", &field].concat();
        let renamed = [&FIELD[..], b":rg.freedesktop.systemd1\0"].concat();
        let wanted =
            [&b"l\x02\x01\x01........"[..], &renamed, b"org.freedesktop.systemd1", &renamed].concat();
        for piece in 1..text.len() {
            assert_eq!(mended(&text, piece), wanted, "in pieces of {piece}");
        }
        zbus::names::UniqueName::try_from(":rg.freedesktop.systemd1").expect("a unique name");
    }

    #[test]
    fn other_processes_stay_where_they_are() {
        let other = [7, 1, b's', 0, 5, 0, 0, 0];
        let texts: [&[u8]; 4] = [
            b"OK 0123456789abcdef\r\nAGREE_UNIX_FD\r\n",
            &[&other[..], b"or.g1\0"].concat(),
            &[&FIELD[..], b":1.freedesktop.systemd11\0"].concat(),
            b"",
        ];
        for text in texts {
            assert_eq!(mended(text, 3), text);
        }
    }
}
