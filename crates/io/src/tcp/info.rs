//! What the kernel knows of a connection (`TCP_INFO`).

use super::Connection;
use std::io;
use std::os::fd::AsRawFd;

/// What the kernel knows of a connection, as `tcp(7)`'s `TCP_INFO` tells it. The structure grows with the kernel:
/// what an older one does not tell is `None`; from Linux 5.5 on all is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Smoothed round-trip time, microseconds (RFC 6298).
    pub rtt_us: u32,
    /// Its mean deviation, microseconds.
    pub rttvar_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Bytes of a full segment.
    pub snd_mss: u32,
    /// Segments that are on their way.
    pub unacked: u32,
    /// Segments sent again, since the connection stands.
    pub total_retrans: u32,
    /// What the kernel paces at, bits a second; `None` also where it does not.
    pub pacing_bps: Option<u64>,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes that wait in the kernel and were not sent once.
    pub notsent_bytes: Option<u32>,
    /// What arrives, bits a second, by the newest acknowledgements.
    pub delivery_bps: Option<u64>,
    /// The shortest round trip of the last minutes, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Time with something to send or on its way, microseconds.
    pub busy_us: Option<u64>,
    /// Part of it in which the receiver's window was the limit, microseconds.
    pub rwnd_limited_us: Option<u64>,
    /// Part of it in which we gave the kernel too little, microseconds.
    pub sndbuf_limited_us: Option<u64>,
    /// Bytes sent again.
    pub bytes_retrans: Option<u64>,
    /// Segments that were sent again although they had arrived, as the peer told (RFC 2883).
    pub dsack_dups: Option<u32>,
}

/// Longer than any kernel's structure; it fills what it knows and says how much that is.
const LONGEST: usize = 512;

impl Info {
    /// Reads `struct tcp_info` (linux/tcp.h), of which `bytes` may be any beginning.
    fn parse(bytes: &[u8]) -> Info {
        let u32_at = |at: usize| {
            let field = bytes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(field.try_into().ok()?))
        };
        let u64_at = |at: usize| {
            let field = bytes.get(at..at + 8)?;
            Some(u64::from_ne_bytes(field.try_into().ok()?))
        };
        let bits = |bytes_per_second: u64| bytes_per_second.saturating_mul(8);
        Info {
            snd_mss: u32_at(16).unwrap_or(0),
            unacked: u32_at(24).unwrap_or(0),
            rtt_us: u32_at(68).unwrap_or(0),
            rttvar_us: u32_at(72).unwrap_or(0),
            cwnd: u32_at(80).unwrap_or(0),
            total_retrans: u32_at(100).unwrap_or(0),
            pacing_bps: u64_at(104).filter(|rate| *rate != u64::MAX).map(bits),
            bytes_acked: u64_at(120),
            notsent_bytes: u32_at(144),
            delivery_bps: u64_at(160).map(bits),
            min_rtt_us: u32_at(148).filter(|time| *time != u32::MAX),
            busy_us: u64_at(168),
            rwnd_limited_us: u64_at(176),
            sndbuf_limited_us: u64_at(184),
            bytes_retrans: u64_at(208),
            dsack_dups: u32_at(216),
        }
    }
}

impl Connection {
    /// What the kernel knows of the connection. Costs one system call, about a microsecond.
    #[allow(unsafe_code)]
    pub fn info(&self) -> io::Result<Info> {
        let mut bytes = [0u8; LONGEST];
        let mut length = LONGEST as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `bytes`, which lives through the call, and sets
        // `length` to what it wrote.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Info::parse(&bytes[..(length as usize).min(LONGEST)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Listener;
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    #[test]
    fn a_shorter_structure_lacks_its_later_fields() {
        let mut bytes = [0u8; 232];
        bytes[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        bytes[100..104].copy_from_slice(&7u32.to_ne_bytes());
        bytes[104..112].copy_from_slice(&125_000u64.to_ne_bytes());
        bytes[176..184].copy_from_slice(&9u64.to_ne_bytes());
        let whole = Info::parse(&bytes);
        assert_eq!((whole.rtt_us, whole.total_retrans), (1500, 7));
        assert_eq!(
            (whole.pacing_bps, whole.rwnd_limited_us, whole.bytes_retrans),
            (Some(1_000_000), Some(9), Some(0))
        );
        let of_2010 = Info::parse(&bytes[..104]);
        assert_eq!((of_2010.rtt_us, of_2010.total_retrans), (1500, 7));
        assert_eq!((of_2010.pacing_bps, of_2010.rwnd_limited_us), (None, None));
        // A field that is cut in the middle is none.
        assert_eq!(Info::parse(&bytes[..180]).rwnd_limited_us, None);
        assert_eq!(Info::parse(&[]), Info::default());
        bytes[104..112].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Info::parse(&bytes).pacing_bps, None);
    }

    fn pair() -> (Connection, TcpStream) {
        let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let client = TcpStream::connect(listener.local_address().unwrap()).unwrap();
        loop {
            if let Some((server, _)) = listener.accept().unwrap() {
                return (server, client);
            }
        }
    }

    #[test]
    fn what_was_read_is_acknowledged() {
        let (server, mut client) = pair();
        let mut sent = 0;
        while sent < 100_000 {
            sent += server.write(&[7; 1000]).unwrap().unwrap_or(0);
            let _ = client.read(&mut [0; 4096]).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let info = server.info().unwrap();
            assert!(info.cwnd > 0 && info.snd_mss > 0 && info.rtt_us > 0, "{info:?}");
            // The handshake's own byte may be counted with them.
            if info.bytes_acked.is_some_and(|acked| acked >= sent as u64) {
                break;
            }
            assert!(Instant::now() < deadline, "{sent} sent: {info:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_reader_that_does_not_read_closes_its_window() {
        let (server, _client) = pair();
        server.limit_unsent(64 << 10).unwrap();
        let began = Instant::now();
        loop {
            while server.write(&[7; 16 << 10]).unwrap().is_some() {}
            let info = server.info().unwrap();
            let (busy, rwnd) = (info.busy_us.unwrap(), info.rwnd_limited_us.unwrap());
            if rwnd > 50_000 {
                assert!(rwnd <= busy && info.notsent_bytes.unwrap() > 0, "{info:?}");
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{info:?}");
            std::thread::yield_now();
        }
    }
}
