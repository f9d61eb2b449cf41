//! Where the bytes of a flow's next messages go, and what came.

use crate::clock::Clock;
use crate::tcp::wait_is_none;
use crate::udp::control::Control;
use crate::udp::empty_message;
use crate::udp::messages::Name;
use crate::udp::stamps::{Moment, Stamps};
use glassline_media::Time;
use socket2::Socket;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Pieces that a message may have (`UIO_MAXIOV`).
pub const PIECES_MAX: usize = libc::UIO_MAXIOV as usize;

/// Messages that a call may bring (the kernel's bound for `recvmmsg`).
pub const MESSAGES_MAX: usize = 1024;

/// Bytes of the buffer for bytes that are not wanted. Of a short discard only its beginning is used, which stays in the cache.
const DUMP_BYTES: usize = 64 << 10;

/// What came as one message: a datagram, or some of one size that came in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were put into the pieces, from the first on.
    pub bytes: usize,
    /// Bytes that found no piece and are gone.
    pub cut_off: usize,
    /// Bytes of each datagram that the message was made of, but for the last, which may be shorter; `None`: it is one datagram.
    pub segment: Option<usize>,
    /// When the machine got it, as the kernel has stamped it; no earlier than those before it and no later than now. Datagrams
    /// of one message have one stamp: that of the first.
    pub at: Time,
    /// Datagrams that the socket had dropped before it for want of room since it was opened, modulo 2³².
    pub drops: u32,
    /// The sender of all datagrams that it was made of. An address of IPv4 is one, whatever the socket is.
    pub from: Option<SocketAddr>,
}

impl Received {
    /// Whether it was longer than its pieces together.
    pub const fn is_truncated(&self) -> bool {
        self.cut_off > 0
    }

    /// Bytes of each datagram but the last.
    pub const fn segment_bytes(&self) -> usize {
        match self.segment {
            Some(segment) => segment,
            None => self.bytes + self.cut_off,
        }
    }

    /// How many datagrams it is made of, those that were cut off among them.
    pub const fn datagrams(&self) -> usize {
        match self.segment {
            Some(segment) => (self.bytes + self.cut_off).div_ceil(segment),
            None => 1,
        }
    }
}

/// The lists that a call needs. They grow with the first batches and are used again from then on.
#[derive(Debug, Default)]
pub struct Room {
    /// The pieces of all messages. Only those that a [`Batch`] has put there are ever used, while it lives.
    vectors: Vec<libc::iovec>,
    places: Vec<Place>,
    messages: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
    names: Vec<Name>,
    received: Vec<Received>,
    /// Empty before the first discard.
    dump: Vec<u8>,
    stamps: Stamps,
}

// SAFETY: the pointers in its lists are to its own memory, or were put there by a batch. A batch borrows the room and what the
// pointers are to, empties the lists first, and is the only one to use them: what stands there when the room goes to another
// thread is never used.
#[allow(unsafe_code)]
unsafe impl Send for Room {}

/// A message's pieces among all.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: usize,
    pieces: usize,
    bytes: usize,
}

impl Room {
    /// Lists without anything in them.
    pub fn new() -> Room {
        Room::default()
    }

    /// Begins to say where the next messages go. What was said before is forgotten; [`Room::received`] stays until the call.
    pub fn batch<'a>(&'a mut self) -> Batch<'a> {
        self.vectors.clear();
        self.places.clear();
        Batch { room: self, open: Place { first: 0, pieces: 0, bytes: 0 }, pieces: PhantomData }
    }

    /// What the last call has brought, in the order in which it came and in which the messages' pieces were given.
    pub fn received(&self) -> &[Received] {
        &self.received
    }
}

/// Where the bytes of the next messages go: for each message pieces of memory, in the order of its bytes.
#[derive(Debug)]
pub struct Batch<'a> {
    room: &'a mut Room,
    open: Place,
    /// What `vectors` point to.
    pieces: PhantomData<&'a mut [u8]>,
}

impl<'a> Batch<'a> {
    /// The message's next bytes go into `piece`, as many as it has. Beyond [`PIECES_MAX`] pieces a message takes none: what
    /// would have gone there is cut off.
    #[inline]
    pub fn push(&mut self, piece: &'a mut [u8]) {
        self.put(piece.as_mut_ptr(), piece.len());
    }

    /// The message's next `bytes` bytes are not wanted.
    pub fn discard(&mut self, mut bytes: usize) {
        if self.room.dump.is_empty() {
            self.room.dump = vec![0; DUMP_BYTES];
        }
        while bytes > 0 {
            let length = bytes.min(DUMP_BYTES);
            // Always the same memory: it is never read.
            let dump = self.room.dump.as_mut_ptr();
            self.put(dump, length);
            bytes -= length;
        }
    }

    /// Pieces that the message may still have; a discard takes one for each 64 KiB.
    pub fn pieces_left(&self) -> usize {
        PIECES_MAX - self.open.pieces
    }

    /// Bytes that the message has pieces for so far.
    pub fn message_bytes(&self) -> usize {
        self.open.bytes
    }

    /// Messages that were ended so far. A call takes [`MESSAGES_MAX`] of them.
    pub fn messages(&self) -> usize {
        self.room.places.len()
    }

    /// The message has all of its pieces; what is pushed from now on is the next one's. A message without pieces takes a
    /// datagram away.
    pub fn end_message(&mut self) {
        self.room.places.push(self.open);
        self.open = Place { first: self.room.vectors.len(), pieces: 0, bytes: 0 };
    }

    /// What the last call has brought: see [`Room::received`].
    pub fn received(&self) -> &[Received] {
        &self.room.received
    }

    /// `start` is to `length` bytes that nothing else uses for as long as the batch lives, or to the dump.
    #[inline]
    fn put(&mut self, start: *mut u8, length: usize) {
        if self.open.pieces < PIECES_MAX {
            self.room.vectors.push(libc::iovec { iov_base: start.cast(), iov_len: length });
            self.open.pieces += 1;
            self.open.bytes += length;
        }
    }

    /// Has the headers of the messages point to their pieces. Returns how many there are.
    fn lay_out(&mut self) -> usize {
        if self.open.pieces > 0 {
            self.end_message();
        }
        let Room { vectors, places, messages, controls, names, .. } = &mut *self.room;
        let count = places.len().min(MESSAGES_MAX);
        if messages.len() < count {
            messages.resize(count, empty_message());
            controls.resize(count, Control::default());
            names.resize(count, Name::default());
        }
        for (((message, control), name), place) in
            messages.iter_mut().zip(controls).zip(names).zip(&places[..count])
        {
            let range: Range<usize> = place.first..place.first + place.pieces;
            let header = &mut message.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (vectors[range].as_mut_ptr(), place.pieces);
            (header.msg_control, header.msg_controllen) = control.room();
            (header.msg_name, header.msg_namelen) = name.room();
        }
        count
    }

    #[allow(unsafe_code)]
    pub(super) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.room.received.clear();
        let count = self.lay_out();
        let messages = self.room.messages.as_mut_ptr();
        let received = wait_is_none(|| {
            // SAFETY: `lay_out` has had each of the first `count` messages name its own control buffer, its own room for an
            // address and its own run of vectors, with their lengths. Each vector is a piece that this batch has borrowed mutably
            // and keeps borrowed, or the dump, which belongs to the room and is not read or written otherwise; that some vectors
            // are to the same bytes of it does not matter, since the kernel alone writes there. Nothing of the lists changes
            // before the call is over. There is no time limit to point to.
            let count = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    messages,
                    count as libc::c_uint,
                    // With MSG_TRUNC a message's length is told as it was, however much of it had room.
                    libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                    std::ptr::null_mut(),
                )
            };
            usize::try_from(count).map_err(|_| io::Error::last_os_error())
        })?;
        let count = received.unwrap_or(0);
        if count > 0 {
            self.note(count);
        }
        Ok(count)
    }

    /// Reads what the kernel says of the first `count` messages.
    fn note(&mut self, count: usize) {
        let Room { places, messages, controls, names, received, stamps, .. } = &mut *self.room;
        let moment = Moment::read(Clock::new());
        let are_believed = stamps.begin(moment);
        for (((message, control), name), place) in
            messages[..count].iter().zip(controls).zip(names).zip(places)
        {
            let told = control.read(message.msg_hdr.msg_controllen);
            let length = message.msg_len as usize;
            let bytes = length.min(place.bytes);
            let from = name.address(message.msg_hdr.msg_namelen as usize);
            received.push(Received {
                bytes,
                cut_off: length - bytes,
                segment: told.segment,
                at: stamps.arrival(moment, told.stamp.filter(|_| are_believed)),
                drops: told.drops,
                from: from.map(|from| SocketAddr::new(from.ip().to_canonical(), from.port())),
            });
        }
    }
}
