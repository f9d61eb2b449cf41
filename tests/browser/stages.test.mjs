// The bar of stages that opens from the delay, in Chromium and in Firefox: what the encoder writes into the stream, what the
// server tells and what the page sees itself. No timing decides a test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { launchFirefox, openTab } from "./firefox.mjs";
import { glassline, launch, open, plays, screenshot, serve, skip, start, stats, until } from "./support.mjs";

let chromium = null;
let firefox = null;
before(async () => {
  [chromium, firefox] = await Promise.all([launch(), launchFirefox()]);
});
after(() => Promise.all([chromium?.close(), firefox?.close()]));

const SENDER_PARTS = ["capture", "queue", "encode", "mux", "send"];
const PHONE = { width: 360, height: 740 };

/** A server with a stream of our encoder's. */
async function served(t) {
  const server = await serve(t);
  start(t, glassline, ["encode", "test:640x360@25", `${server.origin}/live/cam.ts`, "--preset", "ultrafast", "--threads", "1", "--bitrate", "1M"]);
  await server.live("cam");
  return server;
}

const stages = (page) => page.evaluate(() => window.glassline.stages());
const bar = (page) => page.evaluate(() => {
  const budget = document.querySelector("#budget");
  return {
    isOpen: !budget.hidden,
    expanded: document.querySelector(".delay").getAttribute("aria-expanded"),
    isFocused: document.activeElement === document.querySelector(".delay"),
    rows: [...budget.querySelectorAll("tbody tr:not([hidden])")].map((row) => [...row.cells].map((cell) => cell.innerText)),
    largest: budget.querySelectorAll(".badge:not([hidden])").length,
    advice: budget.querySelector(".budget-advice").innerText,
    text: budget.innerText,
    isCut: document.documentElement.scrollWidth > innerWidth,
  };
});

/** Checks the bar of a page that plays: what it knows, what it says, and that the keyboard alone works it. */
async function checkBar(t, page, server, engine) {
  assert.equal((await plays(page, 30)).engine, engine);
  await until("the delay", () => page.evaluate(() => /^Delay/.test(document.querySelector("button.delay").innerText)));
  assert.equal((await bar(page)).expanded, "false");
  await page.evaluate(() => document.querySelector("button.delay").click());
  const doesServerTell = (await fetch(`${server.origin}/live/cam/stages.json`)).ok;
  const known = await until("all that is known of the stages", async () => {
    const summary = await stages(page);
    const parts = [...SENDER_PARTS, "network", "display", ...(engine === "webcodecs" ? ["decode"] : []), ...(doesServerTell ? ["relay"] : [])];
    return summary.pictures >= 25 && parts.every((part) => summary.parts[part] !== null) && summary;
  }, () => stages(page));
  t.diagnostic(`${engine}: ${Object.entries(known.parts).map(([part, told]) => `${part} ${told?.p50.toFixed(1) ?? "–"}`).join(", ")}, total ${known.total?.p50.toFixed(1)}`);
  for (const told of [...Object.values(known.parts), known.total].filter((told) => told !== null)) {
    assert.ok(told.p50 >= 0 && told.p99 >= told.p50 && told.p99 <= 60_000, JSON.stringify(known));
  }
  assert.ok(known.parts.encode.p50 > 0, "no encoder takes no time");
  assert.equal(known.parts.decode !== null, engine === "webcodecs", "a video element does not tell when it has decoded");
  const shown = await until("the bar's words", async () => {
    const now = await bar(page);
    return / takes .* To make it smaller: /.test(now.advice) && now;
  }, () => bar(page));
  assert.deepEqual([shown.isOpen, shown.expanded, shown.rows.length, shown.largest, shown.isCut], [true, "true", 10, 1, false]);
  assert.match(shown.rows[2].join(" "), /^Encode[^]*The encoder codes the picture\.[^]* ms [^]*ms$/);
  assert.match(shown.text, /± [\d<. ]+ms/);
  await page.evaluate(() => {
    document.querySelector("#budget button").focus();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  });
  const closed = await bar(page);
  assert.deepEqual([closed.isOpen, closed.expanded, closed.isFocused], [false, "false", true]);
}

for (const engine of ["webcodecs", "mse"]) {
  test(`Chromium: the delay opens into its stages with ${engine}`, { timeout: 240_000 }, async (t) => {
    if (!chromium) return skip(t, "chromium is not installed");
    const server = await served(t);
    const page = await open(t, chromium, `${server.origin}/watch/cam?engine=${engine}`);
    await checkBar(t, page, server, engine);
    await page.setViewportSize(PHONE);
    await page.locator("button.delay").press("Enter");
    await until("the bar on a phone", async () => (await bar(page)).isOpen);
    assert.equal((await bar(page)).isCut, false);
    await screenshot(page, `stages-${engine}-phone`);
    return undefined;
  });

  test(`Firefox: the delay opens into its stages with ${engine}`, { timeout: 240_000 }, async (t) => {
    if (!firefox) return skip(t, "firefox-esr is not installed");
    const server = await served(t);
    const page = await openTab(t, firefox, `${server.origin}/watch/cam?engine=${engine}`);
    const has = await page.evaluate(async () => ({
      webcodecs: typeof VideoDecoder === "function" && (await VideoDecoder.isConfigSupported({ codec: "avc1.640016", codedWidth: 640, codedHeight: 360 })).supported,
      mse: MediaSource.isTypeSupported('video/mp4; codecs="avc1.640016"'),
    }));
    if (!has[engine]) return skip(t, `Firefox ${firefox.version} says that it decodes no H.264 with ${engine}`);
    await checkBar(t, page, server, engine);
    await page.evaluate(() => document.querySelector("button.delay").click());
    await until("the bar's words", async () => (await bar(page)).advice !== "");
    await screenshot(page, `firefox-stages-${engine}`);
    await page.setViewportSize(PHONE);
    assert.equal((await bar(page)).isCut, false);
    await screenshot(page, `firefox-stages-${engine}-phone`);
    return undefined;
  });
}

/** `lab glass --page` looks at pages by it. */
const LOOK = readFileSync(new URL("../../crates/lab/src/glass/page.js", import.meta.url), "utf8");
/** Where the first barcode of a picture of 640x360 lies. */
const CODE = { x: 0, y: 0, cell: 16, size: { width: 640, height: 360 } };
/** How far two refreshes of a usual screen are apart, in milliseconds. */
const REFRESH_MS = 1000 / 60;

/** How old a picture was when it was seen, by its barcode, in milliseconds. */
function ageOf([atMs, cells]) {
  const means = cells.match(/../g).map((cell) => parseInt(cell, 16));
  const middle = (Math.min(...means) + Math.max(...means)) / 2;
  const bits = means.reduce((all, mean) => (all << 1n) | (mean > middle ? 1n : 0n), 0n);
  const mask = (1n << 40n) - 1n;
  return Number((BigInt(Math.round(atMs * 1000)) - ((bits >> 16n) & mask)) & mask) / 1000;
}

for (const engine of ["webcodecs", "mse", "hls"]) {
  test(`Chromium: the delay that the page tells is that of the barcodes which it shows (${engine})`, { timeout: 240_000 }, async (t) => {
    if (!chromium) return skip(t, "chromium is not installed");
    const server = await served(t);
    const page = await chromium.newPage();
    t.after(() => page.close());
    await page.addInitScript({ content: LOOK });
    await page.goto(`${server.origin}/watch/cam?engine=${engine}`);
    await plays(page, 50);
    await page.evaluate((code) => glasslineLab.start([[code]]), CODE);
    const middle = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
    const apart = [];
    let last = "";
    // A machine that stands still moves one of the two: they agree where it does not.
    await until("a second in which both agree", async () => {
      await page.evaluate(() => glasslineLab.take());
      await new Promise((done) => setTimeout(done, 1000));
      const looks = await page.evaluate(() => glasslineLab.take());
      const ages = looks.filter((look) => look.length > 1).map(ageOf);
      const told = (await stats(page)).delayMs?.p50;
      if (ages.length < 10 || told === undefined) {
        const seen = await stats(page);
        last = JSON.stringify([ages.length, looks.length, seen]).slice(0, 900);
        return false;
      }
      apart.push(told - middle(ages));
      return Math.abs(apart.at(-1)) < REFRESH_MS / 2;
    }, () => (apart.length > 0 ? apart : last));
    t.diagnostic(`${engine}: apart ${apart.map((ms) => ms.toFixed(1)).join(", ")} ms`);
  });
}

test("Chromium: playlists tell the sender's stages, too", { timeout: 240_000 }, async (t) => {
  if (!chromium) return skip(t, "chromium is not installed");
  const server = await served(t);
  for (const engine of ["hls", "dash"]) {
    const page = await open(t, chromium, `${server.origin}/watch/cam?engine=${engine}`);
    await checkBar(t, page, server, engine);
  }
  return undefined;
});

test("Chromium: telling the server is off until the viewer agrees, and the choice is kept", { timeout: 240_000 }, async (t) => {
  if (!chromium) return skip(t, "chromium is not installed");
  const server = await served(t);
  const page = await open(t, chromium, `${server.origin}/watch/cam`);
  await plays(page, 30);
  await page.locator("button.delay").click();
  const box = page.getByRole("checkbox", { name: "Tell the server these figures, once in 10 s, without anything about you" });
  assert.equal(await box.isChecked(), false);
  await box.check();
  await page.reload();
  await page.locator("button.delay").click();
  assert.equal(await box.isChecked(), true, "the choice is remembered");
  await box.uncheck();
  await page.goto(`${server.origin}/watch/cam?report=1`);
  await page.locator("button.delay").click();
  assert.equal(await box.isChecked(), true, "the address agrees");
  await box.uncheck();
  assert.equal(new URL(page.url()).search, "");
  await page.reload();
  await page.locator("button.delay").click();
  assert.equal(await box.isChecked(), false);
  return undefined;
});
