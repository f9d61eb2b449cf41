//! Where frames begin among one path's packets, how many packets they have, and how many come a second.

use super::report::Range;
use glassline_media::{FrameRate, Time};
use glassline_transport::raw_video::Scan;
use glassline_transport::rtp::Header;
use glassline_transport::rtp::statistics::Arrival;

/// Frames after which the rate is known by their stamps.
const RATED: u64 = 8;
/// How near a rate is to one that there is.
const NEAR: f64 = 0.002;
/// The frame that is coming.
#[derive(Clone, Copy, Debug)]
struct Current {
    timestamp: u32,
    /// Its first packet's number.
    number: u64,
    markers: u32,
    missing: u64,
    /// What is missing may be its first packet, or the last one of the frame before.
    is_head_missing: bool,
    /// The last packet had a marker.
    is_ended: bool,
}

/// What a packet is to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// It begins a frame.
    pub(super) is_start: bool,
    /// Packets that are missing before it, and whether they are of its own frame.
    pub(super) missing: u64,
    pub(super) is_missing_here: bool,
}

/// Follows the frames of one path.
#[derive(Debug)]
pub(super) struct Frames {
    scan: Scan,
    current: Option<Current>,
    /// When the first frame that was seen to begin came, its packet's number, and when and with which number the last one did.
    first: Option<(Time, u64)>,
    last: (Time, u64),
    /// The shortest step from a frame's stamp to the next one's; the sum of steps like it, and how many these are.
    step: Option<u32>,
    ticks: u64,
    steps: u64,
    /// Packets of the frame before, and of frames, once two in a row had as many.
    before: Option<u64>,
    packets: Option<u64>,
    pub(super) range: Option<Range>,
    pub(super) count: u64,
    pub(super) marker_errors: u64,
    /// Frames that stamps step over though no packet is missing: the sender has left them out.
    pub(super) left_out: u64,
}

impl Frames {
    pub(super) fn new(scan: Scan) -> Frames {
        Frames {
            scan,
            current: None,
            first: None,
            last: (Time::ZERO, 0),
            step: None,
            ticks: 0,
            steps: 0,
            before: None,
            packets: None,
            range: None,
            count: 0,
            marker_errors: 0,
            left_out: 0,
        }
    }

    /// Takes a packet; `None` where it has no place in the order.
    pub(super) fn push(
        &mut self,
        header: &Header,
        arrival: Arrival,
        is_second: bool,
        at: Time,
    ) -> Option<Step> {
        let (number, missing) = match arrival {
            Arrival::Next { number } => (number, 0),
            Arrival::Gap { number, missing } => (number, missing),
            Arrival::Restart { number } => {
                self.begin_anew();
                (number, 0)
            }
            Arrival::Late { .. } | Arrival::Duplicate { .. } | Arrival::Stray => return None,
        };
        let was_ended = self.current.is_none_or(|current| current.is_ended);
        let is_later =
            |current: Current| (header.timestamp.wrapping_sub(current.timestamp)).cast_signed() > 0;
        let is_start = match self.current {
            None => true,
            Some(current) => is_later(current) && !(self.scan == Scan::Interlaced && is_second),
        };
        if is_start {
            self.end(header.timestamp, number, missing);
            let is_whole = self.current.is_some();
            self.current = Some(Current {
                timestamp: header.timestamp,
                number,
                markers: 0,
                missing: 0,
                is_head_missing: missing > 0,
                is_ended: false,
            });
            // The frame that was joined in its middle does not count.
            if is_whole && self.first.is_none() {
                self.first = Some((at, number));
            }
            self.last = (at, number);
        }
        let current = self.current.as_mut()?;
        current.markers += u32::from(header.marker);
        current.is_ended = header.marker;
        current.missing += missing;
        Some(Step { is_start, missing, is_missing_here: !is_start || was_ended })
    }

    /// The stream begins anew.
    fn begin_anew(&mut self) {
        (self.current, self.first, self.before, self.packets) = (None, None, None, None);
        (self.step, self.ticks, self.steps) = (None, 0, 0);
    }

    /// A frame is over, since the one of this stamp begins; `missing` packets are missing before the new frame's first one.
    fn end(&mut self, timestamp: u32, number: u64, missing: u64) {
        let Some(current) = self.current else { return };
        if self.first.is_none() {
            return;
        }
        self.count += 1;
        let packets = number.saturating_sub(current.number);
        self.take_step(timestamp.wrapping_sub(current.timestamp), packets);
        if current.missing + missing == 0 {
            let wanted = if self.scan == Scan::Interlaced { 2 } else { 1 };
            self.marker_errors += u64::from(current.markers != wanted);
        }
        // What is missing within it is counted by the numbers.
        if missing == 0 && !current.is_head_missing {
            self.range = Some(Range::including(self.range, packets));
            if self.before == Some(packets) {
                self.packets = Some(packets);
            }
            self.before = Some(packets);
        }
    }

    /// From one stamp to the next one, over so many packets.
    fn take_step(&mut self, step: u32, packets: u64) {
        let usual = self.step.map_or(step, |usual| usual.min(step));
        if self.step.is_some_and(|before| before / 2 >= usual) {
            // What was usual so far were steps over frames.
            (self.ticks, self.steps, self.left_out) = (0, 0, 0);
        }
        self.step = Some(usual);
        let frames = (u64::from(step) + u64::from(usual) / 2) / u64::from(usual.max(1));
        if frames == 1 {
            self.ticks += u64::from(step);
            self.steps += 1;
        } else if let Some(whole) = self.packets() {
            self.left_out += frames.saturating_sub(((packets + whole / 2) / whole).max(1));
        }
    }

    /// Packets of a frame, once that is known.
    pub(super) fn packets(&self) -> Option<u64> {
        self.packets.filter(|packets| *packets > 0)
    }

    /// Frames from the first to the last, those that were lost as a whole among them.
    fn passed(&self) -> Option<(u64, Time)> {
        let ((began, first), packets) = (self.first?, self.packets()?);
        let frames = (self.last.1.saturating_sub(first) + packets / 2) / packets;
        (frames > 0).then_some((frames, began))
    }

    /// Frames a second by the steps of their stamps.
    pub(super) fn stamped_hz(&self) -> Option<f64> {
        (self.ticks > 0).then(|| self.steps as f64 * 90_000.0 / self.ticks as f64)
    }

    /// Frames a second by when their first packets came.
    pub(super) fn received_hz(&self) -> Option<f64> {
        let (frames, began) = self.passed()?;
        let seconds = self.last.0.since(began).as_secs_f64();
        (seconds > 0.0).then(|| frames as f64 / seconds)
    }

    /// The rate that is meant, by the stamps, once there are enough of them.
    pub(super) fn rate(&self) -> Option<FrameRate> {
        let found = self.stamped_hz().filter(|_| self.steps >= RATED)?;
        let rates = FrameRate::USUAL.into_iter();
        let distance = |rate: &FrameRate| (rate.as_f64() / found - 1.0).abs();
        let nearest = rates.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        let exact = || FrameRate::new((found * 1000.0).round() as u32, 1000);
        nearest.filter(|rate| distance(rate) < NEAR).or_else(exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::rtp::statistics::Statistics;
    use std::time::Duration;

    /// Frames of ten packets, 59.94 a second, whose clock is fast by 1 in 1000.
    fn run(scan: Scan, is_lost: impl Fn(u64) -> bool) -> (Frames, u64) {
        let (mut frames, mut statistics) = (Frames::new(scan), Statistics::new(90_000));
        let mut starts = 0;
        for number in 0..6_000u64 {
            let (frame, index) = (number / 10, number % 10);
            let field = u64::from(scan == Scan::Interlaced && index >= 5);
            let ticks = (2 * frame + field) * 90_000 * 1001 / 60_000 / 2;
            let marker = index == 9 || (scan == Scan::Interlaced && index == 4);
            let header = Header {
                marker,
                payload_type: 96,
                sequence: number as u16,
                timestamp: (ticks as u32).wrapping_sub(70_000),
                ssrc: 1,
            };
            if is_lost(number) {
                continue;
            }
            let at = Time::ZERO + Duration::from_nanos(frame * 16_666_667 + index * 1_000);
            let arrival = statistics.push(&header, at);
            let step = frames.push(&header, arrival, field == 1, at);
            starts += u64::from(step.is_some_and(|step| step.is_start));
        }
        (frames, starts)
    }

    #[test]
    fn frames_are_counted_and_rated() {
        for scan in [Scan::Progressive, Scan::Interlaced] {
            let (frames, starts) = run(scan, |_| false);
            assert_eq!((starts, frames.packets(), frames.marker_errors), (600, Some(10), 0), "{scan:?}");
            assert_eq!(frames.range, Some(Range { min: 10, max: 10 }));
            assert_eq!((frames.rate(), frames.left_out), (FrameRate::new(60_000, 1001), 0));
            assert!((frames.received_hz().unwrap() - 60.0).abs() < 1e-3);
        }
    }

    #[test]
    fn whole_frames_that_are_lost_leave_the_rates() {
        let (frames, starts) = run(Scan::Progressive, |number| number / 10 % 7 == 3 || number % 97 == 0);
        assert!(starts < 520, "{starts}");
        assert_eq!((frames.packets(), frames.marker_errors, frames.left_out), (Some(10), 0, 0));
        assert!((frames.received_hz().unwrap() - 60.0).abs() < 0.01, "{:?}", frames.received_hz());
        assert!((frames.stamped_hz().unwrap() - 59.94).abs() < 0.01, "{:?}", frames.stamped_hz());
    }

    #[test]
    fn frames_that_the_sender_leaves_out_are_counted_and_leave_the_rate() {
        let (mut frames, mut statistics) = (Frames::new(Scan::Progressive), Statistics::new(90_000));
        let mut sequence = 0u16;
        for frame in (0..100u64).filter(|frame| frame % 10 != 1) {
            for index in 0..4 {
                let timestamp = frame as u32 * 3_600;
                let header = Header { marker: index == 3, payload_type: 96, sequence, timestamp, ssrc: 1 };
                let at = Time::from_millis(40 * frame);
                let arrival = statistics.push(&header, at);
                frames.push(&header, arrival, false, at);
                sequence += 1;
            }
        }
        // The first one of them was at the place that was joined.
        assert_eq!((frames.stamped_hz(), frames.left_out), (Some(25.0), 9));
        assert!((frames.received_hz().unwrap() - 22.5).abs() < 0.2, "{:?}", frames.received_hz());
    }

    /// Takes packets of the frames of these stamps, with so many packets each; a marker ends each frame.
    fn take(frames: &mut Frames, sequence: &mut u16, ssrc: u32, stamps: &[(u32, u64)]) {
        let mut statistics = Statistics::new(90_000);
        for (timestamp, packets) in stamps {
            for index in 0..*packets {
                let marker = index + 1 == *packets;
                let header =
                    Header { marker, payload_type: 96, sequence: *sequence, timestamp: *timestamp, ssrc };
                let at = Time::from_nanos(u64::from(*timestamp) * 100_000 / 9);
                frames.push(&header, statistics.push(&header, at), false, at);
                *sequence = sequence.wrapping_add(1);
            }
        }
    }

    #[test]
    fn the_frame_that_was_joined_and_the_one_that_goes_on_are_not_counted() {
        let (mut frames, mut sequence) = (Frames::new(Scan::Progressive), 0);
        take(&mut frames, &mut sequence, 1, &[(0, 2)]);
        assert_eq!((frames.count, frames.range, frames.received_hz()), (0, None, None));
        take(&mut frames, &mut sequence, 1, &[(3_600, 5), (7_200, 5), (10_800, 1)]);
        assert_eq!((frames.count, frames.range), (2, Some(Range { min: 5, max: 5 })));
        assert_eq!((frames.packets(), frames.stamped_hz()), (Some(5), Some(25.0)));
    }

    #[test]
    fn frames_of_different_sizes_are_a_range_and_of_no_known_size() {
        let (mut frames, mut sequence) = (Frames::new(Scan::Progressive), 0);
        let stamps: Vec<_> = (0..9).map(|frame| (3_600 * frame, 4 + u64::from(frame % 3))).collect();
        take(&mut frames, &mut sequence, 1, &stamps);
        assert_eq!((frames.packets(), frames.range), (None, Some(Range { min: 4, max: 6 })));
    }

    #[test]
    fn a_frame_without_a_marker_and_one_with_two_are_errors() {
        for markers in [0, 2] {
            let (mut frames, mut statistics) = (Frames::new(Scan::Progressive), Statistics::new(90_000));
            for (sequence, frame) in (0..16_u16).map(|sequence| (sequence, sequence / 4)) {
                let wanted = if frame == 2 { markers } else { 1 };
                let marker = 3 - sequence % 4 < wanted;
                let timestamp = u32::from(frame) * 3_600;
                let header = Header { marker, payload_type: 96, sequence, timestamp, ssrc: 1 };
                let at = Time::from_millis(40 * u64::from(frame));
                frames.push(&header, statistics.push(&header, at), false, at);
            }
            assert_eq!((frames.count, frames.marker_errors), (2, 1), "{markers}");
        }
    }

    #[test]
    fn packets_that_have_no_place_in_the_order_are_of_no_frame() {
        let mut frames = Frames::new(Scan::Progressive);
        let header = Header { marker: true, payload_type: 96, sequence: 1, timestamp: 0, ssrc: 1 };
        let arrivals = [Arrival::Late { number: 1 }, Arrival::Duplicate { number: 1 }, Arrival::Stray];
        assert!(
            arrivals.into_iter().all(|arrival| frames.push(&header, arrival, false, Time::ZERO).is_none())
        );
        let step = frames.push(&header, Arrival::Next { number: 1 }, false, Time::ZERO);
        assert_eq!(step, Some(Step { is_start: true, missing: 0, is_missing_here: true }));
    }

    #[test]
    fn a_stream_that_begins_anew_is_rated_anew() {
        let (mut frames, mut sequence) = (Frames::new(Scan::Progressive), 0);
        let at = |rate: u32, frame: u32| (frame * 90_000 / rate, 4);
        take(&mut frames, &mut sequence, 1, &(0..20).map(|frame| at(50, frame)).collect::<Vec<_>>());
        assert_eq!((frames.rate(), frames.packets()), (FrameRate::new(50, 1), Some(4)));
        let header = Header { marker: false, payload_type: 96, sequence, timestamp: 7, ssrc: 2 };
        let restart = Arrival::Restart { number: 1_000_000 };
        assert!(frames.push(&header, restart, false, Time::ZERO).is_some_and(|step| step.is_start));
        assert_eq!((frames.rate(), frames.packets(), frames.stamped_hz()), (None, None, None));
    }
}
