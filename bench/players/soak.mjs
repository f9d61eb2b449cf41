// hls.js, dash.js and Shaka Player at the live edge of streams of every usual picture rate, key frame distance and sound, where
// the publisher comes back at once, and over the worst joint: its clock jumps and its sound is another; and ten minutes of each as a
// whole. `bench/soak-players --help`.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { fetchWhole, watch } from "./page.mjs";

const HELP = `usage: bench/soak-players [OPTION...]

Plays streams of 24 combinations of picture rate, key frame distance and sound with hls.js (LL-HLS), dash.js and Shaka Player
(LL-DASH) in Chromium, each at its defaults for low latency: at the live edge, where the publisher comes back at once, and over a
joint of two streams whose clocks and sounds differ. Fails where a picture stops for longer than 0.4 s, where a player jumps, or where its buffer has a hole.
One way more, "whole": ten minutes that have ended are fetched from the first segment to the last, and have to be one stretch without a gap, as long as the stream.

  --seconds N     how long each one plays (default 20)
  --players LIST  of hls, dash and shaka (default all)
  --cases LIST    numbers of cases, from 0 (default all)
  --ways LIST     of edge, joint, return and whole (default all)
  --whole N       how many seconds of a whole stream are fetched (default 600)

Needs FFmpeg and Chromium.
`;

const RATES = ["24000/1001", "25", "30000/1001", "30", "50", "60000/1001"];
const KEY_SECONDS = [0.5, 1, 2, 4.2];
const SOUNDS = [["aac", "48000"], ["aac", "44100"], ["libopus", "48000"], null];
const PLAYERS = {
  hls: { script: "hls.js/dist/hls.min.js", object: "index.m3u8" },
  dash: { script: "dashjs/dist/modern/umd/dash.all.min.js", object: "manifest.mpd" },
  shaka: { script: "shaka-player/dist/shaka-player.compiled.js", object: "manifest.mpd" },
};
const SETTLE_MS = 3000;
const PATIENCE_MS = 30_000;
/** Joints are so far apart, in seconds, and the clock jumps by so much more. */
const JOINT_SECONDS = 10;
const JUMP_SECONDS = 1000;

const here = dirname(fileURLToPath(import.meta.url));
const top = resolve(here, "../..");

const CASES = RATES.flatMap((rate, i) =>
  KEY_SECONDS.map((keySeconds, j) => ({ rate, keySeconds, sound: SOUNDS[(i + j) % SOUNDS.length] })));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, found) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await found().catch(() => null);
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await sleep(50);
  }
}

/** Pictures a second as a number. */
function perSecond(rate) {
  const [pictures, seconds] = rate.split("/").map(Number);
  return pictures / (seconds ?? 1);
}

/** The arguments of FFmpeg up to its output, a stream of this kind, in real time or as fast as it is coded. */
function coding({ rate, keySeconds, sound }, pace = ["-re"]) {
  const frames = Math.round(perSecond(rate) * keySeconds);
  const inputs = ["-v", "error", ...pace, "-f", "lavfi", "-i", `testsrc2=size=320x180:rate=${rate}`];
  if (sound) inputs.push("-f", "lavfi", "-i", `sine=sample_rate=${sound[1]}`);
  const video = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency"];
  const keys = ["-g", String(frames), "-keyint_min", String(frames), "-sc_threshold", "0"];
  return [...inputs, ...video, ...keys, ...(sound ? ["-c:a", sound[0], "-b:a", "96k"] : []), "-f", "mpegts"];
}

/** Publishes a stream until it is closed. */
function publish(one, url) {
  const child = spawn("ffmpeg", [...coding(one), url], { stdio: ["ignore", "inherit", "inherit"] });
  return () => child.kill("SIGKILL");
}

/** Publishes stretches of a stream in one upload: each on a clock of its own, and each second one with another sound. */
function publishJoints(one, url) {
  const upload = request(url, { method: "PUT" });
  upload.on("error", () => {});
  let [child, part, isOver] = [null, 0, false];
  const next = () => {
    if (isOver) return;
    const other = one.sound && one.sound[1] === "48000" ? "44100" : "48000";
    const sound = one.sound && part % 2 === 1 ? ["aac", other] : one.sound;
    const offset = ["-t", String(JOINT_SECONDS), "-output_ts_offset", String(10 + part * (JOINT_SECONDS + JUMP_SECONDS))];
    const args = coding({ ...one, sound });
    child = spawn("ffmpeg", [...args.slice(0, -2), ...offset, "-tables_version", String(part % 32), "-f", "mpegts", "-"],
      { stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.pipe(upload, { end: false });
    child.on("close", () => {
      part += 1;
      next();
    });
  };
  next();
  return () => {
    isOver = true;
    child?.kill("SIGKILL");
    upload.destroy();
  };
}

/** Publishes a stream that ends and comes back at once, again and again. */
function publishReturning(one, url) {
  let [child, isOver] = [null, false];
  const next = () => {
    if (isOver) return;
    child = spawn("ffmpeg", [...coding(one).slice(0, -2), "-t", String(JOINT_SECONDS), "-f", "mpegts", url], { stdio: ["ignore", "inherit", "inherit"] });
    child.on("close", next);
  };
  next();
  return () => {
    isOver = true;
    child?.kill("SIGKILL");
  };
}

/** Publishes so much of a stream as fast as it is coded, and is done when it has ended. */
async function publishWhole(one, url) {
  const child = spawn("ffmpeg", [...coding(one, []).slice(0, -2), "-t", String(wholeSeconds), "-f", "mpegts", url], { stdio: ["ignore", "inherit", "inherit"] });
  await new Promise((done) => child.on("close", done));
  const playlist = url.replace(/\.ts$/, "/video.m3u8");
  await until("the end of the playlist", async () => (await (await fetch(playlist)).text()).includes("#EXT-X-ENDLIST"));
  return () => {};
}

/** What is wrong with what was seen; empty where nothing is. */
function faults({ startMs, stops, jumps, holes, said }) {
  if (startMs === null) return [`does not play: ${JSON.stringify(said)}`];
  const found = [];
  if (stops.length > 0) found.push(`stops of ${stops.join(", ")} ms`);
  if (jumps.length > 0) found.push(`jumps of ${jumps.join(", ")} s`);
  if (holes.length > 0) found.push(`holes of ${holes.join(", ")} s`);
  return found;
}

/** What is wrong with a stream that was fetched as a whole. */
function gaps({ ranges, said }) {
  const [first] = ranges;
  // Sound and pictures end within a frame of each other.
  const isWhole = ranges.length === 1 && Math.abs(first[1] - first[0] - wholeSeconds) < 0.15;
  return isWhole ? [] : [`is not one stretch of ${wholeSeconds} s: ${JSON.stringify(ranges)} ${JSON.stringify(said)}`];
}

const WAYS = { edge: publish, joint: publishJoints, return: publishReturning, whole: publishWhole };

const { values } = parseArgs({
  options: {
    help: { type: "boolean" }, seconds: { type: "string", default: "20" }, ways: { type: "string", default: Object.keys(WAYS).join() },
    players: { type: "string", default: Object.keys(PLAYERS).join() }, cases: { type: "string" }, whole: { type: "string", default: "600" },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const seconds = Number(values.seconds);
const wholeSeconds = Number(values.whole);
const players = values.players.split(",");
const ways = values.ways.split(",");
const unknown = [...players.filter((name) => !PLAYERS[name]), ...ways.filter((way) => !WAYS[way])];
if (unknown.length > 0 || !(seconds > 0) || !(wholeSeconds > 0)) {
  process.stderr.write(`${unknown.length > 0 ? `no player or way ${unknown.join(", ")}` : `'${values.seconds}' or '${values.whole}' seconds`}\n${HELP}`);
  process.exit(2);
}
const cases = values.cases ? values.cases.split(",").map((text) => CASES[Number(text)]).filter(Boolean) : CASES;

const program = process.env.GLASSLINE_BIN ?? join(top, process.env.CARGO_TARGET_DIR ?? "target", "release/glassline");
/** A server with this configuration: where it is, and how it ends. */
async function serve(config) {
  const folder = mkdtempSync(join(tmpdir(), "glassline-players-"));
  const file = join(folder, "glassline.toml");
  writeFileSync(file, config);
  const server = spawn(program, ["serve", "--listen", "127.0.0.1:0", "--config", file], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (bytes) => (output += bytes));
  const found = await until("the server", async () => /open http:\/\/[^/]*?:(\d+)\//.exec(output));
  const end = () => {
    server.kill("SIGTERM");
    rmSync(folder, { recursive: true, force: true });
  };
  return { origin: `http://127.0.0.1:${found[1]}`, end };
}

/** A whole stream is kept, and has ended when its publisher has; the others are served as a server does by itself. */
const CONFIGS = {
  whole: `[viewer]\nbacklog = "10m"\nbacklog_max = "1GiB"\n[publish]\nreturn_window = "0s"\n[package]\non_demand = false\nwindow = "${wholeSeconds + 60}s"\n`,
};
const executablePath = process.env.CHROMIUM ?? spawnSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).stdout.trim();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"] });
let [played, failed] = [0, 0];
for (const way of ways) {
  const { origin, end } = await serve(CONFIGS[way] ?? "");
  for (const one of cases) {
    const name = `${way}${CASES.indexOf(one)}`;
    const url = `${origin}/live/${name}`;
    const stop = await WAYS[way](one, `${url}.ts`);
    await until(`the playlist of ${name}`, async () => (await fetch(`${url}/index.m3u8`)).status === 200);
    for (const player of players) {
      const context = await browser.newContext({ bypassCSP: true });
      const page = await context.newPage();
      await page.goto(`${origin}/healthz`);
      await page.addScriptTag({ path: join(here, "node_modules", PLAYERS[player].script) });
      const asked = {
        player, url: `${url}/${PLAYERS[player].object}`, seconds: way === "whole" ? wholeSeconds : seconds, settleMs: SETTLE_MS, patienceMs: PATIENCE_MS,
      };
      const seen = await page.evaluate(way === "whole" ? fetchWhole : watch, asked)
        .catch((error) => ({ startMs: null, ranges: [], said: { [String(error).split("\n")[0]]: 1 } }));
      await context.close();
      const wrong = way === "whole" ? gaps(seen) : faults(seen);
      played += 1;
      if (wrong.length > 0) failed += 1;
      const kind = `${way} ${one.rate}/s, key ${one.keySeconds} s, ${one.sound?.join(" ") ?? "no sound"}`;
      console.log(`${wrong.length > 0 ? "FAILED" : "ok"} ${CASES.indexOf(one)} ${kind}, ${player}: ${JSON.stringify(seen)} ${wrong.join("; ")}`);
    }
    stop();
  }
  end();
}
console.log(`${played - failed} of ${played} without a stop, a jump or a hole`);
await browser.close();
process.exitCode = failed > 0 ? 1 : 0;
