// The page in WebKit's build for GTK: the list of streams, the player by each way to watch, and sound alone. What the browser
// cannot do is asked of the browser itself, never taken from the player's failing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { publishTone, sounds } from "./sound.mjs";
import { assertDelay, findProgram, plays, screenshot, serve, showsPicture, skip, start, stats, until } from "./support.mjs";
import { launchWebkit, missingWebkit, openPage } from "./webkit.mjs";

let webkit = null;
before(async () => {
  webkit = await launchWebkit();
});
after(() => webkit?.close());

/** A test that needs the browser. */
function webkitTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!webkit) return skip(t, missingWebkit() ?? "WebKit did not start");
    return body(t);
  });
}

/** Whether the browser says that it plays pictures or sound with this codec string piece by piece. */
const decodes = (page, kind, codec) =>
  page.evaluate((kind, codec) => typeof MediaSource === "function" && MediaSource.isTypeSupported(`${kind}/mp4; codecs="${codec}"`), kind, codec);

webkitTest("WebKit: the dashboard lists what is live", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await openPage(t, webkit, `${server.origin}/`);
  const text = () => page.evaluate(() => document.querySelector(".card")?.innerText ?? "");
  await until("the card's facts", async () => {
    const shown = await text();
    return /live/i.test(shown) && ["1280×720", "50 fps", "Opus"].every((word) => shown.includes(word)) && /bit\/s/.test(shown);
  }, text);
  await screenshot(page, "webkit-dashboard");
});

for (const [engine, query] of [["mse", ""], ["hls", "?engine=hls"], ["dash", "?engine=dash"]]) {
  webkitTest(`WebKit: the player plays by ${engine}`, async (t) => {
    const server = await serve(t, ["--demo"]);
    await server.live("demo");
    const page = await openPage(t, webkit, `${server.origin}/watch/demo${query}`);
    if (!(await decodes(page, "video", "avc1.640020"))) {
      return skip(t, `WebKit ${webkit.version} says that it decodes no avc1.640020`);
    }
    const figures = await plays(page, 50);
    assert.equal(figures.engine, engine);
    assert.deepEqual([figures.width, figures.height], [1280, 720]);
    await until("a picture of more than one colour", () => showsPicture(page));
    const delay = await assertDelay(page);
    t.diagnostic(`WebKit ${webkit.version}, ${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, delay p50 ${delay.p50.toFixed(0)} ms`);
    await screenshot(page, `webkit-${engine}`);
  });

  webkitTest(`WebKit: sound alone goes on by ${engine}`, async (t) => {
    const server = await serve(t);
    if (!publishTone(t, server, "radio", "aac")) return;
    await until("the tone's bytes", async () => ((await server.listing("radio"))?.bytes_in ?? 0) > 20_000);
    const page = await openPage(t, webkit, `${server.origin}/watch/radio${query}`);
    if (!(await decodes(page, "audio", "mp4a.40.2"))) {
      return skip(t, `WebKit ${webkit.version} says that it decodes no mp4a.40.2`);
    }
    await sounds(page, 1000);
    await page.click(".play-sound");
    const figures = await sounds(page, 3000);
    assert.equal(figures.engine, engine);
    assert.ok(!/muted/.test(figures.audio), figures.audio);
    await screenshot(page, `webkit-sound-${engine}`);
  });
}

webkitTest("WebKit: the page goes on when the publisher comes back", async (t) => {
  if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
  const server = await serve(t);
  const publish = () => start(t, "ffmpeg", [
    "-v", "warning", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-c:v", "libx264", "-pix_fmt", "yuv420p",
    "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", "-f", "mpegts", `${server.origin}/live/back.ts`,
  ]);
  let publisher = publish();
  await server.live("back");
  const page = await openPage(t, webkit, `${server.origin}/watch/back`);
  await plays(page, 25);
  await publisher.kill();
  await until("the publisher to be gone", async () => (await server.listing("back"))?.live === false);
  const { framesShown } = await stats(page);
  publisher = publish();
  await until("pictures of the new publisher", async () => (await stats(page)).framesShown > framesShown + 25, () => stats(page));
});
