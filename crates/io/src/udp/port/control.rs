//! Control messages of `sendmsg` and `recvmsg` (cmsg(3)): the size into which the kernel cuts a batch, or of which it was
//! made.

use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;

/// A header and a value of up to eight bytes.
const CONTROL_BYTES: usize = size_of::<libc::cmsghdr>() + 8;

/// Room for one control message.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control([u8; CONTROL_BYTES]);

impl Default for Control {
    fn default() -> Control {
        Control([0; CONTROL_BYTES])
    }
}

const HEADER: usize = size_of::<libc::cmsghdr>();

impl Control {
    /// Has the kernel cut what is sent into datagrams of `bytes`; what goes into a message's header.
    pub(super) fn segment(&mut self, bytes: u16) -> (*mut libc::c_void, usize) {
        let length = HEADER + size_of::<u16>();
        let put =
            |into: &mut [u8], at: usize, value: &[u8]| into[at..at + value.len()].copy_from_slice(value);
        put(&mut self.0, 0, &length.to_ne_bytes());
        put(&mut self.0, size_of::<usize>(), &libc::SOL_UDP.to_ne_bytes());
        put(&mut self.0, size_of::<usize>() + 4, &libc::UDP_SEGMENT.to_ne_bytes());
        put(&mut self.0, HEADER, &bytes.to_ne_bytes());
        (self.0.as_mut_ptr().cast(), self.0.len())
    }

    /// Room for what the kernel says of a datagram.
    pub(super) fn room(&mut self) -> (*mut libc::c_void, usize) {
        (self.0.as_mut_ptr().cast(), self.0.len())
    }

    /// The size of the datagrams that a batch was made of, if the first `length` bytes, which the kernel wrote, say so.
    pub(super) fn segment_size(&self, length: usize) -> Option<usize> {
        let bytes = &self.0[..length.min(CONTROL_BYTES)];
        let word = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let is_size = word(size_of::<usize>()) == Some(libc::SOL_UDP)
            && word(size_of::<usize>() + 4) == Some(libc::UDP_GRO);
        let size = usize::try_from(word(HEADER).filter(|_| is_size)?).ok()?;
        (size > 0).then_some(size)
    }
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
