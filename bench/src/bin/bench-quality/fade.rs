//! A still slide for a minute, then a fade to live action: what the pictures of the fade cost, and when they are there.
//!
//! Each encoder publishes at the clip's own speed to `glassline serve`; `glassline probe` is the viewer, which the server paces. From
//! the viewer's stream each picture's size is taken, and played against a VBV and a line of just the bit rate.

use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::process::Server;
use glassline_bench::report::Report;
use glassline_media::container::ts::{Demuxer, Event};
use serde_json::Value;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const SLIDE_S: u32 = 60;
const FADE_S: f64 = 2.0;
/// Slide, fade and what follows.
const LENGTH_S: u32 = 66;
const KILOBITS: u32 = 4000;
const CASE: &str = "a slide for a minute, then a fade of 2 s, 720p25 at 4 Mbit/s";

pub(crate) fn measure(folder: &Path, report: &mut Report) -> Result<()> {
    let Some(clip) = clip(folder)? else {
        report.note("SKIPPED the fade: street_720p25 is not there (GLASSLINE_SHARED)");
        return Ok(());
    };
    for who in ["glassline", "glassline superfast", "ffmpeg defaults", "ffmpeg zerolatency, VBV 1 s"] {
        let seen = run(who, &clip, folder)?;
        report.add(CASE, who, "least of the VBV of 1 s that is full", "%", seen.least_of_vbv * 100.0);
        report.add(CASE, who, "largest picture of the fade", "KiB", seen.largest_picture / 1024.0);
        report.add(
            CASE,
            who,
            "longest wait of its pictures on a line of the rate",
            "ms",
            seen.longest_wait_s * 1e3,
        );
        report.add(CASE, who, "largest burst to a paced viewer", "KiB", seen.largest_burst / 1024.0);
    }
    for who in ["glassline", "glassline superfast"] {
        let least = report.value(CASE, who, "least of the VBV of 1 s that is full").context("measured")?;
        report.term(format!("{who}: the VBV is never empty, least %"), least, 0.0, false);
    }
    Ok(())
}

struct Seen {
    least_of_vbv: f64,
    largest_picture: f64,
    longest_wait_s: f64,
    largest_burst: f64,
}

fn run(who: &str, clip: &Path, folder: &Path) -> Result<Seen> {
    let address: SocketAddr = machine::free_address()?;
    let listen = address.to_string();
    let glassline = machine::glassline()?;
    let mut server =
        Server::start(Server::folder("fade")?, None, &glassline, ["serve", "--listen", &listen])?;
    server.connect(address)?;
    let url = format!("http://{address}/live/fade.ts");
    let mut encoder = command(who, clip, &url, &glassline);
    let mut encoder = encoder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let stream = folder.join(format!("fade-{}.ts", who.replace([' ', ','], "-")));
    let viewer = viewer(&url, &stream);
    let flight = flight(&glassline, &url)?;
    ensure!(encoder.wait()?.success(), "{who} failed");
    viewer.join().map_err(|_| anyhow::anyhow!("the viewer's thread panicked"))??;
    server.stop()?;
    let largest_burst = flight["flight"]["largest_burst"]["bytes"].as_f64().context("probe tells bursts")?;
    let mut seen = judge(&std::fs::read(&stream)?)?;
    seen.largest_burst = largest_burst;
    Ok(seen)
}

fn command(who: &str, clip: &Path, url: &str, glassline: &Path) -> Command {
    let rate = format!("{KILOBITS}k");
    if who.starts_with("glassline") {
        let mut command = Command::new(glassline);
        command.arg("encode").arg(clip).arg(url).args(["--realtime", "--audio", "none", "--bitrate", &rate]);
        if who.ends_with("superfast") {
            command.args(["--preset", "superfast"]);
        }
        return command;
    }
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-re", "-i"]).arg(clip).args(["-c:v", "libx264", "-b:v", &rate]);
    if who.contains("zerolatency") {
        let vbv =
            ["-tune", "zerolatency", "-preset", "veryfast", "-g", "25", "-maxrate", &rate, "-bufsize", &rate];
        command.args(vbv);
    }
    command.args(["-f", "mpegts", "-method", "PUT", url]);
    command
}

/// Keeps all that a viewer gets.
fn viewer(url: &str, file: &Path) -> std::thread::JoinHandle<Result<()>> {
    let (url, file) = (url.to_owned(), file.to_owned());
    std::thread::spawn(move || {
        for _ in 0..200 {
            let mut curl = Command::new("curl");
            curl.args(["-s", "-f", "-N", "--max-time", "90", "-o"]).arg(&file).arg(&url);
            let ended = curl.stdin(Stdio::null()).status().context("curl")?;
            let has_bytes = std::fs::metadata(&file).is_ok_and(|file| file.len() > 1_000_000);
            if ended.success() || has_bytes {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        anyhow::bail!("{url} gave nothing")
    })
}

/// What `probe` says of the last seconds of the stream as it arrives.
fn flight(glassline: &Path, url: &str) -> Result<Value> {
    std::thread::sleep(Duration::from_secs(u64::from(SLIDE_S) - 12));
    let mut command = Command::new(glassline);
    command.args(["probe", url, "--json", "--flight", "--duration", "14s"]);
    let output = command.stdin(Stdio::null()).output().context("glassline probe")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Plays the pictures' sizes against a VBV of a second and a line of the rate.
fn judge(stream: &[u8]) -> Result<Seen> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let mut pictures: Vec<(f64, f64)> = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event
            && unit.codec.is_video()
        {
            pictures.push((unit.dts.0 as f64 / 90_000.0, unit.data.len() as f64));
        }
    }
    let (first, _) = *pictures.first().context("there are pictures")?;
    let rate = f64::from(KILOBITS) * 1000.0;
    let (mut full, mut at, mut least, mut free_at) = (rate, first, rate, first);
    let (mut largest_picture, mut longest_wait_s) = (0.0f64, 0.0f64);
    let end = pictures.last().map_or(first, |(time, _)| *time);
    let fade_begins = end - f64::from(LENGTH_S - SLIDE_S) - 1.0;
    for (time, bytes) in pictures {
        full = rate.min(full + (time - at) * rate) - bytes * 8.0;
        at = time;
        free_at = free_at.max(time) + bytes * 8.0 / rate;
        // The stream's first second is that of its first key frame, which the VBV is full for.
        if time > first + 1.0 {
            least = least.min(full);
        }
        if time >= fade_begins {
            largest_picture = largest_picture.max(bytes);
            longest_wait_s = longest_wait_s.max(free_at - time);
        }
    }
    Ok(Seen { least_of_vbv: least / rate, largest_picture, longest_wait_s, largest_burst: 0.0 })
}

fn clip(folder: &Path) -> Result<Option<PathBuf>> {
    let shared = std::env::var_os("GLASSLINE_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    let live = shared.join("media/street_720p25.mp4");
    if !live.exists() {
        return Ok(None);
    }
    let made = folder.join("fade.mkv");
    if !made.exists() {
        let offset = f64::from(SLIDE_S) - FADE_S / 2.0;
        let mix = format!(
            "[1:v]fps=25,format=yuv420p,settb=1/25[live];[0:v]format=yuv420p,settb=1/25[slide];\
             [slide][live]xfade=transition=fade:duration={FADE_S}:offset={offset}"
        );
        let mut command = Command::new("ffmpeg");
        let slide = format!("smptehdbars=size=1280x720:rate=25:duration={SLIDE_S}");
        command
            .args(["-v", "error", "-y", "-f", "lavfi", "-i", &slide, "-stream_loop", "-1", "-i"])
            .arg(&live);
        command.args(["-filter_complex", &mix, "-t", &LENGTH_S.to_string(), "-c:v", "libx264", "-qp", "0"]);
        let output = command.args(["-preset", "ultrafast", "-an"]).arg(&made).output().context("ffmpeg")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut head = [0; 4];
    std::fs::File::open(&made)?.read_exact(&mut head)?;
    Ok(Some(made))
}
