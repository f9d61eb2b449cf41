//! Splits the payload of a PES packet of sound into access units, each with its time.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::access_unit::Codec;
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::{ac3, adts, latm, mpeg_audio, opus};
use crate::time::Ticks;
use bytes::Bytes;

/// An access unit, before it has a stream.
pub(in crate::container) struct Unit {
    pub(in crate::container) data: Bytes,
    pub(in crate::container) pts: Ticks,
    pub(in crate::container) dts: Ticks,
}

/// Splits the PES packets of one stream.
#[derive(Clone, Debug)]
pub(in crate::container) struct Splitter {
    codec: Codec,
    /// The begun frame at the end of the last PES packet; shorter than a frame, so below 8 KiB.
    carry: Vec<u8>,
    /// When the unit after the last one is due, for those that have no stamp of their own: the last stamp and the samples since.
    next: Option<Ticks>,
    samples: u32,
    gathered: Gathered,
    /// Of AAC in LATM.
    latm: Option<latm::Reader>,
}

impl Splitter {
    pub(in crate::container) fn new(codec: Codec) -> Splitter {
        Splitter {
            codec,
            carry: Vec::new(),
            next: None,
            samples: 0,
            gathered: Gathered::default(),
            latm: None,
        }
    }

    /// Splits AAC that comes in LATM.
    pub(super) fn of_latm() -> Splitter {
        Splitter { latm: Some(latm::Reader::new()), ..Splitter::new(Codec::Aac) }
    }

    /// That it is HE-AAC, where its configuration in LATM says so.
    pub(super) fn he_aac(&self) -> Option<HeAac> {
        self.latm.as_ref().and_then(latm::Reader::he_aac)
    }

    /// Forgets what was begun, as after loss.
    pub(super) fn reset(&mut self) {
        self.carry.clear();
        self.next = None;
        self.gathered = Gathered::default();
    }

    /// Calls `give` with each unit in `payload`. `stamps` are PTS and DTS of the first unit that begins in it;
    /// units of which no time is known are dropped.
    pub(in crate::container) fn split(
        &mut self,
        payload: &Bytes,
        stamps: Option<(Ticks, Ticks)>,
        give: &mut dyn FnMut(Unit),
    ) {
        match self.codec {
            Codec::Opus => self.split_opus(payload, stamps, give),
            Codec::Aac | Codec::MpegAudio | Codec::Ac3 | Codec::EAc3 => {
                self.split_frames(payload, stamps, give);
            }
            _ => {
                let Some((pts, dts)) = stamps.filter(|_| !payload.is_empty()) else { return };
                give(Unit { data: payload.clone(), pts, dts });
            }
        }
    }

    fn split_opus(&mut self, payload: &Bytes, stamps: Option<(Ticks, Ticks)>, give: &mut dyn FnMut(Unit)) {
        self.anchor(stamps.map(|(pts, _)| pts));
        for (_, packet) in opus::packets(payload) {
            let Some(samples) = opus::duration_samples(packet) else { continue };
            if let Some(pts) = self.due(opus::RATE_HZ) {
                give(Unit { data: payload.slice_ref(packet), pts, dts: pts });
            }
            self.samples = self.samples.saturating_add(samples);
        }
    }

    /// Counts samples from a new stamp on, if there is one.
    fn anchor(&mut self, stamp: Option<Ticks>) {
        if stamp.is_some() {
            self.next = stamp;
            self.samples = 0;
        }
    }

    /// When the next run of samples is due.
    fn due(&self, rate_hz: u32) -> Option<Ticks> {
        let ticks = i64::from(self.samples).saturating_mul(Ticks::RATE.into());
        Some(self.next? + Ticks(ticks.checked_div(rate_hz.into()).unwrap_or(0)))
    }

    /// Splits frames that say how long they are, which may go on in the next PES packet.
    fn split_frames(&mut self, payload: &Bytes, stamps: Option<(Ticks, Ticks)>, give: &mut dyn FnMut(Unit)) {
        let carried = self.carry.len();
        let joined;
        let bytes = if carried == 0 {
            payload
        } else {
            self.carry.extend_from_slice(payload);
            joined = Bytes::from(std::mem::take(&mut self.carry));
            &joined
        };
        let mut stamp = stamps.map(|(pts, _)| pts);
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let is_latm = self.latm.is_some();
            if rest.len() < if is_latm { latm::HEADER_BYTES } else { header_bytes(self.codec) } {
                break;
            }
            let element = || latm::element_bytes(rest).map(|bytes| Frame::whole(bytes, 0, 0));
            let Some(frame) = (if is_latm { element() } else { Frame::parse(self.codec, rest) }) else {
                at = at.saturating_add(1);
                continue;
            };
            let end = at.saturating_add(frame.bytes);
            if end > bytes.len() {
                break;
            }
            // The PES packet's stamp is that of the first frame that begins in it.
            let begins_here = at >= carried;
            if begins_here {
                self.anchor(stamp.take());
            }
            if is_latm {
                self.take_element(&bytes[at..end], give);
            } else if frame.is_taken {
                self.take(&frame, bytes.slice(at..end), give);
            }
            at = end;
        }
        self.carry = bytes[at..].to_vec();
        // The begun frame is the first that begins here: its stamp is known now.
        if at >= carried && at < bytes.len() {
            self.anchor(stamp);
        }
    }

    /// Gives the frames of an element of LATM.
    fn take_element(&mut self, element: &[u8], give: &mut dyn FnMut(Unit)) {
        let mut frames = Vec::new();
        if let Some(reader) = &mut self.latm {
            reader.read(element, &mut frames);
        }
        for latm::Frame { header, data } in frames {
            if let Some(pts) = self.due(header.rate_hz) {
                give(Unit { data: data.into(), pts, dts: pts });
            }
            self.samples = self.samples.saturating_add(header.samples());
        }
    }

    /// Gives a frame as a unit, or with those before it that are the rest of one.
    fn take(&mut self, frame: &Frame, data: Bytes, give: &mut dyn FnMut(Unit)) {
        let due = self.due(frame.rate_hz);
        self.samples = self.samples.saturating_add(frame.samples);
        if frame.unit_samples <= frame.samples {
            self.gathered = Gathered::default();
            if let Some(pts) = due {
                give(Unit { data, pts, dts: pts });
            }
            return;
        }
        let gathered = &mut self.gathered;
        gathered.pts = gathered.pts.or(due);
        gathered.samples = gathered.samples.saturating_add(frame.samples);
        gathered.data.extend_from_slice(&data);
        if gathered.samples >= frame.unit_samples {
            let Gathered { data, pts, .. } = std::mem::take(gathered);
            if let Some(pts) = pts {
                give(Unit { data: data.into(), pts, dts: pts });
            }
        }
    }
}

/// The frames of a unit that is made of several; at most the blocks of one unit.
#[derive(Clone, Debug, Default)]
struct Gathered {
    data: Vec<u8>,
    samples: u32,
    pts: Option<Ticks>,
}

/// What a frame's header says.
struct Frame {
    bytes: usize,
    rate_hz: u32,
    samples: u32,
    /// Samples of a whole access unit.
    unit_samples: u32,
    /// It is part of the sound that is taken.
    is_taken: bool,
}

/// Bytes that tell a frame's length.
fn header_bytes(codec: Codec) -> usize {
    match codec {
        Codec::Aac => adts::HEADER_BYTES,
        Codec::MpegAudio => mpeg_audio::HEADER_BYTES,
        _ => ac3::HEADER_BYTES,
    }
}

impl Frame {
    fn parse(codec: Codec, bytes: &[u8]) -> Option<Frame> {
        match codec {
            Codec::Aac => adts::Header::parse(bytes)
                .map(|header| Frame::whole(header.frame_bytes, header.rate_hz, header.samples())),
            Codec::MpegAudio => mpeg_audio::Header::parse(bytes)
                .map(|header| Frame::whole(header.frame_bytes, header.rate_hz, header.samples)),
            _ => ac3::Header::parse(bytes).filter(|header| header.enhanced == (codec == Codec::EAc3)).map(
                |header| Frame {
                    unit_samples: ac3::UNIT_SAMPLES,
                    is_taken: header.begins_unit(),
                    ..Frame::whole(header.frame_bytes, header.rate_hz, header.samples())
                },
            ),
        }
    }

    /// One that is an access unit.
    fn whole(bytes: usize, rate_hz: u32, samples: u32) -> Frame {
        Frame { bytes, rate_hz, samples, unit_samples: samples, is_taken: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame of each kind, `number` in its last byte.
    fn frame(kind: usize, number: u8) -> Vec<u8> {
        let (head, bytes): (&[u8], usize) = match kind {
            // Layer III, 48 kHz, 64 kbit/s: 192 bytes.
            0 => (&[0xff, 0xfb, 0x54, 0x00], 192),
            // AC-3, 48 kHz, 32 kbit/s: 128 bytes.
            1 => (&[0x0b, 0x77, 0x55, 0x55, 0x00, 0x40, 0x43, 0x55], 128),
            // E-AC-3, 48 kHz, six blocks and two: 100 bytes.
            2 => (&[0x0b, 0x77, 0x00, 0x31, 0x34, 0x86, 0x55, 0x55], 100),
            3 => (&[0x0b, 0x77, 0x00, 0x31, 0x14, 0x86, 0x55, 0x55], 100),
            // AAC, 48 kHz: 40 bytes.
            _ => (&[0xff, 0xf1, 0x4c, 0x80, 0x05, 0x1f, 0xfc], 40),
        };
        let mut frame = head.to_vec();
        frame.resize(bytes - 1, 0x22);
        frame.push(number);
        frame
    }

    const CODECS: [Codec; 5] = [Codec::MpegAudio, Codec::Ac3, Codec::EAc3, Codec::EAc3, Codec::Aac];
    /// Ticks of an access unit, and frames in it.
    const UNITS: [(i64, usize); 5] = [(2160, 1), (2880, 1), (2880, 1), (2880, 3), (1920, 1)];

    proptest! {
        /// mkvtoolnix #1864: frames go on in the next PES packet, whose stamp is that of the first that begins in it.
        #[test]
        fn frames_cut_anywhere_are_whole_and_in_time(
            kind in 0usize..5, count in 1usize..12, cuts in proptest::collection::btree_set(1usize..2000, 0..10),
        ) {
            let (ticks, per_unit) = UNITS[kind];
            let frames: Vec<Vec<u8>> = (0..count * per_unit).map(|number| frame(kind, number as u8)).collect();
            let wire = frames.concat();
            let length = frames[0].len();
            let cuts = cuts.into_iter().filter(|&cut| cut < wire.len());
            let bounds: Vec<usize> = [0].into_iter().chain(cuts).chain([wire.len()]).collect();
            let mut splitter = Splitter::new(CODECS[kind]);
            let mut found = Vec::new();
            for pair in bounds.windows(2) {
                // What begins in it.
                let first = pair[0].div_ceil(length);
                let stamp = Ticks(first as i64 * ticks / per_unit as i64);
                let stamps = (first * length < pair[1]).then_some((stamp, stamp));
                let payload = Bytes::copy_from_slice(&wire[pair[0]..pair[1]]);
                splitter.split(&payload, stamps, &mut |unit| found.push((unit.pts.0, unit.data.to_vec())));
            }
            let wanted: Vec<_> = frames.chunks(per_unit).map(<[Vec<u8>]>::concat).zip(0..).collect();
            prop_assert_eq!(found.len(), wanted.len());
            for ((pts, data), (wanted, number)) in found.into_iter().zip(wanted) {
                prop_assert_eq!(pts, number * ticks);
                prop_assert_eq!(data, wanted);
            }
        }
    }
}
