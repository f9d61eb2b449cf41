// What the browser tests share: the program under test, a browser, and waiting with a bound.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { networkInterfaces, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const top = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const target = resolve(top, process.env.CARGO_TARGET_DIR ?? "target");
/** The program under test. */
export const glassline = process.env.GLASSLINE_BIN ?? join(target, "debug/glassline");
/** Where screenshots go. */
export const pictures = join(target, "browser");

/** Long enough for any machine; nothing waits for it when all is well. */
const PATIENCE_MS = 60_000;

const CHROMIUM_ARGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** The path of a program in PATH, or null. */
export function findProgram(name) {
  const found = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" });
  return found.status === 0 ? found.stdout.trim() : null;
}

/** A file of the shared test data, or null where it is absent. */
export function shared(path) {
  const file = resolve(process.env.GLASSLINE_SHARED ?? join(top, "../shared"), path);
  return existsSync(file) ? file : null;
}

/** An IPv4 address of this machine that is not loopback, or null: a page from there is in no secure context. */
export function outerAddress() {
  const all = Object.values(networkInterfaces()).flat();
  return all.find((one) => one.family === "IPv4" && !one.internal)?.address ?? null;
}

/** Asks `found` until it answers something truthy, and returns that. `explain` tells the last state where it never does. */
export async function until(what, found, explain = () => "") {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await found();
    if (value) return value;
    assert.ok(Date.now() < deadline, `waited in vain for: ${what} ${JSON.stringify(await explain())}`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

/** A child process that collects its output and ends with the test `t`. */
export function start(t, program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const run = { child, output: "", ended: false };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (run.output += bytes));
  run.over = new Promise((done) => child.on("close", done));
  void run.over.then(() => (run.ended = true));
  child.on("error", (error) => (run.output += error));
  run.kill = async (signal = "SIGKILL") => {
    child.kill(signal);
    await run.over;
  };
  t.after(() => run.kill());
  return run;
}

/**
 * A configuration with HTTPS on a free port of all addresses and a certificate of its own, which no browser knows; null
 * where openssl is absent. `port` finds the port in the output of a server.
 */
export function https(t) {
  if (!findProgram("openssl")) return null;
  const folder = mkdtempSync(join(tmpdir(), "glassline-https-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [chain, key] = [join(folder, "one.pem"), join(folder, "one.key")];
  const made = spawnSync("openssl", [
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
    "-subj", "/CN=glassline test", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", chain,
  ], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const config = `[tls]\nlisten = ["0.0.0.0:0"]\ncertificates = [{ chain = "${chain}", key = "${key}" }]\n`;
  return { config, port: (output) => Number(/https:\/\/[^/]*?:(\d+)\//.exec(output)[1]) };
}

/** `glassline serve` on a free port. `origin` is where it is, `listing` the stream's entry of its API. */
export async function serve(t, args = [], { listen = "127.0.0.1:0", config = null } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "glassline-browser-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  if (config !== null) {
    const file = join(folder, "glassline.toml");
    writeFileSync(file, config);
    args = ["--config", file, ...args];
  }
  const run = start(t, glassline, ["serve", "--listen", listen, ...args]);
  const found = await until("the server's address", () => {
    assert.ok(!run.ended, `serve ended: ${run.output}`);
    return /open http:\/\/[^/]*?:(\d+)\//.exec(run.output);
  });
  const port = Number(found[1]);
  const origin = `http://127.0.0.1:${port}`;
  const listing = async (name) => {
    const answer = await (await fetch(`${origin}/api/streams`)).json();
    return answer.streams.find((stream) => stream.name === name) ?? null;
  };
  const live = (name) =>
    until(`pictures of ${name}`, async () => {
      const stream = await listing(name);
      return stream?.live && stream.codecs.some((codec) => codec.width > 0) && stream;
    });
  return { ...run, run, port, origin, listing, live };
}

/** The browser of this machine, or null where there is none. A fresh profile; ends with the process. */
export async function launch() {
  const executablePath = process.env.CHROMIUM ?? findProgram("chromium");
  if (!executablePath) return null;
  mkdirSync(pictures, { recursive: true });
  return chromium.launch({ executablePath, headless: true, args: CHROMIUM_ARGS });
}

/** A new page that ends with the test; an exception in it fails the test. */
export async function open(t, browser, url) {
  // The certificates of tests are nobody's.
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  t.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], "exceptions in the page");
  });
  await page.goto(url);
  return page;
}

/** What `window.glassline` says: the engine's name and its figures. */
export const stats = (page) =>
  page.evaluate(() => window.glassline && { engine: window.glassline.engine, ...window.glassline.stats() });

/** Waits until the page plays and `more` further pictures have been shown; returns the figures. */
export async function plays(page, more = 50) {
  await until("playing", async () => (await stats(page))?.state === "playing", () => stats(page));
  const before = (await stats(page)).framesShown;
  await until(`${more} more pictures`, async () => (await stats(page)).framesShown >= before + more, () => stats(page));
  return stats(page);
}

/** What brightest and darkest sample of a picture differ by at the least, in sums of red, green and blue. */
export const MIN_CONTRAST = 150;

/** Checks that a glass-to-glass delay is measured, and is one, as far as the page knows the server's clock. */
export async function assertDelay(page) {
  const { delayMs, clockRoundTripMs } = await until("a measured delay", async () => {
    const figures = await stats(page);
    return figures.delayMs !== null && figures;
  }, () => stats(page));
  const { p50, p95 } = delayMs;
  assert.ok(p50 + clockRoundTripMs / 2 > 0 && p50 < 5000 && p95 >= p50, JSON.stringify([delayMs, clockRoundTripMs]));
  return delayMs;
}

/** Whether the player's element shows a picture and not one colour: some samples of it differ. */
export async function showsPicture(page) {
  return page.evaluate((contrast) => {
    const shown = document.querySelector(".picture-place video") ?? document.querySelector(".picture-place canvas");
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [64, 36];
    const context = canvas.getContext("2d");
    context.drawImage(shown, 0, 0, 64, 36);
    const { data } = context.getImageData(0, 0, 64, 36);
    const luma = Array.from({ length: 64 * 36 }, (_, i) => data[4 * i] + data[4 * i + 1] + data[4 * i + 2]);
    return Math.max(...luma) - Math.min(...luma) > contrast;
  }, MIN_CONTRAST);
}

/** Keeps a picture of the page for people to look at. */
export const screenshot = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });

/** Skips the test and says so where `make test` counts. */
export function skip(t, reason) {
  // The runner of node counts it itself; the file is for the tests of Rust.
  t.skip(reason);
}

/** FFmpeg that publishes a pattern with intra refresh, a recovery point each second. Null where FFmpeg is missing. */
export function publishIntraRefresh(t, server, name) {
  const ffmpeg = findProgram("ffmpeg");
  if (!ffmpeg) {
    skip(t, "ffmpeg is not installed");
    return null;
  }
  return start(t, ffmpeg, [
    "-v", "warning", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-c:v", "libx264", "-pix_fmt", "yuv420p",
    "-preset", "ultrafast", "-tune", "zerolatency", "-x264-params", "intra-refresh=1:keyint=50:scenecut=0",
    "-f", "mpegts", `${server.origin}/live/${name}.ts`,
  ]);
}

/** FFmpeg that publishes what a screen does: movement, then a still second, with few key frames. Null without FFmpeg. */
export function publishScreen(t, server, name, keySeconds = 20) {
  const ffmpeg = findProgram("ffmpeg");
  if (!ffmpeg) {
    skip(t, "ffmpeg is not installed");
    return null;
  }
  return start(t, ffmpeg, [
    "-v", "warning", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25,select='lt(mod(n,50),20)'", "-vsync", "vfr",
    "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency",
    "-force_key_frames", `expr:gte(t,n_forced*${keySeconds})`, "-x264-params", "keyint=10000:scenecut=0",
    "-f", "mpegts", "-flush_packets", "1", `${server.origin}/live/${name}.ts`,
  ]);
}

/** FFmpeg that publishes Big Buck Bunny for ever as it is: one key frame in 5.3 s. Null where something is missing. */
export function publishBunny(t, server, name) {
  const [ffmpeg, file] = [findProgram("ffmpeg"), shared("media/bbb_720p25.mp4")];
  if (!ffmpeg || !file) {
    skip(t, ffmpeg ? "the shared folder has no media/bbb_720p25.mp4" : "ffmpeg is not installed");
    return null;
  }
  return start(t, ffmpeg, [
    "-v", "warning", "-re", "-stream_loop", "-1", "-i", file, "-c", "copy", "-f", "mpegts",
    `${server.origin}/live/${name}.ts`,
  ]);
}

/**
 * FFmpeg, part after part of two seconds in one upload: each part numbers its PIDs anew, and each second one has its PMT
 * elsewhere. `parts` counts those that are over; `sound` is FFmpeg's encoder for that of the parts to come, or null for
 * none. Null where FFmpeg is missing.
 */
export function publishChanging(t, server, name) {
  const ffmpeg = findProgram("ffmpeg");
  if (!ffmpeg) {
    skip(t, "ffmpeg is not installed");
    return null;
  }
  const upload = request(`${server.origin}/live/${name}.ts`, { method: "PUT" });
  upload.on("error", () => {});
  const run = { parts: 0, sound: "aac", child: null, over: false };
  t.after(() => {
    run.over = true;
    run.child?.kill("SIGKILL");
    upload.destroy();
  });
  const part = () => {
    if (run.over) return;
    const pmt = run.parts % 4 < 2 ? 0x1000 : 0x1001;
    const sound = run.sound ? ["-c:a", run.sound] : ["-an"];
    run.child = spawn(ffmpeg, [
      "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-f", "lavfi", "-i", "sine=sample_rate=48000",
      "-t", "2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", ...sound,
      "-muxdelay", "0", "-muxpreload", "0", "-output_ts_offset", String(10 + 2 * run.parts), "-mpegts_start_pid",
      String(0x100 + 16 * run.parts), "-mpegts_pmt_start_pid", String(pmt), "-tables_version", String(run.parts % 32), "-f", "mpegts", "-",
    ], { stdio: ["ignore", "pipe", "inherit"] });
    run.child.stdout.pipe(upload, { end: false });
    run.child.on("close", () => {
      run.parts += 1;
      part();
    });
  };
  part();
  return run;
}
