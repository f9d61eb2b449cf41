//! Ancillary data beside the pictures (ST 2110-40): for each frame a time code, and the film's captions.

use super::captions::Captions;
use super::settings::{AncillarySettings, TimeCodeFrom};
use super::statistics::{CaptionStatistics, Monitor};
use super::way::Way;
use super::{Error, Result, packet_numbers};
use crate::capture::FfmpegInput;
use glassline_media::{FrameRate, Time, Utc};
use glassline_transport::ancillary::{Field, Numbering, Packetizer, PacketizerSettings, TimeCode};
use std::time::Duration;

const DAY_NANOS: u64 = 86_400 * 1_000_000_000;
/// Where counting and the clock are further apart than this, counting begins anew: the clock was set, or the rate's numbers do
/// not keep to it.
const APART: u64 = 2;

/// Which time code frames have. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeCodes {
    /// The first one's of a file; those behind it count from there.
    Counted { numbering: Numbering, start: TimeCode },
    /// The time of day in UTC, counted from a frame's on.
    Clock { numbering: Numbering, since: Option<(Time, TimeCode)> },
}

/// What is known of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its number in the file, from 0.
    pub(super) number: u64,
    pub(super) captured: Time,
    /// The same by the wall clock.
    pub(super) utc: Utc,
}

impl TimeCodes {
    /// Of frames at `rate`, of a file where `file` is one; `None` where it has none and none is asked for.
    ///
    /// # Errors
    /// [`Error::TimeCode`].
    pub(super) fn of(
        file: Option<&FfmpegInput>,
        wanted: TimeCodeFrom,
        rate: FrameRate,
    ) -> Result<Option<TimeCodes>> {
        Ok(match (wanted, file.and_then(FfmpegInput::time_code)) {
            (TimeCodeFrom::Start(start), _) => {
                let numbering = Numbering::new(rate, start.is_drop_frame);
                if !numbering.has(start) {
                    let why = "frames count up to 29 at most, and drop-frame numbers are for 30000/1001 and 60000/1001";
                    return Err(Error::TimeCode(format!("{start} at {rate} pictures a second: {why}")));
                }
                Some(TimeCodes::Counted { numbering, start })
            }
            (TimeCodeFrom::Clock, _) => Some(TimeCodes::clock(rate)),
            (TimeCodeFrom::Source, Some(text)) => match text.parse::<TimeCode>() {
                Ok(start) => {
                    let numbering = Numbering::new(rate, start.is_drop_frame);
                    Some(TimeCodes::Counted { numbering, start: numbering.shared(start) })
                }
                Err(error) => {
                    tracing::warn!("the film's time code is not sent: {error}");
                    None
                }
            },
            (TimeCodeFrom::Source, None) => None,
        })
    }

    fn clock(rate: FrameRate) -> TimeCodes {
        TimeCodes::Clock { numbering: Numbering::new(rate, Numbering::wants_drops(rate)), since: None }
    }

    /// The time code of a frame.
    fn next(&mut self, place: Place, rate: FrameRate) -> TimeCode {
        match self {
            TimeCodes::Counted { numbering, start } => numbering.behind(*start, place.number),
            TimeCodes::Clock { numbering, since } => {
                let now = numbering.at(Duration::from_nanos(place.utc.as_nanos() % DAY_NANOS));
                let (began, start) = since.get_or_insert((place.captured, now));
                let code = numbering.behind(*start, rate.pictures_in(place.captured.since(*began)));
                if numbering.apart(code, now) <= APART {
                    return code;
                }
                *since = Some((place.captured, now));
                now
            }
        }
    }
}

/// What goes beside frames.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) codes: Option<TimeCodes>,
    pub(super) captions: Option<Captions>,
}

/// Sends a frame's time code and captions beside it.
#[derive(Debug)]
pub(super) struct AncillarySender {
    beside: Beside,
    rate: FrameRate,
    packetizer: Packetizer,
    ways: Vec<Way>,
    monitor: Monitor,
}

impl AncillarySender {
    /// Opens the paths, where there is something to send.
    ///
    /// # Errors
    /// The paths', and where the system gives no random numbers.
    pub(super) fn open(
        beside: Beside,
        (settings, datagram_bytes, dscp): (&AncillarySettings, usize, Option<u8>),
        rate: FrameRate,
        monitor: Monitor,
    ) -> Result<Option<AncillarySender>> {
        if beside.codes.is_none() && beside.captions.is_none() {
            return Ok(None);
        }
        if beside.captions.is_some() {
            monitor.update(|statistics| {
                statistics.ancillary.get_or_insert_default().captions = Some(CaptionStatistics::default());
            });
        }
        let numbers = packet_numbers()?;
        let packetizer = Packetizer::new(PacketizerSettings {
            payload_type: settings.payload_type,
            ssrc: numbers.ssrc,
            first_sequence: numbers.sequence,
            datagram_bytes,
        });
        let ways = Way::open_all(&settings.paths, dscp)?;
        Ok(Some(AncillarySender { beside, rate, packetizer, ways, monitor }))
    }

    /// Whether frames' time codes are sent.
    pub(super) fn has_time_code(&self) -> bool {
        self.beside.codes.is_some()
    }

    /// Whether the film's captions are sent.
    pub(super) fn has_captions(&self) -> bool {
        self.beside.captions.is_some()
    }

    /// Waits for what the first frame needs, up to seconds.
    pub(super) fn wait(&self) {
        if let Some(captions) = &self.beside.captions {
            captions.wait();
        }
    }

    /// Sends what belongs to a frame of these stamps; the two differ where its fields are of two times.
    pub(super) fn frame(&mut self, place: Place, [first, second]: [u32; 2]) {
        let Beside { codes, captions } = &mut self.beside;
        let code = codes.as_mut().and_then(|codes| codes.next(place, self.rate).packet());
        let (cdp, has_captions) = captions.as_mut().map(|captions| captions.next(place.number)).unzip();
        let packets: Vec<_> = code.into_iter().chain(cdp.and_then(|cdp| cdp.packet())).collect();
        let lost = captions.as_ref().map(Captions::lost);
        let AncillarySender { packetizer, ways, monitor, .. } = self;
        let (mut sent, mut failed, mut failure) = (0, 0, None);
        let mut send = |datagram: &[u8]| {
            sent += 1;
            for way in ways.iter_mut() {
                if let Err(why) = way.send(datagram) {
                    failed += 1;
                    failure = Some(why);
                }
            }
        };
        let has_fields = first != second;
        let field = if has_fields { Field::First } else { Field::Unspecified };
        packetizer.frame(first, field, &packets, &mut send);
        if has_fields {
            packetizer.frame(second, Field::Second, &[], &mut send);
        }
        monitor.update(|statistics| {
            let ancillary = statistics.ancillary.get_or_insert_default();
            ancillary.packets += sent;
            ancillary.failed_packets += failed;
            if failure.is_some() {
                ancillary.failure = failure;
            }
            if let (Some(captions), Some((dropped, failure))) = (&mut ancillary.captions, lost) {
                captions.frames += u64::from(has_captions == Some(true));
                (captions.dropped, captions.failure) = (dropped, failure);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(above: u32, below: u32) -> FrameRate {
        FrameRate::new(above, below).unwrap()
    }

    fn codes(mut codes: TimeCodes, rate: FrameRate, places: impl IntoIterator<Item = Place>) -> Vec<String> {
        places.into_iter().map(|place| codes.next(place, rate).to_string()).collect()
    }

    /// Frame `number` at `rate` of a source whose first one was captured at 12:00:00 by the wall clock.
    fn place(number: u64, rate: FrameRate) -> Place {
        let time = rate.time_of(number);
        let noon =
            Utc::from_nanos(1_700_000_000 / 86_400 * DAY_NANOS + DAY_NANOS / 2 + time.as_nanos() as u64);
        Place { number, captured: Time::from_millis(5_000) + time, utc: noon }
    }

    #[test]
    fn a_file_s_frames_count_from_its_own_time_code() {
        let start = TimeCodeFrom::Start("00:00:59;28".parse().unwrap());
        let rate = rate(30_000, 1001);
        let counted = TimeCodes::of(None, start, rate).unwrap().unwrap();
        let seen = codes(counted, rate, (0..3).map(|number| place(number, rate)));
        assert_eq!(seen, ["00:00:59;28", "00:00:59;29", "00:01:00;02"]);
        let whole = FrameRate::new(25, 1).unwrap();
        assert!(matches!(TimeCodes::of(None, start, whole), Err(Error::TimeCode(_))));
        let beyond = TimeCodeFrom::Start("10:00:00:25".parse().unwrap());
        assert!(matches!(TimeCodes::of(None, beyond, whole), Err(Error::TimeCode(_))));
        assert_eq!(TimeCodes::of(None, TimeCodeFrom::Source, rate).unwrap(), None);
    }

    #[test]
    fn the_clock_s_time_code_goes_on_frame_by_frame_and_follows_a_clock_that_is_set() {
        let rate = rate(50, 1);
        let mut clock = TimeCodes::clock(rate);
        // What stamps lose below a nanosecond moves no number.
        let jittering = |number: u64| {
            let place = place(number, rate);
            Place { utc: Utc::from_nanos(place.utc.as_nanos() - number % 3), ..place }
        };
        let seen: Vec<_> = (0..200).map(|number| clock.next(jittering(number), rate).to_string()).collect();
        assert_eq!((&seen[0][..], &seen[1][..], &seen[2][..]), ("12:00:00:00", "12:00:00:00", "12:00:00:01"));
        assert_eq!(seen[199], "12:00:03:24");
        let place = place(200, rate);
        let set = Place { utc: Utc::from_nanos(place.utc.as_nanos() + 60 * 1_000_000_000), ..place };
        assert_eq!(clock.next(set, rate).to_string(), "12:01:04:00");
    }

    #[test]
    fn slow_rates_keep_to_the_clock() {
        for (above, below) in [(24_000, 1001), (30_000, 1001), (60_000, 1001)] {
            let rate = rate(above, below);
            let mut clock = TimeCodes::clock(rate);
            for number in 0..u64::from(above / 100) * 6 {
                let code = clock.next(place(number, rate), rate);
                let seconds = u64::from(code.minutes) * 60 + u64::from(code.seconds);
                let passed = rate.time_of(number).as_secs_f64() - seconds as f64;
                assert!((-0.15..1.15).contains(&passed), "{code} after {passed} s");
            }
        }
    }
}
