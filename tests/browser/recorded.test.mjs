// What was recorded, in Chromium: the page goes back in it, and hls.js and dash.js play it over a discontinuity.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { findProgram, glassline, launch, open, plays, screenshot, serve, showsPicture, skip, start, stats, until } from "./support.mjs";

const dashjs = resolve(dirname(fileURLToPath(import.meta.url)), "../../web/node_modules/dashjs/dist/modern/umd/dash.all.min.js");

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A test that needs the browser and FFmpeg. */
function recordedTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
    return body(t);
  });
}

/** A server that records the stream `hall` into a folder. */
async function recording(t) {
  return (await recordingInto(t)).server;
}

/** The same with the folder. */
async function recordingInto(t) {
  const folder = mkdtempSync(join(tmpdir(), "glassline-recorded-"));
  const config = `[record]\nstore = "file:${folder}"\n[stream.hall]\nrecord = true\n[package]\nsegment = "1s"\n[publish]\nreturn_window = "0s"\n`;
  const server = await serve(t, [], { config });
  // Behind the server's end, which writes into it until then.
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }));
  return { server, folder };
}

/** Publishes so many seconds of pictures of this size, and of sound, in real time. */
async function publish(t, server, seconds, size) {
  const run = start(t, "ffmpeg", [
    "-v", "warning", "-re", "-f", "lavfi", "-i", `testsrc2=size=${size}:rate=25`, "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000",
    "-t", String(seconds), "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-g", "25", "-c:a", "aac",
    "-f", "mpegts", `${server.origin}/live/hall.ts`,
  ]);
  await run.over;
}

/** What is recorded, as the API has it. */
const recordings = async (server) => (await fetch(`${server.origin}/api/recordings`)).json();

/** Two recordings of one stream, of different sizes, with a hole between them. */
async function twoRecordings(t) {
  const server = await recording(t);
  const over = (count) => until(`${count} recordings that are over`, async () => {
    const list = await recordings(server);
    return list.length === count && list.every(({ state }) => state === "complete") && list;
  }, () => recordings(server));
  await publish(t, server, 6, "640x360");
  await over(1);
  await publish(t, server, 6, "320x180");
  const list = await over(2);
  const from = list.map((one) => one.from).sort()[0];
  return { server, from };
}

/** The state of a video element: where it is, what is shown. */
const look = (page, selector) =>
  page.evaluate((selector) => {
    const video = document.querySelector(selector);
    return { time: video.currentTime, width: video.videoWidth, ended: video.ended, duration: video.duration };
  }, selector);

recordedTest("the page plays two recordings as one, over the discontinuity, and goes back over it", async (t) => {
  const { server, from } = await twoRecordings(t);
  const page = await open(t, browser, `${server.origin}/watch/hall?from=${encodeURIComponent(from)}`);
  const figures = await plays(page, 25);
  assert.equal(figures.engine, "recorded");
  assert.equal(figures.width, 640);
  await until("a picture of more than one colour", () => showsPicture(page));
  await until("the other size, behind the discontinuity", async () => (await stats(page)).width === 320, () => look(page, "video.picture"));
  await plays(page, 10);
  await page.locator(".stage").focus();
  await page.keyboard.press("Home");
  await until("the first recording again", async () => (await stats(page)).width === 640, () => look(page, "video.picture"));
  await plays(page, 10);
  await until("the list of recordings", async () => (await page.locator(".recording-list li").count()) === 2);
  await screenshot(page, "recorded");
  // From the list: the newest one alone.
  await page.locator(".recording-list button").first().click();
  await until("the second recording", async () => (await stats(page)).width === 320, () => stats(page));
  assert.match(page.url(), /from=/);
});

recordedTest("dash.js plays two recordings as one, over the discontinuity", async (t) => {
  const { server, from } = await twoRecordings(t);
  const context = await browser.newContext({ bypassCSP: true });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(`${server.origin}/api/time`);
  await page.addScriptTag({ path: dashjs });
  const url = `${server.origin}/live/hall/manifest.mpd?from=${encodeURIComponent(from)}`;
  await page.evaluate((url) => {
    const video = document.createElement("video");
    video.muted = true;
    document.body.append(video);
    const player = dashjs.MediaPlayer().create();
    window.said = [];
    player.on("error", (event) => window.said.push(JSON.stringify(event.error ?? {})));
    // A second without progress within this time of the end makes dash.js jump to the end, where it may find no segment, go back by
    // 0.1 s and stay. A busy machine has such seconds. Gaps between periods are jumped over whatever this is.
    player.updateSettings({ streaming: { gaps: { smallGapLimit: 0 } } });
    player.initialize(video, url, true);
  }, url);
  const state = async () => ({ ...(await look(page, "video")), said: await page.evaluate(() => window.said) });
  await until("the first recording", async () => (await look(page, "video")).width === 640, state);
  await until("the second one", async () => (await look(page, "video")).width === 320, state);
  await until("the end", async () => (await look(page, "video")).ended, state);
  assert.deepEqual(await page.evaluate(() => window.said), []);
});

recordedTest("one goes back to the beginning of what is live, and comes back to live", async (t) => {
  const server = await recording(t);
  void publish(t, server, 60, "640x360");
  await server.live("hall");
  const page = await open(t, browser, `${server.origin}/watch/hall`);
  await plays(page, 25);
  const restart = page.getByRole("button", { name: "Restart from the beginning" });
  await restart.waitFor({ timeout: 60_000 });
  await restart.click();
  const figures = await plays(page, 25);
  assert.equal(figures.engine, "recorded");
  t.diagnostic(`first recorded picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms`);
  await page.locator(".recordings").getByRole("button", { name: "Live" }).click();
  await until("another engine", async () => (await stats(page)).engine !== "recorded");
  await plays(page, 25);
  assert.doesNotMatch(page.url(), /from=/);
});

recordedTest("recordings have pictures, and operators make clips of what is live and of what is shown", async (t) => {
  const server = await recording(t);
  void publish(t, server, 90, "640x360");
  await server.live("hall");
  const page = await open(t, browser, `${server.origin}/watch/hall`);
  await plays(page, 25);
  const picture = page.locator(".recording-list .poster img");
  await picture.waitFor({ timeout: 60_000 });
  await until("the picture of the recording", () => picture.evaluate((image) => image.complete && image.naturalWidth === 320));
  await page.getByRole("button", { name: "Clip the last 30 seconds" }).click();
  const result = page.locator(".clip-result");
  const link = page.getByRole("link", { name: "Download the clip" });
  await link.waitFor({ timeout: 60_000 });
  assert.match(await result.textContent(), /\d+ s from .* · .*B/);
  await until("the picture of the clip", () => result.locator("img").evaluate((image) => image.complete && image.naturalWidth === 320));
  await page.locator(".recordings").scrollIntoViewIfNeeded();
  await screenshot(page, "clip");
  const file = await fetch(new URL(await link.getAttribute("href"), server.origin));
  assert.equal(file.headers.get("content-type"), "video/mp4");
  assert.match(file.headers.get("content-disposition"), /^attachment; filename="hall-/);
  // In a recording it is of what was before the picture that is shown.
  await page.getByRole("button", { name: "Restart from the beginning" }).click();
  await plays(page, 25);
  await until("the recorded time", async () => /^Shown: /.test(await page.locator(".recordings > [role=status]").textContent()));
  await page.getByRole("button", { name: "Clip the 30 seconds before this" }).click();
  await until("the second clip", async () => (await link.isVisible()) && /clips\/1\.mp4/.test(await link.getAttribute("href")));
  assert.match(await result.textContent(), /\d+ s from .* · .*B · something of that time is missing/);
});

recordedTest("a viewer without the key sees pictures and no button for clips, and one with it has both", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-recorded-"));
  const config = `[record]\nstore = "file:${folder}"\n[stream.hall]\nrecord = true\n[package]\nsegment = "1s"\n[publish]\nkey = "a-publish-key"\n[encode.hall]\ninput = "test:320x180@25"\nkeyint = "1s"\nthreads = 1\n`;
  const server = await serve(t, [], { config });
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }));
  await server.live("hall");
  const page = await open(t, browser, `${server.origin}/watch/hall`);
  await page.locator(".recording-list .poster img").waitFor({ timeout: 60_000 });
  assert.equal(await page.locator(".clip").isVisible(), false);
  const crew = await open(t, browser, `${server.origin}/watch/hall?key=a-publish-key`);
  await crew.getByRole("button", { name: "Clip the last 30 seconds" }).click();
  const link = crew.getByRole("link", { name: "Download the clip" });
  await link.waitFor({ timeout: 60_000 });
  assert.equal((await fetch(new URL(await link.getAttribute("href"), server.origin))).status, 200);
});

recordedTest("an exact export plays from its first picture over the seam to its end", async (t) => {
  const { server, folder } = await recordingInto(t);
  await publish(t, server, 8, "640x360");
  const [{ from }] = await until("the recording", async () => {
    const list = await recordings(server);
    return list.length === 1 && list[0].state === "complete" && list;
  });
  const begin = new Date(Date.parse(from) + 2430).toISOString();
  const made = spawnSync(glassline, ["export", "hall", join(folder, "exact.mp4"), "--store", `file:${folder}`, "--from", begin, "--exact", "--json"], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const { seconds } = JSON.parse(made.stdout);
  writeFileSync(join(folder, "play.html"), "<video src=exact.mp4 muted autoplay></video>");
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(`file://${join(folder, "play.html")}`);
  const state = () =>
    page.evaluate(() => {
      const video = document.querySelector("video");
      const { totalVideoFrames: frames, droppedVideoFrames: dropped } = video.getVideoPlaybackQuality();
      return { ended: video.ended, width: video.videoWidth, duration: video.duration, error: video.error?.message ?? null, frames, dropped };
    });
  await until("the end", async () => (await state()).ended, state);
  const played = await state();
  assert.deepEqual([played.error, played.width], [null, 640]);
  assert.ok(Math.abs(played.duration - seconds) < 0.05, JSON.stringify(played));
  // All pictures on both sides of the seam were decoded.
  assert.ok(played.frames >= Math.floor(seconds * 25) - 2, JSON.stringify(played));
  for (const time of [0.1, 0.5, 0.9, 3]) {
    await page.evaluate((time) => {
      const video = document.querySelector("video");
      return new Promise((done) => {
        video.addEventListener("seeked", done, { once: true });
        video.currentTime = time;
      });
    }, time);
    assert.equal((await state()).error, null, `at ${time} s`);
  }
});
