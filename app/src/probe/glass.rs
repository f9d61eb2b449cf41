//! `probe --glass`: how old a stream's pictures are when a decoder has them, by the barcode that the test picture
//! carries.
//!
//! ```text
//! datagrams | HTTP ──► container::ts ──► access unit ──► ffmpeg ──► picture ──► barcode ──► age
//!                                           └─► capture time in the stream ──► age when its last byte came
//! ```
//! Nothing is held back: an access unit goes to the decoder when its last byte is there, and is followed by the
//! delimiter of the next one, since FFmpeg takes a picture for whole only when something new begins.

use super::source::{self, Source};
use super::{Args, READ_BYTES};
use crate::layout::{clean, facts, grid, warnings};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::transport_stream::SCHEMA;
use glassline_inspect::{Distribution, Samples};
use glassline_io::clock::Clock;
use glassline_lab::glass::{Ages, Decoder, Look, SETTLE, Seen, age_ms};
use glassline_media::bitstream::h264::{self, NalType, Sei};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec, Time, Utc};
use serde::Serialize;
use std::io;
use std::time::Duration;

/// The report of `--glass`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GlassReport {
    schema: u32,
    source: String,
    /// "glass".
    kind: &'static str,
    units: u64,
    #[serde(flatten)]
    seen: Seen,
    received_ms: Option<Distribution>,
    dropped_datagrams: u64,
    warnings: Vec<String>,
}

/// Listens, decodes, and prints the report.
pub(super) fn run(args: &Args) -> Result<()> {
    let target = &args.target;
    if !target.contains("://") {
        return Err(failure::usage(
            format!("--glass: {target} is not live, and what is recorded has no age"),
            "name a udp:// or http:// URL",
        ));
    }
    let source = source::open(target, &args.trust, Clock.now() + args.listening())?;
    let decoder = Decoder::start(SETTLE + args.listening(), Ages::default())?;
    let report = measure(args, source, decoder).with_context(|| format!("cannot measure {target}"))?;
    if args.json {
        let mut json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        json.push('\n');
        return output::print(&json);
    }
    output::print(&table(&report))
}

fn measure(args: &Args, mut source: Source, decoder: Decoder<Ages>) -> Result<GlassReport> {
    let mut received = Received::default();
    let heard = listen(&mut source, decoder, args.listening(), |unit, now| received.unit(unit, now))?;
    report(args, &received, &heard)
}

/// What listening to a stream has yielded.
pub(crate) struct Heard<L> {
    /// The part of the decoder that looked at the pictures.
    pub(crate) look: L,
    /// FFmpeg's error messages.
    pub(crate) complaints: Vec<String>,
    /// Access units that went to the decoder.
    pub(crate) units: u64,
    /// Datagrams that the kernel dropped for lack of buffer space.
    pub(crate) dropped_datagrams: u64,
}

/// Gives the stream's access units to the decoder, and to `on_unit` with when their last byte came: for `duration` and the time
/// that is left out, from its first byte on.
pub(crate) fn listen<L: Look>(
    source: &mut Source,
    mut decoder: Decoder<L>,
    duration: Duration,
    on_unit: impl FnMut(&[u8], Time),
) -> Result<Heard<L>> {
    let mut stream = Stream { demuxer: Demuxer::default(), units: 0, on_unit };
    let mut buffer = vec![0; READ_BYTES];
    let mut deadline = Clock.now() + duration;
    let mut bytes = 0;
    loop {
        let count = match source.reader.read(&mut buffer, deadline) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => break,
            Err(error) => return Err(error.into()),
        };
        if bytes == 0 {
            deadline = Clock.now() + SETTLE + duration;
        }
        bytes += count;
        let now = source.reader.received().unwrap_or_else(|| Clock.now());
        stream.push(&buffer[..count], now, &mut decoder)?;
        if count == 0 || Clock.now() >= deadline || !decoder.is_alive() {
            break;
        }
    }
    if bytes == 0 {
        return Err(failure::failed("nothing came in time", "is it sent, and to here?"));
    }
    let (look, complaints) = decoder.finish()?;
    if stream.units == 0 {
        return Err(failure::failed(
            "no H.264 picture came that one can begin at",
            "check it with probe alone",
        ));
    }
    Ok(Heard { look, complaints, units: stream.units, dropped_datagrams: source.reader.dropped() })
}

/// The stream on its way to the decoder.
struct Stream<F> {
    demuxer: Demuxer,
    /// Access units that went to the decoder.
    units: u64,
    on_unit: F,
}

impl<F: FnMut(&[u8], Time)> Stream<F> {
    fn push<L: Look>(&mut self, bytes: &[u8], now: Time, decoder: &mut Decoder<L>) -> Result<()> {
        self.demuxer.push(bytes);
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::AccessUnit { unit, .. } if unit.codec == Codec::H264 => {
                    self.unit(&unit, now, decoder)?;
                }
                Event::AccessUnit { unit, .. } if unit.codec.is_video() => {
                    let codec = unit.codec.name();
                    return Err(failure::failed(
                        format!("its video is {codec}, and H.264 is what is decoded so"),
                        "glassline lab glass --ffmpeg takes what FFmpeg decodes",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn unit<L: Look>(&mut self, unit: &AccessUnit, now: Time, decoder: &mut Decoder<L>) -> Result<()> {
        if self.units == 0 && !unit.random_access {
            return Ok(());
        }
        decoder.decode(&unit.data)?;
        self.units += 1;
        (self.on_unit)(&unit.data, now);
        Ok(())
    }
}

/// Ages of access units when their last byte was there.
#[derive(Default)]
struct Received {
    began: Option<Time>,
    /// Milliseconds.
    ages: Samples,
}

impl Received {
    fn unit(&mut self, unit: &[u8], now: Time) {
        let began = *self.began.get_or_insert(now);
        if let Some(captured) = captured(unit).filter(|_| now.since(began) >= SETTLE) {
            self.ages.push(age_ms(Clock.utc_at(now), captured));
        }
    }
}

/// The capture time that the unit says, if it says one.
fn captured(unit: &[u8]) -> Option<Utc> {
    let head = h264::nals(unit).take_while(|nal| !nal.kind().is_slice());
    head.filter(|nal| nal.kind() == NalType::Sei).find_map(|nal| Sei::parse(nal.payload()).capture_utc())
}

/// Why there are no figures: what became of the pictures that were decoded.
pub(crate) fn nothing_seen(decoded: u64, unread: u64, complaints: &[String]) -> anyhow::Error {
    match (decoded, complaints.first()) {
        (0, Some(first)) => {
            failure::failed(format!("FFmpeg decoded nothing: {}", clean(first)), "is it sound video?")
        }
        (0, None) => failure::failed("FFmpeg decoded nothing", "listen for longer (--duration)"),
        (count, _) if unread == 0 => failure::failed(
            format!("FFmpeg decoded {count} pictures, and none after the first second"),
            "listen for longer (--duration), on a machine that can keep up",
        ),
        (count, _) => failure::failed(
            format!("none of {count} pictures has a barcode"),
            "it is the test picture's that is read: glassline encode test:1280x720@50 …; where pictures are scaled, cropped or \
             covered on their way, it is lost",
        ),
    }
}

fn report(args: &Args, received: &Received, heard: &Heard<Ages>) -> Result<GlassReport> {
    let Heard { look: ages, complaints, units, dropped_datagrams } = heard;
    let (units, dropped_datagrams) = (*units, *dropped_datagrams);
    let Some(seen) = ages.seen() else {
        return Err(nothing_seen(ages.decoded(), ages.unread(), complaints));
    };
    let mut warnings = Vec::new();
    if seen.age_ms.min < 0.0 {
        warnings.push("Pictures come from the future: the clocks of both machines do not agree.".to_owned());
    }
    if dropped_datagrams > 0 {
        warnings.push(format!("{dropped_datagrams} datagrams were not taken in time and are lost."));
    }
    if let Some(first) = complaints.first() {
        warnings.push(format!("FFmpeg complains ({} lines); first: {}", complaints.len(), clean(first)));
    }
    Ok(GlassReport {
        schema: SCHEMA,
        source: super::shown(&args.target).to_owned(),
        kind: "glass",
        units,
        received_ms: received.ages.distribution(|age| age),
        seen,
        dropped_datagrams,
        warnings,
    })
}

fn table(report: &GlassReport) -> String {
    let seen = &report.seen;
    let count = |count: u64| count.to_string();
    let lines = [
        ("Access units received", count(report.units)),
        ("Pictures decoded", format!("{}, {} of them looked at", seen.pictures, seen.age_ms.count)),
        ("Missing", count(seen.missing)),
        ("Late", {
            let limit =
                seen.late_after_ms.map_or(String::new(), |limit| format!(" (older than {limit:.1} ms)"));
            format!("{}{limit}", seen.late)
        }),
        ("Without barcode", count(seen.unread)),
        ("Torn", count(seen.torn)),
    ];
    let head = ["Age, ms", "min", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec();
    let row = |name: &str, ages: &Distribution| {
        let cells = [ages.min, ages.p50, ages.p95, ages.p99, ages.max].map(|age| format!("{age:.1}"));
        [vec![name.to_owned()], cells.to_vec()].concat()
    };
    let received = report.received_ms.as_ref().map(|ages| row("last byte received", ages));
    let rows: Vec<_> = [head].into_iter().chain(received).chain([row("decoded", &seen.age_ms)]).collect();
    let blocks = [facts(&lines), grid(&rows), warnings(&report.warnings)];
    format!("{}\n\n{}", clean(&report.source), blocks.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::bitstream::h264::{ACCESS_UNIT_DELIMITER, write_capture_utc_nal};

    fn sample() -> GlassReport {
        let ages: Samples = [20.0, 21.0].into_iter().collect();
        let age_ms = ages.distribution(|age| age).unwrap();
        let counts = [100, 0, 1, 0, 0];
        let [pictures, missing, late, unread, torn] = counts;
        let late_after_ms = Some(40.0);
        GlassReport {
            schema: SCHEMA,
            source: "udp://127.0.0.1:5000".to_owned(),
            kind: "glass",
            units: 100,
            seen: Seen { pictures, missing, late, late_after_ms, unread, torn, age_ms },
            received_ms: Some(age_ms),
            dropped_datagrams: 0,
            warnings: vec!["One.".to_owned()],
        }
    }

    #[test]
    fn every_key_of_the_json_is_documented() {
        let manual = include_str!("../../../docs/probe.md");
        let report = serde_json::to_value(sample()).unwrap();
        for key in report.as_object().unwrap().keys() {
            assert!(manual.contains(&format!("`{key}`")), "docs/probe.md lacks {key}");
        }
    }

    #[test]
    fn the_table_tells_both_ages_and_the_warnings() {
        let text = table(&sample());
        for line in ["Late", "older than 40.0 ms", "last byte received", "decoded", "- One."] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        let without = GlassReport { received_ms: None, ..sample() };
        assert!(!table(&without).contains("last byte received"));
    }

    #[test]
    fn a_unit_says_when_it_was_captured() {
        let mut unit = ACCESS_UNIT_DELIMITER.to_vec();
        write_capture_utc_nal(Utc::from_nanos(1_700_000_000_123_456_789), &mut unit);
        unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
        assert_eq!(captured(&unit), Some(Utc::from_nanos(1_700_000_000_123_456_789)));
        assert_eq!(captured(&[0, 0, 1, 0x41, 0x9a]), None);
    }
}
