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

/// The addresses in the order in which a caller should try them: the families take turns, that of the first one first,
/// and each address stands once (RFC 8305 §4).
pub fn in_turns(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first =
        |address: &&SocketAddr| found.first().is_some_and(|first| first.is_ipv4() == address.is_ipv4());
    let mut families = [found.iter().filter(is_first).collect::<Vec<_>>(), Vec::new()];
    families[1].extend(found.iter().filter(|address| !is_first(address)));
    let longest = families.iter().map(Vec::len).max().unwrap_or(0);
    let mut all: Vec<SocketAddr> = Vec::with_capacity(found.len());
    for place in 0..longest {
        for address in families.iter().filter_map(|family| family.get(place)) {
            if !all.contains(address) {
                all.push(**address);
            }
        }
    }
    all
}

/// Has a thread of its own resolve the name, and call `answer` with what comes of it: for callers that must not wait.
///
/// # Errors
/// The system gives no thread; `answer` is not called then.
pub fn in_background(
    host: String,
    port: u16,
    answer: impl FnOnce(io::Result<Vec<SocketAddr>>) + Send + 'static,
) -> io::Result<()> {
    let look = move || answer(resolve(&host, port));
    std::thread::Builder::new().name("resolve".into()).spawn(look).map(drop)
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

    #[test]
    fn families_take_turns() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let found = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "[::1]:1", "1.1.1.2:1"]);
        let turns = addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(in_turns(&found), turns);
        assert_eq!(in_turns(&found[3..4]), found[3..4]);
        assert_eq!(in_turns(&[]), []);
    }

    #[test]
    fn an_answer_comes_from_another_thread() {
        let (answers, answer) = std::sync::mpsc::channel();
        in_background("127.0.0.1".into(), 80, move |found| drop(answers.send(found))).unwrap();
        assert_eq!(answer.recv().unwrap().unwrap(), ["127.0.0.1:80".parse().unwrap()]);
    }
}
