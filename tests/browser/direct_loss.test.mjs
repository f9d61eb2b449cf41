// Direct video in AV1 over a way that loses one packet in twenty, in Chromium: what the receiver passes on gives WebCodecs the
// pictures that it gives dav1d, sample by sample. `receive` compares dav1d's pictures with the sender's reconstruction itself, and
// counts those that differ as damaged.
//
// GLASSLINE_AV1_SECONDS is how long it sends; 600 for ten minutes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { findProgram, glassline, launch, open, shared, skip, start, until } from "./support.mjs";

const SECONDS = Number(process.env.GLASSLINE_AV1_SECONDS ?? 10);
const LOSS = 0.05;
/** Of the losses, those that begin a burst, and how likely a burst goes on at each packet. */
const BURSTS = 0.2;
const BURST_GOES_ON = 0.6;

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Numbers from 0 to 1 that are the same in each run (Marsaglia, "Xorshift RNGs", 2003). */
function* chances(seed) {
  for (let state = seed; ;) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    yield (state >>> 0) / 2 ** 32;
  }
}

/** Whether the next packet of a direction is lost: 5 % of them in the long run, alone and in bursts. */
function losses(seed) {
  const chance = chances(seed);
  const next = () => chance.next().value;
  // What follows the first packet of a loss on average, burst or not.
  const further = (BURSTS * BURST_GOES_ON) / (1 - BURST_GOES_ON);
  const begins = LOSS / (1 + further - LOSS * further);
  let isBurst = false;
  return () => {
    if (isBurst) {
      isBurst = next() < BURST_GOES_ON;
      if (isBurst) return true;
    }
    const isLost = next() < begins;
    isBurst = isLost && next() < BURSTS;
    return isLost;
  };
}

/** A way to the receiver at `port` that loses packets of both directions. `port` is where it begins. */
async function lossyWay(t, port) {
  const way = { port: 0, carried: 0, lost: 0 };
  const [near, far] = [createSocket("udp4"), createSocket("udp4")];
  t.after(() => [near, far].forEach((socket) => socket.close()));
  const [up, down] = [losses(1), losses(2)];
  const pass = (isLost, send) => {
    const lost = isLost();
    way[lost ? "lost" : "carried"] += 1;
    if (!lost) send();
  };
  let sender = null;
  near.on("message", (bytes, from) => {
    sender = from;
    pass(up, () => far.send(bytes, port, "127.0.0.1"));
  });
  far.on("message", (bytes) => pass(down, () => near.send(bytes, sender.port, sender.address)));
  await new Promise((done) => near.bind(0, "127.0.0.1", done));
  way.port = near.address().port;
  return way;
}

/** The object that a program has written at its end. */
function report(run) {
  const line = run.output.split("\n").find((text) => text.startsWith("{"));
  assert.ok(line, run.output);
  return JSON.parse(line);
}

/** Sends over a lossy way into `film`. Returns what both ends and the way have counted. */
async function send(t, film) {
  const receiver = start(t, glassline, ["receive", "link://127.0.0.1:0", film, "--insecure", "--once", "--json"]);
  const port = await until("where the receiver is", () => {
    assert.ok(!receiver.ended, receiver.output);
    return /listening address=\S+:(\d+)/.exec(receiver.output)?.[1];
  });
  const way = await lossyWay(t, Number(port));
  const clip = shared("media/foreman_cif25.mp4");
  const sender = start(t, glassline, [
    "send", ...(clip ? [clip, "--loop"] : ["test:352x288@25"]), `link://127.0.0.1:${way.port}`, "--insecure", "--codec", "av1",
    "--speed", "10", "--bitrate", "800k", "--fec", "none", "--duration", `${SECONDS}s`, "--json",
  ]);
  await Promise.all([sender.over, receiver.over]);
  assert.deepEqual([sender.child.exitCode, receiver.child.exitCode], [0, 0], sender.output + receiver.output);
  return { sent: report(sender), received: report(receiver), way };
}

/** Bytes and SHA-256 of each picture that FFmpeg decodes, by dav1d. */
async function ffmpegPictures(film) {
  const child = spawn("ffmpeg", [
    "-v", "warning", "-c:v", "libdav1d", "-i", film, "-fps_mode", "passthrough", "-pix_fmt", "yuv420p",
    "-f", "framehash", "-hash", "sha256", "-",
  ], { stdio: ["ignore", "pipe", "pipe"] });
  let [text, errors] = ["", ""];
  child.stdout.on("data", (bytes) => (text += bytes));
  child.stderr.on("data", (bytes) => (errors += bytes));
  const status = await new Promise((done) => child.on("close", done));
  assert.deepEqual([status, errors], [0, ""], "FFmpeg decodes it without a word");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const fields = line.split(",").map((field) => field.trim());
    return `${fields[4]} ${fields[5]}`;
  });
}

/** The same of Chromium's: runs in the page. */
async function webcodecsPictures() {
  const bytes = new Uint8Array(await (await fetch("film.ivf")).arrayBuffer());
  const view = new DataView(bytes.buffer);
  const found = [];
  let [pending, failure, wake] = [0, null, () => {}];
  const take = async (frame) => {
    const samples = new Uint8Array(frame.allocationSize());
    await frame.copyTo(samples);
    const said = { at: frame.timestamp, format: frame.format };
    frame.close();
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", samples));
    const name = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    found.push({ ...said, picture: `${samples.length} ${name}` });
  };
  const decoder = new VideoDecoder({
    output: (frame) => void take(frame).catch((error) => (failure ??= error)).finally(() => {
      pending -= 1;
      wake();
    }),
    error: (error) => {
      failure ??= error;
      wake();
    },
  });
  // As the page does: pictures come one by one, and none waits for others.
  const config = { codec: "av01.0.08M.08", optimizeForLatency: true, hardwareAcceleration: "prefer-software" };
  if (!(await VideoDecoder.isConfigSupported(config)).supported) return null;
  decoder.configure(config);
  let count = 0;
  for (let at = view.getUint16(6, true); at < bytes.length && failure === null;) {
    const length = view.getUint32(at, true);
    const unit = bytes.subarray(at + 12, at + 12 + length);
    at += 12 + length;
    // A temporal delimiter, which WebCodecs is not given; a sequence header stands in front of key frames alone.
    if (unit[0] !== 0x12 || unit[1] !== 0) throw new Error(`unit ${count} begins with ${unit[0]} ${unit[1]}`);
    const data = unit.subarray(2);
    const type = ((data[0] >> 3) & 15) === 1 ? "key" : "delta";
    pending += 1;
    decoder.decode(new EncodedVideoChunk({ type, timestamp: count, data }));
    count += 1;
    while (pending >= 8 && failure === null) await new Promise((done) => (wake = done));
  }
  if (failure === null) await decoder.flush().catch((error) => (failure ??= error));
  while (pending > 0 && failure === null) await new Promise((done) => (wake = done));
  if (failure !== null) throw new Error(`after ${found.length} of ${count} pictures: ${failure}`);
  found.sort((one, other) => one.at - other.at);
  return { count, formats: [...new Set(found.map(({ format }) => format))], pictures: found.map(({ picture }) => picture) };
}

test("Chromium: AV1 that came over a way with 5 % loss is decoded to the pictures that dav1d decodes", { timeout: 240_000 + 4_000 * SECONDS }, async (t) => {
  if (!browser) return skip(t, "chromium is not installed");
  if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
  const folder = mkdtempSync(join(tmpdir(), "glassline-loss-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const film = join(folder, "film.ivf");
  const { sent, received, way } = await send(t, film);
  t.diagnostic(`${way.lost} of ${way.lost + way.carried} packets lost; sent ${JSON.stringify(sent)}; received ${JSON.stringify(received)}`);
  assert.ok(way.lost > 0 && sent.lost > 0, "something is lost");
  assert.deepEqual([sent.mismatches, received.damaged], [0, 0], "dav1d's pictures are the sender's reconstruction");
  const expected = await ffmpegPictures(film);
  assert.ok(expected.length >= received.shown && received.shown > 5 * SECONDS, `${expected.length} frames, ${received.shown} shown`);
  const server = createServer((request, answer) => {
    const isFilm = request.url === "/film.ivf";
    answer.setHeader("content-type", isFilm ? "application/octet-stream" : "text/html");
    answer.end(isFilm ? readFileSync(film) : "<!doctype html><title>film</title>");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => {
    server.closeAllConnections?.();
    server.close();
  });
  const page = await open(t, browser, `http://127.0.0.1:${server.address().port}/`);
  const decoded = await page.evaluate(webcodecsPictures);
  if (!decoded) return skip(t, "Chromium says that it decodes no AV1");
  assert.deepEqual([decoded.formats, decoded.count, decoded.pictures.length], [["I420"], expected.length, expected.length]);
  const differing = expected.flatMap((picture, index) => (picture === decoded.pictures[index] ? [] : [index]));
  assert.deepEqual(differing, [], `${differing.length} of ${expected.length} pictures differ`);
  t.diagnostic(`${expected.length} pictures are equal, ${new Set(expected).size} of them different ones`);
  return undefined;
});
