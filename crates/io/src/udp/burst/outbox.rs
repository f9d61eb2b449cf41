//! Datagrams to send, and how far sending has come.

use super::launch_nanos;
use crate::tcp::wait_is_none;
use crate::udp::control::Control;
use crate::udp::empty_message;
use glassline_media::Time;
use socket2::{SockAddr, Socket};
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;

/// Messages that one call sends at most (the kernel's bound for `sendmmsg`).
const MESSAGES_MAX: usize = 1024;

/// The lists that a call needs. They grow with the first bursts and are used again from then on.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The pieces of all bursts. Only those that [`Bursts`] have put there are ever used, while they live.
    vectors: Vec<libc::iovec>,
    bursts: Vec<Burst>,
    messages: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
    /// One burst's pieces, cut at the ends of its datagrams, and how many of them each datagram has.
    cut: Vec<libc::iovec>,
    counts: Vec<usize>,
}

// SAFETY: the pointers in its lists are to its own memory, or were put there by bursts. Bursts borrow the outbox and what the
// pointers are to, empty the lists first, and are the only ones to use them: what stands there when the outbox goes to another
// thread is never used.
#[allow(unsafe_code)]
unsafe impl Send for Outbox {}

/// A message: its pieces among all, and how it is cut.
#[derive(Clone, Copy, Debug)]
struct Burst {
    first: usize,
    pieces: usize,
    bytes: usize,
    segment: usize,
    at: Option<Time>,
}

impl Burst {
    /// What the kernel is told of it. One datagram is not cut.
    fn control(&self, is_cut: bool, ahead: Option<i64>) -> Control {
        let mut control = Control::default();
        if let Some(segment) =
            u16::try_from(self.segment).ok().filter(|_| is_cut && self.bytes > self.segment)
        {
            control.put_segment(segment);
        }
        if let (Some(at), Some(ahead)) = (self.at, ahead) {
            control.put_launch(launch_nanos(at, ahead));
        }
        control
    }
}

impl Outbox {
    /// Lists without anything in them.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Begins to say what is sent. What was said before and not sent is forgotten.
    pub fn bursts<'a>(&'a mut self) -> Bursts<'a> {
        self.vectors.clear();
        self.bursts.clear();
        Bursts { outbox: self, first: 0, bytes: 0, next: 0, next_bytes: 0, pieces: PhantomData }
    }
}

/// Bursts of datagrams to send, each gathered from pieces.
#[derive(Debug)]
pub struct Bursts<'a> {
    outbox: &'a mut Outbox,
    /// Of the burst that is being said: its first piece, and its bytes so far.
    first: usize,
    bytes: usize,
    /// The first burst that has not left, and how much of it has where it goes datagram by datagram.
    next: usize,
    next_bytes: usize,
    /// What `vectors` point to.
    pieces: PhantomData<&'a [u8]>,
}

impl<'a> Bursts<'a> {
    /// The burst goes on with `piece`.
    #[inline]
    pub fn push(&mut self, piece: &'a [u8]) {
        self.bytes += piece.len();
        self.outbox
            .vectors
            .push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
    }

    /// The burst has all of its pieces: they are datagrams of `datagram_bytes`, but for the last, which may be shorter. Where
    /// launch times are set ([`super::FlowSender::set_launch_clock`]), it leaves at `at`.
    pub fn end(&mut self, datagram_bytes: usize, at: Option<Time>) {
        let (first, bytes) = (self.first, self.bytes);
        let pieces = self.outbox.vectors.len() - first;
        let segment = if datagram_bytes == 0 { bytes.max(1) } else { datagram_bytes };
        self.outbox.bursts.push(Burst { first, pieces, bytes, segment, at });
        (self.first, self.bytes) = (self.outbox.vectors.len(), 0);
    }

    /// Bursts that were said so far.
    pub fn len(&self) -> usize {
        self.outbox.bursts.len()
    }

    /// Whether none was said so far.
    pub fn is_empty(&self) -> bool {
        self.outbox.bursts.is_empty()
    }

    /// Bursts that have left, or were given up.
    pub fn sent(&self) -> usize {
        self.next
    }

    /// Whether all have left.
    pub fn is_sent(&self) -> bool {
        self.next >= self.outbox.bursts.len()
    }

    /// Gives up what is left of the first burst that has not left.
    pub fn skip(&mut self) {
        self.next += usize::from(!self.is_sent());
        self.next_bytes = 0;
    }

    /// Whether nothing of the next burst has left.
    pub(super) fn is_at_a_start(&self) -> bool {
        self.next_bytes == 0
    }

    /// Sends bursts as one message each, as many as a call takes. `false` where the socket takes nothing now.
    pub(super) fn send_cut(
        &mut self,
        socket: &Socket,
        to: &SockAddr,
        ahead: Option<i64>,
    ) -> io::Result<bool> {
        let Outbox { vectors, bursts, messages, controls, .. } = &mut *self.outbox;
        let bursts = &bursts[self.next..];
        let count = bursts.len().min(MESSAGES_MAX);
        controls.clear();
        controls.extend(bursts[..count].iter().map(|burst| burst.control(true, ahead)));
        messages.clear();
        messages.extend(bursts.iter().zip(controls).map(|(burst, control)| {
            message(to, &mut vectors[burst.first..burst.first + burst.pieces], control)
        }));
        let sent = self.send_messages(socket)?;
        self.next += sent.unwrap_or(0);
        Ok(sent.is_some())
    }

    /// Sends what is left of one burst, datagram by datagram. `false` where the socket takes nothing now.
    pub(super) fn send_each(
        &mut self,
        socket: &Socket,
        to: &SockAddr,
        ahead: Option<i64>,
    ) -> io::Result<bool> {
        let Some(burst) = self.outbox.bursts.get(self.next).copied() else { return Ok(true) };
        let Outbox { vectors, messages, controls, cut, counts, .. } = &mut *self.outbox;
        cut_apart(&vectors[burst.first..burst.first + burst.pieces], &burst, self.next_bytes, cut, counts);
        controls.clear();
        controls.push(burst.control(false, ahead));
        messages.clear();
        let mut rest = &mut cut[..];
        for pieces in counts.iter().take(MESSAGES_MAX) {
            let (own, behind) = rest.split_at_mut(*pieces);
            messages.push(message(to, own, &mut controls[0]));
            rest = behind;
        }
        let Some(sent) = self.send_messages(socket)? else { return Ok(false) };
        self.next_bytes += sent * burst.segment;
        if self.next_bytes >= burst.bytes {
            self.skip();
        }
        Ok(true)
    }

    /// Sends the messages that were laid out. Returns how many of them left; `None` where the socket takes nothing now.
    #[allow(unsafe_code)]
    fn send_messages(&mut self, socket: &Socket) -> io::Result<Option<usize>> {
        let messages = &mut self.outbox.messages;
        wait_is_none(|| {
            // SAFETY: each message was laid out for this call (`message`) with the address, a run of vectors and a control
            // buffer, each with its length, all of which stand unchanged until it is over. Each vector is a part of a piece
            // that these bursts have borrowed and keep borrowed. The kernel writes to the messages' own lengths alone.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }
}

/// A message to `to` of these vectors, with what `control` says.
fn message(to: &SockAddr, vectors: &mut [libc::iovec], control: &mut Control) -> libc::mmsghdr {
    let mut message = empty_message();
    let header = &mut message.msg_hdr;
    (header.msg_iov, header.msg_iovlen) = (vectors.as_mut_ptr(), vectors.len());
    (header.msg_name, header.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
    (header.msg_control, header.msg_controllen) = control.written();
    message
}

/// Cuts a burst's pieces at the ends of its datagrams, but for its first `skipped` bytes: leaves in `cut` the parts and in
/// `counts` how many of them each datagram has.
fn cut_apart(
    pieces: &[libc::iovec],
    burst: &Burst,
    mut skipped: usize,
    cut: &mut Vec<libc::iovec>,
    counts: &mut Vec<usize>,
) {
    cut.clear();
    counts.clear();
    // An empty burst is an empty datagram.
    let (mut left, mut parts) = (burst.segment, 0);
    for piece in pieces {
        let skip = skipped.min(piece.iov_len);
        skipped -= skip;
        let mut at = skip;
        while at < piece.iov_len {
            let length = left.min(piece.iov_len - at);
            let start = piece.iov_base.cast::<u8>().wrapping_add(at).cast();
            cut.push(libc::iovec { iov_base: start, iov_len: length });
            (at, left, parts) = (at + length, left - length, parts + 1);
            if left == 0 {
                counts.push(parts);
                (left, parts) = (burst.segment, 0);
            }
        }
    }
    if parts > 0 || counts.is_empty() {
        counts.push(parts);
    }
}
