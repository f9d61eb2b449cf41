//! The parameters of uncompressed audio (RFC 3190, AES67, ST 2110-30).

use super::error::SectionError;
use super::parameters::{Parameters, decimal};
use std::time::Duration;

/// AES67 §7.2: what every receiver takes, and what a description means that says nothing.
const DEFAULT_PACKET_TIME_MS: &str = "1";
/// Of level C of ST 2110-30.
const MAX_CHANNELS: u8 = 64;
const MAX_PACKET_TIME: Duration = Duration::from_millis(100);
const NANOS: u64 = 1_000_000_000;

/// Uncompressed audio: whole samples of all channels, big endian, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// Bits a sample: 16 (L16) or 24 (L24).
    pub bits: u8,
    /// Samples a second.
    pub rate_hz: u32,
    /// Channels, 1 to 64.
    pub channels: u8,
    /// What a packet has (`a=ptime`): a whole number of samples, rounded down to the nanosecond. 1 ms where nothing is said.
    pub packet_time: Duration,
    /// What the channels are (`channel-order`, ST 2110-30 §6.2.2), as `SMPTE2110.(ST)`.
    pub channel_order: Option<String>,
}

impl Audio {
    /// Samples of each channel in a packet.
    pub fn packet_samples(&self) -> u32 {
        samples(self.packet_time.as_nanos(), self.rate_hz)
    }

    /// `encoding` is L16 or L24; `channels` stands behind the rate in `a=rtpmap`.
    pub(super) fn parse(
        (bits, rate_hz): (u8, u32),
        channels: Option<&str>,
        packet_time: Option<&str>,
        parameters: &Parameters,
    ) -> Result<Audio, SectionError> {
        if !(8_000..=192_000).contains(&rate_hz) {
            let wanted = "audio of 8000 to 192000 samples a second is";
            return Err(SectionError::value("rtpmap", &format!("L{bits}/{rate_hz}"), wanted));
        }
        let channels = channels.map_or(Ok(1), |text| {
            let count = text.trim().parse().ok().filter(|count| (1..=MAX_CHANNELS).contains(count));
            count.ok_or_else(|| SectionError::value("channels", text, "1 to 64 channels are"))
        })?;
        let text = packet_time.unwrap_or(DEFAULT_PACKET_TIME_MS).trim();
        let wanted = "it is milliseconds of at least one sample, up to 100";
        let packet_time =
            parse_packet_time(text, rate_hz).ok_or_else(|| SectionError::value("ptime", text, wanted))?;
        let channel_order = parameters.get("channel-order").map(str::to_owned);
        Ok(Audio { bits, rate_hz, channels, packet_time, channel_order })
    }

    /// Whether the packets of two sections can be the same, as far as their parameters tell: the samples are the same.
    pub(super) fn has_samples_of(&self, other: &Audio) -> bool {
        let samples = |audio: &Audio| (audio.bits, audio.rate_hz, audio.channels, audio.packet_samples());
        samples(self) == samples(other)
    }

    /// The value of `a=rtpmap`, without the payload type.
    pub(super) fn encoding(&self) -> String {
        format!("L{}/{}/{}", self.bits, self.rate_hz, self.channels)
    }

    /// The value of `a=fmtp`, if there is one.
    pub(super) fn parameters(&self) -> Option<String> {
        self.channel_order.as_ref().map(|order| format!("channel-order={order}"))
    }

    /// The value of `a=ptime`: milliseconds, to the microsecond.
    pub(super) fn ptime(&self) -> String {
        let micros = self.packet_time.as_nanos().saturating_add(500) / 1000;
        let text = format!("{}.{:03}", micros / 1000, micros % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The nearest whole number of samples.
fn samples(nanos: u128, rate_hz: u32) -> u32 {
    let samples = nanos.saturating_mul(rate_hz.into()).saturating_add(500_000_000) / 1_000_000_000;
    u32::try_from(samples).unwrap_or(u32::MAX)
}

/// AES67 §7.2 writes 6 samples of 48 kHz as 0.12, and 16 as 0.33: what is meant is the nearest whole number of samples.
fn parse_packet_time(text: &str, rate_hz: u32) -> Option<Duration> {
    let nanos = decimal(text, 6)?;
    if u128::from(nanos) > MAX_PACKET_TIME.as_nanos() {
        return None;
    }
    let samples = samples(u128::from(nanos), rate_hz);
    let nanos = u64::from(samples).saturating_mul(NANOS).checked_div(rate_hz.into())?;
    (samples > 0).then(|| Duration::from_nanos(nanos))
}
