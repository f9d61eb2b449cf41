//! `glassline export`: a time of a recorded stream as a file.

mod from_server;

use crate::stop::{Second, StopSignals};
use crate::trust::Trust;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_archive::export::{ExportFailure, ExportProgress, ExportRequest, Former, abandon_all, export};
use glassline_archive::{Archive, ReadingSettings, Store, StoreErrorKind, StoreSettings};
#[cfg(not(feature = "avcodec"))]
use glassline_codec::CodecError;
#[cfg(feature = "avcodec")]
use glassline_codec::h264::recode;
use glassline_delivery::archive::export::{Container, ExportError, Group, Recoder, Report};
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::query::Span;
use glassline_delivery::http1::Url;
use glassline_delivery::packager::RenditionName;
use glassline_delivery::playlist::date_time;
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_media::quantity::in_seconds;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Export a time of a recorded stream as MP4 or MPEG-TS
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The stream's name
    #[arg(value_name = "NAME", value_parser = stream_name)]
    name: StreamName,
    /// File to write: .mp4 (plays from the first byte on, all renditions) or .ts (the same as MPEG-TS). It appears when it is
    /// whole
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Where the recordings are, as [record] store has it: file:DIR or s3://BUCKET/PREFIX
    #[arg(long, value_name = "STORE", required_unless_present = "server")]
    store: Option<Location>,
    /// A server that records, in place of its store: it makes the file of what is in its spool, too, up to now. MP4 of five minutes and
    /// 64 MiB at most
    #[arg(long, value_name = "URL", requires = "from", conflicts_with_all = ["store", "exact", "endpoint", "region", "access_key_file"])]
    server: Option<Url>,
    /// File with the server's publish key, where it has one
    #[arg(long, value_name = "FILE", requires = "server")]
    publish_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// When it begins: 2026-11-30T20:15:00Z, seconds since 1970, or before now (-30s, -5m, -2h, -1d). The file begins at the last key
    /// frame before. Without --from it is all of the newest recording
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Begin with the first picture at --from or later: the pictures up to the next key frame are coded anew (H.264 in MP4)
    #[arg(long, requires = "from")]
    exact: bool,
    /// When it ends, written in the same ways; default the end of what is recorded
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Address of the server that speaks S3; default Amazon's of the region
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of the bucket; default us-east-1
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// File with the access key of the bucket; default the credentials of this machine
    #[arg(long, value_name = "FILE", requires = "secret_key_file")]
    access_key_file: Option<PathBuf>,
    /// File with its secret key
    #[arg(long, value_name = "FILE", requires = "access_key_file")]
    secret_key_file: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print what was exported as one line of JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline export stage out.mp4 --store file:/srv/recordings --from -10m
  glassline export stage goal.mp4 --store file:/srv/recordings --from 2026-11-30T20:15:00Z --to 2026-11-30T20:16:00Z
  glassline export stage goal.mp4 --store file:/srv/recordings --from 2026-11-30T20:15:03.5Z --to 2026-11-30T20:15:09Z --exact
  glassline export stage out.ts --from -2h --to -90m --store s3://media/recordings --endpoint https://s3.example \\
      --access-key-file id --secret-key-file secret
  glassline export stage last.mp4 --server http://127.0.0.1:8080 --from -30s    of a recording that goes on, up to now
  glassline export stage all.mp4 --store file:/srv/recordings --json    all of the newest recording, and what became of it as JSON

Pictures and sound are copied: the file begins at the last key frame before --from and ends at --to; the command says which times
these became. With --exact it begins with the first picture at --from or later, and what lies between that and the next key frame is
coded anew, of H.264 with whole pictures in 4:2:0 of 8 bits; of anything else there is no file, and the command says why.
What is missing in the recording is told; the file goes on without a hole. A server that records may go on meanwhile: what
it has not put into the store yet, the last seconds, is in no file that is made of --store; --server has that, too.
Exit status: 0 if all that was asked for is in the file; 3 if the file is there and something is missing, which is told (times that
were not recorded, objects that are lost); 1 if there is no file; 2 for wrong usage.";

fn stream_name(text: &str) -> Result<StreamName, String> {
    let wanted = "a stream's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot";
    StreamName::parse(text).ok_or_else(|| wanted.to_owned())
}

/// What a file's name says that it is.
fn container_of(out: &Path) -> Result<Container> {
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("mp4" | "m4v" | "mov") => Ok(Container::Mp4),
        // Not .mts or .m2ts: those have a time in front of each packet.
        Some("ts" | "m2t") => Ok(Container::MpegTs),
        _ => Err(failure::usage(
            format!("{:?} does not say what to write", out.display().to_string()),
            "give a file that ends with .mp4 or .ts",
        )),
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let container = container_of(&args.out)?;
    if args.exact && container == Container::MpegTs {
        let problem =
            "--exact makes MP4 alone: a transport stream has no place for what is decoded and not shown";
        return Err(failure::usage(problem, "give a file that ends with .mp4, or leave --exact out"));
    }
    let clock = Clock::new();
    let span = Span::between(args.from.as_deref(), args.to.as_deref(), clock.utc());
    let span = span.map_err(|bad| failure::usage(bad, "give --from and --to so, or none of both"))?;
    let former = if args.force { Former::Replaced } else { Former::Kept };
    if let Some(server) = &args.server {
        if container == Container::MpegTs {
            return Err(failure::usage("a server makes MP4 alone", "give a file that ends with .mp4"));
        }
        return from_server::run(args, server, former, clock);
    }
    let Some(location) = args.store.clone() else {
        return Err(failure::usage("it is not said where the recordings are", "give --store or --server"));
    };
    let settings = StoreSettings {
        location,
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        access_key_file: args.access_key_file.clone(),
        secret_key_file: args.secret_key_file.clone(),
    };
    let store = Store::start(settings).context("cannot start a thread")?;
    let recordings = Archive::start(Box::new(store), None, ReadingSettings::default(), clock)
        .context("cannot start a thread")?;
    let stop = stopped_by_signals()?;
    let request = ExportRequest { name: args.name.clone(), span, container };
    let is_shown = std::io::stderr().is_terminal();
    let mut shown_at = Instant::now();
    let recoder = args.exact.then(|| recoder(Arc::clone(&stop)));
    let exported = export(&recordings, &request, &args.out, former, recoder, |progress| {
        if is_shown && shown_at.elapsed() >= Duration::from_millis(200) {
            shown_at = Instant::now();
            output::show_progress(&line_of(progress));
        }
        !stop.load(Ordering::Relaxed)
    });
    if is_shown {
        output::clear_progress();
    }
    let report = exported.map_err(|failed| explain(&failed))?;
    let bytes = std::fs::metadata(&args.out).map_or(0, |metadata| metadata.len());
    if args.json {
        output::print(&json(args, span, &report, bytes)?)?;
    } else {
        output::print_aside(&words(args, span, &report, bytes))?;
    }
    if report.is_whole() { Ok(()) } else { Err(failure::incomplete()) }
}

/// Codes the first pictures of an exact file anew.
fn recoder(stop: Arc<AtomicBool>) -> Recoder {
    Box::new(move |group: &Group| {
        let mut is_wanted = || !stop.load(Ordering::Relaxed);
        #[cfg(feature = "avcodec")]
        let units = recode(&group.units, group.from, group.frame_rate, group.bitrate_bps, &mut is_wanted);
        #[cfg(not(feature = "avcodec"))]
        let units = match is_wanted() {
            true => Err(CodecError::NotBuiltIn { codec: "H.264 (libavcodec)" }),
            false => Ok(None),
        };
        units.map_err(|error| error.to_string())?.ok_or_else(|| "it was ended".to_owned())
    })
}

/// Becomes true at the first signal. The second one ends the process at once, without the file that it was writing.
fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::<AtomicBool>::default();
    let told = Arc::clone(&stop);
    StopSignals::catch()?.call(Second::Asks, move |_| {
        if told.swap(true, Ordering::Relaxed) {
            abandon_all(|| std::process::exit(1));
        }
    })?;
    Ok(stop)
}

fn line_of(progress: ExportProgress) -> String {
    let ExportProgress { done, all } = progress;
    if all.is_zero() {
        return "looking at the recordings".to_owned();
    }
    let percent = done.as_secs_f64() / all.as_secs_f64() * 100.0;
    format!("exported {} of {} ({:.0} %)", clock_time(done), clock_time(all), percent.min(100.0))
}

/// Hours, minutes and seconds.
fn clock_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// An error with what to do about it.
fn explain(failed: &ExportFailure) -> anyhow::Error {
    let advice = match failed {
        ExportFailure::NoStream { .. } => "give the name of one of them, or another --store",
        ExportFailure::NothingThen(_) => {
            "give another --from and --to; without them the newest recording is exported"
        }
        ExportFailure::TooLong(_) => "export it in parts",
        ExportFailure::Export(
            ExportError::Object { .. } | ExportError::Astray { .. } | ExportError::Nothing,
        ) => "another time of the recording may be whole",
        // These say it themselves.
        ExportFailure::Export(_) => "nothing was written",
        ExportFailure::Exists { .. } => {
            return failure::usage(failed, "give another file, or --force to replace it");
        }
        ExportFailure::NoFile { .. } => return failure::usage(failed, "give another name"),
        ExportFailure::TooLarge { .. } => "export it in parts",
        ExportFailure::Write { error, .. } if error.kind() == ErrorKind::StorageFull => {
            "make room on that disk"
        }
        ExportFailure::Write { .. } => "give another file",
        ExportFailure::Stopped => "begin again",
        ExportFailure::Store(error) => match error.kind() {
            StoreErrorKind::Denied => "look at the key files and at what their owner may read",
            StoreErrorKind::Unreachable | StoreErrorKind::Busy => "try again when it answers",
            _ => "look at --store and --endpoint",
        },
    };
    failure::failed(failed, advice)
}

/// What was exported, for programs.
#[derive(Serialize)]
struct Exported<'a> {
    file: &'a Path,
    bytes: u64,
    from: String,
    to: String,
    wanted_from: Option<String>,
    wanted_to: Option<String>,
    seconds: f64,
    renditions: Vec<String>,
    /// All that was asked for is in the file.
    whole: bool,
    missing: Vec<Missing>,
    lost_objects: u64,
}

/// A time that is not in a file, or of which a rendition is not.
#[derive(Serialize)]
pub(crate) struct Missing {
    #[serde(skip_serializing_if = "Option::is_none")]
    rendition: Option<String>,
    from: String,
    to: String,
}

/// What is missing in a file, for programs.
pub(crate) fn missing(report: &Report) -> Vec<Missing> {
    let told = report.missing.iter().map(|missing| Missing {
        rendition: missing.rendition.map(|rendition| rendition.to_string()),
        from: date_time(missing.from),
        to: date_time(missing.to),
    });
    told.collect()
}

fn json(args: &Args, span: Option<Span>, report: &Report, bytes: u64) -> Result<String> {
    let names = |names: &[RenditionName]| names.iter().map(ToString::to_string).collect();
    let exported = Exported {
        file: &args.out,
        bytes,
        from: date_time(report.from),
        to: date_time(report.to),
        wanted_from: span.map(|span| date_time(span.from)),
        wanted_to: span.and_then(|span| span.to).map(date_time),
        seconds: in_seconds(report.duration),
        renditions: names(&report.renditions),
        whole: report.is_whole(),
        missing: missing(report),
        lost_objects: report.lost_objects,
    };
    Ok(format!("{}\n", serde_json::to_string(&exported)?))
}

fn words(args: &Args, span: Option<Span>, report: &Report, bytes: u64) -> String {
    let out = args.out.display();
    let mut text = format!(
        "{out}: {} from {} to {}, {:.1} MB",
        clock_time(report.duration + Duration::from_millis(500)),
        date_time(report.from),
        date_time(report.to),
        bytes as f64 / 1e6
    );
    if let Some(span) = span
        && span.from > report.from
        && span.from.as_nanos() - report.from.as_nanos() > 1_000_000
    {
        let _ = write!(text, " (from the last key frame before {})", date_time(span.from));
    }
    text.push('\n');
    for missing in &report.missing {
        let (from, to) = (date_time(missing.from), date_time(missing.to));
        let _ = match missing.rendition {
            None => writeln!(text, "not recorded: {from} to {to}; the file goes on without a hole"),
            Some(rendition) => writeln!(text, "without {rendition}: {from} to {to}"),
        };
    }
    if report.lost_objects > 0 {
        let _ =
            writeln!(text, "{} recorded objects are not there or damaged, and left out", report.lost_objects);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_is_written() {
        let of = |name: &str| container_of(Path::new(name)).ok();
        assert_eq!(of("a/b.mp4"), Some(Container::Mp4));
        assert_eq!(of("b.ts"), Some(Container::MpegTs));
        assert_eq!((of("b"), of("b.mkv"), of(".mp4"), of("b.m2ts")), (None, None, None, None));
    }

    #[test]
    fn progress_is_told_in_time() {
        let secs = Duration::from_secs;
        let line = line_of(ExportProgress { done: secs(61), all: secs(7322) });
        assert_eq!(line, "exported 1:01 of 2:02:02 (1 %)");
        assert_eq!(line_of(ExportProgress { done: secs(9), all: secs(8) }), "exported 0:09 of 0:08 (100 %)");
        assert_eq!(line_of(ExportProgress { done: secs(0), all: secs(0) }), "looking at the recordings");
    }
}
