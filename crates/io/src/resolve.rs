//! Names to addresses, by the system's resolver.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The addresses of `host`, best first, each with `port`. Never an empty list. **Blocks**, perhaps for many seconds:
/// for threads that have nothing else to do.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = (host, port).to_socket_addrs()?.collect();
    if found.is_empty() {
        Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_themselves_and_nonsense_is_refused() {
        assert_eq!(resolve("127.0.0.1", 80).unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(resolve("::1", 80).unwrap(), ["[::1]:80".parse().unwrap()]);
        assert!(resolve("", 80).is_err());
    }
}
