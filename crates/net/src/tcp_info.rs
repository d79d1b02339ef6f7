//! State of a TCP connection in the kernel (TCP_INFO): round trip, segment size, retransmits.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Fields of `struct tcp_info` (linux/tcp.h) that this program uses. A kernel older than a field
/// leaves it zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Bytes of payload in a full segment to the other end.
    pub snd_mss: u32,
    /// Bytes of payload in a full segment that this end announces.
    pub advmss: u32,
    /// Whether each segment carries time stamps, which take 12 bytes of it.
    pub timestamps: bool,
    /// Path MTU, as assumed by the kernel.
    pub pmtu: u32,
    /// Smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// Smallest round trip in microseconds.
    pub min_rtt_us: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted since the connection began. The counter wraps.
    pub total_retrans: u32,
    /// Segments with payload sent since the connection began, retransmits included. The counter
    /// wraps.
    pub data_segs_out: u32,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
}

/// Bytes of the structure up to the last field that is read.
const LEN: usize = 160;

impl TcpInfo {
    /// Reads the state of a socket's connection from the kernel.
    ///
    /// # Errors
    /// The socket is no TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut buffer = [0u8; LEN];
        let mut len = LEN as libc::socklen_t;
        // SAFETY: the descriptor is borrowed for the call. The kernel writes at most `len` bytes to
        // the buffer, which has that many. It writes their number to `len`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                buffer.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::read(&buffer))
    }

    fn read(buffer: &[u8; LEN]) -> Self {
        let word = |at: usize| {
            u32::from_ne_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]])
        };
        let mut acked = [0; 8];
        acked.copy_from_slice(&buffer[120..128]);
        Self {
            snd_mss: word(16),
            advmss: word(84),
            timestamps: buffer[5] & 1 != 0,
            pmtu: word(60),
            rtt_us: word(68),
            min_rtt_us: word(148),
            snd_cwnd: word(80),
            total_retrans: word(100),
            data_segs_out: word(156),
            bytes_acked: u64::from_ne_bytes(acked),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&client).unwrap();
        // The first byte is the SYN of the connection.
        assert!((1000..=1001).contains(&info.bytes_acked), "{info:?}");
        assert!(info.snd_mss >= 500 && info.pmtu > info.snd_mss, "{info:?}");
        assert!(
            info.rtt_us > 0 && info.min_rtt_us <= info.rtt_us,
            "{info:?}"
        );
        assert_eq!((info.total_retrans, info.data_segs_out), (0, 1));
        assert!(TcpInfo::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
