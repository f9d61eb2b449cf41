//! The report as people read it: a block for each flow, a table of its paths, and the warnings.

use super::RawReport;
use super::warnings::name;
use crate::layout::{clean, facts, grid, warnings};
use glassline_studio::raw::look::{
    AncillaryReport, AudioReport, FlowReport, LimitReport, PathReport, TimingReport, VideoReport,
};

/// The whole report.
pub(super) fn write(report: &RawReport) -> String {
    let mut head = vec![("Listened", format!("{:.1} s", report.duration_s))];
    if !report.name.is_empty() {
        head.insert(0, ("Session", clean(&report.name)));
    }
    if !report.skipped.is_empty() {
        head.push(("Not looked at", clean(&report.skipped.join(", "))));
    }
    let mut blocks = vec![facts(&head)];
    blocks.extend(report.flows.iter().map(flow));
    blocks.push(warnings(&report.warnings));
    format!("{}\n\n{}", clean(&report.source), blocks.join("\n"))
}

/// What there is to say at present, in a line.
pub(super) fn line(flows: &[FlowReport]) -> String {
    flows.iter().map(present).collect::<Vec<_>>().join("  |  ")
}

fn present(flow: &FlowReport) -> String {
    let lost = flow.merged.lost;
    let what = match (&flow.video, &flow.audio, &flow.ancillary) {
        (Some(video), ..) => {
            let rate = video.received_rate_hz.map_or("-".to_owned(), |rate| format!("{rate:.2}"));
            let verdicts: Vec<String> = flow
                .paths
                .iter()
                .filter_map(|path| path.timing_now)
                .map(|timing| {
                    let [low, high] = vrx(&timing);
                    format!("{}, Cinst {}, VRX {low} to {high}", timing.class, timing.cinst_max)
                })
                .collect();
            let verdicts =
                if verdicts.is_empty() { "not judged yet".to_owned() } else { verdicts.join("; ") };
            format!("{rate} frames/s  {verdicts}")
        }
        (_, Some(audio), _) => {
            let peaks: Vec<String> = audio.peak_dbfs.iter().take(2).map(|peak| decibels(*peak)).collect();
            format!("peak {}", peaks.join(" "))
        }
        (.., Some(found)) => format!("{} ANC {}", found.packets, found.time_code.as_deref().unwrap_or("")),
        _ => String::new(),
    };
    format!("{}: {}  lost {lost}", flow.kind, what.trim_end())
}

fn flow(flow: &FlowReport) -> String {
    let mut name = name(flow);
    // "video at …": as a heading.
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let mut lines = Vec::new();
    flow.video.iter().for_each(|video| about_video(video, &mut lines));
    flow.audio.iter().for_each(|audio| about_audio(audio, &mut lines));
    flow.ancillary.iter().for_each(|found| about_ancillary(found, &mut lines));
    lines.push(("Packets", packets(flow)));
    lines.push(("Clock", clock(flow)));
    for path in &flow.paths {
        let Some(timing) = path.timing.as_ref().filter(|timing| timing.frames > 0) else { continue };
        let of = if flow.paths.len() > 1 { format!("{}: ", path.address) } else { String::new() };
        lines.push(("ST 2110-21", of + &verdict(timing)));
    }
    let kinds = flow.ancillary.as_ref().map(kinds).unwrap_or_default();
    format!("{name}\n{}{kinds}{}", facts(&lines), paths(&flow.paths))
}

fn packets(flow: &FlowReport) -> String {
    let merged = flow.merged;
    let of = if flow.paths.len() > 1 { " of both paths together" } else { "" };
    let refused = if merged.refused > 0 { format!(", {} refused", merged.refused) } else { String::new() };
    format!(
        "{}{of}, {} lost, {} reordered, {} late{refused}; {} dropped by the kernel",
        merged.packets, merged.lost, merged.reordered, merged.late, merged.kernel_drops
    )
}

fn clock(flow: &FlowReport) -> String {
    let described = match (&flow.reference_clock, &flow.media_clock) {
        (Some(reference), Some(media)) => format!("{}, mediaclk {}", clean(reference), clean(media)),
        (Some(reference), None) => clean(reference),
        (None, Some(media)) => format!("mediaclk {}", clean(media)),
        (None, None) => "not described".to_owned(),
    };
    let by = match (flow.captured_by, flow.age_ms) {
        (Some("stamps"), Some(age)) => format!(
            "; stamps say when it was captured: {:.2} / {:.2} / {:.2} ms before it came (min / mean / max)",
            age.min, age.mean, age.max
        ),
        (Some(_), _) => "; arrivals say when it was captured".to_owned(),
        (None, _) => String::new(),
    };
    format!("{described}{by}")
}

fn hertz(rate: f64) -> String {
    format!("{rate:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn about_video(video: &VideoReport, lines: &mut Vec<(&'static str, String)>) {
    lines.push((
        "Picture",
        format!(
            "{}x{} {}, {}, {} bit (described)",
            video.width_px, video.height_px, video.scan, video.sampling, video.depth_bits
        ),
    ));
    let rates = [
        (video.described_rate_hz, "described"),
        (video.stamped_rate_hz, "by stamps"),
        (video.received_rate_hz, "by arrivals"),
    ];
    let rates: Vec<String> =
        rates.iter().filter_map(|(rate, by)| Some(format!("{} {by}", hertz((*rate)?)))).collect();
    lines.push(("Frame rate", rates.join(", ")));
    lines.push(("Frames", format!("{} whole, {} with holes", video.frames, video.incomplete_frames)));
    if let (Some(count), Some(bytes), Some(packing)) =
        (video.packets_per_frame, video.datagram_bytes, video.packing)
    {
        let range = |min: u64, max: u64| if min == max { min.to_string() } else { format!("{min} to {max}") };
        lines.push((
            "Packets of a frame",
            format!(
                "{}, datagrams of {} bytes, {packing} packing mode",
                range(count.min, count.max),
                range(bytes.min, bytes.max)
            ),
        ));
    }
    lines.extend(video.described_sender.iter().map(|sender| ("Sender", format!("{sender} (described)"))));
}

fn decibels(peak: Option<f64>) -> String {
    peak.map_or("-inf".to_owned(), |peak| format!("{peak:.1}"))
}

fn about_audio(audio: &AudioReport, lines: &mut Vec<(&'static str, String)>) {
    let order = audio.channel_order.as_deref().map(|order| format!(", {}", clean(order))).unwrap_or_default();
    lines.push((
        "Sound",
        format!(
            "L{}, {} Hz, {} channels{order} (described)",
            audio.depth_bits, audio.rate_hz, audio.channels
        ),
    ));
    if let Some([least, most]) = audio.packet_us {
        let most = if least == most { String::new() } else { format!(" to {:.3}", most / 1e3) };
        lines.push(("Packet time", format!("{:.3}{most} ms", least / 1e3)));
    }
    if let Some(rate) = audio.received_rate_hz {
        lines.push(("Rate by arrivals", format!("{rate:.1} Hz")));
    }
    lines.push((
        "Samples",
        format!(
            "{} of each channel, {} of them silence for what was lost",
            audio.samples + audio.silence,
            audio.silence
        ),
    ));
    let peaks: Vec<String> = audio.peak_dbfs.iter().map(|peak| decibels(*peak)).collect();
    lines.push(("Peak, dBFS", peaks.join("  ")));
}

fn about_ancillary(found: &AncillaryReport, lines: &mut Vec<(&'static str, String)>) {
    lines.push((
        "ANC packets",
        format!("{} in {} payloads, {} frames or fields", found.packets, found.payloads, found.frames),
    ));
    let captions = match found.caption_packets {
        0 => "none".to_owned(),
        count => format!("{count} packets, {} of them with more than padding", found.caption_contents),
    };
    lines.push(("Captions", captions));
    lines.push(("Time code", found.time_code.clone().unwrap_or("none".to_owned())));
}

fn kinds(found: &AncillaryReport) -> String {
    if found.kinds.is_empty() {
        return String::new();
    }
    let head = ["ANC", "DID", "SDID", "line", "packets"].map(str::to_owned).to_vec();
    let row = |kind: &glassline_studio::raw::look::KindReport| {
        // RFC 8331 §2.1: no line in particular.
        let line = if kind.line == 0x7FF { "any".to_owned() } else { kind.line.to_string() };
        let (did, sdid) = (format!("0x{:02X}", kind.did), format!("0x{:02X}", kind.sdid));
        vec![kind.name.clone(), did, sdid, line, kind.packets.to_string()]
    };
    grid(&std::iter::once(head).chain(found.kinds.iter().map(row)).collect::<Vec<_>>())
}

/// The buffer of the class that was found, or of the described linear schedule.
fn vrx(timing: &TimingReport) -> [i64; 2] {
    if timing.class == "narrow" { timing.vrx_gapped } else { timing.vrx_linear }
}

fn verdict(timing: &TimingReport) -> String {
    let LimitReport { cmax, vrx_full } = match timing.class {
        "narrow" => timing.narrow,
        "narrow linear" => timing.narrow_linear,
        _ => timing.wide,
    };
    let most = cmax.map_or("any".to_owned(), |most| most.to_string());
    let [low, high] = vrx(timing);
    let [earliest, latest] = timing.first_packet_us;
    let (by, from) = if timing.is_by_ptp {
        ("by PTP", "the period's beginning")
    } else {
        ("without PTP", "the frames' own grid")
    };
    format!(
        "{} {by}: Cinst up to {} of {most}, VRX {low} to {high} of {vrx_full}, first packet {earliest:.0} to {latest:.0} µs after \
         {from}; {} frames. {}",
        timing.class,
        timing.cinst_max,
        timing.frames,
        meaning(timing)
    )
}

/// Says in sentences what the two figures of ST 2110-21 mean, and whether they pass.
fn meaning(timing: &TimingReport) -> String {
    let limits = match timing.class {
        "narrow" => timing.narrow,
        "narrow linear" => timing.narrow_linear,
        _ => timing.wide,
    };
    let [low, high] = vrx(timing);
    let bursts = match limits.cmax {
        Some(most) if timing.cinst_max > most => format!(
            "Bursts are too large for any class: {} packets stood in a network that passes them evenly, {most} may (Cinst).",
            timing.cinst_max
        ),
        _ => "Bursts pass: a network that passes packets evenly holds few enough of them (Cinst).".to_owned(),
    };
    let buffer = match (low < 0, high > limits.vrx_full.into()) {
        (false, false) => "A receiver's buffer passes: it never runs empty and never overflows (VRX).",
        (true, false) => {
            "A receiver that reads evenly would run empty: packets come too late for it (VRX below 0); by PTP that may also be \
             the sender's offset."
        }
        (false, true) => "A receiver's buffer would overflow: packets come too early for it (VRX).",
        (true, true) => {
            "A receiver's buffer would run empty and overflow: packets come in bursts and late (VRX)."
        }
    };
    format!("{bursts} {buffer}")
}

fn paths(paths: &[PathReport]) -> String {
    let head =
        ["Path", "SSRC", "packets", "rate, Mb/s", "lost", "in a row", "reordered", "doubled", "jitter, µs"];
    let row = |path: &PathReport| {
        vec![
            path.address.clone(),
            path.ssrc.map_or("-".to_owned(), |ssrc| format!("{ssrc:08x}")),
            path.packets.to_string(),
            path.bitrate_bps.map_or("-".to_owned(), |rate| format!("{:.2}", rate / 1e6)),
            path.lost.to_string(),
            path.longest_loss.to_string(),
            path.reordered.to_string(),
            path.duplicates.to_string(),
            format!("{:.0}", path.jitter_us),
        ]
    };
    let head = head.map(str::to_owned).to_vec();
    grid(&std::iter::once(head).chain(paths.iter().map(row)).collect::<Vec<_>>())
}
