//! Many sends by one system call.
//!
//! A frame for a thousand viewers is a thousand sends; what each costs beyond TCP itself is the way into the kernel
//! and, with `sendfile`, the walk from the file's pages through a pipe. A [`Batch`] hands the kernel a queue of sends
//! (`io_uring`). The kernel copies their bytes straight from the spool's memory, which is hot in the cache after the
//! first of them.
//!
//! Where the system bars `io_uring` (containers often do), [`Batch::new`] says so and the caller sends one by
//! one with [`crate::spool::Reader::send`].
#![allow(unsafe_code)]

use crate::spool::Piece;
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends that one system call carries.
pub const BATCH_SENDS: usize = 128;

/// One send: these bytes to this non-blocking socket.
#[derive(Debug)]
pub struct Send<'a> {
    /// The socket.
    pub socket: BorrowedFd<'a>,
    /// What to send.
    pub piece: &'a Piece,
}

/// What became of a send.
#[derive(Debug)]
pub enum Outcome {
    /// The socket took this many bytes; fewer than asked for means that it is full.
    Bytes(usize),
    /// The socket takes nothing now.
    Blocked,
    /// The connection is lost.
    Failed(io::Error),
    /// The system did not carry the send out; nothing was sent.
    NotTried,
}

/// A queue of sends to the kernel. Belongs to the thread that made it.
pub struct Batch {
    /// Taken out while sends are in it, so that whatever goes wrong no stale send stays behind for the next.
    ring: Option<IoUring>,
}

impl Batch {
    /// A queue, or why the system gives none.
    pub fn new() -> io::Result<Batch> {
        let entries = BATCH_SENDS as u32;
        // Both spare the kernel work where one thread alone submits; they came with Linux 6.0 and 6.1.
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = ring.or_else(|_| IoUring::new(entries))?;
        Ok(Batch { ring: Some(ring) })
    }

    /// Carries out up to [`BATCH_SENDS`] sends and puts what became of each into `outcomes`, in order. All of
    /// them are over when this returns.
    ///
    /// An error means that the queue is of no use from here on; `outcomes` then tells [`Outcome::NotTried`] of
    /// those sends that were not begun.
    pub fn send(&mut self, sends: &[Send<'_>], outcomes: &mut Vec<Outcome>) -> io::Result<()> {
        assert!(sends.len() <= BATCH_SENDS, "{} sends in a batch of {BATCH_SENDS}", sends.len());
        outcomes.clear();
        outcomes.extend(sends.iter().map(|_| Outcome::NotTried));
        let mut ring = self.ring.take().ok_or_else(|| io::Error::other("this queue has failed before"))?;
        let mut queue = ring.submission();
        for (index, send) in sends.iter().enumerate() {
            let length = u32::try_from(send.piece.len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(types::Fd(send.socket.as_raw_fd()), send.piece.address(), length)
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build()
                .user_data(index as u64);
            // SAFETY: the descriptor and the memory behind the address are borrowed by `sends` until this
            // function returns; it returns only after the kernel has told the end of every send that it took
            // (`carry_out`), and a ring with sends that it did not take is dropped.
            let pushed = unsafe { queue.push(&entry) };
            pushed.expect("the queue has as many places as a batch has sends, and is empty between batches");
        }
        drop(queue);
        carry_out(&mut ring, outcomes)?;
        self.ring = Some(ring);
        Ok(())
    }
}

/// Submits what is queued, as many sends as there are `outcomes`, and takes their completions.
fn carry_out(ring: &mut IoUring, outcomes: &mut [Outcome]) -> io::Result<()> {
    let mut left = outcomes.len();
    while left > 0 {
        // A send that may not wait is over when it is submitted; the wait is a formality.
        let submitted = ring.submit_and_wait(left);
        for completion in ring.completion() {
            left -= 1;
            outcomes[completion.user_data() as usize] = outcome_of(completion.result());
        }
        if let Err(error) = submitted {
            let passes = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY));
            // What the kernel has not taken it will never touch once the ring is gone; what it took is waited for.
            if !passes && ring.submission().len() >= left {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn outcome_of(result: i32) -> Outcome {
    match usize::try_from(result) {
        Ok(bytes) => Outcome::Bytes(bytes),
        Err(_) if -result == libc::EAGAIN => Outcome::Blocked,
        Err(_) if -result == libc::EINTR => Outcome::NotTried,
        Err(_) => Outcome::Failed(io::Error::from_raw_os_error(-result)),
    }
}
