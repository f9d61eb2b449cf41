//! A Chromium without a window, driven over a pipe.

use super::cdp::{self, CdpError, Frames, Message};
use super::process::{Program, Watch};
use super::scratch::Scratch;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a browser may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Signals are looked for this often meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// What keeps it from doing anything but what it is asked to: no sandbox (root has none), pages that are never slowed down.
const ARGUMENTS: [&str; 16] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-quic",
    "--disable-domain-reliability",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--remote-debugging-pipe",
];
/// What our own page has besides: no names, a camera that needs no consent.
const OF_OUR_PAGE: [&str; 3] = [
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
];

/// The page: a file, since only what is near (or comes over TLS) may use a camera.
const PAGE: &str = concat!(
    "<!doctype html><meta charset=\"utf-8\"><title>glassline lab</title><script>\n",
    include_str!("page.js"),
    "</script>\n"
);

/// A browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    program: Program,
    input: ChildStdin,
    messages: Receiver<Result<Message, CdpError>>,
    calls: u64,
    session: Option<String>,
}

impl Browser {
    /// Starts `program` in the network in which this thread is, and opens our page in it.
    pub(crate) fn start(
        program: &OsString,
        name: &'static str,
        scratch: &Scratch,
        more: &[OsString],
        watch: &Watch<'_>,
    ) -> Result<Browser> {
        let page = scratch.file("page.html");
        std::fs::write(&page, PAGE).with_context(|| format!("cannot write {}", page.display()))?;
        let arguments: Vec<OsString> =
            OF_OUR_PAGE.iter().map(OsString::from).chain(more.iter().cloned()).collect();
        let mut browser = Browser::launch(program, name, scratch, &arguments)?;
        browser.open(&format!("file://{}", page.display()), watch)?;
        watch.until("the browser's page", START_TIMEOUT, || {
            // A page that is being loaded has no such thing, or is gone with its answer.
            Ok(browser.run("typeof lab === 'object'", watch).ok().filter(|there| *there == json!(true)))
        })?;
        Ok(browser)
    }

    /// Starts `program`, and opens nothing.
    pub(crate) fn launch(
        program: &OsString,
        name: &'static str,
        scratch: &Scratch,
        more: &[OsString],
    ) -> Result<Browser> {
        let mut profile = OsString::from("--user-data-dir=");
        profile.push(scratch.file(name));
        let mut command = Command::new("sh");
        // The browser reads calls from descriptor 3 and writes answers to 4; all that we can hand on are 0 and 1.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"]).arg(program);
        command.args(ARGUMENTS).arg(profile).args(more).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(name, &mut command, scratch.file(&format!("{name}.err")))?;
        let (input, output) = (program.input()?, program.output()?);
        let (sender, messages) = mpsc::channel();
        std::thread::Builder::new()
            .name("browser".to_owned())
            .spawn(move || listen(output, &sender))
            .context("cannot start a thread")?;
        Ok(Browser { program, input, messages, calls: 0, session: None })
    }

    /// Opens a page, in which everything runs from here on.
    pub(crate) fn open(&mut self, url: &str, watch: &Watch<'_>) -> Result<()> {
        let target = self.call("Target.createTarget", &json!({ "url": url }), watch)?;
        let params = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", &params, watch)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Calls a method of the protocol and waits for what it gives.
    pub(crate) fn call(&mut self, method: &str, params: &Value, watch: &Watch<'_>) -> Result<Value> {
        self.calls += 1;
        let call = cdp::call(self.calls, self.session.as_deref(), method, params);
        if self.input.write_all(&call).and_then(|()| self.input.flush()).is_err() {
            return Err(self.gone());
        }
        let until = Instant::now() + START_TIMEOUT;
        loop {
            match self.messages.recv_timeout(LOOK) {
                Ok(Ok(Message::Answer { id, result })) if id == self.calls => {
                    return result.map_err(|error| anyhow!("the browser refuses {method}: {error}"));
                }
                Ok(Err(error)) => return Err(error).context("the browser does not speak its protocol"),
                Ok(Ok(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
            watch.pause(Duration::ZERO)?;
            if Instant::now() > until {
                bail!("the browser does not answer {method} within {} s", START_TIMEOUT.as_secs());
            }
        }
    }

    fn gone(&self) -> anyhow::Error {
        anyhow!("the browser has ended: {}", self.program.last_words())
    }

    /// What an expression gives in the page, once its promise is kept.
    pub(crate) fn run(&mut self, expression: &str, watch: &Watch<'_>) -> Result<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", &params, watch)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let text = thrown["exception"]["description"].as_str().or_else(|| thrown["text"].as_str());
            bail!("the browser's page failed: {}", text.unwrap_or("it does not say why"));
        }
        Ok(answer["result"]["value"].take())
    }

    /// Calls a function of the page.
    pub(crate) fn ask(&mut self, function: &str, arguments: &[Value], watch: &Watch<'_>) -> Result<Value> {
        let arguments: Vec<String> = arguments.iter().map(Value::to_string).collect();
        self.run(&format!("lab.{function}({})", arguments.join(", ")), watch)
    }
}

/// Hands messages on until there are no more.
fn listen(mut output: impl Read, messages: &mpsc::Sender<Result<Message, CdpError>>) {
    let (mut frames, mut buffer) = (Frames::default(), vec![0; 1 << 16]);
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        frames.push(&buffer[..count]);
        while let Some(message) = frames.next().transpose() {
            let is_last = message.is_err();
            if messages.send(message).is_err() || is_last {
                return;
            }
        }
    }
}
