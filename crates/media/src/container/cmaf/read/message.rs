//! What stands beside the samples, read: brands (`styp`), events (`emsg`) and times (`prft`).

use super::body::Body;
use super::error::{FourCc, ReadError};
use crate::container::cmaf::{EventMessage, EventTime, chunk};
use crate::time::Utc;

/// A time on the encoder's clock, and what in the track it belongs to (`prft`, ISO/IEC 14496-12 §8.16.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerTime {
    /// The track's number.
    pub track_id: u32,
    /// The encoder's time.
    pub utc: Utc,
    /// The presentation time that it belongs to, in ticks of the track.
    pub media_time: u64,
    /// What happened then: 24 is capture, 0 and 1 are entering and leaving the encoder, others are later.
    pub flags: u32,
}

impl ProducerTime {
    /// Whether it is when the sample was captured.
    pub fn is_capture(&self) -> bool {
        self.flags == chunk::CAPTURED
    }
}

/// Reads a `prft`.
pub(super) fn producer_time(mut prft: Body<'_>) -> Result<ProducerTime, ReadError> {
    let (version, flags) = prft.version_and_flags()?;
    let track_id = prft.u32("reference_track_ID")?;
    let utc = utc(prft.u64("ntp_timestamp")?);
    let media_time = prft.u32_or_u64(version, "media_time")?;
    Ok(ProducerTime { track_id, utc, media_time, flags })
}

/// The nearest nanosecond. Seconds that would lie before 1970 are those of the era that begins in 2036 (RFC 5905 §6).
fn utc(ntp: u64) -> Utc {
    let (seconds, fraction) = (ntp >> 32, ntp & 0xffff_ffff);
    let era = if seconds < chunk::NTP_EPOCH { 1 << 32 } else { 0 };
    let seconds = seconds.saturating_add(era).saturating_sub(chunk::NTP_EPOCH);
    let nanos = fraction.saturating_mul(1_000_000_000).saturating_add(1 << 31) >> 32;
    Utc::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Reads a `styp`: the major brand, and those that are compatible.
pub(super) fn brands(mut styp: Body<'_>) -> Result<Vec<FourCc>, ReadError> {
    let major = styp.u32("major_brand")?;
    styp.u32("minor_version")?;
    let compatible =
        styp.rest().chunks_exact(4).map(|brand| FourCc([brand[0], brand[1], brand[2], brand[3]]));
    Ok(std::iter::once(FourCc(major.to_be_bytes())).chain(compatible).collect())
}

/// Reads an `emsg` of version 0 or 1 (ISO/IEC 23009-1 §5.10.3.3).
pub(super) fn event(mut emsg: Body<'_>) -> Result<EventMessage, ReadError> {
    let (version, _) = emsg.version_and_flags()?;
    let mut texts = None;
    if version == 0 {
        texts = Some((text(&mut emsg, "scheme_id_uri")?, text(&mut emsg, "value")?));
    }
    let timescale = emsg.u32("timescale")?;
    let presentation_time = match version {
        0 => EventTime::After(emsg.u32("presentation_time_delta")?),
        1 => EventTime::At(emsg.u64("presentation_time")?),
        _ => return Err(emsg.unexpected("version", version.into(), "0 or 1")),
    };
    let duration = emsg.u32("event_duration")?;
    let id = emsg.u32("id")?;
    let (scheme_id_uri, value) = match texts {
        Some(texts) => texts,
        None => (text(&mut emsg, "scheme_id_uri")?, text(&mut emsg, "value")?),
    };
    let message_data = emsg.rest().to_vec();
    Ok(EventMessage { scheme_id_uri, value, timescale, presentation_time, duration, id, message_data })
}

/// A text that ends with NUL; what is not UTF-8 in it is replaced.
fn text(body: &mut Body<'_>, what: &'static str) -> Result<String, ReadError> {
    let end = body.rest().iter().position(|&byte| byte == 0).unwrap_or(body.rest().len());
    let text = body.take(end, what)?;
    body.take(1, what)?;
    Ok(String::from_utf8_lossy(text).into_owned())
}
