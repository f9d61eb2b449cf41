//! What it costs a server to watch its streams: processor time of the thread that does it, with twenty streams of 720p25.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use glassline_bench::process::{Others, Server, thread_cpu_time_of};
use glassline_bench::report::Report;
use glassline_bench::{http, machine};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What it costs to watch streams
#[derive(Debug, Parser)]
struct Args {
    /// Streams that are watched at once
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    streams: u32,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..))]
    seconds: u32,
    /// Runs of each case, in turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Clips that are encoded for it and played over and over; by default the test picture
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    clips: Vec<PathBuf>,
    /// Folder for watch.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

const SOUND: [&str; 4] = ["silence", "clipping", "phase", "loudness"];
const PICTURES: [&str; 4] = ["black", "frozen", "blurred", "flicker"];
/// Cases, and the alarms that are switched off and on in them.
const CASES: [(&str, &[&str], &[&str]); 4] = [
    ("pictures", &SOUND, &[]),
    ("pictures, frozen too", &SOUND, &["frozen"]),
    ("sound", &PICTURES, &[]),
    ("sound, loudness too", &PICTURES, &["loudness"]),
];

/// Programs that end with the bench.
struct Publishers(Vec<Child>);

impl Drop for Publishers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut report = Report::new("watch");
    report.how(format!("{} runs of {} s, {} streams", args.runs, args.seconds, args.streams));
    let folder = args.out.join("watch");
    std::fs::create_dir_all(&folder)?;
    let clips = clips(&args.clips, &folder)?;
    for _ in 0..args.runs {
        for (case, off, on) in CASES {
            run(&args, &clips, case, off, on, &mut report)?;
        }
    }
    let value = |case| report.value(case, "glassline", METRIC).context("it was measured");
    let (pictures, sound) = (value("pictures")?, value("sound")?);
    report.term("pictures of all streams, % of a core", pictures, 20.0, true);
    report.term("sound of a stream, % of a core", sound / f64::from(args.streams), 1.0, true);
    report.finish(&args.out)
}

const METRIC: &str = "processor time, all streams";

/// Twenty seconds of each clip as a broadcaster sends it: 3 Mbit/s of H.264 with B pictures, a key frame every two seconds, AAC.
fn clips(sources: &[PathBuf], folder: &Path) -> Result<Vec<PathBuf>> {
    let test = [PathBuf::from("testsrc2=s=1280x720:r=25")];
    let sources = if sources.is_empty() { &test[..] } else { sources };
    let mut made = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let path = folder.join(format!("{number}.ts"));
        let input: &[&str] = if source.is_file() { &["-stream_loop", "-1"] } else { &["-f", "lavfi"] };
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y"])
            .args(input)
            .arg("-i")
            .arg(source)
            .args([
                "-f",
                "lavfi",
                "-i",
                "anoisesrc=c=pink:a=0.2:r=48000",
                "-map",
                "0:v",
                "-map",
                "1:a",
                "-t",
                "20",
            ])
            .args(["-vf", "scale=1280:720,fps=25,format=yuv420p", "-c:v", "libx264", "-preset", "veryfast"])
            .args([
                "-b:v", "3M", "-maxrate", "3M", "-bufsize", "3M", "-g", "50", "-c:a", "aac", "-b:a", "128k",
                "-ac", "2",
            ])
            .args(["-f", "mpegts"])
            .arg(&path)
            .status()
            .context("cannot start ffmpeg")?;
        ensure!(status.success(), "ffmpeg cannot encode {}", source.display());
        made.push(path);
    }
    Ok(made)
}

fn run(
    args: &Args,
    clips: &[PathBuf],
    case: &str,
    off: &[&str],
    on: &[&str],
    report: &mut Report,
) -> Result<()> {
    let folder = Server::folder("watch")?;
    let switched = |names: &[&str], enabled: bool| -> String {
        names.iter().map(|name| format!("[watch.{name}]\nenabled = {enabled}\n")).collect()
    };
    let config = format!("[watch]\nstreams = ['*']\n{}{}", switched(off, false), switched(on, true));
    std::fs::write(folder.join("glassline.toml"), config)?;
    let address = machine::free_address()?;
    let listen = address.to_string();
    let arguments = ["serve", "--listen", &listen, "--config", "glassline.toml", "--open-publish"];
    let mut server = Server::start(folder, None, &machine::glassline()?, arguments)?;
    // Waits until it answers.
    drop(server.connect(address)?);
    let _publishers = publish(args, clips, address)?;
    let until = Instant::now() + Duration::from_secs(60);
    let pictures = || counted(address, "glassline_watch_pictures_total");
    while counted(address, "glassline_stream_live")? < f64::from(args.streams) && Instant::now() < until {
        server.check_alive()?;
        sleep(Duration::from_millis(200));
    }
    let are_there = || -> Result<()> {
        let live = counted(address, "glassline_stream_live")?;
        ensure!(live >= f64::from(args.streams), "{live} of {} streams are there", args.streams);
        Ok(())
    };
    are_there()?;
    // The first seconds have a backlog.
    sleep(Duration::from_secs(12));
    let others = Others::begin()?;
    let before = (thread_cpu_time_of(server.id(), "watch")?, pictures()?, Instant::now());
    sleep(Duration::from_secs(args.seconds.into()));
    let spent = thread_cpu_time_of(server.id(), "watch")?.saturating_sub(before.0);
    let time = before.2.elapsed().as_secs_f64();
    server.check_alive()?;
    are_there()?;
    let decoded = pictures()? - before.1;
    let least = if case.starts_with("pictures") { f64::from(args.streams) * time * 0.3 } else { 0.0 };
    ensure!(decoded >= least, "{decoded} pictures were decoded in {time:.0} s: is libavcodec there?");
    report.disturbance(case, "glassline", others.share()?);
    report.add(case, "glassline", METRIC, "% of a core", spent.as_secs_f64() * 100.0 / time);
    let each = f64::from(args.streams) * time;
    report.add_context(case, "glassline", "pictures decoded, a stream and second", "", decoded / each);
    let left_out = counted(address, "glassline_watch_left_out_total")?
        + counted(address, "glassline_watch_skipped_total")?;
    report.add_context(case, "glassline", "left out, all streams", "", left_out);
    Ok(())
}

/// A publisher for each stream, each from another place of its clip on.
fn publish(args: &Args, clips: &[PathBuf], address: SocketAddr) -> Result<Publishers> {
    let mut publishers = Publishers(Vec::new());
    for (number, clip) in (0..args.streams).zip(clips.iter().cycle()) {
        // Within the shortest clip: FFmpeg sends nothing from a place behind the end.
        let offset = format!("{}", f64::from(number % 10) * 0.7);
        let child = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-ss", &offset, "-i"])
            .arg(clip)
            .args(["-c", "copy", "-f", "mpegts"])
            .arg(format!("http://{address}/live/watched{number}.ts"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start ffmpeg")?;
        publishers.0.push(child);
    }
    Ok(publishers)
}

/// The sum of a figure over all streams.
fn counted(address: SocketAddr, name: &str) -> Result<f64> {
    let text = http::get(address, "/metrics")?;
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    };
    Ok(text.lines().filter_map(of).sum())
}
