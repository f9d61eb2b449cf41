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

/** The bar of stages as the page shows it. */
const shownStages = (page) => page.evaluate(() => ({
  expanded: document.querySelector(".delay").getAttribute("aria-expanded"),
  isOpen: !document.querySelector("#budget").hidden,
  rows: Object.fromEntries([...document.querySelectorAll(".budget-table tbody tr")].map((row) =>
    [(row.querySelector(".budget-name")?.firstChild ?? row.cells[0]).textContent, [row.cells[1].textContent, row.cells[2].textContent]])),
  largest: [...document.querySelectorAll(".budget-table .badge:not([hidden])")].map((badge) => badge.parentElement.firstChild.textContent),
  advice: document.querySelector(".budget-advice").textContent,
  barIsHidden: document.querySelector(".budget-bar").getAttribute("aria-hidden"),
  isCut: document.documentElement.scrollWidth > innerWidth,
}));

/** Waits until the relay's stages are known of a good part of the pictures. */
async function stagesKnown(page) {
  for (let tries = 0; tries < 60; tries++) {
    const summary = await page.evaluate(() => window.glassline.stages());
    if (summary.parts.relay && summary.pictures > 60) return summary;
    await sleep(250);
  }
  return page.evaluate(() => window.glassline.stages());
}

/** What the mock's stream says of each picture, in ms. */
const SAID = { capture: 0.5, queue: 0.5, encode: 11, mux: 0.3, send: 0.7, relay: 0.5 };

async function showsStages(engine) {
  const page = await plays("stages", engine);
  const silent = await page.evaluate(() => [window.glassline.stages().parts.relay, document.querySelector("#budget").hidden]);
  expect(silent[0] === null && silent[1], `${engine}: nobody asks for the relay's stages while nobody looks`);
  await page.getByRole("button", { name: /^Delay/ }).click();
  const summary = await stagesKnown(page);
  console.log(`     ${short(summary)}`);
  for (const [part, ms] of Object.entries(SAID)) expect(Math.abs((summary.parts[part]?.p50 ?? 0) - ms) < 0.01, `${engine}: ${part} takes ${ms} ms`);
  const isTold = engine === "webcodecs";
  expect((summary.parts.decode !== null) === isTold && summary.parts.network !== null && summary.parts.display !== null, `${engine}: the page's own parts are known`);
  const sum = Object.values(summary.parts).reduce((all, part) => all + (part?.p50 ?? 0), 0);
  expect(Math.abs(sum - summary.total.p50) < summary.total.p50 * 0.3, `${engine}: ${sum.toFixed(1)} ms of parts beside ${summary.total.p50.toFixed(1)} in all`);
  const before = await stats(page);
  await sleep(4000);
  const rate = ((await stats(page)).framesShown - before.framesShown) / 4;
  expect(rate > 26, `${engine}: ${rate.toFixed(1)} pictures a second with the bar open`);
  const shown = await shownStages(page);
  expect(shown.isOpen && shown.expanded === "true" && shown.barIsHidden === "true", `${engine}: the bar is open, and the table is for who cannot see it`);
  expect(shown.rows["Encode"]?.[0] === "11 ms" && Object.keys(shown.rows).length === 10, `${engine}: the table tells nine stages and their sum`);
  expect(shown.largest.length === 1 && / takes .* To make it smaller: /.test(shown.advice), `${engine}: ${shown.largest} is the largest. ${shown.advice}`);
  await page.screenshot({ path: join(folder, `stages-${engine}.png`), fullPage: true });
  await page.setViewportSize({ width: 360, height: 740 });
  await sleep(700);
  expect(!(await shownStages(page)).isCut, `${engine}: nothing is cut off on a phone`);
  await page.screenshot({ path: join(folder, `stages-${engine}-phone.png`), fullPage: true });
  await page.locator("#budget .action").focus();
  await page.keyboard.press("Escape");
  const closed = await shownStages(page);
  const hasFocus = await page.evaluate(() => document.activeElement.classList.contains("delay"));
  expect(!closed.isOpen && closed.expanded === "false" && hasFocus, `${engine}: Escape closes it, and the button has the focus`);
  await page.keyboard.press("Enter");
  expect((await shownStages(page)).isOpen, `${engine}: the keyboard opens it`);
  await page.keyboard.press("d");
  expect(!(await shownStages(page)).isOpen, `${engine}: d closes it`);
  await page.close();
}

const reports = async (page) => (await page.request.get(`${origin}/mock/reports/stages`)).json();

async function tellsStages() {
  const page = await open("/watch/stages?report=1");
  await page.locator(".delay").click();
  const box = page.getByRole("checkbox", { name: /Tell the server/ });
  expect(await box.isChecked(), "?report=1 agrees to telling");
  await sleep(14_000);
  const told = await reports(page);
  console.log(`     ${short(told)}`);
  const count = (counts) => counts?.reduce((all, one) => all + one, 0) ?? 0;
  expect(told.length === 1 && count(told[0].stages.total) > 100 && told[0].stages.encode[7] === count(told[0].stages.encode), "counts are told once in ten seconds");
  await box.uncheck();
  expect(!page.url().includes("report"), "the address does not agree any more");
  await page.close();
  const next = await open("/watch/stages");
  await next.locator(".delay").click();
  const again = next.getByRole("checkbox", { name: /Tell the server/ });
  expect(!(await again.isChecked()), "nothing is told where nobody agrees");
  await again.check();
  await next.reload();
  await next.locator(".delay").click();
  expect(await again.isChecked(), "the choice is remembered");
  await next.close();
}

async function stagesOverTime() {
  const page = await open("/stream/stages");
  await page.getByText("Capture to server").waitFor();
  await sleep(500);
  const words = await page.locator(".latency").innerText();
  expect(/Encode \d+ ms/.test(words) && /3 reports in the newest step/.test(words), "the stream's page tells its stages over time");
  await page.locator(".latency").screenshot({ path: join(folder, "stages-over-time.png") });
  await page.goto(`${origin}/stream/barcode`);
  await page.getByText("Nothing is known: pictures of this stream").waitFor();
  await page.close();
}

if (wants("stages")) {
  await withMock("stages,barcode", async () => {
    for (const engine of ["webcodecs", "mse"]) await showsStages(engine);
    await tellsStages();
    await stagesOverTime();
  });
}
await browser.close();
console.log(`pictures: ${folder}`);
process.exitCode = failures > 0 ? 1 : 0;
