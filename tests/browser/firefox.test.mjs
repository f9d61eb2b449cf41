// The page in Firefox: the list of streams, and the player with both engines. What a browser cannot do is asked of the
// browser itself, never taken from the player's failing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launchFirefox, openTab } from "./firefox.mjs";
import { publishTone, sounds } from "./sound.mjs";
import { assertDelay, findProgram, outerAddress, plays, screenshot, serve, showsPicture, skip, start, until } from "./support.mjs";

let firefox = null;
before(async () => {
  firefox = await launchFirefox();
});
after(() => firefox?.close());

/** A test that needs the browser. */
function firefoxTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!firefox) return skip(t, "firefox-esr is not installed");
    return body(t);
  });
}

/** The demo's pictures: H.264 High, 1280×720 at 50 a second. */
const CODEC = "avc1.640020";

/** What the browser says of its decoders, by engine; a page without WebCodecs has none. */
const decoders = (page) =>
  page.evaluate(async (codec) => {
    const config = { codec, codedWidth: 1280, codedHeight: 720 };
    const webcodecs = typeof VideoDecoder === "function" && (await VideoDecoder.isConfigSupported(config)).supported === true;
    return { webcodecs, mse: MediaSource.isTypeSupported(`video/mp4; codecs="${codec}"`) };
  }, CODEC);

firefoxTest("Firefox: the dashboard lists what is live", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await openTab(t, firefox, `${server.origin}/`);
  const text = () => page.evaluate(() => document.querySelector(".card")?.innerText ?? "");
  await until("the card's facts", async () => {
    const shown = await text();
    return /live/i.test(shown) && ["1280×720", "50 fps", "Opus"].every((word) => shown.includes(word)) && /bit\/s/.test(shown);
  }, text);
  await screenshot(page, "firefox-dashboard");
});

/** The player at `url`, which must play with `engine` where the browser has a decoder for it. */
async function playsWith(t, engine, url) {
  const page = await openTab(t, firefox, url);
  const has = await decoders(page);
  if (!has[engine]) return skip(t, `Firefox ${firefox.version} says that it decodes no ${CODEC} with ${engine}`);
  const figures = await plays(page, 100);
  assert.equal(figures.engine, engine);
  assert.deepEqual([figures.width, figures.height], [1280, 720]);
  assert.equal(figures.continuityErrors, 0);
  assert.equal(figures.reconnects, 0, figures.reconnectReason);
  await until("a picture of more than one colour", () => showsPicture(page));
  const delay = await assertDelay(page);
  t.diagnostic(`Firefox ${firefox.version}, ${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, glass to glass p50 ${delay.p50.toFixed(0)} ms`);
  await screenshot(page, `firefox-${engine}`);
}

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  firefoxTest(`Firefox: the player plays with ${engine} and measures the delay`, async (t) => {
    const server = await serve(t, ["--demo"]);
    await server.live("demo");
    await playsWith(t, engine, `${server.origin}/watch/demo${query}`);
  });
}

firefoxTest("Firefox: a page from a plain-http address plays without WebCodecs", async (t) => {
  const address = outerAddress();
  if (!address) return skip(t, "this machine has no address but loopback");
  const server = await serve(t, ["--demo"], { listen: "0.0.0.0:0" });
  await server.live("demo");
  await playsWith(t, "mse", `http://${address}:${server.port}/watch/demo`);
});

for (const engine of ["webcodecs", "mse", "hls", "dash"]) {
  firefoxTest(`Firefox: sound alone goes on by ${engine}`, async (t) => {
    const server = await serve(t);
    if (!publishTone(t, server, "radio", "aac")) return;
    await until("the tone's bytes", async () => ((await server.listing("radio"))?.bytes_in ?? 0) > 20_000);
    const page = await openTab(t, firefox, `${server.origin}/watch/radio?engine=${engine}`);
    const has = await page.evaluate(async () => ({
      webcodecs: typeof AudioDecoder === "function" && (await AudioDecoder.isConfigSupported({ codec: "mp4a.40.2", sampleRate: 48000, numberOfChannels: 2 })).supported,
      mse: MediaSource.isTypeSupported('audio/mp4; codecs="mp4a.40.2"'),
    }));
    if (!has[engine === "webcodecs" ? engine : "mse"]) return skip(t, `Firefox ${firefox.version} says that it decodes no AAC for ${engine}`);
    const figures = await sounds(page, 3000);
    assert.equal(figures.engine, engine);
    assert.equal(figures.reconnects, 0, figures.reconnectReason);
    t.diagnostic(`Firefox ${firefox.version}, ${engine}: first sound after ${figures.timeToFirstFrameMs.toFixed(0)} ms`);
    await screenshot(page, `firefox-sound-${engine}`);
  });
}

firefoxTest("Firefox: pictures that it does not decode are named, with what plays them, by each way to watch", async (t) => {
  if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
  const server = await serve(t);
  start(t, "ffmpeg", [
    "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-c:v", "libx264", "-pix_fmt", "yuv420p10le", "-preset", "ultrafast",
    "-tune", "zerolatency", "-g", "25", "-f", "mpegts", `${server.origin}/live/deep.ts`,
  ]);
  await server.live("deep");
  for (const query of ["", "?engine=mse", "?engine=hls", "?engine=dash"]) {
    const page = await openTab(t, firefox, `${server.origin}/watch/deep${query}`);
    if (await page.evaluate(() => MediaSource.isTypeSupported('video/mp4; codecs="avc1.6e001e"'))) {
      return skip(t, `Firefox ${firefox.version} says that it decodes H.264 of 10 bits`);
    }
    const words = () => page.evaluate(() => document.querySelector(".message").innerText);
    await until("the words", async () => /H\.264 of 10 bits.*which Firefox \d+ does not play/.test(await words()), words);
    assert.ok((await words()).includes(`${server.origin}/live/deep.ts`), await words());
  }
});
