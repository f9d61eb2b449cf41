//! Reports between sender and receiver (RTCP, RFC 3550 §6): read as far as times and ends are in them, and written.
//!
//! ```text
//! V=2 P count:5 │ type:8 │ length in words less one:16 │ SSRC │ …         a compound packet is several of these
//! 200 sender report:   NTP time:64, RTP time:32, packets:32, bytes:32, [report block …]
//! 201 receiver report: [report block …]          202 source description: CNAME          203 goodbye
//! ```

use super::Header;
use super::statistics::Statistics;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use glassline_media::{Time, Utc};
use std::time::Duration;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
/// The seconds from 1900, where NTP begins, to 1970.
const NTP_BEFORE_UNIX_S: u64 = 2_208_988_800;
const NANOS: u64 = 1_000_000_000;

/// A sender report's times: both name one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The sender that reports.
    pub ssrc: u32,
    /// Its wall clock: seconds since 1900 and their fraction, 32 bits each. 0 where it has none (RFC 3550 §6.4.1).
    pub ntp: u64,
    /// The same moment on the clock of its time stamps.
    pub timestamp: u32,
    /// Packets that it has sent.
    pub packets: u32,
    /// Bytes of payload in them.
    pub bytes: u32,
}

/// What a compound packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Times of a sender.
    SenderReport(SenderReport),
    /// A source has ended.
    Goodbye {
        /// Which.
        ssrc: u32,
    },
}

impl Message {
    /// The source that it is about.
    pub fn ssrc(&self) -> u32 {
        match self {
            Message::SenderReport(report) => report.ssrc,
            Message::Goodbye { ssrc } => *ssrc,
        }
    }
}

/// How often a member of a session reports on average (RFC 3550 §6.2), unless its reports are too many.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// Bits a second of all receivers' reports together: 3.75 % of a session of 128 kbit/s, since the session's own rate is not known.
const RECEIVERS_BPS: u64 = 4800;
/// Bits of a report with its headers.
const REPORT_BITS: u64 = 800;

/// How long a member of a session with so many of them waits for its next report: half to one and a half times the mean, by 64
/// `random` bits, lest all report at once (RFC 3550 §6.3.1). Without the reconsideration of §6.3.3.
pub fn report_interval(members: usize, random: u64) -> Duration {
    let members = u64::try_from(members).unwrap_or(u64::MAX);
    let of_all =
        Duration::from_millis(members.saturating_mul(REPORT_BITS.saturating_mul(1000)) / RECEIVERS_BPS);
    let mean = u64::try_from(of_all.max(REPORT_TIME).as_nanos()).unwrap_or(u64::MAX);
    let more = u64::try_from(u128::from(mean).saturating_mul(random.into()) >> 64).unwrap_or(mean);
    Duration::from_nanos((mean / 2).saturating_add(more))
}

/// A canonical name for one session: 96 bits in Base64, made of 64 `random` bits that it does not give away (RFC 7022 §4.2 and §5).
pub fn canonical_name(random: u64) -> String {
    let digest =
        ring::digest::digest(&ring::digest::SHA256, &[&b"CNAME"[..], &random.to_be_bytes()].concat());
    BASE64_STANDARD.encode(digest.as_ref().get(..12).unwrap_or_default())
}

/// The sources that sender and receiver reports in a datagram are of.
pub fn reporters(mut datagram: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        while let Some((&[first, kind, high, low], rest)) = datagram.split_first_chunk::<4>() {
            let words = usize::from(u16::from_be_bytes([high, low]));
            let (body, behind) = rest.split_at_checked(words.saturating_mul(4))?;
            if first >> 6 != 2 {
                return None;
            }
            datagram = behind;
            if matches!(kind, SENDER_REPORT | RECEIVER_REPORT)
                && let Some(ssrc) = body.first_chunk::<4>()
            {
                return Some(u32::from_be_bytes(*ssrc));
            }
        }
        None
    })
}

/// Whether a datagram is RTCP where RTP comes to the same place (RFC 5761 §4).
pub fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [first, kind, ..] if first >> 6 == 2 && (192..=223).contains(kind))
}

/// The messages of a compound packet; ends at the first one that contradicts itself.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message> {
    // A goodbye may be of several sources.
    let mut leaving: &[[u8; 4]] = &[];
    std::iter::from_fn(move || {
        if let Some((ssrc, rest)) = leaving.split_first() {
            leaving = rest;
            return Some(Message::Goodbye { ssrc: u32::from_be_bytes(*ssrc) });
        }
        while let Some((&[first, kind, high, low], rest)) = datagram.split_first_chunk::<4>() {
            let words = usize::from(u16::from_be_bytes([high, low]));
            let (body, behind) = rest.split_at_checked(words.saturating_mul(4))?;
            if first >> 6 != 2 {
                return None;
            }
            datagram = behind;
            let (words, _) = body.as_chunks::<4>();
            let word = |at: usize| words.get(at).copied().map(u32::from_be_bytes);
            if kind == SENDER_REPORT
                && let (Some(ssrc), Some(seconds), Some(fraction)) = (word(0), word(1), word(2))
                && let (Some(timestamp), Some(packets), Some(bytes)) = (word(3), word(4), word(5))
            {
                let ntp = u64::from(seconds) << 32 | u64::from(fraction);
                return Some(Message::SenderReport(SenderReport { ssrc, ntp, timestamp, packets, bytes }));
            }
            if kind == GOODBYE
                && let Some((ssrc, rest)) =
                    words.get(..usize::from(first & 0x1f)).and_then(<[_]>::split_first)
            {
                leaving = rest;
                return Some(Message::Goodbye { ssrc: u32::from_be_bytes(*ssrc) });
            }
        }
        None
    })
}

/// A wall clock as NTP has it: seconds since 1900 and their fraction, 32 bits each.
pub fn ntp_of(utc: Utc) -> u64 {
    let (seconds, nanos) = (utc.as_nanos() / NANOS, utc.as_nanos() % NANOS);
    let seconds = seconds.saturating_add(NTP_BEFORE_UNIX_S) & 0xFFFF_FFFF;
    let fraction = (nanos << 32) / NANOS;
    seconds << 32 | fraction
}

/// What NTP says, of the years 1970 to 2106; `None` of what lies before.
pub fn utc_of(ntp: u64) -> Option<Utc> {
    let (seconds, fraction) = (ntp >> 32, ntp & 0xFFFF_FFFF);
    // The 32 bits of seconds wrap in 2036: what is below the offset is of the next era.
    let seconds = match seconds.checked_sub(NTP_BEFORE_UNIX_S) {
        Some(seconds) => seconds,
        None if seconds > 0 && seconds < 1 << 31 => {
            seconds.saturating_add(1 << 32).saturating_sub(NTP_BEFORE_UNIX_S)
        }
        None => return None,
    };
    let nanos = fraction.saturating_mul(NANOS) >> 32;
    Some(Utc::from_nanos(seconds.saturating_mul(NANOS).saturating_add(nanos)))
}

/// Writes a packet's head: `count` in its first byte, `words` of 32 bits behind the first.
fn head(count: u8, kind: u8, words: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[2 << 6 | count & 0x1f, kind]);
    out.extend_from_slice(&words.to_be_bytes());
}

/// Appends a source description with a canonical name of at most 255 bytes, which every compound packet has (RFC 3550 §6.1).
fn describe(ssrc: u32, name: &str, out: &mut Vec<u8>) {
    let mut chunk = ssrc.to_be_bytes().to_vec();
    let name = name.as_bytes().get(..255).unwrap_or(name.as_bytes());
    chunk.extend_from_slice(&[1, u8::try_from(name.len()).unwrap_or(0)]);
    chunk.extend_from_slice(name);
    // At least one zero ends the items, and zeros fill the word.
    chunk.push(0);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    let words = u16::try_from(chunk.len() / 4).unwrap_or(0);
    head(1, SOURCE_DESCRIPTION, words, out);
    out.extend_from_slice(&chunk);
}

/// A sender report with its source description.
pub fn write_sender_report(report: &SenderReport, name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    head(0, SENDER_REPORT, 6, &mut out);
    out.extend_from_slice(&report.ssrc.to_be_bytes());
    out.extend_from_slice(&report.ntp.to_be_bytes());
    for word in [report.timestamp, report.packets, report.bytes] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    describe(report.ssrc, name, &mut out);
    out
}

/// Appends a goodbye.
pub fn write_goodbye(ssrc: u32, out: &mut Vec<u8>) {
    head(1, GOODBYE, 1, out);
    out.extend_from_slice(&ssrc.to_be_bytes());
}

/// What a receiver reports of one sender.
#[derive(Debug)]
pub struct Receiver {
    ssrc: u32,
    clock_hz: u32,
    statistics: Statistics,
    highest: u32,
    /// Packets that were expected, and came, up to the last report.
    reported: (u64, u64),
    /// The middle 32 bits of the newest sender report's NTP time, and when that came.
    newest: Option<(u32, Time)>,
}

impl Receiver {
    /// Reports under the name `ssrc` of a sender with time stamps of `clock_hz` a second.
    pub fn new(ssrc: u32, clock_hz: u32) -> Receiver {
        let statistics = Statistics::new(clock_hz);
        Receiver { ssrc, clock_hz, statistics, highest: 0, reported: (0, 0), newest: None }
    }

    /// A packet came at `now`.
    pub fn handle_packet(&mut self, header: &Header, now: Time) {
        use super::statistics::Arrival;
        if let Arrival::Next { number } | Arrival::Gap { number, .. } | Arrival::Restart { number } =
            self.statistics.push(header, now)
        {
            self.highest = u32::try_from(number & 0xFFFF_FFFF).unwrap_or(0);
        }
    }

    /// A sender report came at `now`.
    pub fn handle_report(&mut self, report: &SenderReport, now: Time) {
        let middle = u32::try_from(report.ntp >> 16 & 0xFFFF_FFFF).unwrap_or(0);
        self.newest = Some((middle, now));
    }

    /// A receiver report with its source description (RFC 3550 §6.4.2), of what came since the one before.
    pub fn write_report(&mut self, name: &str, now: Time) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let counters = self.statistics.counters();
        let Some(sender) = self.statistics.ssrc() else {
            head(0, RECEIVER_REPORT, 1, &mut out);
            out.extend_from_slice(&self.ssrc.to_be_bytes());
            describe(self.ssrc, name, &mut out);
            return out;
        };
        let (expected_before, received_before) =
            std::mem::replace(&mut self.reported, (counters.expected, counters.received));
        let expected = counters.expected.saturating_sub(expected_before);
        let lost = expected.saturating_sub(counters.received.saturating_sub(received_before));
        let fraction = lost.saturating_mul(256).checked_div(expected).unwrap_or(0).min(255);
        let cumulative = counters.lost().min(0x7F_FFFF);
        let loss = u32::try_from(fraction << 24 | cumulative).unwrap_or(0);
        let jitter = ticks(self.statistics.jitter(), self.clock_hz.into());
        let (last, delay) = self.newest.map_or((0, 0), |(last, at)| (last, ticks(now.since(at), 65_536)));
        head(1, RECEIVER_REPORT, 7, &mut out);
        for word in [self.ssrc, sender, loss, self.highest, jitter, last, delay] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        describe(self.ssrc, name, &mut out);
        out
    }
}

/// A duration in ticks of `rate_hz`.
fn ticks(duration: Duration, rate_hz: u128) -> u32 {
    u32::try_from(duration.as_nanos().saturating_mul(rate_hz) / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_those_of_ntp() {
        // 1985-04-12T23:20:50.5Z is 482,196,050 s after 1970.
        let utc = Utc::from_nanos(482_196_050_500_000_000);
        let ntp = ntp_of(utc);
        assert_eq!((ntp >> 32, ntp & 0xFFFF_FFFF), (2_691_184_850, 1 << 31));
        assert_eq!(utc_of(ntp), Some(utc));
        assert_eq!(utc_of(0), None);
        // A camera without a clock counts from 1970 on, or from its start.
        assert_eq!(utc_of(NTP_BEFORE_UNIX_S << 32), Some(Utc::from_nanos(0)));
        // 2036 and on.
        assert_eq!(
            utc_of(1 << 32).map(|utc| utc.as_nanos() / NANOS),
            Some(4_294_967_297 - NTP_BEFORE_UNIX_S)
        );
    }

    #[test]
    fn a_report_is_what_the_rfc_draws() {
        let report = SenderReport { ssrc: 7, ntp: 1 << 63 | 5, timestamp: 9, packets: 3, bytes: 400 };
        let mut bytes = write_sender_report(&report, "cam");
        write_goodbye(7, &mut bytes);
        assert_eq!(bytes[..4], [0x80, 200, 0, 6]);
        assert_eq!(bytes[28..44], [0x81, 202, 0, 3, 0, 0, 0, 7, 1, 3, b'c', b'a', b'm', 0, 0, 0]);
        assert!(is_rtcp(&bytes));
        let found: Vec<_> = messages(&bytes).collect();
        assert_eq!(found, [Message::SenderReport(report), Message::Goodbye { ssrc: 7 }]);
        assert_eq!(messages(&bytes[..27]).count(), 0, "it is cut off");
        // A goodbye of three sources with a reason, and one that has fewer than it says.
        let goodbye = [0x83, 203, 0, 4, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 2, b'o', b'k', 0];
        let ssrcs = [7, 8, 9].map(|ssrc| Message::Goodbye { ssrc });
        assert_eq!(messages(&goodbye).collect::<Vec<_>>(), ssrcs);
        assert_eq!(messages(&[0x83, 203, 0, 1, 0, 0, 0, 7]).count(), 0);
    }

    #[test]
    fn a_receiver_reports_what_is_missing_since_the_report_before() {
        let mut receiver = Receiver::new(5, 90_000);
        assert_eq!(receiver.write_report("we", Time::ZERO)[..8], [0x80, 201, 0, 1, 0, 0, 0, 5]);
        for sequence in [1u16, 2, 4] {
            let header = Header { marker: false, payload_type: 96, sequence, timestamp: 0, ssrc: 9 };
            receiver.handle_packet(&header, Time::ZERO);
        }
        let report = SenderReport { ssrc: 9, ntp: 0x1_2345_0000, timestamp: 0, packets: 0, bytes: 0 };
        receiver.handle_report(&report, Time::from_millis(1000));
        let bytes = receiver.write_report("we", Time::from_millis(1500));
        let word = |at: usize| u32::from_be_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
        // One of four is missing: 64 of 256.
        assert_eq!((word(1), word(2), word(3)), (5, 9, 64 << 24 | 1));
        assert_eq!((word(4) & 0xFFFF, word(6), word(7)), (4, 0x1_2345, 32_768));
        let again = receiver.write_report("we", Time::from_millis(2000));
        assert_eq!(again[12..16], [0, 0, 0, 1], "nothing is missing since then");
    }

    #[test]
    fn reports_come_at_random_times_and_the_more_members_the_less_often() {
        let (first, last) = (report_interval(2, 0), report_interval(2, u64::MAX));
        assert_eq!((first, last.as_millis()), (Duration::from_millis(2500), 7499));
        let many = report_interval(600, 0);
        assert_eq!(many, Duration::from_secs(50));
        assert!(report_interval(usize::MAX, u64::MAX) > many);
    }

    #[test]
    fn names_are_random_bits_of_a_session() {
        let (one, other) = (canonical_name(1), canonical_name(2));
        assert_eq!((one.len(), one == other), (16, false));
        assert_eq!(one, canonical_name(1));
    }

    #[test]
    fn members_are_those_that_report() {
        let mut bytes = Receiver::new(5, 90_000).write_report("x", Time::ZERO);
        let report = SenderReport { ssrc: 7, ntp: 1, timestamp: 0, packets: 0, bytes: 0 };
        bytes.extend(write_sender_report(&report, "y"));
        write_goodbye(9, &mut bytes);
        assert_eq!(reporters(&bytes).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(reporters(&[0x80, 201, 0, 0, 0x80, 201, 0, 9]).count(), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(reporters(&bytes).count() <= bytes.len() / 8);
            prop_assert!(messages(&bytes).count() <= bytes.len() / 4);
        }

        #[test]
        fn a_report_survives(ssrc: u32, ntp: u64, timestamp: u32, packets: u32, bytes: u32, name in "[a-z]{0,300}") {
            let report = SenderReport { ssrc, ntp, timestamp, packets, bytes };
            let written = write_sender_report(&report, &name);
            prop_assert_eq!(written.len() % 4, 0);
            prop_assert_eq!(messages(&written).collect::<Vec<_>>(), [Message::SenderReport(report)]);
        }
    }
}
