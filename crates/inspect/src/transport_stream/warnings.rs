//! What someone should know about a stream, each in a plain sentence that says what it leads to.

use super::report::{Errors, Report, StreamReport};

/// 13818-1 §2.7.2 demands a clock reference every 100 ms; DVB asks for 40.
const PCR_INTERVAL_MAX_MS: f64 = 100.0;
/// Beyond this, joining a stream takes noticeably long.
const KEY_INTERVAL_MAX_S: f64 = 4.0;
/// Players hold the stream that is ahead; many hold no more than about this.
const INTERLEAVE_MAX_MS: f64 = 1000.0;
/// Less deviation than this is invisible.
const PTS_JITTER_MAX_MS: f64 = 2.0;
/// More arrival jitter than this empties a low-latency player's buffer.
const ARRIVAL_JITTER_MAX_MS: f64 = 100.0;
/// What receivers tolerate (13818-1 §2.4.2.1: 500 ns; TR 101 290 alike), with room for rounding to 27 MHz.
const POSITION_JITTER_MAX_MS: f64 = 0.0005 + 0.0001;

pub(super) fn of(report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    errors(&report.errors, &mut out);
    program(report, &mut out);
    clock(report, &mut out);
    for stream in &report.streams {
        timing(stream, &mut out);
        pictures(stream, &mut out);
    }
    for pid in report.pids.iter().filter(|pid| pid.scrambled_packets > 0) {
        out.push(format!("PID {} is encrypted: what is in it cannot be told.", pid.pid));
    }
    out
}

fn errors(errors: &Errors, out: &mut Vec<String>) {
    let mut say = |count: u64, once: &str, often: &str, rest: &str| match count {
        0 => {}
        1 => out.push(format!("{once} {rest}")),
        count => out.push(format!("{} {rest}", often.replace('N', &count.to_string()))),
    };
    say(
        errors.continuity_errors,
        "Packets were missing or out of order once:",
        "Packets were missing or out of order N times:",
        "pictures or sound are damaged there.",
    );
    say(
        errors.transport_errors,
        "One packet is",
        "N packets are",
        "marked as damaged by an earlier receiver.",
    );
    say(errors.malformed_packets, "One packet was", "N packets were", "malformed and left out.");
    say(errors.skipped_bytes, "One byte was", "N bytes were", "skipped: no part of any packet.");
    say(
        errors.damaged_units,
        "One picture or piece of sound is",
        "N pictures or pieces of sound are",
        "incomplete; the figures leave that out.",
    );
    say(errors.oversized_units, "One picture was", "N pictures were", "too large to look at.");
}

fn program(report: &Report, out: &mut Vec<String>) {
    if report.streams.is_empty() {
        out.push("No program was found: players wait for its tables and show nothing.".into());
    }
    if report.programs.len() > 1 {
        out.push(format!("There are {} programs; only the first one is looked into.", report.programs.len()));
    }
    let wanted = |stream: &&StreamReport| stream.codec.is_some() && stream.units == 0;
    for stream in report.streams.iter().filter(wanted) {
        out.push(format!("The {} on PID {} is announced but nothing of it came.", stream.kind, stream.pid));
    }
    if report.audio_video.is_some_and(|both| {
        both.interleave_ms.max > INTERLEAVE_MAX_MS || both.interleave_ms.min < -INTERLEAVE_MAX_MS
    }) {
        out.push(
            "Sound and pictures of the same time lie more than a second apart in the stream: \
             a player must hold that much."
                .into(),
        );
    }
}

fn clock(report: &Report, out: &mut Vec<String>) {
    let Some(clock) = &report.clock else {
        if !report.streams.is_empty() {
            out.push("The program has no clock (PCR): broadcast receivers cannot play it.".into());
        }
        return;
    };
    match &clock.interval_ms {
        None => out.push("The clock (PCR) came less than twice: nothing can be said about timing.".into()),
        Some(all) if all.max > PCR_INTERVAL_MAX_MS => out.push(format!(
            "The clock (PCR) was missing for up to {:.0} ms; {PCR_INTERVAL_MAX_MS:.0} ms are allowed.",
            all.max
        )),
        Some(_) => {}
    }
    if clock.jumps > 0 {
        out.push(format!(
            "The clock (PCR) jumps ({} in all): players may stop or stutter there.",
            clock.jumps
        ));
    }
    match &clock.jitter {
        Some(jitter) if jitter.basis == "arrival" && jitter.ms.p99 > ARRIVAL_JITTER_MAX_MS => out.push(format!(
            "The stream arrives unsteadily: 1 % of it {:.0} ms late or more; a player with less buffer stalls.",
            jitter.ms.p99
        )),
        Some(jitter) if jitter.basis == "position" && jitter.ms.max > POSITION_JITTER_MAX_MS => {
            out.push(format!(
                "The clock (PCR) is off by up to {:.4} ms from the constant rate of the bytes; \
                 0.0005 ms are allowed.",
                jitter.ms.max
            ));
        }
        _ => {}
    }
}

fn timing(stream: &StreamReport, out: &mut Vec<String>) {
    let name = format!("{} on PID {}", stream.kind, stream.pid);
    if stream.pts_gaps > 0 {
        out.push(format!(
            "The {name} has gaps in its time stamps ({} in all): something is missing there.",
            stream.pts_gaps
        ));
    }
    if stream.pts_jumps > 0 {
        out.push(format!(
            "The {name} jumps in its time stamps ({} in all): players may stop or stutter there.",
            stream.pts_jumps
        ));
    }
    if let Some(jitter) = stream.pts_jitter_ms.filter(|jitter| jitter.p99 > PTS_JITTER_MAX_MS) {
        out.push(format!(
            "The {name} has uneven time stamps, up to {:.1} ms off: motion judders.",
            jitter.max
        ));
    }
    if let Some(lead) = stream.pts_minus_pcr_ms.filter(|lead| lead.min < 0.0) {
        out.push(format!(
            "The {name} comes up to {:.1} ms after it should be shown: receivers that go by the clock drop it.",
            -lead.min
        ));
    }
}

fn pictures(stream: &StreamReport, out: &mut Vec<String>) {
    let Some(video) = &stream.video else { return };
    if stream.units > 0 && video.key_frames + video.recovery_points == 0 {
        out.push(format!("The video on PID {} has no key frame: no viewer can join.", stream.pid));
    }
    if let Some(interval) = video.key_frame_interval_s.filter(|interval| interval.max > KEY_INTERVAL_MAX_S) {
        out.push(format!(
            "Key frames are up to {:.1} s apart: a viewer that joins waits that long, or starts that far back.",
            interval.max
        ));
    }
    if video.reordered {
        out.push(format!(
            "Pictures are reordered (B-frames): they wait up to {:.0} ms between decoding and showing.",
            video.reorder_delay_ms
        ));
    }
    let (declared, measured) = (video.declared_frame_rate_hz, video.measured_frame_rate_hz);
    if let (Some(declared), Some(measured)) = (declared, measured)
        && (declared - measured).abs() > 0.02 * declared
    {
        out.push(format!("The video declares {declared:.2} pictures a second but has {measured:.2}."));
    }
}
