//! Ports for RTP and its reports: an even one and the next (RFC 3550 §11).

use glassline_io::udp::{Receiver, Settings};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Times that a pair is looked for.
const ATTEMPTS: usize = 32;

/// Two ports at an address of ours.
///
/// # Errors
/// The system has none to give.
pub(crate) fn open(ours: IpAddr) -> io::Result<(Receiver, Receiver)> {
    let open = |port: u16| {
        let address = SocketAddr::new(ours.to_canonical(), port);
        Receiver::open(&Settings { address, interface: None, sender: None })
    };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..ATTEMPTS {
        let first = open(0)?;
        let port = first.local_address()?.port();
        // The odd one of a pair is as good a find as the even one.
        match open(port ^ 1) {
            Ok(second) if port % 2 == 0 => return Ok((first, second)),
            Ok(second) => return Ok((second, first)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_an_even_port_and_the_next() {
        let pairs: Vec<_> = (0..8).map(|_| open("127.0.0.1".parse().unwrap()).unwrap()).collect();
        for (rtp, rtcp) in &pairs {
            let (even, odd) = (rtp.local_address().unwrap().port(), rtcp.local_address().unwrap().port());
            assert_eq!((even % 2, odd), (0, even + 1));
        }
    }
}
