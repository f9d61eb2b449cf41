//! The report as people read it: a summary, one block for each stream, a table of timing, a table of PIDs, and
//! the warnings.

use super::budget;
use super::check;
use super::flight;
use crate::layout::{clean, facts, grid, warnings};
use glassline_delivery::playlist::date_time_micros;
use glassline_inspect::Distribution;
use glassline_inspect::transport_stream::AgeReport;
use glassline_inspect::transport_stream::{
    ClockReport, DataReport, PidReport, Report, StreamReport, VideoReport,
};
use glassline_media::Utc;
use std::fmt::Write;

/// The whole report.
pub(super) fn write(report: &Report) -> String {
    let mut out = format!("{}\n\n", clean(&report.source));
    let flight = report.flight.as_ref().map(flight::table).unwrap_or_default();
    let budget = report.budget.as_ref().map(budget::table).unwrap_or_default();
    let check = report.check.as_ref().map(check::table).unwrap_or_default();
    let blocks = [
        summary(report),
        streams(report),
        timing(report),
        pids(report),
        budget,
        check,
        flight,
        warnings(&report.warnings),
    ];
    out.push_str(&blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n"));
    out
}

fn bits(rate_bps: f64) -> String {
    match rate_bps {
        rate if rate >= 1e6 => format!("{:.2} Mb/s", rate / 1e6),
        rate => format!("{:.1} kb/s", rate / 1e3),
    }
}

fn bytes(count: f64) -> String {
    match count {
        count if count >= f64::from(1 << 20) => format!("{:.1} MiB", count / f64::from(1 << 20)),
        count if count >= 1024.0 => format!("{:.1} KiB", count / 1024.0),
        count => format!("{count:.0} B"),
    }
}

/// Pictures a second without needless zeros.
fn hertz(rate: f64) -> String {
    format!("{rate:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn summary(report: &Report) -> String {
    let mut lines = vec![("Read", {
        let time = report.duration_s.map(|seconds| format!(", {seconds:.2} s of stream")).unwrap_or_default();
        format!("{}{time}", bytes(report.bytes as f64))
    })];
    if let Some(rate) = report.bitrate_bps {
        let steady = report.clock.as_ref().is_some_and(|clock| clock.constant_rate);
        lines.push(("Bit rate", format!("{}, {}", bits(rate), if steady { "constant" } else { "variable" })));
    }
    if let Some(first) = report.time_to_first {
        let ms = |time: Option<f64>| time.map_or("never".into(), |ms| format!("{ms:.0} ms"));
        lines.push(("First byte after", ms(first.byte_ms)));
        let right = match first.settling_frames {
            Some(0) | None => "a whole key frame".to_owned(),
            Some(frames) => format!(
                "a recovery point: right {frames} pictures later, after {}",
                ms(first.right_picture_ms)
            ),
        };
        lines.push(("First picture after", format!("{} ({right})", ms(first.picture_ms))));
    }
    if let Some(burst) = report.clock.as_ref().and_then(|clock| clock.start_burst_ms) {
        lines.push(("Burst at the start", format!("{burst:.0} ms of stream")));
    }
    for program in &report.programs {
        let note = if program.followed { "" } else { " (not followed)" };
        lines.push(("Program", format!("{}, map on PID {}{note}", program.number, program.pmt_pid)));
    }
    facts(&lines)
}

fn streams(report: &Report) -> String {
    let blocks = report.streams.iter().map(|stream| {
        let type_number = format!("stream type 0x{:02x}", stream.stream_type);
        let name = match stream.kind {
            "video" => "Video",
            "audio" => "Audio",
            _ => "Data",
        };
        let rate = stream.bitrate_bps.map(|rate| format!(", {}", bits(rate))).unwrap_or_default();
        let language =
            stream.language.as_deref().map(|code| format!(", {}", clean(code))).unwrap_or_default();
        let codec = stream.codec.unwrap_or(&type_number);
        format!("{name} on PID {}: {codec}{language}{rate}\n{}", stream.pid, facts(&about(stream)))
    });
    blocks.collect::<Vec<_>>().join("\n")
}

fn about(stream: &StreamReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(video) = &stream.video {
        about_video(video, &mut lines);
    }
    if let Some(audio) = &stream.audio
        && let Some(rate_hz) = audio.rate_hz
    {
        let channels = match audio.channels {
            Some(1) => ", mono".to_owned(),
            Some(2) => ", stereo".to_owned(),
            Some(count) => format!(", {count} channels"),
            None => String::new(),
        };
        let profile = audio.profile.map(|profile| format!(", {profile}")).unwrap_or_default();
        lines.push(("Sound", format!("{rate_hz} Hz{channels}{profile}")));
    }
    if let Some(sizes) = &stream.unit_bytes {
        let what = if stream.kind == "video" { "Picture size" } else { "Unit size" };
        let (mean, max) = (bytes(sizes.mean), bytes(sizes.max));
        lines.push((what, format!("{mean} on average, {max} at most, {} in all", stream.units)));
    }
    if let Some(data) = &stream.data {
        about_data(data, &mut lines);
    }
    lines
}

fn about_data(data: &DataReport, lines: &mut Vec<(&'static str, String)>) {
    if let Some(rate) = data.units_per_s {
        let kind = match data.synchronous {
            Some(true) => ", synchronous",
            Some(false) => ", asynchronous",
            None => "",
        };
        lines.push(("Units", format!("{rate:.2} a second{kind}, {} with a time", data.stamped_units)));
    }
    for set in &data.sets {
        let name = set.name.map(|name| format!(", {name}")).unwrap_or_default();
        lines.push(("Set", format!("{}{name}: {}", set.key, set.packets)));
    }
    if let Some(drone) = &data.drone {
        let newest = &drone.newest;
        if let Some(micros) = newest.time_micros {
            lines.push(("Time", date_time_micros(Utc::from_nanos(micros.saturating_mul(1000)))));
        }
        for (name, text) in [
            ("Mission", &newest.mission),
            ("Tail number", &newest.tail_number),
            ("Platform", &newest.platform),
        ] {
            lines.extend(text.as_deref().map(|text| (name, clean(text))));
        }
        if let (Some(latitude), Some(longitude)) = (newest.latitude_deg, newest.longitude_deg) {
            let height = newest.altitude_m.map(|height| format!(", {height:.1} m")).unwrap_or_default();
            lines.push(("Position", format!("{latitude:.6}, {longitude:.6}{height}")));
        }
        let angle = |name, angle: Option<f64>| angle.map(|angle| format!("{name} {angle:.2}°"));
        let angles = [
            angle("heading", newest.heading_deg),
            angle("pitch", newest.pitch_deg),
            angle("roll", newest.roll_deg),
        ];
        let angles: Vec<_> = angles.into_iter().flatten().collect();
        if !angles.is_empty() {
            lines.push(("Attitude", angles.join(", ")));
        }
        if drone.checksums_wrong > 0 {
            lines.push(("Wrong checksums", drone.checksums_wrong.to_string()));
        }
    }
    for cue in &data.cues {
        let times = if cue.times > 1 { format!(" ({} times)", cue.times) } else { String::new() };
        lines.push(("Cue", format!("{}{times}", clean(&cue.words))));
    }
    if data.cues_left_out > 0 {
        lines.push(("Further cues", data.cues_left_out.to_string()));
    }
}

fn about_video(video: &VideoReport, lines: &mut Vec<(&'static str, String)>) {
    if let (Some(width), Some(height)) = (video.width_px, video.height_px) {
        let scan = if video.interlaced == Some(true) { " interlaced" } else { "" };
        let depth = video.bit_depth.map(|bits| format!(", {bits} bit")).unwrap_or_default();
        let chroma = video.chroma.unwrap_or_default();
        let range = match video.range {
            Some(name) if name != "SDR" => format!(", HDR ({name})"),
            _ => String::new(),
        };
        lines.push(("Picture", format!("{width}x{height}{scan}, {chroma}{depth}{range}")));
    }
    if let (Some(profile), Some(level)) = (&video.profile, &video.level) {
        let codec = video.codec_string.as_deref().unwrap_or_default();
        lines.push(("Profile", format!("{profile}, level {level} ({codec})")));
    }
    let declared = video.declared_frame_rate_hz.map(|rate| format!("{} declared", hertz(rate)));
    let measured = video.measured_frame_rate_hz.map(|rate| format!("{} measured", hertz(rate)));
    let rates: Vec<String> = declared.into_iter().chain(measured).collect();
    if !rates.is_empty() {
        lines.push(("Frame rate", rates.join(", ")));
    }
    let interval = match (&video.key_frame_interval_frames, &video.key_frame_interval_s) {
        (Some(frames), Some(time)) => format!(
            ", every {:.0} / {:.1} / {:.0} pictures, {:.2} / {:.2} / {:.2} s (min / mean / max)",
            frames.min, frames.mean, frames.max, time.min, time.mean, time.max
        ),
        _ => String::new(),
    };
    match video.settling_frames_max {
        None => lines.push(("Key frames", format!("{}{interval}", video.key_frames))),
        Some(frames) => {
            lines.push((
                "Key frames",
                format!("{}, and {} recovery points{interval}", video.key_frames, video.recovery_points),
            ));
            lines.push((
                "Recovery",
                format!("pictures are right at most {frames} pictures after such a point"),
            ));
        }
    }
    if video.i_pictures + video.p_pictures + video.b_pictures > 0 {
        lines.push((
            "Pictures",
            format!(
                "{} I, {} P, {} B; up to {} slices each",
                video.i_pictures, video.p_pictures, video.b_pictures, video.slices_per_picture_max
            ),
        ));
    }
    let order = if video.reordered {
        format!("reordered, shown up to {:.0} ms after decoding", video.reorder_delay_ms)
    } else {
        "shown as they are decoded".to_owned()
    };
    lines.push(("Order", order));
}

fn timing(report: &Report) -> String {
    let row = |name: String, all: &Distribution, decimals: usize| {
        let figures = [all.min, all.p50, all.p95, all.p99, all.max];
        std::iter::once(name).chain(figures.iter().map(|figure| format!("{figure:.decimals$}"))).collect()
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if let Some(clock) = &report.clock {
        rows.extend(clock.interval_ms.iter().map(|all| row("PCR interval".into(), all, 2)));
        rows.extend(clock.jitter.iter().map(|jitter| match jitter.basis {
            "arrival" => row("PCR jitter, against arrival".into(), &jitter.ms, 2),
            _ => row("PCR jitter, against position".into(), &jitter.ms, 5),
        }));
    }
    for stream in &report.streams {
        let name = |what: &str| format!("{} {what}", stream.kind);
        rows.extend(stream.pts_interval_ms.iter().map(|all| row(name("PTS interval"), all, 2)));
        rows.extend(stream.pts_jitter_ms.iter().map(|all| row(name("PTS jitter"), all, 2)));
        rows.extend(stream.pts_minus_pcr_ms.iter().map(|all| row(name("PTS - PCR"), all, 2)));
        let age = stream.video.as_ref().and_then(|video| video.age);
        rows.extend(age.iter().map(|age| row(name("age here"), &age.ms, 2)));
    }
    rows.extend(
        report.audio_video.iter().map(|both| row("audio ahead of video".into(), &both.interleave_ms, 2)),
    );
    if rows.is_empty() {
        return String::new();
    }
    let head = ["Timing, ms", "min", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec();
    rows.insert(0, head);
    let mut out = grid(&rows);
    if let Some(clock) = &report.clock {
        out.push_str(&notes(clock));
    }
    for age in report.streams.iter().filter_map(|stream| stream.video.as_ref()?.age) {
        out.push_str(&age_note(&age));
    }
    if let Some(both) = report.audio_video {
        let side = if both.start_ms < 0.0 { "before" } else { "after" };
        let _ = writeln!(out, "  The sound begins {:.1} ms {side} the pictures.", both.start_ms.abs());
    }
    out
}

fn age_note(age: &AgeReport) -> String {
    match (age.clock, age.clock_uncertainty_ms) {
        ("server", Some(ms)) => format!(
            "  Ages count from capture to a picture's last byte here, by the server's clock (± {ms:.1} ms): right if the\n  \
             capture's clock agrees with it.\n"
        ),
        _ => "  Ages count from capture to a picture's last byte here, by this machine's clock: right if the capture's\n  \
              clock agrees with it.\n"
            .to_owned(),
    }
}

fn notes(clock: &ClockReport) -> String {
    match &clock.jitter {
        Some(jitter) if jitter.basis == "position" => {
            "  PCR jitter is measured against the position in the file, at its constant rate.\n".into()
        }
        Some(_) => {
            "  PCR jitter is how much later each came than the earliest after the burst at the start.\n"
                .into()
        }
        None if clock.interval_ms.is_some() && !clock.constant_rate => {
            "  PCR jitter cannot be told: the rate is not constant, and a file has no arrival times.\n".into()
        }
        None => String::new(),
    }
}

fn pids(report: &Report) -> String {
    let row = |pid: &PidReport| {
        vec![
            format!("{:4}  0x{:04x}  {}", pid.pid, pid.pid, pid.carries),
            pid.packets.to_string(),
            pid.bitrate_bps.map(bits).unwrap_or_default(),
            pid.continuity_errors.to_string(),
        ]
    };
    let head = [" PID          carries", "packets", "rate", "lost"].map(str::to_owned).to_vec();
    grid(&std::iter::once(head).chain(report.pids.iter().map(row)).collect::<Vec<_>>())
}
