//! WebRTC between two browsers with a link between them. The lab does the signalling; no server is asked for anything.
//!
//! The sender's camera is the clip, which the browser itself reads and repeats. The sending page looks at its own camera's track, the
//! receiving one at the track that comes (`page.js`), and both note of each picture its barcode and when it was there, by the machine's
//! clock. A camera's picture was captured at its own time stamp, which is put onto that clock by the smallest difference ever seen:
//! how long the page took to look is no part of the delay.

use super::browser::Browser;
use super::clip::Clip;
use super::field::{AFTER, CONNECT, Field, Run};
use super::lines::Way;
use super::matching::{Matched, Seen, matched};
use super::process::Watch;
use super::score::Judge;
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_direct::SenderCounters;
use glassline_io::clock::Clock;
use glassline_measure::barcode::{Barcode, COLUMNS, ROWS};
use glassline_media::{Size, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;

/// No more bits a second than this: far beyond what browsers choose by themselves for a picture of 720p.
const MAX_BITRATE: u64 = 20_000_000;
/// How often is asked how far it is.
const ASK: Duration = Duration::from_secs(1);

/// A codec that browsers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// VP8.
    Vp8,
    /// VP9, scalable.
    Vp9,
    /// AV1.
    Av1,
}

impl Codec {
    /// As SDP calls it.
    pub fn mime(self) -> &'static str {
        match self {
            Codec::Vp8 => "video/VP8",
            Codec::Vp9 => "video/VP9",
            Codec::Av1 => "video/AV1",
        }
    }

    /// The layers that are asked for where nothing else is said (W3C, Scalable Video Coding Extension for WebRTC); `None` leaves
    /// it to the browser.
    pub fn scalability_mode(self) -> Option<&'static str> {
        match self {
            Codec::Vp8 | Codec::Av1 => None,
            Codec::Vp9 => Some("L3T3_KEY"),
        }
    }
}

/// The peer.
#[derive(Clone, Debug)]
pub struct Webrtc {
    /// A Chromium.
    pub browser: OsString,
    /// What it sends.
    pub codec: Codec,
    /// In which layers, if not the codec's own choice ([`Codec::scalability_mode`]).
    pub scalability_mode: Option<String>,
    /// Each so many pictures that are shown one is kept whole and judged.
    pub judged_every: u32,
}

impl Webrtc {
    /// What the sending page is asked to offer.
    fn offer(&self, address: &str) -> Value {
        let mode = self.scalability_mode.as_deref().or(self.codec.scalability_mode());
        json!({ "mime": self.codec.mime(), "mode": mode, "maxBitrate": MAX_BITRATE, "address": address })
    }
}

/// What a page has seen.
#[derive(Debug, Deserialize)]
struct Told {
    looks: Vec<(f64, f64, u32, u32, String, String)>,
    unread: u64,
    problem: String,
    kept: usize,
    codecs: Vec<Value>,
    flows: Vec<Value>,
}

/// A whole picture.
#[derive(Debug, Deserialize)]
struct Plane {
    look: usize,
    width: u32,
    height: u32,
    luma: String,
}

fn utc(ms: f64) -> Time {
    Time::from_nanos((ms * 1e6) as u64)
}

/// The barcode of which a page has sent the means of the cells, as hexadecimal digits.
pub(crate) fn barcode(cells: &str) -> Option<Barcode> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut values = [0; (COLUMNS * ROWS) as usize];
    let pairs = cells.as_bytes().as_chunks::<2>().0;
    if pairs.len() != values.len() {
        return None;
    }
    for (value, [high, low]) in values.iter_mut().zip(pairs) {
        *value = digit(*high)? << 4 | digit(*low)?;
    }
    Barcode::from_cells(&values)
}

fn number(cells: &str) -> Option<u32> {
    barcode(cells).map(|code| code.frame_number)
}

impl Told {
    /// When each picture was looked at.
    fn seen(&self) -> Vec<Seen> {
        self.looks
            .iter()
            .map(|(at, _, _, _, one, other)| (utc(*at), number(one).or_else(|| number(other))))
            .collect()
    }

    /// When each picture was captured.
    fn captured(&self) -> Vec<Seen> {
        let behind = |at: f64, stamp: f64| at - stamp / 1e3;
        let least =
            self.looks.iter().map(|(at, stamp, ..)| behind(*at, *stamp)).fold(f64::INFINITY, f64::min);
        let seen = self.seen().into_iter().zip(&self.looks);
        seen.map(|((_, number), (_, stamp, ..))| (utc(least + stamp / 1e3), number)).collect()
    }

    fn sizes(&self) -> Vec<Size> {
        self.looks.iter().map(|(_, _, width, height, ..)| Size { width: *width, height: *height }).collect()
    }

    /// A figure of the connection.
    fn count(&self, key: &str) -> u64 {
        self.flows.iter().filter_map(|flow| flow[key].as_u64()).sum()
    }
}

/// Sends for `length` from the first picture that is shown.
pub(super) fn run(field: &mut Field<'_>, peer: &Webrtc, way: &Way, length: Duration) -> Result<Run> {
    let (clip, watch) = (field.clip, &field.watch);
    let mut camera = OsString::from("--use-file-for-fake-video-capture=");
    camera.push(clip.path());
    let networks = field.lines.networks();
    let mut receiver = Browser::start(&peer.browser, "receiver", field.scratch, &[], watch)?;
    let started =
        networks.within(|| Browser::start(&peer.browser, "sender", field.scratch, &[camera], watch));
    let mut sender = started??;
    let look = look(clip);
    sender.ask("open", &[look.clone(), json!(true)], watch).context("the browser opens no camera")?;
    receiver.ask("open", &[look.clone(), json!(false)], watch).context("the browser opens no camera")?;

    let (near, far) = (networks.addresses.near.to_string(), networks.addresses.far.to_string());
    let begun = Clock::new().now();
    let emulations = field.lines.start(way)?;
    let mut wanted = look;
    wanted["offer"] = sender.ask("offer", &[peer.offer(&near)], watch)?;
    wanted["address"] = far.into();
    wanted["every"] = if way.is_judged { peer.judged_every } else { 0 }.into();
    let answer = receiver.ask("answer", &[wanted], watch)?;
    sender.ask("accept", &[answer], watch)?;
    let looks = |receiver: &mut Browser| -> Result<u64> {
        ensure!(!emulations.have_failed(), "the link has failed");
        let state = receiver.ask("state", &[], watch)?;
        ensure!(state["connection"] != "failed", "the browsers find no way to each other");
        Ok(state["looks"].as_u64().unwrap_or(0))
    };
    watch.until("the first picture", CONNECT, || Ok((looks(&mut receiver)? > 0).then_some(())))?;
    emulations.open_window();
    let first = Clock::new().now();
    wait(first + length, watch, || looks(&mut receiver).map(drop))?;
    let windows = emulations.close_window()?;
    // What is on its way still comes.
    sender.ask("stop", &[], watch)?;
    let (stopped, mut last) = (Clock::new().now(), 0);
    while Clock::new().now().since(stopped) < AFTER {
        watch.pause(ASK)?;
        let now = looks(&mut receiver)?;
        if std::mem::replace(&mut last, now) == now {
            break;
        }
    }
    let carried = field.lines.end(emulations, windows)?;
    let told = |page: &mut Browser| -> Result<Told> {
        serde_json::from_value(page.ask("result", &[], watch)?)
            .context("the browser's page does not say what came")
    };
    let (sent, came) = (told(&mut sender)?, told(&mut receiver)?);
    ensure!(
        sent.unread == 0 && came.unread == 0,
        "pictures cannot be looked at: {}{}",
        sent.problem,
        came.problem
    );
    let seen = came.seen();
    let mut matched = matched(&sent.captured(), &seen, length);
    let mut judge = Judge::new(clip);
    for index in 0..came.kept {
        judge_kept(&mut judge, &mut matched, &seen, &receiver.ask("plane", &[json!(index)], watch)?)?;
    }
    let (ssim, judged) = (judge.ssim, judge.pictures);
    Ok(Run {
        matched,
        ssim,
        judged,
        sizes: came.sizes(),
        carried,
        connected: first.since(begun),
        stages: Vec::new(),
        counters: SenderCounters {
            pictures: sent.count("framesEncoded"),
            // Each spatial layer counts as one.
            sent: sent.count("framesSent").min(sent.looks.len() as u64),
            key: sent.count("keyFramesEncoded"),
            ..SenderCounters::default()
        },
        bits_per_s: sent.count("bytesSent") as f64 * 8.0 / stopped.since(begun).as_secs_f64(),
        details: details(&sent),
    })
}

/// What the pages look for.
fn look(clip: &Clip) -> Value {
    let layout = clip.layout();
    let code = |(x, y): (u32, u32)| json!({ "x": x, "y": y, "columns": COLUMNS, "rows": ROWS, "cell": layout.cell_px });
    json!({
        "codes": [code(layout.top_left), code(layout.bottom_right)],
        "size": { "width": clip.size().width, "height": clip.size().height },
        "rate": clip.rate().as_f64(),
    })
}

/// Waits, and asks now and then.
fn wait(until: Time, watch: &Watch<'_>, mut ask: impl FnMut() -> Result<()>) -> Result<()> {
    loop {
        let left = until.since(Clock::new().now());
        if left.is_zero() {
            return Ok(());
        }
        watch.pause(left.min(ASK))?;
        ask()?;
    }
}

fn judge_kept(judge: &mut Judge<'_>, matched: &mut Matched, seen: &[Seen], plane: &Value) -> Result<()> {
    let plane = Plane::deserialize(plane).context("the browser's page gives no picture")?;
    let size = Size::new(plane.width, plane.height).context("the browser's picture has no size")?;
    let luma = STANDARD.decode(plane.luma).context("the browser's picture is no base64")?;
    let number = seen.get(plane.look).and_then(|(_, number)| *number);
    judge.judge(matched, plane.look, number, size, &luma)
}

/// What the browser says of how it has sent.
fn details(sent: &Told) -> Value {
    let of = |key: &str| sent.flows.iter().map(|flow| flow[key].clone()).find(|value| !value.is_null());
    let codec = sent
        .codecs
        .iter()
        .find(|codec| codec["mimeType"].as_str().is_some_and(|mime| !mime.ends_with("rtx")));
    json!({
        "codec": codec.map(|codec| codec["mimeType"].clone()),
        "encoder": of("encoderImplementation"),
        "scalability_mode": of("scalabilityMode"),
        "limited_by_s": of("qualityLimitationDurations"),
        "quantizer_mean": of("qpSum").and_then(|sum| Some(sum.as_f64()? / sent.count("framesEncoded").max(1) as f64)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Picture, PixelFormat, Utc};

    /// What the page would send of a picture: the value in the middle of each cell.
    fn cells(number: u64) -> String {
        let size = Size::new(1280, 720).unwrap();
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        Barcode::new(number, Utc::from_micros(0)).draw(&mut picture);
        let middle = |cell: u32| {
            picture.planes()[0].line((cell / 20 * 16 + 8) as usize)[(cell % 20 * 16 + 8) as usize]
        };
        (0..80).map(|cell| format!("{:02x}", middle(cell))).collect()
    }

    #[test]
    fn numbers_are_read_from_the_means_of_cells() {
        assert_eq!(number(&cells(1234)), Some(1234));
        assert_eq!(number(&cells(1234)[2..]), None, "a cell is missing");
        assert_eq!(number(&"z".repeat(160)), None);
        assert_eq!(number(&"80".repeat(80)), None);
    }

    #[test]
    fn a_picture_was_captured_at_its_own_stamp() {
        let look = |at: f64, stamp: f64, code: u64| (at, stamp, 1280, 720, cells(code), String::new());
        let told = Told {
            // The second was looked at 30 ms late.
            looks: vec![look(1000.5, 0.0, 0), look(1063.5, 33_000.0, 1), look(1067.0, 66_000.0, 2)],
            unread: 0,
            problem: String::new(),
            kept: 0,
            codecs: Vec::new(),
            flows: Vec::new(),
        };
        let found: Vec<_> =
            told.captured().iter().map(|(at, number)| (at.as_nanos() / 100_000, *number)).collect();
        assert_eq!(found, [(10_005, Some(0)), (10_335, Some(1)), (10_665, Some(2))]);
        assert_eq!(told.seen()[1].0, utc(1063.5));
    }
}
