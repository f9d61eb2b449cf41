//! MPEG-TS on its way into the file: whole packets alone, entries at key frames and recovery points,
//! seams between publishers announced.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::details::{DetailsProbe, VideoDetails};
use super::entry::{Entry, Point};
use super::file_end::{Counters, FileEnd, KEY_FRAME_TIMEOUT, StreamError};
use super::pictures::PictureLog;
use super::reached::Reached;
use super::restamp::Restamp;
use super::seams::seam_packet;
use glassline_media::Time;
use glassline_media::bitstream::h264::Join;
use glassline_media::container::ts::{Aligner, PACKET_BYTES, Program, SYNC_BYTE, Scanner};
use serde::{Deserialize, Serialize};

/// Garbage in a row after which a publisher is refused.
const GARBAGE_LIMIT_BYTES: u64 = 64 << 10;

/// So many packets of a returned publisher have their counters looked at: a program that was started again has all of its PIDs
/// among them.
const RETURNED_PACKETS: u16 = 1000;

/// A stream of packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Packets {
    aligner: Aligner,
    session: Session,
    details: Option<VideoDetails>,
    join: Option<Join>,
    #[serde(default)]
    pictures: PictureLog,
    /// The first bytes of a publisher that may go on with what it sent before, until a packet shows whether it does.
    #[serde(default)]
    returned: Option<Vec<u8>>,
    /// It did not: another session has begun since that was last asked.
    #[serde(default)]
    began_anew: bool,
    /// What came of it, where that is held back ([`Packets::take_foreign`]).
    #[serde(default)]
    foreign: Option<Vec<u8>>,
    /// How far it has come by its stamps, where that is followed.
    #[serde(default)]
    reached: Option<Box<Reached>>,
    /// The publisher's stamps are moved.
    #[serde(default)]
    restamp: Option<Restamp>,
}

/// What is known of the present publisher's bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session {
    scanner: Scanner,
    probe: DetailsProbe,
    unit_offset: u64,
    garbage_at_last_packet: u64,
    errors_before: u64,
    announce_seams: bool,
    began: Time,
    /// So many more packets have to go on by their counters.
    #[serde(default)]
    in_doubt: u16,
}

impl Session {
    fn new(now: Time, announce_seams: bool, errors_before: u64) -> Session {
        Session {
            scanner: Scanner::new(),
            probe: DetailsProbe::default(),
            unit_offset: 0,
            garbage_at_last_packet: 0,
            errors_before,
            announce_seams,
            began: now,
            in_doubt: 0,
        }
    }
}

impl Packets {
    pub(super) fn new(now: Time) -> Packets {
        Packets {
            aligner: Aligner::new(),
            session: Session::new(now, false, 0),
            details: None,
            join: None,
            pictures: PictureLog::default(),
            returned: None,
            began_anew: false,
            foreign: None,
            reached: None,
            restamp: None,
        }
    }

    /// A publisher begins behind `head`. What an earlier one left of a packet is forgotten.
    pub(super) fn begin_session(&mut self, head: u64, continuity_errors: u64, now: Time) {
        self.aligner = Aligner::new();
        self.returned = None;
        self.begin_packets(head, continuity_errors, now);
    }

    fn begin_packets(&mut self, head: u64, continuity_errors: u64, now: Time) {
        self.session = Session::new(now, head > 0, continuity_errors);
        self.join = None;
        self.pictures.begin_session();
        self.restamp = None;
        if let Some(reached) = &mut self.reached {
            reached.begin_session();
        }
    }

    /// Whether it is followed how far the stream comes by its stamps.
    pub(super) fn follow_stamps(&mut self, follows: bool) {
        if follows {
            self.reached.get_or_insert_default();
        } else {
            self.reached = None;
        }
    }

    /// How far it has come.
    pub(super) fn reached(&self) -> Option<&Reached> {
        self.reached.as_deref()
    }

    /// The stamps of the present session are moved from here on.
    pub(super) fn restamp(&mut self, restamp: Restamp) {
        self.restamp = Some(restamp);
    }

    /// What comes next may go on with what the last publisher sent: where its packets say otherwise, it is another one. With
    /// what an earlier one left of a packet it is whole.
    pub(super) fn return_session(&mut self) {
        self.session.in_doubt = RETURNED_PACKETS;
        self.returned.get_or_insert_default();
    }

    /// What was pushed behind a return that does not go on with what came before, from its first packet on. Where stamps are
    /// followed it is not appended: it may begin in the middle of a picture, and on another clock.
    pub(super) fn take_foreign(&mut self) -> Option<Vec<u8>> {
        self.foreign.take()
    }

    /// What reads on where this has come to.
    pub(super) fn reading(&self) -> (Aligner, Scanner) {
        (self.aligner.clone(), self.session.scanner.clone())
    }

    /// Whether a session has begun by what was pushed.
    pub(super) fn take_began_anew(&mut self) -> bool {
        std::mem::take(&mut self.began_anew)
    }

    /// Whether `bytes` begin with a packet that follows, or complete the one that has begun so that another one stands behind it;
    /// `None` where they are too few to tell.
    fn go_on(&self, bytes: &[u8]) -> Option<bool> {
        match self.aligner.missing_bytes() {
            None => Some(false),
            Some(0) => Some(self.session.scanner.may_follow(bytes.first_chunk::<PACKET_BYTES>()?)),
            Some(missing) => Some(*bytes.get(missing)? == SYNC_BYTE),
        }
    }

    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        file: &mut FileEnd<'_>,
        counters: &mut Counters,
    ) -> Result<(), StreamError> {
        let Some(mut all) = self.returned.take() else { return self.push_packets(bytes, file, counters) };
        all.extend_from_slice(bytes);
        match self.go_on(&all) {
            None => {
                self.returned = Some(all);
                return Ok(());
            }
            Some(true) => {}
            Some(false) if self.reached.is_some() => {
                self.foreign = Some(all);
                return Ok(());
            }
            Some(false) => {
                self.begin_session(*file.head, counters.continuity_errors, file.now);
                file.past.begin_session(file.now);
                self.began_anew = true;
            }
        }
        self.push_packets(&all, file, counters)
    }

    fn push_packets(
        &mut self,
        bytes: &[u8],
        file: &mut FileEnd<'_>,
        counters: &mut Counters,
    ) -> Result<(), StreamError> {
        let skipped_before = self.aligner.skipped_bytes();
        let (mut aligner, mut has_packets) = (std::mem::take(&mut self.aligner), false);
        aligner.push(bytes, &mut |run| {
            has_packets |= run.len() >= PACKET_BYTES;
            self.take_run(run, file);
        });
        self.aligner = aligner;
        if let Some(foreign) = &mut self.foreign {
            // The packet that has begun behind it.
            let missing = self.aligner.missing_bytes().filter(|missing| *missing > 0);
            let begun = missing.map_or(0, |missing| PACKET_BYTES.saturating_sub(missing));
            let from = bytes.len().saturating_sub(begun);
            foreign.extend_from_slice(bytes.get(from..).unwrap_or_default());
        }
        let skipped = self.aligner.skipped_bytes();
        counters.garbage_bytes =
            counters.garbage_bytes.saturating_add(skipped.saturating_sub(skipped_before));
        counters.continuity_errors =
            self.session.errors_before.saturating_add(self.session.scanner.continuity_errors());
        if has_packets {
            self.session.garbage_at_last_packet = skipped;
        }
        let garbage = skipped.saturating_sub(self.session.garbage_at_last_packet);
        if garbage > GARBAGE_LIMIT_BYTES {
            return Err(StreamError::NotMpegTs { bytes: garbage });
        }
        Ok(())
    }

    fn take_run(&mut self, run: &[u8], file: &mut FileEnd<'_>) {
        if let Some(foreign) = &mut self.foreign {
            return foreign.extend_from_slice(run);
        }
        let Some(foreign) = self.take_own(run, file) else { return };
        let foreign = run.get(foreign.saturating_mul(PACKET_BYTES)..).unwrap_or_default();
        // These packets have shown that another session has begun: its stamps are its own.
        if self.reached.is_some() {
            self.session.in_doubt = 0;
            self.foreign = Some(foreign.to_vec());
            return;
        }
        let Session { scanner, errors_before, .. } = &self.session;
        let errors = errors_before.saturating_add(scanner.continuity_errors());
        self.begin_packets(*file.head, errors, file.now);
        file.past.begin_session(file.now);
        self.began_anew = true;
        self.take_packets(foreign, file);
    }

    /// Takes the packets of `run` that go on with what came before, with their stamps moved. Returns the number of the first one
    /// that does not.
    fn take_own(&mut self, run: &[u8], file: &mut FileEnd<'_>) -> Option<usize> {
        let Some(mut restamp) = self.restamp.take() else { return self.take_packets(run, file) };
        let (mut moved, mut numbers) = (Vec::with_capacity(run.len()), Vec::new());
        for (number, packet) in run.as_chunks::<PACKET_BYTES>().0.iter().enumerate() {
            let mut packet = *packet;
            if restamp.apply(&mut packet, file.now) {
                moved.extend_from_slice(&packet);
                numbers.push(number);
            }
        }
        let foreign = self.take_packets(&moved, file).and_then(|foreign| numbers.get(foreign).copied());
        if foreign.is_none() {
            self.restamp = Some(restamp);
        }
        foreign
    }

    /// Appends packets up to the first one that does not go on with what came before, where that is in doubt. Returns its number.
    fn take_packets(&mut self, run: &[u8], file: &mut FileEnd<'_>) -> Option<usize> {
        let (packets, _) = run.as_chunks::<PACKET_BYTES>();
        // What is not appended yet, and how much of it was looked at.
        let (mut rest, mut looked_bytes) = (run, 0);
        for (number, packet) in packets.iter().enumerate() {
            if self.session.in_doubt > 0 {
                self.session.in_doubt = self.session.in_doubt.saturating_sub(1);
                if !self.session.scanner.may_follow(packet) {
                    (file.append)(rest.get(..looked_bytes).unwrap_or_default());
                    return Some(number);
                }
            }
            let session = &mut self.session;
            let scan = session.scanner.scan(packet);
            if scan.first_of_pid && session.announce_seams {
                let (looked, behind) = rest.split_at(looked_bytes);
                (file.append)(looked);
                (rest, looked_bytes) = (behind, 0);
                let seam = seam_packet(packet);
                (file.append)(&seam);
                *file.head = file.head.saturating_add(seam.len() as u64);
            }
            file.burst.video |= scan.video;
            if scan.video_unit_start {
                session.unit_offset = *file.head;
                file.burst.picture_starts = true;
            }
            if scan.video {
                let end = file.head.saturating_add(PACKET_BYTES as u64);
                let program = session.scanner.program();
                self.pictures.push(&scan, packet, program, end, file.now, file.held_since);
            }
            if let Some(reached) = &mut self.reached {
                reached.look(&scan, packet, session.scanner.program(), file.now);
            }
            if let Some(details) = session.probe.look(&scan, packet, session.scanner.program()) {
                self.details = Some(details);
            }
            self.join = scan.join.or(self.join);
            if let Some(found) = scan.entry {
                let offset = if found.packets_back == 0 { *file.head } else { session.unit_offset };
                file.past.add_entry(Entry { offset, point: Point::Packets(found.point) }, file.now);
            } else if scan.unit_start
                && file.past.lacks_entry_since(session.began, KEY_FRAME_TIMEOUT, file.now)
                && let Some(point) = session.scanner.entry_here()
            {
                let entry = Entry { offset: *file.head, point: Point::Packets(point) };
                file.past.add_entry(entry, file.now);
            }
            *file.head = file.head.saturating_add(PACKET_BYTES as u64);
            looked_bytes = looked_bytes.saturating_add(PACKET_BYTES);
        }
        (file.append)(rest);
        None
    }

    /// When pictures passed.
    pub(super) fn pictures(&self) -> &PictureLog {
        &self.pictures
    }

    /// The same, for what happens to them.
    pub(super) fn pictures_mut(&mut self) -> &mut PictureLog {
        &mut self.pictures
    }

    /// What PMT says of the streams inside.
    pub(super) fn program(&self) -> Option<&Program> {
        self.session.scanner.program()
    }

    /// How decoding begins at the newest entry that showed it.
    pub(super) fn join(&self) -> Option<Join> {
        self.join
    }

    /// What the video's own headers say.
    pub(super) fn video_details(&self) -> Option<&VideoDetails> {
        self.details.as_ref()
    }
}
