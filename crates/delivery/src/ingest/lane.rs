//! One track: what it is, and its units in order.

use super::counters::Counters;
use super::error::IngestError;
use super::order::Order;
use glassline_media::container::cmaf::{Media, ReadTrack};
use glassline_media::container::ts::AudioFormat;
use glassline_media::quantity::Bitrate;
use glassline_media::{AccessUnit, Codec, FrameRate, Ticks, Time};

/// A track.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) track: ReadTrack,
    pub(super) codec: Codec,
    pub(super) order: Order,
    /// It has said that it is over.
    pub(super) has_ended: bool,
    /// Units in a row that were not on the program's clock.
    pub(super) strays: u32,
    /// When its newest bytes came.
    pub(super) newest_at: Time,
    /// How long its first unit with a duration lasts.
    pub(super) unit_ticks: Ticks,
    /// Why nothing more of it is taken.
    pub(super) refused: Option<IngestError>,
}

/// The height of pictures, and how many of them come in a thousand seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    height: u32,
    millirate: u64,
}

impl Shape {
    /// What stands behind the name of a version of a stream: `720p50`.
    pub(super) fn name(self) -> String {
        format!("{}p{}", self.height, self.millirate.saturating_add(500) / 1000)
    }
}

impl Lane {
    pub(super) fn new(track: ReadTrack, codec: Codec, now: Time) -> Lane {
        Lane {
            track,
            codec,
            order: Order::default(),
            has_ended: false,
            strays: 0,
            newest_at: now,
            unit_ticks: Ticks(0),
            refused: None,
        }
    }

    pub(super) fn is_video(&self) -> bool {
        self.codec.is_video()
    }

    /// The sound's format; `None` for pictures.
    pub(super) fn sound(&self) -> Option<AudioFormat> {
        let channels = self.track.channels()?;
        Some(AudioFormat { codec: self.codec, channels, language: None, he_aac: self.track.he_aac() })
    }

    /// What its pictures are, as the header says or the first unit that waits; `None` where neither does.
    pub(super) fn shape(&self) -> Option<Shape> {
        let in_band = || Media::of(self.order.first()?, true).ok();
        let media = self.track.media.clone().or_else(in_band)?;
        let pictures = media.pictures()?;
        let seen = u32::try_from(self.unit_ticks.0).ok().filter(|&ticks| ticks > 0);
        let millirate = FrameRate::believed(pictures.frame_rate, seen).and_then(|rate| {
            let (pictures, seconds) = (u64::from(rate.numerator()), u64::from(rate.denominator()));
            pictures.saturating_mul(1000).saturating_add(seconds / 2).checked_div(seconds)
        });
        Some(Shape { height: pictures.height_px, millirate: millirate.unwrap_or(0) })
    }

    /// Bits a second as names tell them, where the header says it: `2M`, `500k`.
    pub(super) fn bitrate(&self) -> Option<Bitrate> {
        let thousands = u64::from(self.track.bitrate_bps?).saturating_add(500) / 1000;
        Some(Bitrate::from_bits_per_second(thousands.max(1).saturating_mul(1000)))
    }

    /// The first unit that waits, where there is one.
    pub(super) fn first(&self) -> Option<&AccessUnit> {
        self.order.first()
    }

    /// Takes no more of it: its requests are told with the next chunk.
    pub(super) fn refuse(&mut self, error: IngestError, counters: &mut Counters) {
        counters.refuse(1);
        self.order = Order::default();
        self.refused = Some(error);
    }
}
