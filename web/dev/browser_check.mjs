// Plays the mock's streams in headless Chromium with both engines and says what came of it; pictures go to the folder
// named first. `node dev/browser_check.mjs [FOLDER]`
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const folder = process.argv[2] ?? mkdtempSync(join(tmpdir(), "glassline-web-"));
mkdirSync(folder, { recursive: true });
const port = 8090;
const origin = `http://localhost:${port}`;
let failures = 0;

function expect(holds, what) {
  console.log(`${holds ? "ok  " : "FAIL"} ${what}`);
  if (!holds) failures += 1;
}

const only = process.env.ONLY?.split(",");
const wants = (part) => !only || only.includes(part);

async function withMock(streams, work, ...args) {
  const mock = spawn("node", [fileURLToPath(new URL("mock.mjs", import.meta.url)), String(port), ...args], {
    env: { ...process.env, STREAMS: streams },
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(mock.stdout, "data");
  await new Promise((resolve) => setTimeout(resolve, 3000));
  try {
    await work();
  } finally {
    mock.kill();
    await once(mock, "exit");
  }
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--host-resolver-rules=MAP lan.test 127.0.0.1", "--disable-sync", "--autoplay-policy=document-user-activation-required"],
});

async function open(path, size = { width: 1280, height: 860 }, at = origin) {
  const page = await browser.newPage({ viewport: size });
  await page.addInitScript(listenIn);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) console.log(`     console: ${message.text()}`);
  });
  page.on("pageerror", (error) => expect(false, `no exception: ${error}`));
  await page.goto(at + path);
  return page;
}

/** Runs in the page: everything that goes to the loudspeaker goes through an analyser too. */
function listenIn() {
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target instanceof AudioDestinationNode) {
      window.analyser = new AnalyserNode(this.context, { fftSize: 32768 });
      connect.call(this, window.analyser);
    }
    return connect.call(this, target, ...rest);
  };
}

/** What is heard, as the loudest sample of the last moments, or the bytes of sound that the video element decoded. */
function loudness() {
  if (!window.analyser) return document.querySelector("video")?.webkitAudioDecodedByteCount ?? 0;
  const samples = new Float32Array(window.analyser.fftSize);
  window.analyser.getFloatTimeDomainData(samples);
  return samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
}

const stats = (page) => page.evaluate(() => ({ engine: window.glassline.engine, ...window.glassline.stats() }));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const short = (s) => JSON.stringify(s, (_key, value) => (typeof value === "number" ? Math.round(value * 10) / 10 : value));

/** Milliseconds from the page's start until playback is within 300 ms of the live edge. */
async function timeToEdge(page) {
  for (;;) {
    const [nowMs, { state, behindLiveMs, framesShown }] = await page.evaluate(() => [performance.now(), window.glassline.stats()]);
    if (state === "playing" && framesShown > 3 && behindLiveMs !== null && behindLiveMs < 300) return Math.round(nowMs);
    if (nowMs > 6000) return Infinity;
    await sleep(50);
  }
}

async function plays(name, engine) {
  const page = await open(`/watch/${name}?engine=${engine}`);
  const joined = await timeToEdge(page);
  expect(joined < 2000, `${name}, ${engine}: at the live edge after ${joined} ms`);
  await sleep(2500);
  const first = await stats(page);
  await sleep(4000);
  const last = await stats(page);
  console.log(`     ${short(last)}`);
  const rate = (last.framesShown - first.framesShown) / 4;
  expect(last.engine === engine && last.state === "playing", `${name} plays with ${engine}`);
  expect(rate > 20, `${name}, ${engine}: ${rate.toFixed(1)} pictures a second`);
  expect(last.behindLiveMs !== null && last.behindLiveMs < 600, `${name}, ${engine}: near the live edge`);
  return page;
}

async function browserWithoutServer() {
  const page = await open("/");
  await sleep(500);
  await page.route("**/api/streams", (route) => route.abort());
  await sleep(1800);
  expect(await page.getByRole("alert").isVisible(), "the dashboard says that the server does not answer");
  await page.close();
}

if (wants("large")) {
  await withMock("barcode", async () => {
    for (const engine of ["webcodecs", "mse"]) await (await plays("barcode", engine)).close();
  }, "1280x720", "50");
}
if (wants("barcode")) {
  await withMock("barcode", async () => {
    for (const engine of ["webcodecs", "mse"]) {
      const page = await plays("barcode", engine);
      const { delayMs } = await stats(page);
      expect(delayMs !== null && delayMs.p50 > 0 && delayMs.p50 < 1500, `delay is read from the picture: ${short(delayMs)}`);
      await page.keyboard.press("i");
      await sleep(600);
      await page.screenshot({ path: join(folder, `player-${engine}.png`) });
      await page.close();
    }
  });
}
if (wants("sound")) {
  await withMock("opus,aac,bframes", async () => {
    for (const name of ["opus", "aac", "bframes"]) {
      for (const engine of ["webcodecs", "mse"]) {
        const page = await plays(name, engine);
        await page.getByRole("button", { name: "Unmute" }).click();
        await sleep(3500);
        const after = await stats(page);
        console.log(`     unmuted: ${short(after)}`);
        const later = await stats(page);
        expect(later.state === "playing" && !/muted|off/.test(later.audio), `${name}, ${engine}: sound is on (${later.audio})`);
        const heard = await page.evaluate(loudness);
        expect(heard > 0.01, `${name}, ${engine}: something is heard (${heard})`);
        expect(later.behindLiveMs < 900, `${name}, ${engine}: near the edge with sound`);
        await page.close();
      }
    }
    const page = await open("/");
    await sleep(6000);
    expect((await page.locator(".card").count()) === 3, "the dashboard shows three streams");
    await page.screenshot({ path: join(folder, "dashboard.png") });
    await page.setViewportSize({ width: 390, height: 800 });
    await page.screenshot({ path: join(folder, "dashboard-phone.png") });
    await page.close();
    const phone = await open("/watch/opus", { width: 390, height: 800 });
    await sleep(2500);
    await phone.screenshot({ path: join(folder, "player-phone.png") });
    await phone.close();
  });
}
if (wants("trouble")) {
  await withMock("none", async () => {
    const empty = await open("/");
    await sleep(1500);
    expect(await empty.getByText("No stream yet").isVisible(), "the dashboard says how to publish");
    await empty.screenshot({ path: join(folder, "empty.png") });
    await empty.close();
    await browserWithoutServer();
    for (const engine of ["webcodecs", "mse"]) {
      if (engine === "webcodecs") {
        const page = await open(`/watch/opus?engine=${engine}`);
        await sleep(800);
        expect(await page.getByText("Waiting for opus to start").isVisible(), "says that it waits for the stream");
        await page.screenshot({ path: join(folder, "waiting.png") });
        await page.request.get(`${origin}/mock/start/opus`);
        await sleep(5000);
        expect((await stats(page)).state === "playing", "plays once the stream is there");
        await page.close();
      }
      const page = await plays("opus", engine);
      for (const action of ["restart", "cut"]) {
        const before = await stats(page);
        await page.request.get(`${origin}/mock/${action}/opus`);
        await sleep(4500);
        const after = await stats(page);
        expect(after.state === "playing" && after.framesShown > before.framesShown + 30, `${engine} plays on after: ${action}`);
        expect(after.behindLiveMs < 600, `${engine} is near the edge after: ${action} (${Math.round(after.behindLiveMs)} ms)`);
      }
      await page.close();
    }
  });
}
if (wants("change")) {
  await withMock("resize,intra", async () => {
    for (const engine of ["webcodecs", "mse"]) {
      const page = await plays("resize", engine);
      await page.getByRole("button", { name: "Unmute" }).click();
      await sleep(2000);
      const before = await stats(page);
      await page.request.get(`${origin}/mock/restart/resize`);
      await sleep(4500);
      const after = await stats(page);
      console.log(`     ${short(after)}`);
      expect(before.width !== after.width && after.state === "playing", `${engine}: ${before.width} → ${after.width} wide`);
      // With sound a browser fills up to 0.8 s before it goes on after an outage; the rate then brings it back.
      expect(after.behindLiveMs < 1000, `${engine}: near the edge after a change of size (${Math.round(after.behindLiveMs)} ms)`);
      await page.screenshot({ path: join(folder, `player-sound-${engine}.png`) });
      await page.close();
      const intra = await plays("intra", engine);
      // Long enough that old media is thrown away.
      const then = await stats(intra);
      await sleep(8000);
      const now = await stats(intra);
      expect(now.framesShown - then.framesShown > 160, `intra, ${engine}: goes on (${now.framesShown - then.framesShown} in 8 s)`);
      expect(now.reconnects === 0, `intra, ${engine}: by one connection`);
      await intra.screenshot({ path: join(folder, `intra-${engine}.png`) });
      await intra.close();
    }
    const lan = await open("/watch/resize", undefined, `http://lan.test:${port}`);
    await sleep(2500);
    const s = await stats(lan);
    expect(s.engine === "mse" && s.state === "playing", `over plain HTTP ${s.engine} is chosen, and plays`);
    await lan.locator(".copy").first().click();
    await sleep(200);
    expect((await lan.locator(".copy").first().textContent()) === "Copied", "copying works over plain HTTP");
    const [small] = await Promise.all([lan.waitForEvent("popup"), lan.getByRole("button", { name: /small window/ }).click()]);
    await sleep(2500);
    expect((await stats(small)).state === "playing", "the small window plays");
    await small.screenshot({ path: join(folder, "popout.png") });
    await small.close();
    await lan.close();
  });
}
await browser.close();
console.log(`pictures: ${folder}`);
process.exitCode = failures > 0 ? 1 : 0;
