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
use crate::bitstream::{adts, opus};
use crate::time::Ticks;
use bytes::Bytes;

/// An access unit, before it has a stream.
pub(super) struct Unit {
    pub(super) data: Bytes,
    pub(super) pts: Ticks,
    pub(super) dts: Ticks,
}

/// Splits the PES packets of one stream.
#[derive(Clone, Debug)]
pub(super) struct Splitter {
    codec: Codec,
    /// The begun ADTS frame at the end of the last PES packet; shorter than a frame, so below 8 KiB.
    carry: Vec<u8>,
    /// When the unit after the last one is due, for those that have no stamp of their own: the last stamp and the samples since.
    next: Option<Ticks>,
    samples: u32,
}

impl Splitter {
    pub(super) fn new(codec: Codec) -> Splitter {
        Splitter { codec, carry: Vec::new(), next: None, samples: 0 }
    }

    /// Forgets what was begun, as after loss.
    pub(super) fn reset(&mut self) {
        self.carry.clear();
        self.next = None;
    }

    /// Calls `give` with each unit in `payload`. `stamps` are PTS and DTS of the first unit that begins in it;
    /// units of which no time is known are dropped.
    pub(super) fn split(
        &mut self,
        payload: &Bytes,
        stamps: Option<(Ticks, Ticks)>,
        give: &mut dyn FnMut(Unit),
    ) {
        match self.codec {
            Codec::Opus => self.split_opus(payload, stamps, give),
            Codec::Aac => self.split_adts(payload, stamps, give),
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

    fn split_adts(&mut self, payload: &Bytes, stamps: Option<(Ticks, Ticks)>, give: &mut dyn FnMut(Unit)) {
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
            if rest.len() < adts::HEADER_BYTES {
                break;
            }
            let Some(header) = adts::Header::parse(rest) else {
                at = at.saturating_add(1);
                continue;
            };
            let end = at.saturating_add(header.frame_bytes);
            if end > bytes.len() {
                break;
            }
            // The PES packet's stamp is that of the first frame that begins in it.
            let begins_here = at >= carried;
            if begins_here {
                self.anchor(stamp.take());
            }
            if let Some(pts) = self.due(header.rate_hz) {
                let data = bytes.slice(at..end);
                give(Unit { data, pts, dts: pts });
            }
            self.samples = self.samples.saturating_add(header.samples());
            at = end;
        }
        self.carry = bytes[at..].to_vec();
        // The begun frame is the first that begins here: its stamp is known now.
        if at >= carried && at < bytes.len() {
            self.anchor(stamp);
        }
    }
}
