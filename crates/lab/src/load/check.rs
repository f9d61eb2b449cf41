//! Whether a viewer gets the right bytes: any transport stream by its continuity counters, a stamped one
//! ([`super::stamped`]) by every byte.

use super::stamped::{PMT_PID, PacketStamp, Position, VIDEO_PID, section_crc};
use glassline_media::Time;
use glassline_media::container::ts::{Aligner, NULL_PID, PACKET_BYTES, SYNC_BYTE, Scanner};
use serde::{Deserialize, Serialize};

/// What a viewer found, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Packets looked at.
    pub packets: u64,
    /// Not as they were sent: sync lost, transport error bit, a table with a wrong checksum; in a stamped stream any
    /// byte, and packets that are not of the stream.
    pub wrong: u64,
    /// Left out, though no discontinuity was announced: exact in a stamped stream, at least so many in others, which
    /// have counters of four bits.
    pub missing: u64,
    /// Sent again.
    pub repeated: u64,
    /// Discontinuities that were announced (`discontinuity_indicator`): allowed, and no error.
    pub announced: u64,
    /// Packets of a stamped stream that were left out by announced discontinuities.
    pub skipped: u64,
    /// Announced jumps of a stamped stream that lead elsewhere than to a key frame's first packet: a decoder shows
    /// nothing, or rubbish, until the next one. Every byte may be right all the same: no error.
    pub misplaced: u64,
}

impl Verdict {
    /// All that is not allowed.
    pub fn errors(&self) -> u64 {
        self.wrong + self.missing + self.repeated
    }

    /// Adds another viewer's.
    pub fn merge(&mut self, other: &Verdict) {
        self.packets += other.packets;
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.repeated += other.repeated;
        self.announced += other.announced;
        self.skipped += other.skipped;
        self.misplaced += other.misplaced;
    }
}

/// A packet of which the arrival is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landmark {
    /// A key frame of the video begins: its `random_access_indicator` is set, or its first slice tells.
    KeyFrame,
    /// First packet of a stamped stream's frame, and when it was sent.
    First(Time),
    /// Last packet of a stamped stream's frame, and when it was sent.
    Last(Time),
    /// Last packet of a stamped stream's first key frame that came whole, PAT and PMT before it: a decoder can show
    /// its first picture. Once.
    Picture,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Packets on the stamped stream's PID have borne no mark so far, this many of them.
    #[default]
    Unknown,
    Stamped,
    Plain,
}

/// After this many packets without a mark the stream is not stamped.
const TRIES: u64 = 512;
/// PIDs that are followed; more are let through unchecked.
const PIDS: usize = 64;

/// What the first picture still waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstPicture {
    #[default]
    KeyFrame,
    Rest,
    Seen,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    pid: u16,
    last: u8,
    /// Of the last payload: a packet with its counter and another payload is no repetition.
    fingerprint: u64,
}

/// Follows one viewer's packets. 5 to 15 ns each.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    kind: Kind,
    unmarked: u64,
    pids: Vec<Followed>,
    /// Where the PID of the packet before stands in `pids`.
    recent: usize,
    announcing: bool,
    expected: Option<u64>,
    last_sent: Time,
    jump_announced: bool,
    first_picture: FirstPicture,
    verdict: Verdict,
}

impl Checker {
    /// A checker before its first packet.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// What was found so far.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether the stream is a stamped one.
    pub fn is_stamped(&self) -> bool {
        self.kind == Kind::Stamped
    }

    /// Tells of bytes that are no packet: one packet is wrong.
    pub fn lost_sync(&mut self) {
        self.verdict.wrong += 1;
    }

    /// Takes the next packet and calls `found` where it is a landmark.
    #[inline]
    pub fn check(&mut self, packet: &[u8; PACKET_BYTES], found: &mut impl FnMut(Landmark)) {
        self.verdict.packets += 1;
        if packet[0] != SYNC_BYTE || packet[1] & 0x80 != 0 {
            self.verdict.wrong += 1;
            return;
        }
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let (has_payload, has_flags) = (packet[3] & 0x10 != 0, packet[3] & 0x20 != 0 && packet[4] > 0);
        let announced = has_flags && packet[5] & 0x80 != 0;
        self.verdict.announced += u64::from(announced && !self.announcing);
        self.announcing = announced;
        if has_flags && packet[5] & 0x40 != 0 && begins_picture(packet) {
            found(Landmark::KeyFrame);
        }
        if pid == VIDEO_PID && self.kind != Kind::Plain {
            self.jump_announced |= announced;
            // Without payload: a server's own packet, which carries the announcement.
            if has_payload && self.check_marked(packet, found) {
                return;
            }
        }
        match self.kind {
            Kind::Stamped if pid == VIDEO_PID => {}
            Kind::Stamped if pid != 0 && pid != PMT_PID => self.verdict.wrong += 1,
            _ => self.follow(pid, packet, has_payload, announced),
        }
    }

    /// Takes a packet that should bear a mark; false where the stream may be another one.
    #[inline]
    fn check_marked(&mut self, packet: &[u8; PACKET_BYTES], found: &mut impl FnMut(Landmark)) -> bool {
        let Some(mark) = PacketStamp::read(packet) else {
            if self.kind == Kind::Stamped {
                self.verdict.wrong += 1;
                self.expected = self.expected.map(|expected| expected + 1);
                return true;
            }
            self.unmarked += 1;
            if self.unmarked >= TRIES {
                self.kind = Kind::Plain;
            }
            return false;
        };
        if self.kind == Kind::Unknown {
            self.kind = Kind::Stamped;
            self.verdict.wrong += self.unmarked;
        }
        if let Some(expected) = self.expected
            && mark.sequence != expected
        {
            self.verdict.misplaced += u64::from(self.jump_announced && !mark.begins_key_frame(packet));
            if self.first_picture == FirstPicture::Rest {
                self.first_picture = FirstPicture::KeyFrame;
            }
            match mark.sequence.checked_sub(expected) {
                Some(left_out) if self.jump_announced => self.verdict.skipped += left_out,
                Some(left_out) => self.verdict.missing += left_out,
                // A source that began anew.
                None if self.jump_announced && mark.sent > self.last_sent => {}
                None => self.verdict.repeated += 1,
            }
        }
        self.jump_announced = false;
        self.expected = Some(mark.sequence + 1);
        self.last_sent = mark.sent;
        match mark.position {
            Position::First => found(Landmark::First(mark.sent)),
            Position::Last => found(Landmark::Last(mark.sent)),
            Position::Middle => {}
        }
        if self.first_picture != FirstPicture::Seen {
            self.await_picture(&mark, packet, found);
        }
        true
    }

    fn await_picture(
        &mut self,
        mark: &PacketStamp,
        packet: &[u8; PACKET_BYTES],
        found: &mut impl FnMut(Landmark),
    ) {
        if mark.begins_key_frame(packet) && self.has_tables() {
            self.first_picture = FirstPicture::Rest;
        } else if mark.position == Position::Last && self.first_picture == FirstPicture::Rest {
            self.first_picture = FirstPicture::Seen;
            found(Landmark::Picture);
        }
    }

    fn has_tables(&self) -> bool {
        [0, PMT_PID].iter().all(|pid| self.pids.iter().any(|followed| followed.pid == *pid))
    }

    /// Follows the counter of a PID (ISO/IEC 13818-1 §2.4.3.3).
    #[inline]
    fn follow(&mut self, pid: u16, packet: &[u8; PACKET_BYTES], has_payload: bool, announced: bool) {
        if pid == NULL_PID {
            return;
        }
        if has_payload && (pid == 0 || pid == PMT_PID && self.kind == Kind::Stamped) {
            self.verdict.wrong += u64::from(!section_is_whole(packet));
        }
        let counter = packet[3] & 0x0F;
        let fingerprint = fingerprint(packet);
        let known = match self.pids.get(self.recent) {
            Some(followed) if followed.pid == pid => Some(self.recent),
            _ => self.pids.iter().position(|followed| followed.pid == pid),
        };
        let Some(index) = known else {
            if self.pids.len() < PIDS {
                self.recent = self.pids.len();
                self.pids.push(Followed { pid, last: counter, fingerprint });
            }
            return;
        };
        self.recent = index;
        let followed = &mut self.pids[index];
        // A packet without payload repeats the counter of the one before.
        let expected = (followed.last + u8::from(has_payload)) & 0x0F;
        if counter != expected && !announced {
            let again = has_payload && counter == followed.last && fingerprint == followed.fingerprint;
            match again {
                true => self.verdict.repeated += 1,
                false => self.verdict.missing += u64::from(counter.wrapping_sub(expected) & 0x0F),
            }
        }
        followed.last = counter;
        if has_payload {
            followed.fingerprint = fingerprint;
        }
    }
}

/// Whether a PES packet of video begins here (ISO/IEC 13818-1 table 2-22: stream ids 1110 xxxx).
fn begins_picture(packet: &[u8; PACKET_BYTES]) -> bool {
    let start = 5 + usize::from(packet[4]);
    let starts = |code: &[u8]| code[..3] == [0, 0, 1] && code[3] & 0xF0 == 0xE0;
    packet[1] & 0x40 != 0 && packet.get(start..start + 4).is_some_and(starts)
}

/// Whether the section that begins and ends in this packet has the right checksum; true for others.
fn section_is_whole(packet: &[u8; PACKET_BYTES]) -> bool {
    let payload = if packet[3] & 0x20 != 0 { 5 + usize::from(packet[4]) } else { 4 };
    let section = packet.get(payload).map(|pointer| payload + 1 + usize::from(*pointer));
    let section = section.and_then(|start| packet.get(start..)).unwrap_or_default();
    let &[_, high, low, ..] = section else { return true };
    let length = 3 + (usize::from(high & 0x0F) << 8 | usize::from(low));
    let begins = packet[1] & 0x40 != 0;
    !begins || section.get(..length).is_none_or(|section| section_crc(section) == 0)
}

/// Bits of a packet's head and tail: enough to tell apart what a coder gives.
#[inline]
fn fingerprint(packet: &[u8; PACKET_BYTES]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(packet[at..at + 8].try_into().expect("eight bytes"));
    (word(4) ^ word(96).rotate_left(21) ^ word(PACKET_BYTES - 8).rotate_left(42))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// What a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Too little has come.
    #[default]
    Undecided,
    /// MPEG-TS.
    Transport,
    /// Something else, which cannot be checked.
    Other,
}

/// So many packets in a row are no coincidence.
const CERTAIN_PACKETS: u64 = 10;
/// A body of this size that is mostly no packets is something else.
const DECIDING_BYTES: u64 = 16 << 10;

/// Finds the packets in one viewer's bytes and checks them. About 700 bytes, some 50 KiB until the first key frame
/// where slices are searched for it; nothing is allocated for a read.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Until the first key frame.
    scanner: Option<Box<Scanner>>,
    aligner: Aligner,
    checker: Checker,
    bytes: u64,
    resyncs: u64,
    body: Body,
}

impl Tracker {
    /// A tracker before the first byte.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// A tracker that also knows the first key frame where no `random_access_indicator` tells it, by its slices.
    pub fn with_scanner() -> Tracker {
        Tracker { scanner: Some(Box::default()), ..Tracker::default() }
    }

    /// Takes the next bytes of the body and calls `found` at each landmark.
    pub fn push(&mut self, bytes: &[u8], found: &mut impl FnMut(Landmark)) {
        if self.body == Body::Other {
            return;
        }
        let (checker, scanner) = (&mut self.checker, &mut self.scanner);
        self.aligner.push(bytes, &mut |run| {
            for packet in run.as_chunks().0 {
                if let Some(scan) = scanner {
                    let mut marked = false;
                    checker.check(packet, &mut |landmark| {
                        marked |= landmark == Landmark::KeyFrame;
                        found(landmark);
                    });
                    let told = scan.scan(packet).entry.is_some();
                    if told && !marked {
                        found(Landmark::KeyFrame);
                    }
                    if told || marked {
                        *scanner = None;
                    }
                } else {
                    checker.check(packet, found);
                }
            }
        });
        self.bytes += bytes.len() as u64;
        let lost = self.aligner.resyncs() - self.resyncs;
        self.resyncs = self.aligner.resyncs();
        if self.body == Body::Undecided {
            // Until then a lost lock may be a false start, and is forgiven.
            self.decide();
        } else if lost > 0 {
            (0..lost).for_each(|_| self.checker.lost_sync());
        }
    }

    fn decide(&mut self) {
        let packets = self.checker.verdict.packets;
        let in_a_row = packets / (self.resyncs + 1);
        if in_a_row >= CERTAIN_PACKETS && packets * PACKET_BYTES as u64 * 2 > self.bytes {
            self.body = Body::Transport;
        } else if self.bytes >= DECIDING_BYTES {
            self.body = Body::Other;
        }
    }

    /// What the body is, by what came so far.
    pub fn body(&self) -> Body {
        self.body
    }

    /// What the body is, now that no more comes: a short one counts by what it was.
    pub fn final_body(&self) -> Body {
        match self.body {
            Body::Undecided if self.bytes == 0 => Body::Undecided,
            Body::Undecided if self.checker.verdict.packets > 0 && self.aligner.skipped_bytes() == 0 => {
                Body::Transport
            }
            Body::Undecided => Body::Other,
            decided => decided,
        }
    }

    /// Bytes of the body so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the checker found.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
