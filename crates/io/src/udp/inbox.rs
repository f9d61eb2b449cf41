//! Room for datagrams that one system call brings.

use super::{BATCH_DATAGRAMS, empty_message};
use crate::tcp::wait_is_none;
use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;

/// Bytes of a place: the longest datagram, rounded up.
const PLACE_BYTES: usize = 64 << 10;

/// Places for [`BATCH_DATAGRAMS`] datagrams. Of its 4 MiB only those pages take memory that datagrams have reached: one
/// each for usual ones.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Empty before the first use.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Inbox {
    /// The datagrams of the last call, in the order in which they came.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(PLACE_BYTES).zip(&self.lengths).map(|(place, length)| &place[..*length])
    }

    /// Whether all places were taken, so that more datagrams may wait.
    pub fn is_full(&self) -> bool {
        self.lengths.len() == BATCH_DATAGRAMS
    }

    #[allow(unsafe_code)]
    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BATCH_DATAGRAMS * PLACE_BYTES];
        }
        self.lengths.clear();
        let mut places = self.bytes.chunks_exact_mut(PLACE_BYTES);
        let mut vectors: [libc::iovec; BATCH_DATAGRAMS] = std::array::from_fn(|_| {
            let place = places.next().expect("there are as many places as messages");
            libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() }
        });
        let mut messages = [empty_message(); BATCH_DATAGRAMS];
        for (message, vector) in messages.iter_mut().zip(&mut vectors) {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
        }
        let received = wait_is_none(|| {
            // SAFETY: each message names one vector, each vector a place of its own with its length; all of them live
            // until the call is over, and nothing else reads or writes them meanwhile. There is no time limit to point to.
            let count = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                )
            };
            usize::try_from(count).map_err(|_| io::Error::last_os_error())
        })?;
        let messages = &messages[..received.unwrap_or(0)];
        self.lengths.extend(messages.iter().map(|message| message.msg_len as usize));
        Ok(())
    }
}
