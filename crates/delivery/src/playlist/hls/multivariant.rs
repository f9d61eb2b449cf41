//! The multivariant playlist (the draft §4.4.6).

use super::super::Object;
use super::super::query::Carried;
use super::VERSION;
use super::iframes::iframe_bandwidth;
use crate::packager::{Bandwidth, Kind, Presentation, Rendition, TrackInfo};
use glassline_media::Ticks;
use std::fmt::Write as _;

/// Renders the multivariant playlist of what the current epoch has. `None` before there is a part of each rendition.
pub fn multivariant(presentation: &Presentation, carried: &Carried) -> Option<String> {
    let epoch = presentation.current_epoch().filter(|_| presentation.is_ready())?.number;
    let current = || presentation.renditions().iter().filter(|rendition| rendition.is_in(epoch));
    let sounds: Vec<_> = current().filter(|rendition| !rendition.name().is_video()).collect();
    let lead = current().next()?;
    let has_group = lead.name().is_video() && !sounds.is_empty() || sounds.len() > 1;
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    if has_group {
        for (sound, index) in sounds.iter().zip(0..) {
            write_sound(&mut out, sound, index == 0, carried);
        }
    }
    write_stream(&mut out, lead, &sounds, has_group, carried);
    if let Some(bandwidth) = iframe_bandwidth(lead) {
        let track = lead.track()?;
        let _ = write!(out, "#EXT-X-I-FRAME-STREAM-INF:{},CODECS=\"{}\"", rates(bandwidth), track.codec);
        write_resolution(&mut out, track);
        let _ = writeln!(out, ",URI=\"{}{carried}\"", Object::IFrames);
    }
    Some(out)
}

fn write_sound(out: &mut String, sound: &Rendition, is_first: bool, carried: &Carried) {
    let name = sound.name();
    let _ = write!(out, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"audio\",NAME=\"{name}\",AUTOSELECT=YES");
    let _ = write!(out, ",DEFAULT={}", if is_first { "YES" } else { "NO" });
    if let Some(Kind::Audio { channels, language, .. }) = sound.track().map(|track| track.kind) {
        if let Some(language) = language_of(language) {
            let _ = write!(out, ",LANGUAGE=\"{language}\"");
        }
        let _ = write!(out, ",CHANNELS=\"{channels}\"");
    }
    let _ = writeln!(out, ",URI=\"{}{carried}\"", Object::Media(name));
}

fn write_stream(
    out: &mut String,
    lead: &Rendition,
    sounds: &[&Rendition],
    has_group: bool,
    carried: &Carried,
) {
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
    if let Kind::Video { frame_rate, .. } = track.kind {
        let measured = f64::from(Ticks::RATE) / f64::from(track.sample_ticks.max(1));
        let rate = frame_rate.map_or(measured, |rate| rate.as_f64());
        let _ = write!(out, ",FRAME-RATE={rate:.3}");
    }
    if has_group {
        out.push_str(",AUDIO=\"audio\"");
    }
    let _ = writeln!(out, "\n{}{carried}", Object::Media(lead.name()));
}

fn rates(bandwidth: Bandwidth) -> String {
    format!("BANDWIDTH={},AVERAGE-BANDWIDTH={}", bandwidth.peak_bps, bandwidth.average_bps)
}

/// Width and height as they are shown, in square pixels.
fn write_resolution(out: &mut String, track: &TrackInfo) {
    if let Kind::Video { width_px, height_px, sample_aspect, .. } = track.kind {
        let (horizontal, vertical) = sample_aspect.unwrap_or((1, 1));
        let width = u64::from(width_px) * u64::from(horizontal) / u64::from(vertical.max(1));
        let _ = write!(out, ",RESOLUTION={}x{height_px}", width.max(1));
    }
}

/// A language, unless it is said to be none that is known.
pub(in crate::playlist) fn language_of(letters: Option<[u8; 3]>) -> Option<String> {
    let text = String::from_utf8(letters?.to_vec()).ok()?;
    (!matches!(text.as_str(), "und" | "mis" | "mul" | "zxx")).then_some(text)
}
