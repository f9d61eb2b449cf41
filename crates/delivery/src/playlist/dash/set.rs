//! An adaptation set and its one representation (23009-1 §5.3.3, §5.3.5).

use super::super::date::date_time;
use super::super::hls::language_of;
use super::Options;
use super::period::{Listing, Member, Period};
use super::segments::write_template;
use super::utc_timing::write_utc_timing;
use super::xml::Xml;
use crate::packager::{Kind, Rendition, RenditionName, Segment, TrackInfo, ticks_of};
use glassline_media::bitstream::h264::ColourDescription;
use glassline_media::bitstream::hdr::Range;

/// Writes a set: the one rendition of it, or the same rendition of several variants, of which players choose.
pub(super) fn write_set(
    xml: &mut Xml,
    members: &[Member<'_>],
    period: &Period<'_>,
    is_static: bool,
    options: &Options,
) {
    let told =
        members.iter().filter_map(|member| Some((member, member.rendition.track_in(member.epoch.number)?)));
    let told: Vec<_> = told.collect();
    let Some(&(first, track)) = told.first() else { return };
    let name = first.rendition.name();
    let starts_with_key = told.iter().all(|(member, _)| starts_with_key(member.rendition));
    xml.open("AdaptationSet")
        .attribute("id", set_id(name))
        .attribute("contentType", if name.is_video() { "video" } else { "audio" })
        .attribute("mimeType", if name.is_video() { "video/mp4" } else { "audio/mp4" });
    let alone = told.len() == 1;
    xml.attribute_if("codecs", alone.then_some(&track.codec))
        .attribute("segmentAlignment", "true")
        .attribute_if("startWithSAP", starts_with_key.then_some(1));
    if alone {
        write_format(xml, track);
    }
    // What chunks carry of events, those of the pictures or, where there are none, of the sound that segments are cut by.
    if period.sets.first().and_then(|set| set.first()).is_some_and(|lead| lead.rendition.name() == name) {
        for stream in period.events {
            xml.open("InbandEventStream")
                .attribute("schemeIdUri", stream.scheme_id_uri)
                .attribute("value", &stream.value)
                .close();
        }
    }
    if !is_static {
        write_reference_time(xml, first, period, options);
        let ticks = scaled(track.chunk_ticks.into(), track, period);
        xml.open("Resync").attribute("type", 0).attribute("dT", ticks).close();
    }
    xml.open("Role")
        .attribute("schemeIdUri", "urn:mpeg:dash:role:2011")
        .attribute("value", if set_id(name) <= 2 { "main" } else { "alternate" })
        .close();
    if alone {
        write_template(xml, first, track, period, is_static, options);
    }
    for (member, track) in told {
        let bandwidth = u32::try_from(member.rendition.bandwidth().peak_bps).unwrap_or(u32::MAX);
        xml.open("Representation");
        if alone {
            xml.attribute("id", name).attribute("bandwidth", bandwidth);
        } else {
            xml.attribute("id", representation_id(member)).attribute("bandwidth", bandwidth);
            xml.attribute("codecs", &track.codec);
            write_format(xml, track);
            write_template(xml, member, track, period, is_static, options);
        }
        xml.close();
    }
    xml.close();
}

/// What tells a variant's representation from the others': its stream's name.
fn representation_id<'a>(member: &Member<'a>) -> &'a str {
    let base = member.base.trim_end_matches('/');
    base.rsplit_once('/').map_or(base, |(_, name)| name)
}

/// Whether each segment can be begun with: one that was cut for want of a key frame, or at a recovery point, cannot.
fn starts_with_key(rendition: &Rendition) -> bool {
    let begins = |segment: &Segment| segment.key_frames.first().is_some_and(|key| key.offset_bytes == 0);
    let is_video = rendition.name().is_video();
    rendition.complete().all(|segment| !is_video && segment.independent || begins(segment))
}

/// The number of a set, the same in all periods.
fn set_id(name: RenditionName) -> u32 {
    match name {
        RenditionName::Video => 1,
        RenditionName::Audio(number) => 1 + u32::from(number),
    }
}

fn write_format(xml: &mut Xml, track: &TrackInfo) {
    match track.kind {
        Kind::Video { width_px, height_px, frame_rate, sample_aspect, colour, range } => {
            xml.attribute("width", width_px)
                .attribute("height", height_px)
                .attribute_if("sar", sample_aspect.map(|(width, height)| format!("{width}:{height}")))
                .attribute_if("frameRate", frame_rate);
            // All players take the pictures of usual light; of others they choose by these.
            if let Some(colour) = colour.filter(|_| range != Range::Sdr) {
                write_colour(xml, colour);
            }
        }
        Kind::Audio { channels, rate_hz, language } => {
            xml.attribute_if("lang", language_of(language)).attribute("audioSamplingRate", rate_hz);
            xml.open("AudioChannelConfiguration")
                .attribute("schemeIdUri", "urn:mpeg:dash:23003:3:audio_channel_configuration:2011")
                .attribute("value", channels)
                .close();
        }
    }
}

/// Colour by the code points of H.273 (23091-2): as a property that players may pass over.
fn write_colour(xml: &mut Xml, colour: ColourDescription) {
    let ColourDescription { primaries, transfer, matrix, .. } = colour;
    let properties = [
        ("ColourPrimaries", primaries),
        ("TransferCharacteristics", transfer),
        ("MatrixCoefficients", matrix),
    ];
    for (name, value) in properties {
        xml.open("SupplementalProperty")
            .attribute("schemeIdUri", format!("urn:mpeg:mpegB:cicp:{name}"))
            .attribute("value", value)
            .close();
    }
}

/// Which wall-clock time belongs to which media time (23009-1 §5.12); chunks say the same in `prft` where pictures tell
/// when they were captured.
fn write_reference_time(xml: &mut Xml, member: &Member<'_>, period: &Period<'_>, options: &Options) {
    let Some(segment) = member.listed().next_back() else { return };
    let time = match period.listing {
        Listing::Regular { length } => ticks_of(segment.start_time(), length.timescale()),
        Listing::Timeline => segment.start,
    };
    xml.open("ProducerReferenceTime")
        .attribute("id", 0)
        .attribute("inband", segment.captured)
        .attribute("type", if segment.captured { "captured" } else { "encoder" })
        .attribute("wallClockTime", date_time(segment.program_date_time))
        .attribute("presentationTime", time);
    xml.open("UTCTiming");
    write_utc_timing(xml, options);
    xml.close();
}

/// Ticks of the track in those that the period's template counts in.
fn scaled(ticks: u64, track: &TrackInfo, period: &Period<'_>) -> u64 {
    match period.listing {
        Listing::Regular { length } => {
            ticks_of(crate::packager::duration_of(ticks, track.timescale), length.timescale())
        }
        Listing::Timeline => ticks,
    }
}
