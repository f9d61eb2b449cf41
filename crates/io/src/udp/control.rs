//! Control messages of `sendmsg` and `recvmsg` (cmsg(3)): the size into which the kernel cuts a batch, or of which it was
//! made, the mark of congestion in IP's header, when the machine got it, and how many were dropped before it.

use socket2::Socket;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Control messages begin at multiples of this.
const ALIGN: usize = size_of::<usize>();
const HEADER: usize = size_of::<libc::cmsghdr>();
/// `SO_TXTIME`, and the control message of the same number (asm-generic/socket.h).
pub(super) const SO_TXTIME: i32 = 61;
const SCM_TXTIME: i32 = SO_TXTIME;
/// Where in a `struct sock_extended_err` (linux/errqueue.h) the origin and the code are, and the origin that it is about.
const ERROR_ORIGIN: usize = 4;
const ERROR_CODE: usize = 6;
const SO_EE_ORIGIN_TXTIME: u8 = 6;
/// Room for four of them with up to eight bytes each, and for a time stamp; we know of four.
const ROOM: usize = 4 * (HEADER + 8) + HEADER + 16;

/// What the kernel says of a datagram, or of a batch of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The size of the datagrams that a batch was made of.
    pub(super) segment: Option<usize>,
    /// The mark of congestion that all of them bore, 0 if none.
    pub(super) mark: u8,
    /// When the machine got them, nanoseconds by the wall clock (`SO_TIMESTAMPNS`). A batch has one stamp.
    pub(super) stamp: Option<u64>,
    /// Datagrams that the socket had dropped before it for want of room (`SO_RXQ_OVFL`), modulo 2³². The kernel says nothing
    /// before the first.
    pub(super) drops: u32,
    /// Why a message did not leave at its time (`SO_EE_CODE_TXTIME_*`); error queues alone tell it.
    pub(super) launch_error: Option<u8>,
}

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

    /// Has what is sent leave at a time of the clock that the socket was told (`SO_TXTIME`).
    pub(super) fn put_launch(&mut self, nanos: u64) {
        self.put(libc::SOL_SOCKET, SCM_TXTIME, &nanos.to_ne_bytes());
    }

    /// Has the datagrams to `to` bear these bits: the DSCP's six, and behind them the two of the mark of congestion.
    pub(super) fn put_class(&mut self, to: IpAddr, bits: u8) {
        let value = libc::c_int::from(bits).to_ne_bytes();
        // What goes to an address of IPv4 is IPv4, whatever the socket is.
        match to.to_canonical() {
            IpAddr::V4(_) => self.put(libc::IPPROTO_IP, libc::IP_TOS, &value),
            IpAddr::V6(_) => self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
        }
    }

    /// There is room for what [`ROOM`] says.
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

    /// What stands in the first `length` bytes, which the kernel has written.
    pub(super) fn read(&self, length: usize) -> Told {
        let mut told = Told::default();
        let mut rest = &self.bytes[..length.min(ROOM)];
        while let Some((level, kind, value, tail)) = split(rest) {
            let number = match *value {
                [a, b, c, d, ..] => i32::from_ne_bytes([a, b, c, d]),
                [byte, ..] => i32::from(byte),
                [] => 0,
            };
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    told.segment = usize::try_from(number).ok().filter(|size| *size > 0);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    told.mark = number as u8 & 3;
                }
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                    let is_launch = value.get(ERROR_ORIGIN) == Some(&SO_EE_ORIGIN_TXTIME);
                    told.launch_error = value.get(ERROR_CODE).copied().filter(|_| is_launch);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => told.drops = number as u32,
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => told.stamp = nanos(value),
                _ => {}
            }
            rest = tail;
        }
        told
    }
}

/// The nanoseconds of a `timespec` with 64-bit fields; `None` if it is none, or before 1970.
fn nanos(value: &[u8]) -> Option<u64> {
    let field = |at: usize| {
        let bytes: [u8; 8] = value.get(at..at + 8)?.try_into().ok()?;
        u64::try_from(i64::from_ne_bytes(bytes)).ok()
    };
    field(0)?.checked_mul(1_000_000_000)?.checked_add(field(8)?)
}

/// The first control message: its level, its type, its value, and what stands behind it.
fn split(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let word = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = usize::from_ne_bytes(bytes.get(..ALIGN)?.try_into().ok()?);
    let value = bytes.get(HEADER..length)?;
    let tail = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    Some((word(ALIGN)?, word(ALIGN + 4)?, value, tail))
}

/// Sets an option with a number as its value.
pub(crate) fn set_option(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option_bytes(socket, level, name, &value.to_ne_bytes())
}

/// Sets an option to `bytes`, in the kernel's layout.
#[allow(unsafe_code)]
pub(super) fn set_option_bytes(socket: &Socket, level: i32, name: i32, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length are those of `bytes`; the kernel only reads them, whatever their alignment.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            bytes.as_ptr().cast(),
            bytes.len() as libc::socklen_t,
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
            control.put_class(to, 2);
            control.put(libc::SOL_UDP, libc::UDP_GRO, &1200i32.to_ne_bytes());
            let length = control.written().1;
            assert_eq!(control.read(length), Told { segment: Some(1200), mark: 2, ..Told::default() });
            assert_eq!(control.read(length / 2), Told { mark: 2, ..Told::default() });
        }
        // As the kernel tells it: a byte.
        let mut control = Control::default();
        control.put(libc::IPPROTO_IP, libc::IP_TOS, &[0xb9]);
        assert_eq!(control.read(control.length), Told { mark: 1, ..Told::default() });
    }

    #[test]
    fn a_time_stamp_is_nanoseconds_since_1970() {
        let mut control = Control::default();
        let stamp = |seconds: i64, nanos: i64| [seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat();
        control.put(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp(1_700_000_000, 123_456_789));
        assert_eq!(control.read(control.length).stamp, Some(1_700_000_000_123_456_789));
        for (seconds, nanos) in [(-1, 0), (i64::MAX, 0), (i64::MIN, i64::MIN), (18_446_744_073, 999_999_999)]
        {
            let mut control = Control::default();
            control.put(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp(seconds, nanos));
            assert_eq!(control.read(control.length).stamp, None, "{seconds} s, {nanos} ns");
        }
        // All that the kernel may say of one datagram has room.
        let mut control = Control::default();
        control.put_class("192.0.2.1".parse().unwrap(), 3);
        control.put_class("2001:db8::1".parse().unwrap(), 3);
        control.put(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp(1, 2));
        control.put(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &u32::MAX.to_ne_bytes());
        control.put(libc::SOL_UDP, libc::UDP_GRO, &1200i32.to_ne_bytes());
        let told = control.read(control.length);
        let expected = Told {
            segment: Some(1200),
            mark: 3,
            stamp: Some(1_000_000_002),
            drops: u32::MAX,
            launch_error: None,
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn errors_of_launch_times_are_read_and_others_are_not() {
        for (origin, told) in [(SO_EE_ORIGIN_TXTIME, Some(2)), (libc::SO_EE_ORIGIN_ICMP, None)] {
            for (level, kind) in
                [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)]
            {
                let mut control = Control::default();
                // Number, origin, type, code, padding, information, data, and who it is of.
                let mut error = [0; 16 + 28];
                (error[ERROR_ORIGIN], error[ERROR_CODE]) = (origin, 2);
                control.put(level, kind, &error);
                assert_eq!(control.read(control.length).launch_error, told);
            }
        }
    }

    #[test]
    fn whatever_stands_there_is_read_without_a_panic() {
        for length in [0, 1, HEADER - 1, HEADER, HEADER + 3, ROOM, ROOM + 100, usize::MAX - 3, usize::MAX] {
            let mut control = Control::default();
            control.put(libc::SOL_UDP, libc::UDP_GRO, &(-1i32).to_ne_bytes());
            control.bytes[..ALIGN].copy_from_slice(&length.to_ne_bytes());
            for told in [0, 7, HEADER, ROOM, ROOM + 1] {
                assert_eq!(control.read(told).mark, 0, "{length} {told}");
            }
        }
    }
}
