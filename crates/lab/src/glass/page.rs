//! What a page shows in a real browser: Chromium without a window, driven over its DevTools protocol. `page.js` looks at the page's
//! videos and canvases before each of its frames is drawn, whatever player fills them, and notes what was new and when.

use super::{SETTLE, Sights};
use crate::real_time::Scratch;
use crate::real_time::browser::Browser;
use crate::real_time::peer::barcode;
use crate::real_time::process::Watch;
use anyhow::{Context, Result, bail};
use glassline_inspect::transport_stream::WallClock;
use glassline_io::child::Signals;
use glassline_io::clock::Clock;
use glassline_measure::barcode::{Read, layout};
use glassline_media::{Size, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;

const SCRIPT: &str = include_str!("page.js");
/// How often what was seen is fetched.
const TAKE: Duration = Duration::from_millis(250);
/// How often the clocks are compared; the quickest answer counts.
const EXCHANGES: usize = 8;
/// Sizes in which the source may have been, where the page shows it at another one.
const SIZES: [(u32, u32); 9] = [
    (3840, 2160),
    (2560, 1440),
    (1920, 1080),
    (1280, 720),
    (960, 540),
    (854, 480),
    (640, 360),
    (426, 240),
    (320, 180),
];

/// What names the pages' arguments: any page may play, and be looked at, even what comes from elsewhere.
const ARGUMENTS: [&str; 4] = [
    "--autoplay-policy=no-user-gesture-required",
    "--disable-web-security",
    "--window-size=1920,1080",
    "--hide-scrollbars",
];

/// A page to look at.
#[derive(Clone, Debug)]
pub struct Page {
    /// A Chromium.
    pub browser: OsString,
    /// The page's address.
    pub url: String,
    /// The source's size, where it is none of the usual ones and the page shows it at another.
    pub size: Option<Size>,
}

/// What was seen of a new picture: when, and the cells of both codes.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Looked {
    Code(f64, String, String),
    Nothing([f64; 1]),
}

#[derive(Clone, Debug, Deserialize)]
struct State {
    seen: Vec<String>,
    problem: String,
}

impl Page {
    /// Opens the page and looks at it for `time` from the first barcode on, which has to be there within `timeout`.
    ///
    /// # Errors
    /// Where the browser or the page cannot be opened, where no barcode comes in time (the error says what the page
    /// shows), or where a signal asks for the end.
    pub fn watch(
        &self,
        clock: WallClock,
        timeout: Duration,
        time: Duration,
        signals: &Signals,
    ) -> Result<Sights> {
        let (watch, scratch) = (Watch::new(signals), Scratch::new()?);
        let mut browser = Browser::launch(&self.browser, "page", &scratch, &ARGUMENTS.map(OsString::from))?;
        browser.open("about:blank", &watch)?;
        browser.call("Page.enable", &json!({}), &watch)?;
        let script = json!({ "source": SCRIPT });
        browser.call("Page.addScriptToEvaluateOnNewDocument", &script, &watch)?;
        let answer = browser.call("Page.navigate", &json!({ "url": self.url }), &watch)?;
        if let Some(error) = answer["errorText"].as_str() {
            bail!("the browser cannot open {}: {error}", self.url);
        }
        watch.until("the page", timeout, || {
            let expression = "location.href !== 'about:blank' && typeof glasslineLab === 'object'";
            Ok(browser.run(expression, &watch).ok().filter(|there| *there == json!(true)))
        })?;
        let behind_ms = Page::clock(&mut browser, &watch)?;
        browser.run(&format!("glasslineLab.start({})", self.layouts()), &watch)?;
        let mut sights = Sights::new(clock);
        let until = Clock.now() + timeout;
        let mut end = None;
        while end.is_none_or(|end| Clock.now() < end) {
            watch.pause(TAKE)?;
            let taken = browser.run("glasslineLab.take()", &watch)?;
            let looks: Vec<Looked> =
                serde_json::from_value(taken).context("the page does not say what it shows")?;
            for look in &looks {
                let (at_ms, read) = look.read();
                sights.push(&read, Time::from_nanos(((at_ms - behind_ms).max(0.0) * 1e6) as u64));
            }
            if end.is_none() && !looks.is_empty() {
                end = Some(Clock.now() + SETTLE + time);
            }
            if end.is_none() && Clock.now() > until {
                let state: State = serde_json::from_value(browser.run("glasslineLab.state()", &watch)?)?;
                bail!("{}", state.words());
            }
        }
        Ok(sights)
    }

    /// By how much the page's clock is ahead of our monotonic one, in milliseconds.
    fn clock(browser: &mut Browser, watch: &Watch<'_>) -> Result<f64> {
        let ms = |time: Time| time.as_nanos() as f64 / 1e6;
        let mut best: Option<(f64, f64)> = None;
        for _ in 0..EXCHANGES {
            let before = ms(Clock.now());
            let there = browser.run("glasslineLab.now()", watch)?;
            let (after, there) = (ms(Clock.now()), there.as_f64().context("the page has no clock")?);
            let (takes, ahead) = (after - before, there - f64::midpoint(before, after));
            if best.is_none_or(|(least, _)| takes < least) {
                best = Some((takes, ahead));
            }
        }
        best.map(|(_, ahead)| ahead).context("the page has no clock")
    }

    /// Where the barcodes may lie.
    fn layouts(&self) -> Value {
        let usual = SIZES.into_iter().filter_map(|(width, height)| Size::new(width, height).ok());
        let sizes: Vec<Size> = self.size.into_iter().chain(usual).collect();
        let of = |size: Size| {
            let found = layout(size)?;
            let code = |(x, y): (u32, u32)| {
                json!({
                    "x": x, "y": y, "cell": found.cell_px,
                    "size": { "width": size.width, "height": size.height },
                })
            };
            Some(json!([code(found.top_left), code(found.bottom_right)]))
        };
        sizes.into_iter().filter_map(of).collect()
    }
}

impl Looked {
    fn read(&self) -> (f64, Read) {
        match self {
            Looked::Code(at_ms, one, other) => {
                (*at_ms, Read { top_left: barcode(one), bottom_right: barcode(other) })
            }
            Looked::Nothing([at_ms]) => (*at_ms, Read::default()),
        }
    }
}

impl State {
    fn words(&self) -> String {
        if self.seen.is_empty() {
            return "the page shows no video and no canvas; does it begin to play by itself, and is the player in the page itself \
                    (not in a frame within it)?"
                .to_owned();
        }
        let why = if self.problem.is_empty() { String::new() } else { format!(" ({})", self.problem) };
        format!(
            "no barcode in what the page shows: {}{why}; it must play the test picture (glassline encode test:1280x720@50 …), \
             uncropped, and at least 160 samples wide; name the source's size by --size where it is an unusual one",
            self.seen.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_codes_may_lie_is_told_with_the_sources_size_first() {
        let page = |size| Page { browser: "chromium".into(), url: String::new(), size };
        let all = page(None).layouts();
        assert_eq!(all.as_array().map(Vec::len), Some(SIZES.len()));
        assert_eq!(
            all[3][1],
            json!({ "x": 960, "y": 656, "cell": 16, "size": { "width": 1280, "height": 720 } })
        );
        let unusual = page(Size::new(720, 576).ok()).layouts();
        assert_eq!(unusual[0][0]["size"], json!({ "width": 720, "height": 576 }));
    }

    #[test]
    fn what_a_page_tells_is_read() {
        let looks: Vec<Looked> = serde_json::from_str("[[5.5, \"80\", \"zz\"], [7.0]]").unwrap();
        assert_eq!(
            looks.iter().map(Looked::read).collect::<Vec<_>>(),
            [(5.5, Read::default()), (7.0, Read::default())]
        );
        let state = State { seen: Vec::new(), problem: String::new() };
        assert!(state.words().contains("no video and no canvas"));
        let state = State { seen: vec!["video 640x360, paused".into()], problem: "SecurityError".into() };
        assert!(state.words().contains("paused (SecurityError)"), "{}", state.words());
    }
}
