//! An output that may make its writer wait (a pipe with a slow reader, a disk) on a thread of its own, behind a bounded
//! queue: a live source does not wait for it, nor do the other outputs.
//!
//! Where the queue is full the output leaves pictures out until the next place to join, which is announced in the stream.

use super::{Demand, Error, Output, Packets, Result, State, StatusHandle};
use glassline_delivery::stream::Seams;
use glassline_io::containment::{Border, contain};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What may wait: some ten seconds of a good stream.
const WAITING_MAX_BYTES: usize = 16 << 20;
/// How long the end of the stream waits for the output to take what waits.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// An output with a thread of its own, seen from the encoder's.
pub(super) struct ThreadedOutput {
    shared: Arc<Shared>,
    status: StatusHandle,
    thread: Option<JoinHandle<()>>,
    /// Pictures are left out until the next place to join; then this announces the gap.
    behind: bool,
    /// Whether the next run begins a picture: in the middle of one nothing is left out.
    at_picture: bool,
    seams: Option<Seams>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    runs: VecDeque<Run>,
    bytes: usize,
    is_last: bool,
    /// How the output ended, once it has.
    ended: Option<Result<()>>,
}

/// Packets that wait.
struct Run {
    bytes: Vec<u8>,
    joinable: bool,
    ends_picture: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadedOutput {
    /// Gives `output` a thread.
    pub(super) fn start(output: Box<dyn Output>, status: StatusHandle) -> Result<ThreadedOutput> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("output".to_owned());
        let name = status.name().to_owned();
        let run = move || {
            let ended = contain(Border::Output, || serve(output, &theirs));
            let ended = ended.unwrap_or_else(|panicked| Err(Error::Fault { name, panicked }));
            theirs.lock().ended = Some(ended);
            theirs.changed.notify_all();
        };
        let thread = thread.spawn(run).map_err(Error::Thread)?;
        Ok(ThreadedOutput {
            shared,
            status,
            thread: Some(thread),
            behind: false,
            at_picture: true,
            seams: None,
        })
    }

    /// The output's failure, if it has ended with one.
    fn check(waiting: &mut Waiting) -> Result<()> {
        match &mut waiting.ended {
            Some(ended) => std::mem::replace(ended, Ok(())),
            None => Ok(()),
        }
    }
}

impl Output for ThreadedOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut waiting = self.shared.lock();
        ThreadedOutput::check(&mut waiting)?;
        let at_picture = std::mem::replace(&mut self.at_picture, packets.ends_picture);
        if waiting.bytes + packets.bytes.len() > WAITING_MAX_BYTES {
            if at_picture && !std::mem::replace(&mut self.behind, true) {
                self.status.set(State::Behind);
                tracing::warn!("{}: slower than the stream; pictures are left out there", self.status.name());
            }
        } else if self.behind && packets.joinable && waiting.bytes < WAITING_MAX_BYTES / 2 {
            self.behind = false;
            self.seams = Some(Seams::new());
            self.status.set(State::Sending);
        }
        if self.behind {
            self.status.left_out();
            return Ok(Demand::Nothing);
        }
        let mut bytes = packets.bytes.to_vec();
        if let Some(seams) = &mut self.seams {
            seams.announce(&mut bytes);
        }
        waiting.bytes += bytes.len();
        let Packets { joinable, ends_picture, .. } = *packets;
        waiting.runs.push_back(Run { bytes, joinable, ends_picture });
        drop(waiting);
        self.shared.changed.notify_all();
        Ok(Demand::Nothing)
    }

    fn finish(&mut self) -> Result<()> {
        let mut waiting = self.shared.lock();
        waiting.is_last = true;
        self.shared.changed.notify_all();
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while waiting.ended.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The thread hangs in a write, which only the end of the process ends.
                return Err(Error::Hangs { name: self.status.name().to_owned() });
            }
            let result = self.shared.changed.wait_timeout(waiting, left);
            waiting = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        let ended = ThreadedOutput::check(&mut waiting);
        drop(waiting);
        if let Some(thread) = self.thread.take() {
            // It has said how it ended.
            let _ = thread.join();
        }
        ended
    }
}

/// The thread: writes what waits until the end of the stream, or until the output fails.
fn serve(mut output: Box<dyn Output>, shared: &Shared) -> Result<()> {
    loop {
        let run = {
            let mut waiting = shared.lock();
            loop {
                if let Some(run) = waiting.runs.pop_front() {
                    waiting.bytes -= run.bytes.len();
                    break Some(run);
                }
                if waiting.is_last {
                    break None;
                }
                waiting = shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let Some(Run { bytes, joinable, ends_picture }) = run else { return output.finish() };
        output.write(&Packets { bytes: &bytes, joinable, ends_picture })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::ts::{PACKET_BYTES, Packet};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Writes a run each time that it is allowed to.
    struct Slow {
        allowed: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Output for Slow {
        fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
            if self.allowed.recv().is_err() {
                return Err(Error::write("slow")(std::io::Error::other("the disk is full")));
            }
            let _ = self.written.send(packets.bytes.to_vec());
            Ok(Demand::Nothing)
        }
    }

    fn slow() -> (ThreadedOutput, Sender<()>, Receiver<Vec<u8>>) {
        let ((allow, allowed), (writes, written)) = (channel(), channel());
        let output = Box::new(Slow { allowed, written: writes });
        (ThreadedOutput::start(output, StatusHandle::new("slow")).unwrap(), allow, written)
    }

    fn run(kind: u8) -> Vec<u8> {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..5].copy_from_slice(&[0x47, 1, 0, 0x10, kind]);
        packet.repeat((1 << 20) / PACKET_BYTES)
    }

    #[test]
    fn a_slow_output_leaves_out_to_the_next_place_to_join_and_says_so() {
        let (mut output, allow, written) = slow();
        for number in 0..40u8 {
            let bytes = run(number);
            output.write(&Packets::whole(&bytes, number % 10 == 0)).unwrap();
        }
        assert_eq!(output.status.get().state, State::Behind);
        let left_out = output.status.get().left_out;
        assert!((20..=25).contains(&left_out), "{left_out}");
        let kept = 40 - left_out as usize;
        for _ in 0..40 {
            allow.send(()).unwrap();
        }
        let before: Vec<u8> = written.iter().take(kept).map(|run| run[4]).collect();
        assert_eq!(before, (0..kept as u8).collect::<Vec<_>>());
        let (bytes, key) = (run(41), run(42));
        output.write(&Packets::whole(&bytes, false)).unwrap();
        output.write(&Packets::whole(&key, true)).unwrap();
        let next = written.recv().unwrap();
        assert_eq!((next[PACKET_BYTES + 4], next.len()), (42, key.len() + PACKET_BYTES));
        assert!(Packet::parse(next.first_chunk().unwrap()).unwrap().discontinuity());
        assert_eq!((output.status.get().state, output.status.get().left_out), (State::Sending, left_out + 1));
        output.finish().unwrap();
    }

    #[test]
    fn a_failure_comes_with_the_next_packets() {
        let (mut output, allow, _) = slow();
        drop(allow);
        let bytes = run(1);
        let failed = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            output.write(&Packets::whole(&bytes[..PACKET_BYTES], true)).err()
        });
        assert!(failed.unwrap().to_string().contains("the disk is full"));
    }
    #[test]
    fn the_end_waits_until_all_is_written() {
        let (mut output, allow, written) = slow();
        for number in 0..5 {
            output.write(&Packets::whole(&run(number)[..PACKET_BYTES], false)).unwrap();
        }
        for _ in 0..5 {
            allow.send(()).unwrap();
        }
        output.finish().unwrap();
        assert_eq!(written.try_iter().map(|run| run[4]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_failure_while_it_ends_is_the_end_s_and_told_once() {
        let (mut output, allow, _written) = slow();
        output.write(&Packets::whole(&run(0)[..PACKET_BYTES], false)).unwrap();
        drop(allow);
        assert!(output.finish().unwrap_err().to_string().contains("the disk is full"));
        output.finish().unwrap();
    }

    #[test]
    fn runs_keep_what_is_said_of_them() {
        let (tell, told) = channel();
        let output = Box::new(move |packets: &Packets<'_>| {
            tell.send((packets.joinable, packets.ends_picture)).unwrap();
            Ok(Demand::KeyFrame)
        });
        let mut output = ThreadedOutput::start(output, StatusHandle::new("told")).unwrap();
        let bytes = &run(0)[..PACKET_BYTES];
        for (joinable, ends_picture) in [(true, false), (false, false), (false, true)] {
            let demand = output.write(&Packets { bytes, joinable, ends_picture }).unwrap();
            assert_eq!(demand, Demand::Nothing, "what it wants would come too late");
        }
        output.finish().unwrap();
        let told: Vec<_> = told.try_iter().collect();
        assert_eq!(told, [(true, false), (false, false), (false, true)]);
    }

    #[test]
    fn a_picture_that_has_begun_is_not_cut_where_the_queue_is_full() {
        let (mut output, allow, written) = slow();
        let slice = run(0);
        let mut part = |ends_picture| {
            let packets = Packets { bytes: &slice, joinable: false, ends_picture };
            output.write(&packets).unwrap();
            output.status.get().left_out
        };
        let parts = 30;
        assert!((0..parts).all(|_| part(false) == 0), "all of them are of one picture");
        assert_eq!(part(true), 0);
        assert_eq!(part(true), 1, "the next picture is left out");
        (0..=parts).for_each(|_| allow.send(()).unwrap());
        output.finish().unwrap();
        assert_eq!(written.try_iter().count(), parts + 1);
    }
}
