//! Where the milliseconds go on each of our paths, on one machine: the test pattern's stages as each hop tells them, and the
//! barcode of each picture at the end, which is read from what is decoded or shown.
//!
//! `glassline lab glass` does both; this runs the paths.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use glassline_bench::machine;
use glassline_bench::process::{Others, Server};
use glassline_bench::report::{OURS, Report};
use glassline_media::Stage;
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long programs may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Stages must add up to what barcodes say, in milliseconds.
const APART_MEDIAN_MS: f64 = 2.0;
const APART_P99_MS: f64 = 5.0;

/// Where the milliseconds go on each of our paths, held against barcodes
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each path
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(3..=600))]
    seconds: u64,
    /// Pictures of the test pattern
    #[arg(long, default_value = "1280x720@50", value_name = "WxH@RATE")]
    pictures: String,
    /// The encoder's preset
    #[arg(long, default_value = "superfast")]
    preset: String,
    /// Folder for latency.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// What all paths have.
struct Bench {
    args: Args,
    program: PathBuf,
    report: Report,
    failed: u32,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let program = machine::glassline()?;
    let mut report = Report::new("latency");
    report.how(format!("{} s of {}, x264 {}", args.seconds, args.pictures, args.preset));
    let out = args.out.clone();
    let mut bench = Bench { args, program, report, failed: 0 };
    if machine::find("ffmpeg").is_some() {
        bench.run("encode, relay, decoder", Bench::relayed);
        bench.run("send-raw, encode, relay, decoder", Bench::raw);
        bench.run("send, receive, pipe", Bench::direct);
    } else {
        bench.report.note("SKIPPED what is decoded: no ffmpeg here (apt install ffmpeg)");
    }
    if machine::find("chromium").is_some() || std::env::var_os("CHROMIUM").is_some() {
        bench.run("encode, relay, page", |bench, case| bench.page(case, ""));
        bench.run("encode, relay, page, Media Source Extensions", |bench, case| {
            bench.page(case, "?engine=mse")
        });
        bench.run("encode, LL-HLS, hls.js", |bench, case| bench.page(case, "?engine=hls"));
    } else {
        bench.report.note("SKIPPED the page: no chromium here (apt install chromium)");
    }
    bench.report.finish(&out)?;
    ensure!(bench.failed == 0, "{} paths failed; the notes tell why", bench.failed);
    Ok(())
}

impl Bench {
    fn run(&mut self, case: &str, path: impl FnOnce(&mut Bench, &str) -> Result<()>) {
        let measured = Others::begin().and_then(|others| {
            path(self, case)?;
            others.share()
        });
        match measured {
            Ok(others) => self.report.disturbance(case, OURS, others),
            Err(error) => {
                self.failed += 1;
                self.report.note(format!("FAILED {case}: {error:#}"));
            }
        }
    }

    /// A server, and the address of the stream that `source` is encoded to.
    fn stream(&self, source: &str) -> Result<(Server, Server, SocketAddr)> {
        let address = machine::free_address()?;
        let listen = address.to_string();
        let serve = ["serve", "--listen", &listen];
        let mut server = Server::start(Server::folder("serve")?, None, &self.program, serve)?;
        server.connect(address)?;
        let to = format!("http://{address}/live/latency.ts");
        let encode = ["encode", source, &to, "--preset", &self.args.preset, "--keyint", "1s"];
        let mut encoder = Server::start(Server::folder("encode")?, None, &self.program, encode)?;
        await_pictures(&mut encoder, &to)?;
        Ok((server, encoder, address))
    }

    fn relayed(&mut self, case: &str) -> Result<()> {
        let (_server, _encoder, address) = self.stream(&format!("test:{}", self.args.pictures))?;
        let seen = self.glass(&[&format!("http://{address}/live/latency.ts")])?;
        self.tell(case, &seen)
    }

    fn raw(&mut self, case: &str) -> Result<()> {
        let folder = Server::folder("send-raw")?;
        let description = folder.join("raw.sdp");
        let to = format!("rtp://{}", free_port()?);
        let (source, name) =
            (format!("test:{}", self.args.pictures), description.to_string_lossy().into_owned());
        let send = ["send-raw", &source, &to, "--sdp", &name];
        let mut sender = Server::start(folder, None, &self.program, send)?;
        let until = Instant::now() + START_TIMEOUT;
        while fs::read_to_string(&description).map_or(true, |text| text.is_empty()) {
            sender.check_alive()?;
            ensure!(Instant::now() < until, "send-raw writes no session description");
            sleep(Duration::from_millis(20));
        }
        let (_server, _encoder, address) = self.stream(&format!("rtp:{name}"))?;
        let seen = self.glass(&[&format!("http://{address}/live/latency.ts")])?;
        self.tell(case, &seen)
    }

    /// The codec that the network steers, decoded, and written into a pipe that FFmpeg reads.
    fn direct(&mut self, case: &str) -> Result<()> {
        let at = format!("link://{}", free_port()?);
        let (program, seconds) = (self.program.display(), self.args.seconds + 1);
        let script = format!(
            "'{program}' receive {at} - --insecure --once | '{program}' lab glass - --json --duration {seconds}s"
        );
        let mut receiver = Server::start(Server::folder("receive")?, None, Path::new("sh"), ["-c", &script])?;
        let (source, seconds) = (format!("test:{}", self.args.pictures), format!("{}s", seconds + 5));
        let send = ["send", &source, &at, "--insecure", "--duration", &seconds];
        let _sender = Server::start(Server::folder("send")?, None, &self.program, send)?;
        let status = receiver.wait(START_TIMEOUT + Duration::from_secs(self.args.seconds + 6))?;
        ensure!(status.success(), "receive and lab glass: {}", receiver.log_end());
        let log = receiver.log();
        // What both log is in front of it.
        let json = log.find("\n{\n").or_else(|| log.starts_with("{\n").then_some(0));
        let json = json.and_then(|at| serde_json::Deserializer::from_str(&log[at..]).into_iter().next());
        let seen: Value = json.context("lab glass wrote no JSON")?.context("lab glass' JSON")?;
        self.tell(case, &seen)
    }

    fn page(&mut self, case: &str, query: &str) -> Result<()> {
        let (_server, _encoder, address) = self.stream(&format!("test:{}", self.args.pictures))?;
        let seen = self.glass(&["--page", &format!("http://{address}/watch/latency{query}")])?;
        self.tell(case, &seen)
    }

    fn glass(&self, what: &[&str]) -> Result<Value> {
        let duration = format!("{}s", self.args.seconds + 1);
        let told = Command::new(&self.program)
            .args(["lab", "glass", "--json", "--duration", &duration])
            .args(what)
            .output()
            .context("cannot start glassline lab glass")?;
        let said = String::from_utf8_lossy(&told.stderr);
        ensure!(told.status.success(), "glassline lab glass ended with {}: {said}", told.status);
        serde_json::from_slice(&told.stdout).context("glassline lab glass wrote no JSON")
    }

    /// Rows of a report of `lab glass`.
    fn tell(&mut self, case: &str, seen: &Value) -> Result<()> {
        let number = |path: &str| {
            seen.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {seen}"))
        };
        for step in seen["proof"]["steps"].as_array().into_iter().flatten() {
            let stage = Stage::ALL.into_iter().find(|stage| step["to"] == stage.name());
            let (Some(stage), Some(median)) = (stage, step["ms"]["p50"].as_f64()) else { continue };
            self.report.add(case, OURS, stage.label(), "ms", median);
        }
        self.report.add(case, OURS, "barcode to barcode, median", "ms", number("/age_ms/p50")?);
        self.report.add(case, OURS, "barcode to barcode, p99", "ms", number("/age_ms/p99")?);
        if seen["proof"].is_object() {
            let (median, high) = (number("/proof/apart_ms/p50")?, number("/proof/apart_ms/p99")?);
            self.report.add_context(case, OURS, "stages and barcodes apart, median", "ms", median);
            self.report.add_context(case, OURS, "stages and barcodes apart, p99", "ms", high);
            let text = |which| format!("{case}: stages and barcodes apart, {which}, ms");
            self.report.term(text("median"), median, APART_MEDIAN_MS, true);
            self.report.term(text("p99"), high, APART_P99_MS, true);
        }
        Ok(())
    }
}

/// A port for datagrams that nobody has now. Whoever takes it in between makes the path fail, which says so.
fn free_port() -> Result<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until the stream has pictures.
fn await_pictures(encoder: &mut Server, url: &str) -> Result<()> {
    let (until, program) = (Instant::now() + START_TIMEOUT, machine::glassline()?);
    loop {
        encoder.check_alive()?;
        let probe = Command::new(&program).args(["probe", url, "--duration", "300ms", "--json"]).output()?;
        // Somewhere in the report, with the stream that has pictures.
        if String::from_utf8_lossy(&probe.stdout).contains("\"age\": {") {
            return Ok(());
        }
        ensure!(Instant::now() < until, "no pictures come to {url}: {}", encoder.log_end());
        sleep(Duration::from_millis(100));
    }
}
