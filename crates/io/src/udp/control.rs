//! Control messages of `sendmsg` and `recvmsg` (cmsg(3)): the size into which the kernel cuts a batch, or of which it was
//! made, and the mark of congestion in IP's header.

use socket2::Socket;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Control messages begin at multiples of this.
const ALIGN: usize = size_of::<usize>();
const HEADER: usize = size_of::<libc::cmsghdr>();
/// Room for three of them, each with up to eight bytes; we know of two.
const ROOM: usize = 3 * (HEADER + 8);

/// Room for control messages, and those that were put there.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; ROOM],
    length: usize,
}

impl Default for Control {
    fn default() -> Control {
        Control { bytes: [0; ROOM], length: 0 }
    }
}

impl Control {
    /// Has the kernel cut what is sent into datagrams of `bytes`.
    pub(super) fn put_segment(&mut self, bytes: u16) {
        self.put(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    /// Has the datagrams to `to` bear the lowest two bits of `mark`.
    pub(super) fn put_mark(&mut self, to: IpAddr, mark: u8) {
        let value = libc::c_int::from(mark & 3).to_ne_bytes();
        // What goes to an address of IPv4 is IPv4, whatever the socket is.
        match to.to_canonical() {
            IpAddr::V4(_) => self.put(libc::IPPROTO_IP, libc::IP_TOS, &value),
            IpAddr::V6(_) => self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
        }
    }

    /// `value` has eight bytes at most, and there are three messages at most.
    fn put(&mut self, level: i32, kind: i32, value: &[u8]) {
        let message = &mut self.bytes[self.length..];
        let fields =
            [&(HEADER + value.len()).to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), value];
        let mut at = 0;
        for field in fields {
            message[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        self.length += at.next_multiple_of(ALIGN);
    }

    /// What was put here, for a message's header; null where there is nothing.
    pub(super) fn written(&mut self) -> (*mut libc::c_void, usize) {
        if self.length == 0 {
            (std::ptr::null_mut(), 0)
        } else {
            (self.bytes.as_mut_ptr().cast(), self.length)
        }
    }

    /// Room for what the kernel says of a datagram.
    pub(super) fn room(&mut self) -> (*mut libc::c_void, usize) {
        (self.bytes.as_mut_ptr().cast(), self.bytes.len())
    }

    /// What stands in the first `length` bytes, which the kernel has written: the size of the datagrams that a batch was
    /// made of, if it says so, and the mark of congestion, 0 if it doesn't.
    pub(super) fn read(&self, length: usize) -> (Option<usize>, u8) {
        let (mut segment, mut mark) = (None, 0);
        let mut rest = &self.bytes[..length.min(ROOM)];
        while let Some((level, kind, value, tail)) = split(rest) {
            let number = match *value {
                [a, b, c, d, ..] => i32::from_ne_bytes([a, b, c, d]),
                [byte, ..] => i32::from(byte),
                [] => 0,
            };
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    segment = usize::try_from(number).ok().filter(|size| *size > 0);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    mark = number as u8 & 3;
                }
                _ => {}
            }
            rest = tail;
        }
        (segment, mark)
    }
}

/// The first control message: its level, its type, its value, and what stands behind it.
fn split(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let word = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = usize::from_ne_bytes(bytes.get(..ALIGN)?.try_into().ok()?);
    let value = bytes.get(HEADER..length)?;
    let tail = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    Some((word(ALIGN)?, word(ALIGN + 4)?, value, tail))
}

/// Sets an option whose value is a number.
#[allow(unsafe_code)]
pub(super) fn set_option(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to an integer, whose length is given with it; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let four: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        for to in [four, six] {
            let mut control = Control::default();
            assert!(control.written().0.is_null());
            control.put_mark(to, 2);
            control.put(libc::SOL_UDP, libc::UDP_GRO, &1200i32.to_ne_bytes());
            let length = control.written().1;
            assert_eq!(control.read(length), (Some(1200), 2));
            assert_eq!(control.read(length / 2), (None, 2));
        }
        // As the kernel tells it: a byte.
        let mut control = Control::default();
        control.put(libc::IPPROTO_IP, libc::IP_TOS, &[0xb9]);
        assert_eq!(control.read(control.length), (None, 1));
    }

    #[test]
    fn whatever_stands_there_is_read_without_a_panic() {
        for length in [0, 1, HEADER - 1, HEADER, HEADER + 3, ROOM, ROOM + 100, usize::MAX - 3, usize::MAX] {
            let mut control = Control::default();
            control.put(libc::SOL_UDP, libc::UDP_GRO, &(-1i32).to_ne_bytes());
            control.bytes[..ALIGN].copy_from_slice(&length.to_ne_bytes());
            for told in [0, 7, HEADER, ROOM, ROOM + 1] {
                assert_eq!(control.read(told).1, 0, "{length} {told}");
            }
        }
    }
}
