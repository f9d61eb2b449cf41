// A stand-in for the server, for work on the pages alone: serves dist, answers /api, and publishes test streams out of
// ffmpeg. `node dev/mock.mjs [PORT] [SIZE] [RATE]`; `barcode` carries capture times, `bframes` reorders pictures, and those of
// `stages` say which stages they passed; /event/finals shows some of them (mock_events.mjs).
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { extname, join, normalize } from "node:path";
import { drawBarcode } from "./barcode.mjs";
import { MockEvents, publishLadder } from "./mock_events.mjs";
import { AccessUnits, Muxer, RELAY, STAGES, message } from "./stages.mjs";

const port = Number(process.argv[2] ?? 8090);
const [width, height] = (process.argv[3] ?? "640x360").split("x").map(Number);
const rate = Number(process.argv[4] ?? 30);
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const started = Date.now();
const PACKET = 188;

export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; media-src 'self' blob:; " +
  "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/** One live stream: keeps PAT, PMT and everything from the newest key frame on. */
class Stream {
  constructor(name, codecs) {
    Object.assign(this, { name, codecs, viewers: new Set(), backlog: [], tables: new Map(), rest: Buffer.alloc(0) });
    Object.assign(this, { bytes: 0, newest: Date.now(), begun: Date.now(), samples: [], pmt: -1, live: true });
  }

  push(chunk) {
    this.bytes += chunk.length;
    this.newest = Date.now();
    this.samples.push([this.newest, chunk.length]);
    while (this.samples[0][0] < this.newest - 2000) this.samples.shift();
    const data = Buffer.concat([this.rest, chunk]);
    const whole = data.length - (data.length % PACKET);
    for (let at = 0; at < whole; at += PACKET) this.look(data.subarray(at, at + PACKET));
    this.rest = data.subarray(whole);
    const out = data.subarray(0, whole);
    for (const viewer of this.viewers) viewer.write(out);
  }

  look(packet) {
    const pid = ((packet[1] & 31) << 8) | packet[2];
    const random = packet[3] & 0x20 && packet[4] > 0 && packet[5] & 0x40;
    if (pid === 0) {
      this.tables.set(0, packet);
      this.pmt = ((packet[15] & 31) << 8) | packet[16];
    } else if (pid === this.pmt) this.tables.set(1, packet);
    if (random && pid === 256) this.backlog = [];
    this.backlog.push(packet);
    if (this.backlog.length > 100_000) this.backlog.shift();
  }

  join(response) {
    response.writeHead(200, { "content-type": "video/mp2t", "cache-control": "no-store" });
    response.write(Buffer.concat([...[...this.tables.entries()].sort().map(([, p]) => p), ...this.backlog]));
    this.viewers.add(response);
    response.on("close", () => this.viewers.delete(response));
  }

  json() {
    const bits = this.samples.reduce((sum, [, n]) => sum + n, 0) * 8;
    return {
      name: this.name, live: this.live, bitrate_bps: Math.round(bits / 2), viewers: this.viewers.size, codecs: this.codecs,
      uptime_s: (Date.now() - this.begun) / 1000, newest_byte_age_ms: Date.now() - this.newest, bytes_in: this.bytes,
      continuity_errors: 0, moved_forward: 0, key_frame_interval_s: 2, thumbnail: events?.version(this.name) ?? null,
      behind: { edges_ms: [50, 100, 200, 500, 1000, 2000, 5000], viewers: [this.viewers.size, 0, 0, 0, 0, 0, 0, 0] },
      ...(this.group ? { group: this.group, renditions: events.ladder().renditions } : {}),
    };
  }
}

const streams = new Map();
const children = [];
const video = { kind: "video", name: "H.264", codec_string: "avc1.42c01f", width, height, frame_rate: rate };

function publish(name, args, codecs, feed) {
  const stream = new Stream(name, codecs);
  streams.set(name, stream);
  const run = () => {
    const child = spawn("ffmpeg", ["-hide_banner", "-loglevel", "error", ...args, "-f", "mpegts", "-muxdelay", "0",
      "-muxpreload", "0", "-flush_packets", "1", "-mpegts_flags", "+pat_pmt_at_frames", "-"]);
    children.push(child);
    child.stdout.on("data", (chunk) => stream.push(chunk));
    child.stderr.on("data", (text) => process.stderr.write(text));
    const stop = feed?.(child.stdin);
    child.stdin.on("error", () => {});
    child.on("exit", () => stop?.());
    stream.child = child;
  };
  stream.restart = () => {
    stream.child.kill();
    stream.child.on("exit", () => {
      stream.rest = Buffer.alloc(0);
      if (name === "resize") args = args.map((a) => (a === "640x360" ? "480x272" : a === "480x272" ? "640x360" : a));
      run();
    });
  };
  run();
  return stream;
}

const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

/** Pictures that say their stages; the relay's are in `captured`, of the last ten seconds. */
function publishStages(name) {
  const stream = new Stream(name, [video]);
  stream.captured = [];
  stream.reports = [];
  streams.set(name, stream);
  const child = spawn("ffmpeg", ["-hide_banner", "-loglevel", "error", ...test, ...x264(rate * 2, "-tune", "zerolatency", "-x264-params", "aud=1"), "-f", "h264", "-flush_packets", "1", "-"]);
  children.push(child);
  child.stderr.on("data", (text) => process.stderr.write(text));
  const [units, muxer] = [new AccessUnits(), new Muxer()];
  let before = null;
  let number = 0;
  child.stdout.on("data", (chunk) => {
    for (const unit of units.push(chunk)) {
      const capturedUs = nowUs() - STAGES.sent;
      const said = message(capturedUs, before === null ? null : capturedUs - before);
      const isKey = unit.includes(Buffer.from([0, 0, 0, 1, 0x67]));
      stream.push(muxer.picture(Buffer.concat([unit.subarray(0, 6), said, unit.subarray(6)]), 90_000 + number * Math.round(90_000 / rate), isKey));
      before = capturedUs;
      number += 1;
      stream.captured.push(capturedUs);
      while (stream.captured[0] < capturedUs - 1e7) stream.captured.shift();
    }
  });
  stream.restart = () => {};
  return stream;
}

/** What the dashboard is told: ten minutes, with a gap. */
function latencySteps() {
  const now_us = nowUs();
  const steps = Array.from({ length: 60 }, (_, step) => step).filter((step) => step < 20 || step > 24);
  const figures = (ms, step) => ({ p50_us: Math.round(ms * 1000 * (1 + 0.15 * Math.sin(step / 4))), p99_us: Math.round(ms * 2500) });
  const all = (stages, step) => Object.fromEntries(Object.entries(stages).map(([stage, ms]) => [stage, figures(ms, step)]));
  return {
    step_s: 10, now_us,
    relay: steps.map((step) => ({ t_us: now_us - (60 - step) * 1e7, stages: all({ capture: 0.5, queue: 0.5, encode: 11, mux: 0.3, send: 0.7, relay: 0.5 }, step) })),
    viewers: steps.filter((step) => step > 30).map((step) => ({
      t_us: now_us - (60 - step) * 1e7, reports: 3, stages: all({ network: 4, decode: 5, display: 8, total: 31 }, step),
    })),
  };
}

const x264 = (keyint, ...more) => ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", String(keyint),
  "-b:v", "1500k", "-maxrate", "1500k", "-bufsize", "750k", ...more];

/** Raw pictures with a moving bar and the barcode of their own time. */
function barcodePictures(stdin) {
  let frame = 0;
  const size = (width * height * 3) / 2;
  const begun = Date.now();
  const timer = setInterval(() => {
    if (frame > ((Date.now() - begun) * rate) / 1000) return;
    const picture = Buffer.alloc(size, 128);
    const bar = (frame * 8) % width;
    for (let y = 0; y < height; y++) {
      picture.fill(40 + ((y * 120) / height), y * width, (y + 1) * width);
      picture.fill(210, y * width + bar, y * width + Math.min(width, bar + 24));
    }
    drawBarcode(picture, width, height, frame, (performance.timeOrigin + performance.now()) * 1000);
    stdin.write(picture);
    frame += 1;
  }, 4);
  return () => clearInterval(timer);
}

const raw = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", `${width}x${height}`, "-r", String(rate), "-probesize", "32", "-i", "-"];
const tone = ["-re", "-f", "lavfi", "-i", "sine=frequency=440:beep_factor=4:sample_rate=48000"];
const test = ["-re", "-f", "lavfi", "-i", `testsrc2=size=${width}x${height}:rate=${rate}`];
const opus = { kind: "audio", name: "Opus" };
const aac = { kind: "audio", name: "AAC" };
const resize = ["-re", "-f", "lavfi", "-i", `testsrc2=rate=${rate}`];
const english = ["-re", "-f", "lavfi", "-i", "sine=frequency=300:beep_factor=2:sample_rate=48000", "-c:a", "aac"];
const wanted = process.env.STREAMS?.split(",");
const offers = {
  barcode: () => publish("barcode", [...raw, ...x264(rate * 2, "-tune", "zerolatency")], [video], barcodePictures),
  opus: () => publish("opus", [...test, ...tone, ...x264(rate * 2, "-tune", "zerolatency"), "-c:a", "libopus", "-frame_duration", "20"], [video, opus]),
  aac: () => publish("aac", [...test, ...tone, ...x264(rate * 4, "-tune", "zerolatency"), "-c:a", "aac", "-pes_payload_size", "0"], [video, aac]),
  resize: () => publish("resize", [...resize, ...tone, ...x264(rate * 2, "-tune", "zerolatency"), "-s", "640x360", "-c:a", "libopus"], [video, opus]),
  intra: () => publish("intra", [...raw, ...x264(rate, "-tune", "zerolatency", "-intra-refresh", "1")], [video], barcodePictures),
  stages: () => publishStages("stages"),
  hall: () => publishLadder(Stream, streams, children, 25),
  english: () => publish("english", english, [aac]),
  bframes: () => publish("bframes", [...test, ...tone, ...x264(rate * 2, "-bf", "2", "-rc-lookahead", "5"), "-c:a", "aac"], [video, aac]),
};
const events = new MockEvents(streams);
for (const [name, start] of Object.entries(offers)) if (!wanted || wanted.includes(name)) start();

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://mock");
  const json = (value) => {
    response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
    response.end(JSON.stringify(value));
  };
  const absent = () => response.writeHead(404, { "content-type": "application/problem+json" }).end('{"title":"not found"}');
  const now = nowUs;
  const live = /^\/live\/(.+)\.ts$/.exec(url.pathname);
  const stages = /^\/live\/(.+)\/stages(\.json)?$/.exec(url.pathname);
  const latency = /^\/api\/streams\/(.+)\/latency$/.exec(url.pathname);
  const one = /^\/api\/streams\/(.+)$/.exec(url.pathname);
  if (await events.handle(url, request, response)) return;
  if (url.pathname === "/api/time") json({ utc_us: now() });
  else if (url.pathname === "/api/contact") json({ contact: "stage@example.org" });
  else if (url.pathname === "/api/streams") {
    const server = { version: "0.1.0-mock", uptime_s: (Date.now() - started) / 1000, contact: "crew@example.org", now_utc_us: now() };
    json({ server, streams: [...streams.values()].map((s) => s.json()) });
  } else if (stages) {
    const stream = streams.get(stages[1]);
    if (!stream?.captured) absent();
    else if (stages[2]) {
      const after = Number(url.searchParams.get("after") ?? 0);
      const pictures = stream.captured.filter((captured) => captured > after).map((captured_us) => ({ captured_us, ...RELAY }));
      json({ now_us: now(), edges_us: [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000], pictures });
    } else {
      let body = "";
      for await (const part of request) body += part;
      stream.reports.push(JSON.parse(body));
      response.writeHead(204).end();
    }
  } else if (latency) {
    const stream = streams.get(latency[1]);
    stream ? json(stream.captured ? latencySteps() : { step_s: 10, now_us: now(), relay: [], viewers: [] }) : absent();
  } else if (one) streams.has(one[1]) ? json(streams.get(one[1]).json()) : absent();
  else if (live) streams.has(live[1]) ? streams.get(live[1]).join(response) : absent();
  else if (url.pathname.startsWith("/mock/")) {
    // For checks: restart a publisher, cut the viewers, add a stream.
    const [, , action, name] = url.pathname.split("/");
    if (action === "restart") streams.get(name)?.restart();
    if (action === "cut") for (const viewer of streams.get(name)?.viewers ?? []) viewer.destroy();
    if (action === "start") (offers[name] ?? (() => publish(name, [...test, ...tone, ...x264(rate * 2, "-tune", "zerolatency"), "-c:a", "aac"], [video, aac])))();
    json(action === "reports" ? streams.get(name)?.reports : {});
  } else {
    const path = url.pathname.startsWith("/assets/") ? url.pathname : "/index.html";
    try {
      let body = await readFile(join(dist, normalize(path)));
      // Links in the page are relative to the server's folder, as the server makes them.
      if (path === "/index.html") body = body.toString().replaceAll('="./', `="${"../".repeat(url.pathname.split("/").length - 2) || "./"}`);
      response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "content-security-policy": CSP });
      response.end(body);
    } catch {
      absent();
    }
  }
});
server.on("connection", (socket) => socket.setNoDelay(true));
server.listen(port, () => console.log(`http://localhost:${port}/`));
const end = () => {
  for (const child of children) child.kill();
  process.exit(0);
};
process.on("SIGTERM", end);
process.on("SIGINT", end);
