//! What a stream says of its pictures' stages, and what a server says of those at which it passed them on.

use glassline_media::bitstream;
use glassline_media::stamps::Record;
use glassline_media::{Codec, Stage, Stamps, Time, Utc};
use serde::Deserialize;

/// The sender's last stage, which only the next picture tells.
pub(super) const SENDER_LAST: Stage = Stage::Sent;

/// A picture that waits for the next one.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When it was captured, if it says so.
    pub captured: Option<Utc>,
    pub(super) record: Option<Record>,
    /// When the socket gave its last byte.
    pub received: Time,
}

impl Waiting {
    /// The picture of an access unit of `codec`; the socket gave its last byte at `received`.
    pub fn of(codec: Codec, data: &[u8], received: Time) -> Waiting {
        let (mut head, _) = bitstream::head(codec, data);
        let said = head.find_map(|nal| {
            let sei = bitstream::messages(codec, &nal)?;
            Some((sei.capture_utc()?, sei.stamp_record()))
        });
        let (captured, record) = said.unzip();
        Waiting { captured, record: record.flatten(), received }
    }

    /// What `next` says of this picture's later stages, if it is the one behind it.
    pub fn told_by(&self, next: &Waiting) -> Option<Stamps> {
        let staged = self.record?.with_next(self.captured?, &next.record?, next.captured?)?;
        Some(staged).filter(|stamps| stamps.between(Stage::Captured, SENDER_LAST).is_some())
    }
}

/// When a server passed a picture on, as it says itself (`GET /live/NAME/stages.json`): microseconds after
/// [`RelayStages::captured_us`], by its wall clock. What is unknown is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RelayStages {
    /// The picture's capture in whole microseconds, as it stands in the stream.
    pub captured_us: u64,
    /// It had the last byte.
    pub relay_received: Option<i64>,
    /// The transport that brought it had held it back for its latency.
    pub relay_released: Option<i64>,
    /// Its viewers could have it.
    pub relay_flushed: Option<i64>,
    /// The first of them had been sent it.
    pub relay_sent: Option<i64>,
}

impl RelayStages {
    /// The stages with when each was passed, as nanoseconds of the wall clock.
    pub(super) fn all(&self) -> impl Iterator<Item = (Stage, i128)> {
        let captured = i128::from(self.captured_us);
        let stages = [
            (Stage::RelayReceived, self.relay_received),
            (Stage::RelayReleased, self.relay_released),
            (Stage::RelayFlushed, self.relay_flushed),
            (Stage::RelaySent, self.relay_sent),
        ];
        stages.into_iter().filter_map(move |(stage, after)| {
            Some((stage, captured.checked_add(i128::from(after?))?.checked_mul(1000)?))
        })
    }
}
