//! The multivariant playlist (the draft §4.4.6).

use super::super::Object;
use super::super::query::Carried;
use super::super::variant::Variant;
use super::VERSION;
use super::iframes::iframe_bandwidth;
use crate::packager::{Bandwidth, Kind, Rendition, TrackInfo};
use glassline_media::bitstream::hdr::Range;
use glassline_media::time::FrameRate;
use std::fmt::Write as _;

/// Renders the multivariant playlist of what the current epochs of `variants` have, the best first. Those of which there is
/// not a part of each rendition are left out; `None` where that is so of all.
pub fn multivariant(variants: &[Variant<'_>], carried: &Carried) -> Option<String> {
    let ready: Vec<_> = variants.iter().filter_map(|variant| Ready::of(*variant, carried)).collect();
    let first = ready.first()?;
    let has_group = first.lead.name().is_video() && !first.sounds.is_empty() || first.sounds.len() > 1;
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    let groups = if has_group { groups_of(&first.sounds) } else { Vec::new() };
    for group in &groups {
        for (sound, index) in group.sounds.iter().zip(0..) {
            write_sound(&mut out, first, group, sound, index == 0);
        }
    }
    // Players without a decoder for any of the sound leave out what needs one: then there are the pictures alone, which the
    // others hold to be worse.
    let silent = first.lead.name().is_video() && groups.iter().all(|group| !group.is_common);
    let silent = silent && !groups.is_empty();
    let score = |value: &'static str| if silent { Some(value) } else { None };
    for group in &groups {
        for variant in &ready {
            write_stream(&mut out, variant, Some(group), score("2"));
        }
    }
    if groups.is_empty() || silent {
        for variant in &ready {
            write_stream(&mut out, variant, None, score("1"));
        }
    }
    if ready.len() > 1
        && let Some(group) = groups.first()
        && let Some(sound) = group.sounds.first()
    {
        // For lines that carry no pictures.
        let alone = Ready { lead: sound, sounds: Vec::new(), ..*first };
        write_stream(&mut out, &alone, Some(group), score("0"));
    }
    for variant in &ready {
        write_key_frames(&mut out, variant);
    }
    Some(out)
}

/// Sounds of one codec: a player that has a decoder for one plays all of them.
struct Group<'a> {
    id: String,
    sounds: Vec<&'a Rendition>,
    /// All browsers decode it in MP4.
    is_common: bool,
}

/// The sounds by their codec, those first that all browsers decode.
fn groups_of<'a>(sounds: &[&'a Rendition]) -> Vec<Group<'a>> {
    let codec = |sound: &'a Rendition| sound.track().map_or("", |track| track.codec.as_str());
    let mut groups: Vec<(&str, Vec<&Rendition>)> = Vec::new();
    for &sound in sounds {
        // Of AAC there are several object types.
        let codec = codec(sound);
        let family = if codec.starts_with("mp4a.40.") { "mp4a.40" } else { codec };
        match groups.iter_mut().find(|(known, _)| *known == family) {
            Some((_, members)) => members.push(sound),
            None => groups.push((family, vec![sound])),
        }
    }
    // MP3 is decoded everywhere, and in MP4 by few.
    let is_common = |family: &str| !matches!(family, "ac-3" | "ec-3" | "mp4a.6B" | "mp4a.69");
    groups.sort_by_key(|(family, _)| !is_common(family));
    let id = |number: u32| if number == 1 { "audio".to_owned() } else { format!("audio-{number}") };
    let numbered = groups.into_iter().zip(1u32..);
    numbered
        .map(|((family, sounds), number)| Group { id: id(number), sounds, is_common: is_common(family) })
        .collect()
}

/// A variant that viewers can begin with.
struct Ready<'a> {
    base: &'a str,
    carried: &'a Carried,
    /// What it is a variant by: its pictures, or its first sound.
    lead: &'a Rendition,
    sounds: Vec<&'a Rendition>,
}

impl<'a> Ready<'a> {
    fn of(Variant { base, presentation }: Variant<'a>, carried: &'a Carried) -> Option<Ready<'a>> {
        let epoch = presentation.current_epoch().filter(|_| presentation.is_ready())?.number;
        let current = || presentation.renditions().iter().filter(|rendition| rendition.is_in(epoch));
        let sounds = current().filter(|rendition| !rendition.name().is_video()).collect();
        Some(Ready { base, carried, lead: current().next()?, sounds })
    }

    fn write_address(&self, out: &mut String, object: Object) {
        let _ = write!(out, "{}{object}{}", self.base, self.carried);
    }
}

fn write_sound(out: &mut String, variant: &Ready<'_>, group: &Group<'_>, sound: &Rendition, is_first: bool) {
    let (name, id) = (sound.name(), &group.id);
    let _ = write!(out, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{id}\",NAME=\"{name}\",AUTOSELECT=YES");
    let _ = write!(out, ",DEFAULT={}", if is_first { "YES" } else { "NO" });
    if let Some(Kind::Audio { channels, language, .. }) = sound.track().map(|track| track.kind) {
        if let Some(language) = language_of(language) {
            let _ = write!(out, ",LANGUAGE=\"{language}\"");
        }
        let _ = write!(out, ",CHANNELS=\"{channels}\"");
    }
    out.push_str(",URI=\"");
    variant.write_address(out, Object::Media(name));
    out.push_str("\"\n");
}

/// Writes a variant with segments of MPEG-TS: pictures and sound in one. Returns whether there is something of it.
pub(super) fn write_mpeg_ts(out: &mut String, variant: Variant<'_>, carried: &Carried) -> bool {
    let Some(ready) = Ready::of(variant, carried) else { return false };
    write_stream_tag(out, ready.lead, &ready.sounds);
    out.push('\n');
    ready.write_address(out, Object::TransportMedia);
    out.push('\n');
    true
}

/// Writes a variant; its sound is in `group` where there is one.
fn write_stream(out: &mut String, variant: &Ready<'_>, group: Option<&Group<'_>>, score: Option<&str>) {
    write_stream_tag(out, variant.lead, group.map_or(&[], |group| &group.sounds));
    if let Some(score) = score {
        let _ = write!(out, ",SCORE={score}");
    }
    if let Some(group) = group {
        let _ = write!(out, ",AUDIO=\"{}\"", group.id);
    }
    out.push('\n');
    variant.write_address(out, Object::Media(variant.lead.name()));
    out.push('\n');
}

/// Writes what a variant is, with any of `sounds`.
fn write_stream_tag(out: &mut String, lead: &Rendition, sounds: &[&Rendition]) {
    let Some(track) = lead.track() else { return };
    let (mut own, mut codecs) = (lead.bandwidth(), vec![track.codec.as_str()]);
    let mut loudest = Bandwidth { peak_bps: 0, average_bps: 0 };
    for sound in sounds.iter().filter(|sound| sound.name() != lead.name()) {
        let bandwidth = sound.bandwidth();
        loudest.peak_bps = loudest.peak_bps.max(bandwidth.peak_bps);
        loudest.average_bps = loudest.average_bps.max(bandwidth.average_bps);
        let codec = sound.track().map_or("", |track| track.codec.as_str());
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    if lead.name().is_video() {
        own.peak_bps = own.peak_bps.saturating_add(loudest.peak_bps);
        own.average_bps = own.average_bps.saturating_add(loudest.average_bps);
    } else {
        own.peak_bps = own.peak_bps.max(loudest.peak_bps);
        own.average_bps = own.average_bps.max(loudest.average_bps);
    }
    let _ = write!(out, "#EXT-X-STREAM-INF:{},CODECS=\"{}\"", rates(own), codecs.join(","));
    write_resolution(out, track);
    write_range(out, track);
    if let Kind::Video { frame_rate, .. } = track.kind
        && let Some(rate) = frame_rate.or_else(|| FrameRate::of_distance(track.sample_ticks))
    {
        let _ = write!(out, ",FRAME-RATE={:.3}", rate.as_f64());
    }
}

fn write_key_frames(out: &mut String, variant: &Ready<'_>) {
    let Some((bandwidth, track)) = iframe_bandwidth(variant.lead).zip(variant.lead.track()) else { return };
    let _ = write!(out, "#EXT-X-I-FRAME-STREAM-INF:{},CODECS=\"{}\"", rates(bandwidth), track.codec);
    write_resolution(out, track);
    write_range(out, track);
    out.push_str(",URI=\"");
    variant.write_address(out, Object::IFrames);
    out.push_str("\"\n");
}

fn rates(bandwidth: Bandwidth) -> String {
    format!("BANDWIDTH={},AVERAGE-BANDWIDTH={}", bandwidth.peak_bps, bandwidth.average_bps)
}

/// How light and dark the pictures can be; nothing of the usual range, which is meant where nothing is said (the draft §4.4.6.2).
fn write_range(out: &mut String, track: &TrackInfo) {
    if let Kind::Video { range, .. } = track.kind
        && range != Range::Sdr
    {
        let _ = write!(out, ",VIDEO-RANGE={}", range.name());
    }
}

/// Width and height as they are shown, in square pixels.
fn write_resolution(out: &mut String, track: &TrackInfo) {
    if let Kind::Video { width_px, height_px, sample_aspect, .. } = track.kind {
        let (horizontal, vertical) = sample_aspect.unwrap_or((1, 1));
        let width = u64::from(width_px) * u64::from(horizontal) / u64::from(vertical.max(1));
        let _ = write!(out, ",RESOLUTION={}x{height_px}", width.max(1));
    }
}

/// The bibliographic codes of ISO 639-2, which MPEG-TS may bear (ISO/IEC 13818-1 §2.6.19), and those that the rest of the world
/// has for these languages.
const BIBLIOGRAPHIC: [(&str, &str); 20] = [
    ("alb", "sqi"),
    ("arm", "hye"),
    ("baq", "eus"),
    ("bur", "mya"),
    ("chi", "zho"),
    ("cze", "ces"),
    ("dut", "nld"),
    ("fre", "fra"),
    ("geo", "kat"),
    ("ger", "deu"),
    ("gre", "ell"),
    ("ice", "isl"),
    ("mac", "mkd"),
    ("mao", "mri"),
    ("may", "msa"),
    ("per", "fas"),
    ("rum", "ron"),
    ("slo", "slk"),
    ("tib", "bod"),
    ("wel", "cym"),
];

/// A language as HLS and DASH have it (RFC 5646: of two letters where there is such a code), unless it is said to be none that is
/// known.
#[must_use]
pub fn language_of(letters: Option<[u8; 3]>) -> Option<String> {
    let text = String::from_utf8(letters?.to_vec()).ok()?;
    if matches!(text.as_str(), "und" | "mis" | "mul" | "zxx") {
        return None;
    }
    let known = BIBLIOGRAPHIC.iter().find(|(code, _)| *code == text);
    let code = known.map_or(text.as_str(), |(_, code)| *code);
    let short = isolang::Language::from_639_3(code).and_then(|language| language.to_639_1());
    Some(short.unwrap_or(code).to_owned())
}

#[cfg(test)]
mod tests {
    use super::language_of;

    #[test]
    fn languages_are_those_of_rfc_5646() {
        let of = |letters: &[u8; 3]| language_of(Some(*letters));
        let told = [b"eng", b"ger", b"deu", b"fre", b"zho", b"gsw", b"qaa"].map(of);
        assert_eq!(told.map(Option::unwrap), ["en", "de", "de", "fr", "zh", "gsw", "qaa"]);
        assert_eq!((of(b"und"), of(b"zxx"), language_of(None)), (None, None, None));
    }
}
