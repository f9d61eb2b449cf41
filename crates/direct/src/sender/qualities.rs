//! In which qualities a picture is encoded, and once more where none of them is what was wanted.

use super::Sender;
use super::pending::Pending;
use crate::coder::{CodingError, Encoded, Task};
use crate::settings::{CodecMode, SenderSettings};
use crate::wire::PictureHeader;
use glassline_codec::vp8::{Parallel, Quality};
use glassline_media::Time;
use std::time::Duration;

/// The least bytes that a search for a size aims at: below, the smallest frame is as good.
const SEARCH_LEAST: u64 = 1_000;
/// The share of what is expected to fit that a candidate of a given size aims at.
const SIZED_SHARE: f64 = 0.95;
/// Of the time to the next picture, the share after which there is none for a search of a size.
const SEARCH_BEFORE: f64 = 0.15;
/// Where a picture is encoded once: it is encoded once more where it is larger than what is expected to fit, or has less than this
/// share of that, as long as no more than this much of the time to the next picture is gone ([`Parallel::spent`]): it takes as long
/// again. (On three cellular traces in virtual time 0.35 in place of 0.7 makes pictures earlier by 0 to 10 ms at the 95th percentile,
/// for 0.1 to 0.2 dB; in real time, together with a horizon of 1.15 pictures in place of 1.35, by 14 to 41 ms.)
const MISSED_SHARE: f64 = 0.45;
const SECOND_BEFORE: f64 = 0.37;
/// What a second one aims at.
const SECOND_AIM: f64 = 0.9;
/// How often a conventional encoder is given another quantiser.
const CONVENTIONAL_INTERVAL: Duration = Duration::from_secs(1);

impl Sender {
    /// Whether there is time for [`Sender::choose`] to search for a size, when so much is gone since the picture was handed over.
    pub fn may_search(&self, spent: Duration) -> bool {
        // Without candidates that cost little a search is what keeps a picture from being left out.
        self.share(spent) < if self.coder.has_cheap_candidates() { SEARCH_BEFORE } else { SECOND_BEFORE }
    }

    /// A picture that needs no other, as large as may be; the smallest where none is small enough.
    pub(super) fn encode_key(
        &mut self,
        task: Task<'_>,
        expected: u64,
        parallel: &dyn Parallel,
    ) -> Result<Encoded, CodingError> {
        let target = (expected as usize).saturating_sub(PictureHeader::BYTES_MAX).max(1);
        match self.coder.encode_one(task, Quality::Bytes { target, never_above: true }, parallel) {
            Err(CodingError::Target { .. }) => self.coder.encode_one(task, Quality::Quantizer(127), parallel),
            other => other,
        }
    }

    /// The picture once more, where the codec makes one frame at a time and that one has another size than was wanted.
    pub(super) fn second(
        &mut self,
        task: Task<'_>,
        candidates: &[Encoded],
        expected: u64,
        parallel: &dyn Parallel,
    ) -> Result<Option<Encoded>, CodingError> {
        let [first] = candidates else { return Ok(None) };
        let bytes = (first.bytes.len() + PictureHeader::BYTES_USUAL) as f64;
        let is_met = bytes <= expected as f64 && bytes >= expected as f64 * MISSED_SHARE;
        let may = !self.coder.has_cheap_candidates()
            && self.settings.codec == CodecMode::Functional
            && self.settings.candidates > 1;
        if !may || is_met || parallel.spent() > SECOND_BEFORE {
            return Ok(None);
        }
        let SenderSettings { finest, .. } = self.settings;
        let quantizer = self.ladder.corrected(first.quantizer, bytes, expected as f64 * SECOND_AIM, finest);
        if self.coder.nearest(quantizer) == first.quantizer {
            return Ok(None);
        }
        self.coder.encode_one(task, Quality::Quantizer(quantizer), parallel).map(Some)
    }

    pub(super) fn qualities(
        &mut self,
        now: Time,
        task: Task<'_>,
        expected: u64,
        parallel: &dyn Parallel,
    ) -> Result<Vec<Quality>, CodingError> {
        let SenderSettings { candidates, finest, codec, .. } = self.settings;
        let candidates = if self.coder.has_cheap_candidates() { candidates } else { 1 };
        if codec == CodecMode::Functional {
            // One of the size that is expected to fit, and quantisers around it for a budget that changes meanwhile.
            let sized = candidates > 2 && expected >= SEARCH_LEAST;
            let indices = self.ladder.around(expected, candidates - usize::from(sized), finest);
            let quantizers = indices.into_iter().map(Quality::Quantizer);
            let target = (expected as f64 * SIZED_SHARE) as usize;
            let size = sized.then_some(Quality::Bytes { target, never_above: true });
            return Ok(quantizers.chain(size).collect());
        }
        let index = match self.conventional {
            Some((since, index)) if now.since(since) < CONVENTIONAL_INTERVAL => index,
            _ => {
                let quality =
                    Quality::Bytes { target: expected.max(SEARCH_LEAST) as usize, never_above: false };
                let encoded = self.coder.encode_one(task, quality, parallel)?;
                self.conventional = Some((now, encoded.quantizer));
                encoded.quantizer
            }
        };
        Ok(vec![Quality::Quantizer(index)])
    }

    /// Searches for a frame of the budget; whether there is one.
    pub(super) fn search(
        &mut self,
        pending: &mut Pending,
        budget: u64,
        head: usize,
        parallel: &dyn Parallel,
    ) -> Result<bool, CodingError> {
        let target = budget.saturating_sub(head as u64);
        if pending.source.is_none() || target < SEARCH_LEAST {
            return Ok(false);
        }
        let quality = Quality::Bytes { target: target as usize, never_above: true };
        match self.coder.encode_one(pending.task(), quality, parallel) {
            Ok(encoded) => {
                self.ladder.learn(&[(encoded.quantizer, encoded.bytes.len())]);
                pending.candidates.push(encoded);
                Ok(true)
            }
            Err(CodingError::Target { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }
}
