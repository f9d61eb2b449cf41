//! `glassline lab glass`: from glass to glass at the end of any chain, by the barcodes of a test pattern; nothing of ours needs to be
//! trusted but the barcode.

mod film;
mod report;
mod stream;

use crate::failure;
use crate::picture_file;
use crate::trust::Trust;
use anyhow::Result;
use glassline_media::{Size, quantity};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  glassline encode test:1280x720@50 http://relay:8080/live/a.ts
  glassline lab glass http://relay:8080/live/a.ts
                                     Glassline's own stream: each stage, their sum, and the latency by barcode
  glassline lab glass udp://239.1.2.3:5000 --svg glass.svg
                                     the same for datagrams, with a drawing
  glassline receive link://:7000 - --key a.key | glassline lab glass -
                                     pictures that another program decodes into a pipe, in any format that FFmpeg can read
  glassline encode test:1280x720@50 - | ffmpeg -i - -c copy -f rtsp rtsp://server:8554/a
  glassline lab glass rtsp://server:8554/a
                                     a chain of other programs (FFmpeg, MediaMTX, …), opened and decoded by FFmpeg
  glassline lab glass http://server/a/index.m3u8 --duration 30s --json
  glassline lab glass --page http://relay:8080/watch/a
                                     what a browser shows, with any player: Glassline's, MediaMTX's, yours
  glassline lab glass --film phone.mp4
                                     a camera's recording of both screens: only the source's clock counts

The pattern's barcode says when each picture was captured, by the clock of the machine that drew it; docs/barcode.md
explains how another program can draw it. If that is another machine, its clock and this machine's must agree.

Exit status: 0 success, 1 if nothing arrived or no barcode could be read, 2 wrong usage.";

/// Measure glass-to-glass latency at the end of any chain by barcodes, and compare it with the sum of the stages
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A live stream: an http:// or udp:// URL of MPEG-TS with H.264, for which the stages are reported, too; another
    /// address that FFmpeg can open (rtsp://, srt://, rtmp://, …, .m3u8, .mpd); a named pipe, or - for standard input
    #[arg(value_name = "URL|PIPE", required_unless_present_any = ["page", "film"])]
    target: Option<String>,
    /// A page that shows the video in a real browser: Chromium opens it without a window, and its videos and canvases
    /// are examined. Chromium runs without a sandbox: use it only for pages that you trust
    #[arg(long, value_name = "URL", conflicts_with_all = ["target", "ffmpeg"])]
    page: Option<String>,
    /// A recording of two screens, the source's and the viewer's, in any format that FFmpeg can decode: measures the
    /// time between their barcodes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "ffmpeg", "page", "duration"])]
    film: Option<String>,
    /// The browser; without it $CHROMIUM, or the first of chromium, chromium-browser, google-chrome-stable and
    /// google-chrome that is found
    #[arg(long, value_name = "PROGRAM", requires = "page")]
    browser: Option<PathBuf>,
    /// The source's picture size, if it is unusual and the page shows the picture at another size
    #[arg(long, value_name = "WxH", requires = "page", value_parser = quantity::parse_size)]
    size: Option<Size>,
    /// Open http:// and udp:// URLs with FFmpeg, too, whatever they contain; stages are not reported then
    #[arg(long)]
    ffmpeg: bool,
    /// How long to measure; the first second is not counted
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Print the report as JSON; docs/lab.md explains each key
    #[arg(long)]
    json: bool,
    /// Draw the stages, and how the ages of the pictures are distributed
    #[arg(long, value_name = "FILE.svg", value_parser = picture_file::parse)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    if range.contains(&duration) { Ok(duration) } else { Err("must be from 100ms to 1h".into()) }
}

/// The program that opens the measured stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    Ours,
    Ffmpeg,
}

/// The program that opens `target`. A plain file is refused, because the age of a recording means nothing.
fn opener(target: &str, by_ffmpeg: bool) -> Result<Opener> {
    match target.split_once("://") {
        Some(("http" | "https", rest)) => {
            let path = rest.split(['?', '#']).next().unwrap_or(rest);
            let is_list = [".m3u8", ".mpd"].iter().any(|end| path.ends_with(end));
            Ok(if by_ffmpeg || is_list { Opener::Ffmpeg } else { Opener::Ours })
        }
        Some(("udp", _)) if !by_ffmpeg => Ok(Opener::Ours),
        Some(("file", _)) => Err(recorded(target)),
        Some(_) => Ok(Opener::Ffmpeg),
        None if target == "-" => Ok(Opener::Ffmpeg),
        None => match std::fs::metadata(target) {
            Ok(about) if about.is_file() || about.is_dir() => Err(recorded(target)),
            Ok(_) => Ok(Opener::Ffmpeg),
            Err(error) => {
                Err(failure::failed(format!("cannot read {target}: {error}"), "name a URL, a pipe or -"))
            }
        },
    }
}

fn recorded(target: &str) -> anyhow::Error {
    failure::usage(
        format!("{target} is not live, and what is recorded has no age"),
        "name a URL, a named pipe, or - for standard input",
    )
}

/// Measures, and prints the report.
pub(super) fn run(args: &Args) -> Result<()> {
    args.svg.as_deref().map_or(Ok(()), picture_file::check)?;
    if let Some(path) = &args.film {
        return film::run(path, args.json, args.svg.as_deref());
    }
    let measured = match (&args.page, &args.target) {
        (Some(page), _) => stream::in_a_browser(args, page)?,
        (None, Some(target)) => match opener(target, args.ffmpeg)? {
            Opener::Ours => stream::ours(args, target)?,
            Opener::Ffmpeg => stream::by_ffmpeg(args, target)?,
        },
        (None, None) => unreachable!("the parser wants one of them"),
    };
    measured.tell(args.json, args.svg.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_mpeg_ts_over_http_and_datagrams_and_the_rest_is_ffmpegs() {
        for (target, by_ffmpeg, expected) in [
            ("http://a/live/a.ts", false, Opener::Ours),
            ("https://a/live/a.ts?token=x.m3u8", false, Opener::Ours),
            ("udp://239.1.2.3:5000", false, Opener::Ours),
            ("udp://239.1.2.3:5000", true, Opener::Ffmpeg),
            ("http://a/live/a.ts", true, Opener::Ffmpeg),
            ("http://a/live/a/index.m3u8?token=x", false, Opener::Ffmpeg),
            ("https://a/live/a/manifest.mpd", false, Opener::Ffmpeg),
            ("rtsp://a:8554/a", false, Opener::Ffmpeg),
            ("-", false, Opener::Ffmpeg),
        ] {
            assert_eq!(opener(target, by_ffmpeg).unwrap(), expected, "{target}");
        }

        for (target, words) in
            [("/", "not live"), ("file:///a.ts", "not live"), ("/no/such/pipe", "cannot read")]
        {
            let error = opener(target, false).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
