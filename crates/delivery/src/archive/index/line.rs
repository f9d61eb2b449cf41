//! Lines of a part of an index, as JSON has them: written, and read with all that cannot be refused.

use super::{
    Hole, HoleReason, KEY_FRAMES_MAX, Line, MpegTsSegment, RecordedSegment, SEGMENT_MAX, SEGMENT_MAX_BYTES,
};
use crate::packager::{KeyFrame, Kind, RenditionName, TrackInfo, duration_of};
use crate::playlist::{date_time_micros, parse_date_time};
use glassline_media::bitstream::h264::ColourDescription;
use glassline_media::bitstream::hdr::Range;
use glassline_media::{FrameRate, Utc};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The longest name of a codec (RFC 6381): those of AV1 with all their fields take 40 letters.
const CODEC_MAX_BYTES: usize = 64;

/// A line. One that has none of these is left out.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct JsonLine<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    track: Option<JsonTrack<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    segment: Option<JsonSegment<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    ts: Option<JsonMpegTs<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    hole: Option<JsonHole<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct JsonTrack<'a> {
    #[serde(borrow)]
    rendition: Cow<'a, str>,
    epoch: u32,
    #[serde(borrow)]
    codec: Cow<'a, str>,
    timescale: u32,
    #[serde(default)]
    sample: u32,
    #[serde(default)]
    chunk: u32,
    #[serde(default)]
    part: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_rate: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_aspect: Option<(u16, u16)>,
    /// Full range, primaries, transfer, matrix (H.273).
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<(bool, u8, u8, u8)>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    range: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    language: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Serialize)]
struct JsonSegment<'a> {
    #[serde(borrow)]
    rendition: Cow<'a, str>,
    number: u64,
    epoch: u32,
    start: u64,
    duration: u64,
    utc: String,
    #[serde(default, skip_serializing_if = "is_false")]
    captured: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    independent: bool,
    bytes: u64,
    #[serde(default)]
    crc32c: String,
    /// Time in ticks since the segment's start, offset and length in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<(u64, u64, u64)>,
}

#[derive(Deserialize, Serialize)]
struct JsonMpegTs<'a> {
    number: u64,
    bytes: u64,
    #[serde(borrow)]
    crc32c: Cow<'a, str>,
}

#[derive(Deserialize, Serialize)]
struct JsonHole<'a> {
    #[serde(borrow)]
    rendition: Cow<'a, str>,
    first: u64,
    last: u64,
    from: String,
    to: String,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
}

const fn yes() -> bool {
    true
}

// What serde wants here takes a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_true(value: &bool) -> bool {
    *value
}

/// The JSON of a line, without the line's end.
pub(super) fn write(line: &Line) -> String {
    let (rendition, language);
    let json = match line {
        Line::Track(name, track) => {
            rendition = name.to_string();
            language = match track.kind {
                Kind::Audio { language, .. } => {
                    language.and_then(|letters| String::from_utf8(letters.to_vec()).ok())
                }
                Kind::Video { .. } => None,
            };
            JsonLine {
                track: Some(track_json(&rendition, track, language.as_deref())),
                ..JsonLine::default()
            }
        }
        Line::Segment(name, segment) => {
            rendition = name.to_string();
            JsonLine { segment: Some(segment_json(&rendition, segment)), ..JsonLine::default() }
        }
        Line::Hole(hole) => {
            rendition = hole.rendition.to_string();
            let Hole { first, last, reason, .. } = *hole;
            let (from, to) = (date_time_micros(hole.from), date_time_micros(hole.to));
            let hole = JsonHole {
                rendition: Cow::Borrowed(&rendition),
                first,
                last,
                from,
                to,
                reason: reason.name().into(),
            };
            JsonLine { hole: Some(hole), ..JsonLine::default() }
        }
        Line::MpegTs(MpegTsSegment { number, bytes, crc32c }) => {
            let (number, bytes, crc32c) = (*number, *bytes, format!("{crc32c:08x}").into());
            JsonLine { ts: Some(JsonMpegTs { number, bytes, crc32c }), ..JsonLine::default() }
        }
        Line::Ended(utc) => JsonLine { ended: Some(date_time_micros(*utc)), ..JsonLine::default() },
    };
    serde_json::to_string(&json).unwrap_or_default()
}

fn track_json<'a>(rendition: &'a str, track: &'a TrackInfo, language: Option<&'a str>) -> JsonTrack<'a> {
    let mut json = JsonTrack {
        rendition: rendition.into(),
        epoch: track.epoch,
        codec: Cow::Borrowed(&track.codec),
        timescale: track.timescale,
        sample: track.sample_ticks,
        chunk: track.chunk_ticks,
        part: track.part_ticks,
        width: None,
        height: None,
        frame_rate: None,
        sample_aspect: None,
        colour: None,
        range: None,
        channels: None,
        rate: None,
        language: language.map(Cow::Borrowed),
    };
    match track.kind {
        Kind::Video { width_px, height_px, frame_rate, sample_aspect, colour, range } => {
            (json.width, json.height) = (Some(width_px), Some(height_px));
            json.frame_rate = frame_rate.map(|rate| (rate.numerator(), rate.denominator()));
            json.sample_aspect = sample_aspect;
            json.colour =
                colour.map(|colour| (colour.full_range, colour.primaries, colour.transfer, colour.matrix));
            json.range = (range != Range::Sdr).then(|| range.name().into());
        }
        Kind::Audio { channels, rate_hz, .. } => {
            (json.channels, json.rate) = (Some(channels), Some(rate_hz));
        }
    }
    json
}

fn segment_json<'a>(rendition: &'a str, segment: &RecordedSegment) -> JsonSegment<'a> {
    let keys = segment.key_frames.iter().take(KEY_FRAMES_MAX);
    JsonSegment {
        rendition: rendition.into(),
        number: segment.number,
        epoch: segment.epoch,
        start: segment.start,
        duration: segment.duration,
        utc: date_time_micros(segment.utc),
        captured: segment.captured,
        independent: segment.independent,
        bytes: segment.bytes,
        crc32c: format!("{:08x}", segment.crc32c),
        keys: keys.map(|key| (key.time, key.offset_bytes, key.size_bytes)).collect(),
    }
}

/// Reads a line. `Ok(None)`: it says nothing that this version knows.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(text: &str) -> Result<Option<Line>, String> {
    let json: JsonLine<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(track) = json.track {
        return read_track(&track).map(Some).map_err(str::to_owned);
    }
    if let Some(segment) = json.segment {
        return read_segment(&segment).map(Some).map_err(str::to_owned);
    }
    if let Some(ts) = json.ts {
        return read_mpeg_ts(&ts).map(Some).map_err(str::to_owned);
    }
    if let Some(hole) = json.hole {
        return read_hole(&hole).map(Some).map_err(str::to_owned);
    }
    json.ended.map(|ended| read_utc(&ended).map(Line::Ended).map_err(str::to_owned)).transpose()
}

fn read_utc(text: &str) -> Result<Utc, &'static str> {
    let utc = parse_date_time(text).ok_or("a time is no date and time of RFC 3339")?;
    // As it is written.
    Ok(Utc::from_micros(utc.as_micros()))
}

fn read_rendition(name: &str) -> Result<RenditionName, &'static str> {
    name.parse().map_err(|_| "no rendition has this name")
}

fn read_track(json: &JsonTrack<'_>) -> Result<Line, &'static str> {
    let rendition = read_rendition(&json.rendition)?;
    // It is put into playlists as it is.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if json.codec.is_empty() || json.codec.len() > CODEC_MAX_BYTES || !json.codec.bytes().all(is_plain) {
        return Err("a codec's name has other letters than those of RFC 6381");
    }
    if json.timescale == 0 {
        return Err("a time scale is 0");
    }
    let kind = if rendition.is_video() {
        let (width_px, height_px) = json.width.zip(json.height).ok_or("pictures have no size")?;
        let rate = |(numerator, denominator)| FrameRate::new(numerator, denominator);
        let colour = json.colour.map(|(full_range, primaries, transfer, matrix)| ColourDescription {
            full_range,
            primaries,
            transfer,
            matrix,
        });
        let ranges = [Range::Sdr, Range::Hlg, Range::Pq];
        let range =
            ranges.into_iter().find(|range| json.range.as_deref() == Some(range.name())).unwrap_or_default();
        let sample_aspect = json.sample_aspect.filter(|(width, height)| *width > 0 && *height > 0);
        let frame_rate = json.frame_rate.and_then(rate);
        Kind::Video { width_px, height_px, frame_rate, sample_aspect, colour, range }
    } else {
        let (channels, rate_hz) = json.channels.zip(json.rate).ok_or("sound has no channels or no rate")?;
        let letters = json.language.as_deref().and_then(|text| <[u8; 3]>::try_from(text.as_bytes()).ok());
        let language = letters.filter(|letters| letters.iter().all(u8::is_ascii_lowercase));
        Kind::Audio { channels, rate_hz, language }
    };
    let track = TrackInfo {
        epoch: json.epoch,
        codec: json.codec.clone().into_owned(),
        timescale: json.timescale,
        kind,
        sample_ticks: json.sample,
        chunk_ticks: json.chunk,
        part_ticks: json.part,
    };
    Ok(Line::Track(rendition, track))
}

fn read_crc(digits: &str) -> Result<u32, &'static str> {
    let is_hex = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let crc = is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
    crc.ok_or("a CRC has not 8 hexadecimal digits")
}

fn read_mpeg_ts(json: &JsonMpegTs<'_>) -> Result<Line, &'static str> {
    if !(1..=SEGMENT_MAX_BYTES).contains(&json.bytes) {
        return Err("a segment of MPEG-TS has no bytes, or more than 4 GiB");
    }
    let crc32c = read_crc(&json.crc32c)?;
    Ok(Line::MpegTs(MpegTsSegment { number: json.number, bytes: json.bytes, crc32c }))
}

fn read_segment(json: &JsonSegment<'_>) -> Result<Line, &'static str> {
    let rendition = read_rendition(&json.rendition)?;
    if json.bytes > SEGMENT_MAX_BYTES {
        return Err("a segment has more than 4 GiB");
    }
    if json.start.checked_add(json.duration).is_none_or(|end| end > u64::MAX / 4) {
        return Err("a segment ends after all time");
    }
    if json.keys.len() > KEY_FRAMES_MAX {
        return Err("a segment has more than 64 key frames");
    }
    let key_frame = |&(time, offset_bytes, size_bytes): &(u64, u64, u64)| {
        let end: Option<u64> = offset_bytes.checked_add(size_bytes);
        let is_inside = end.is_some_and(|end| end <= json.bytes) && time <= json.duration;
        if is_inside {
            Ok(KeyFrame { time, offset_bytes, size_bytes })
        } else {
            Err("a key frame is outside of its segment")
        }
    };
    let crc32c = match json.crc32c.as_str() {
        "" if json.bytes == 0 => 0,
        digits => read_crc(digits)?,
    };
    let segment = RecordedSegment {
        number: json.number,
        epoch: json.epoch,
        start: json.start,
        duration: json.duration,
        utc: read_utc(&json.utc)?,
        captured: json.captured,
        independent: json.independent,
        bytes: json.bytes,
        crc32c,
        key_frames: json.keys.iter().map(key_frame).collect::<Result<_, _>>()?,
    };
    Ok(Line::Segment(rendition, segment))
}

/// Whether a segment lasts as long as one may, by its track.
pub(super) fn is_bounded(segment: &RecordedSegment, track: &TrackInfo) -> bool {
    duration_of(segment.duration, track.timescale) <= SEGMENT_MAX
}

fn read_hole(json: &JsonHole<'_>) -> Result<Line, &'static str> {
    if json.last < json.first {
        return Err("a hole ends before it begins");
    }
    Ok(Line::Hole(Hole {
        rendition: read_rendition(&json.rendition)?,
        first: json.first,
        last: json.last,
        from: read_utc(&json.from)?,
        to: read_utc(&json.to)?,
        reason: HoleReason::of(&json.reason),
    }))
}
