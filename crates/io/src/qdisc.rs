//! How network interfaces queue packets that leave: their queueing disciplines (rtnetlink(7), tc(8)).
//!
//! A sender with launch times wants to know: `fq` and `etf` hold each packet until its own, all others send it at once.

use rustix::net::netdevice;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::time::Duration;

/// `RTM_NEWQDISC` and `RTM_GETQDISC` (linux/rtnetlink.h); `NLMSG_ERROR` and `NLMSG_DONE`, `NLM_F_REQUEST | NLM_F_DUMP`
/// (linux/netlink.h).
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
/// Bytes of `nlmsghdr` and of `tcmsg`.
const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
/// `TCA_KIND` (linux/rtnetlink.h).
const KIND: u16 = 1;
/// The kernel's answers come in messages of up to 32 KiB.
const ANSWER_BYTES: usize = 32 << 10;
/// The kernel answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The kinds of the disciplines of an interface, as `tc qdisc` calls them, the root first: `["fq"]`, or `["mq", "fq_codel", …]`
/// where a device has several queues.
///
/// # Errors
/// `NotFound` where there is no such interface; what else the system says.
pub fn kinds(interface: &str) -> io::Result<Vec<String>> {
    let mut socket =
        Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW.cloexec(), Some(Protocol::from(0)))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let lookup = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None)?;
    let index = netdevice::name_to_index(&lookup, interface).map_err(|_| {
        io::Error::new(io::ErrorKind::NotFound, format!("no network interface {interface:?}"))
    })?;
    socket.write_all(&request())?;
    let (mut kinds, mut answer) = (Vec::new(), vec![0; ANSWER_BYTES]);
    loop {
        let length = socket.read(&mut answer)?;
        if length == 0 || read(&answer[..length], index, &mut kinds)? {
            return Ok(kinds);
        }
    }
}

/// Asks for all disciplines of all interfaces.
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + TCMSG_BYTES);
    bytes.extend_from_slice(&((HEADER_BYTES + TCMSG_BYTES) as u32).to_ne_bytes());
    bytes.extend_from_slice(&GET_QDISC.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes.resize(HEADER_BYTES + TCMSG_BYTES, 0);
    bytes
}

/// Takes the kinds for an interface out of an answer. Returns whether it was the last one.
fn read(mut answer: &[u8], index: u32, kinds: &mut Vec<String>) -> io::Result<bool> {
    while let Some(message) = next(&mut answer, |bytes| u32_at(bytes, 0), HEADER_BYTES) {
        match u16_at(message, 4) {
            Some(DONE) => return Ok(true),
            Some(ERROR) => {
                let code = u32_at(message, HEADER_BYTES).map_or(0, |code| code as i32);
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            // Behind four bytes for the family.
            Some(NEW_QDISC) if u32_at(message, HEADER_BYTES + 4) == Some(index) => {
                kinds.extend(kind(message.get(HEADER_BYTES + TCMSG_BYTES..).unwrap_or_default()));
            }
            _ => {}
        }
    }
    Ok(false)
}

/// The kind among a discipline's attributes.
fn kind(mut attributes: &[u8]) -> Option<String> {
    while let Some(attribute) = next(&mut attributes, |bytes| u16_at(bytes, 0).map(u32::from), 4) {
        if u16_at(attribute, 2) == Some(KIND) {
            let text = attribute[4..].split(|byte| *byte == 0).next().unwrap_or_default();
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    None
}

/// Cuts off what says its own length, header included, and is filled up to four bytes.
fn next<'a>(bytes: &mut &'a [u8], length: impl Fn(&[u8]) -> Option<u32>, least: usize) -> Option<&'a [u8]> {
    let length = length(bytes)? as usize;
    let one = bytes.get(..length).filter(|one| one.len() >= least)?;
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(one)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, index: u32, name: &str) -> Vec<u8> {
        let mut attribute = ((4 + name.len() + 1) as u16).to_ne_bytes().to_vec();
        attribute.extend(KIND.to_ne_bytes());
        attribute.extend(name.bytes().chain([0]));
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        let mut bytes = ((HEADER_BYTES + TCMSG_BYTES + attribute.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER_BYTES + 4, 0);
        bytes.extend(index.to_ne_bytes());
        bytes.resize(HEADER_BYTES + TCMSG_BYTES, 0);
        bytes.extend(attribute);
        bytes
    }

    #[test]
    fn kinds_are_those_of_the_interface() {
        let answer =
            [message(NEW_QDISC, 2, "mq"), message(NEW_QDISC, 3, "fq"), message(NEW_QDISC, 2, "fq_codel")];
        let mut kinds = Vec::new();
        assert!(!read(&answer.concat(), 2, &mut kinds).unwrap());
        assert_eq!(kinds, ["mq", "fq_codel"]);
        assert!(read(&message(DONE, 0, ""), 2, &mut kinds).unwrap());
        let mut refused = message(ERROR, 0, "");
        refused[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&refused, 2, &mut kinds).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn loopback_has_no_queue() {
        let found = kinds("lo").unwrap();
        assert!(found.iter().all(|kind| !kind.is_empty()), "{found:?}");
        assert_eq!(kinds("nowhere0").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..200) {
            let _ = read(&bytes, 2, &mut Vec::new());
            let whole = message(NEW_QDISC, 2, "fq");
            let _ = read(&whole[..cut.min(whole.len())], 2, &mut Vec::new());
        }
    }
}
