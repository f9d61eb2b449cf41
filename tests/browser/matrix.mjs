// Tries each kind of stream by each way to watch in each browser that is installed, and prints what plays as the tables of
// docs/browsers.md: `node matrix.mjs [chromium|firefox|webkit]...`, `ONLY=h264,ac3` for some of the streams, `WAYS=mse,hls` for
// some of the ways. It is no test: what a browser cannot play is a row of its own. It takes some minutes for each browser.
import { launchFirefox, openTab } from "./firefox.mjs";
import { SOUNDS } from "./sound.mjs";
import { findProgram, glassline, launch, serve, start, stats } from "./support.mjs";
import { launchWebkit, openPage } from "./webkit.mjs";

/** How long a stream may take to begin, and how long it is then watched. */
const BEGIN_MS = 12_000;
const WATCH_MS = 4_000;
const DEMO_MS = 20_000;
const QUERIES = { webcodecs: "?engine=webcodecs", mse: "?engine=mse", hls: "?engine=hls", dash: "?engine=dash" };

const test = ["-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25"];
const tone = ["-re", "-f", "lavfi", "-i", "sine=frequency=1000:sample_rate=48000"];
const x264 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25"];
const ts = (name) => ["-f", "mpegts", "-flush_packets", "1", `/live/${name}.ts`];
const sound = (codec) => (name) => [...tone, "-ac", "2", ...SOUNDS[codec], ...ts(name)];
/** FFmpeg's arguments for each stream; the last one is where it goes. */
const STREAMS = {
  h264: (name) => [...test, ...tone, ...x264, ...SOUNDS.aac, ...ts(name)],
  "h264-mp3": (name) => [...test, ...tone, ...x264, ...SOUNDS.mp3, ...ts(name)],
  "h264-ac3": (name) => [...test, ...tone, ...x264, ...SOUNDS.ac3, ...ts(name)],
  "h264-10bit": (name) => [...test, ...x264.map((one) => (one === "yuv420p" ? "yuv420p10le" : one)), ...ts(name)],
  hevc: (name) => [
    ...test, ...tone, "-c:v", "libx265", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-x265-params", "keyint=25:bframes=0:log-level=error",
    ...SOUNDS.aac, ...ts(name),
  ],
  av1: (name) => [
    ...test.map((one) => one.replace("640x360", "320x180")), ...tone, "-c:v", "libaom-av1", "-usage", "realtime", "-cpu-used", "8", "-g", "25",
    "-b:v", "500k", ...SOUNDS.aac, "-f", "dash", "-seg_duration", "2", "-ldash", "1", "-streaming", "1", "-method", "PUT", `/live/${name}/manifest.mpd`,
  ],
  "intra-refresh": (name) => [
    ...test, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency",
    "-x264-params", "intra-refresh=1:keyint=50:scenecut=0", ...ts(name),
  ],
  aac: sound("aac"), opus: sound("opus"), mp3: sound("mp3"), mp2: sound("mp2"), ac3: sound("ac3"), eac3: sound("eac3"),
};

/** What ends with a stream, as a test of node's runner would have it. */
function scope() {
  const ends = [];
  return { after: (end) => ends.push(end), end: async () => { for (const end of ends.reverse()) await end(); } };
}

const BROWSERS = {
  chromium: async () => {
    const browser = await launch();
    return browser && {
      version: browser.version(),
      open: async (t, url) => {
        const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
        t.after(() => context.close());
        const page = await context.newPage();
        await page.goto(url);
        return page;
      },
      close: () => browser.close(),
    };
  },
  firefox: async () => {
    const browser = await launchFirefox();
    return browser && { version: browser.version, open: (t, url) => openTab(t, browser, url), close: browser.close };
  },
  webkit: async () => {
    const browser = await launchWebkit({ autoplay: "allow" });
    return browser && { version: browser.version, open: (t, url) => openPage(t, browser, url), close: browser.close };
  },
};

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Watches `url`: the figures at the end, and what the page says. */
async function watch(browser, url, watchMs) {
  const t = scope();
  try {
    const page = await browser.open(t, url);
    const words = () => page.evaluate(() => (document.querySelector(".message")?.hidden ? "" : document.querySelector(".message span")?.innerText ?? ""));
    const begun = Date.now();
    let figures = null;
    while (Date.now() - begun < BEGIN_MS) {
      figures = await stats(page);
      if (figures && (figures.state === "unsupported" || (figures.state === "playing" && (figures.framesShown > 0 || figures.soundMs > 0)))) break;
      await wait(100);
    }
    if (figures?.state !== "playing") return { plays: false, figures, words: await words() };
    const from = figures;
    await wait(watchMs);
    figures = await stats(page);
    const shown = figures.framesShown - from.framesShown;
    const heardMs = figures.soundMs - from.soundMs;
    return { plays: shown > 0 || heardMs > 0, shown, heardMs, figures, words: await words() };
  } finally {
    await t.end().catch((error) => console.error(String(error)));
  }
}

function cell({ plays, shown, heardMs, figures, words }, watchMs) {
  if (!plays) return words || figures?.state || "no page";
  const first = `${Math.round(figures.timeToFirstFrameMs)} ms`;
  const delay = figures.delayMs ? `, delay ${Math.round(figures.delayMs.p50)}` : figures.behindLiveMs === null ? "" : `, behind ${Math.round(figures.behindLiveMs)}`;
  const went = figures.soundAlone ? `${Math.round((heardMs / watchMs) * 100)} % heard` : `${(shown / (watchMs / 1000)).toFixed(0)} fps`;
  const trouble = figures.stalls + figures.reconnects > 0 ? `, ${figures.stalls} stalls, ${figures.reconnects} reconnects (${figures.reconnectReason})` : "";
  return `${figures.engine}: ${went}, first ${first}${delay}, ${figures.audio}${trouble}`;
}

const asked = process.argv.slice(2);
const only = process.env.ONLY?.split(",");
const ways = process.env.WAYS?.split(",");
const whole = scope();
const server = await serve(whole);
try {
  for (const name of asked.length > 0 ? asked : Object.keys(BROWSERS)) {
    const browser = await BROWSERS[name]();
    if (!browser) {
      console.log(`\n## ${name}: not installed`);
      continue;
    }
    console.log(`\n## ${name} ${browser.version}\n`);
    for (const [stream, args] of [["demo", null], ...Object.entries(STREAMS)]) {
      if (only && !only.includes(stream)) continue;
      const t = scope();
      const own = args
        ? args(stream).map((one) => (one.startsWith("/live/") ? server.origin + one : one))
        : ["encode", "test:1280x720@50", `${server.origin}/live/demo.ts`];
      start(t, args ? findProgram("ffmpeg") : glassline, args ? ["-v", "error", ...own] : own);
      for (let tries = 0; tries < 200 && !((await server.listing(stream))?.bytes_in > 30_000); tries++) await wait(100);
      for (const [engine, query] of Object.entries(QUERIES)) {
        if (ways && !ways.includes(engine)) continue;
        const watchMs = args ? WATCH_MS : DEMO_MS;
        const seen = await watch(browser, `${server.origin}/watch/${stream}${query}`, watchMs).catch((error) => ({ plays: false, words: String(error) }));
        console.log(`| ${stream} | ${engine} | ${cell(seen, watchMs)} |`);
      }
      await t.end();
    }
    await browser.close();
  }
} finally {
  await whole.end();
}
process.exit(0);
