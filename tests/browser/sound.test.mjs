// Streams of sound without pictures, in Chromium, by each way to watch: that they begin, that the tone reaches the
// loudspeaker, what the page shows in place of a picture, and what it says of sound that a browser does not play.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { hearsTone, listenToItself, publishTone, sounds } from "./sound.mjs";
import { findProgram, launch, plays, publishChanging, screenshot, serve, skip, start, stats, until } from "./support.mjs";

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

function browserTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    return body(t);
  });
}

/** A page that listens to itself; an exception in it fails the test. */
async function open(t, url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.addInitScript(listenToItself);
  t.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], "exceptions in the page");
  });
  await page.goto(url);
  return page;
}

const QUERIES = { webcodecs: "", mse: "?engine=mse", hls: "?engine=hls", dash: "?engine=dash" };

/** The server with a tone, once it has some of it. */
async function serveTone(t, sound) {
  const server = await serve(t);
  if (!publishTone(t, server, "radio", sound)) return null;
  await until("the tone's bytes", async () => ((await server.listing("radio"))?.bytes_in ?? 0) > 20_000);
  return server;
}

/** Presses the button that the page offers. */
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();

/** Has it heard: by the button, where the browser does not let the page be heard of itself. */
async function hear(page) {
  const { audio } = await sounds(page, 500);
  if (!/muted/.test(audio)) return false;
  await press(page, "Play sound");
  return true;
}

for (const [engine, query] of Object.entries(QUERIES)) {
  for (const sound of ["aac", "opus"]) {
    browserTest(`sound alone in ${sound} is heard by ${engine}`, async (t) => {
      const server = await serveTone(t, sound);
      if (!server) return;
      const page = await open(t, `${server.origin}/watch/radio${query}`);
      // Before a click the browser may keep it off: it goes on unheard, and the page has one button to hear it.
      const isAsked = await hear(page);
      t.diagnostic(isAsked ? "heard after a click" : "heard at once");
      const heard = await hearsTone(page);
      const figures = await sounds(page, 4000);
      assert.equal(figures.engine, engine);
      assert.deepEqual([figures.width, figures.height, figures.framesShown], [0, 0, 0]);
      assert.equal(figures.reconnects, 0, figures.reconnectReason);
      assert.equal(await page.locator(".message").isVisible(), false);
      const box = await page.locator(".stage").boundingBox();
      assert.ok(box.height < 300, `a bar and no black box: ${box.height}`);
      assert.match(await page.locator(".sound-alone").innerText(), /radio[\s\S]*without pictures/);
      await until("the delay in words", async () => /(Delay|adds|Behind live)/.test(await page.locator("button.delay").innerText()));
      t.diagnostic(`${engine}: ${heard.hz.toFixed(0)} Hz at ${heard.level.toFixed(3)}; ${await page.locator("button.delay").innerText()}; first after ${figures.timeToFirstFrameMs.toFixed(0)} ms`);
      await screenshot(page, `sound-${sound}-${engine}`);
      await press(page, "Pause sound");
      await until("silence", async () => (await page.evaluate(() => window.listened())).level < 0.001);
    });
  }
}

browserTest("sound that comes in long bursts has no gaps", async (t) => {
  const server = await serveTone(t, "aac-low");
  if (!server) return;
  const page = await open(t, `${server.origin}/watch/radio`);
  await hear(page);
  await hearsTone(page);
  await sounds(page, 3000);
  // Figures and the time that they are of, in one look: on a busy machine two looks are far apart.
  const timed = () => page.evaluate(() => ({ ...window.glassline.stats(), at: performance.now() }));
  const from = await timed();
  await sounds(page, 8000);
  const to = await timed();
  const passedMs = to.at - from.at;
  t.diagnostic(`${(to.soundMs - from.soundMs).toFixed(0)} ms of sound in ${passedMs.toFixed(0)} ms, ${to.bufferMs.toFixed(0)} ms buffered`);
  assert.ok(to.soundMs - from.soundMs > passedMs * 0.95, JSON.stringify([from, to, passedMs]));
});

browserTest("MP3 alone is heard by the ways for which Chromium has a decoder", async (t) => {
  const server = await serveTone(t, "mp3");
  if (!server) return;
  for (const [engine, query] of Object.entries(QUERIES)) {
    const page = await open(t, `${server.origin}/watch/radio${query}`);
    const isPackaged = engine === "hls" || engine === "dash";
    if (isPackaged && !(await page.evaluate(() => MediaSource.isTypeSupported('audio/mp4; codecs="mp4a.6B"')))) {
      const message = page.locator(".message");
      await until("the words", async () => /MP3, which Chrome \d+ does not play/.test(await message.innerText()), () => message.innerText());
      continue;
    }
    await hear(page);
    await hearsTone(page);
    const figures = await sounds(page, 3000);
    assert.equal(figures.engine, engine);
    assert.match(figures.audio, /MP3/);
    await page.close();
  }
});

browserTest("a browser that may play sound at once does so", async (t) => {
  const server = await serveTone(t, "aac");
  if (!server) return;
  const page = await open(t, `${server.origin}/`);
  // A click on the list is a click on this site, after which Chromium lets its pages be heard.
  await page.locator(".card", { hasText: "radio" }).getByRole("link", { name: "radio" }).click();
  await page.waitForURL("**/watch/radio");
  const figures = await sounds(page, 500);
  assert.equal(figures.soundAlone, true);
});

browserTest("sound that this browser does not play is named, with what plays it", async (t) => {
  const server = await serveTone(t, "ac3");
  if (!server) return;
  const page = await open(t, `${server.origin}/`);
  const can = await page.evaluate(async () =>
    MediaSource.isTypeSupported('audio/mp4; codecs="ac-3"') || (await AudioDecoder.isConfigSupported({ codec: "ac-3", sampleRate: 48000, numberOfChannels: 2 })).supported);
  if (can) return skip(t, "this Chromium plays AC-3");
  for (const query of Object.values(QUERIES)) {
    await page.goto(`${server.origin}/watch/radio${query}`);
    const message = page.locator(".message");
    await until("the words", async () => /AC-3, which Chrome \d+ does not play/.test(await message.innerText()), () => message.innerText());
    assert.ok((await message.innerText()).includes(`${server.origin}/live/radio.ts`), await message.innerText());
    assert.equal((await stats(page)).state, "unsupported");
  }
});

for (const [engine, query] of Object.entries(QUERIES)) {
  browserTest(`a publisher that comes back without pictures, and with them again, is played on by ${engine}`, async (t) => {
    if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
    const server = await serve(t);
    const address = `${server.origin}/live/hall.ts`;
    const pictures = () => start(t, "ffmpeg", [
      "-v", "warning", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-f", "lavfi", "-i", "sine=frequency=1000:sample_rate=48000", "-ac", "2",
      "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", "-c:a", "aac", "-f", "mpegts", address,
    ]);
    const gone = () => until("the publisher to be gone", async () => (await server.listing("hall"))?.live === false);
    let publisher = pictures();
    await server.live("hall");
    const page = await open(t, `${server.origin}/watch/hall${query}`);
    await plays(page, 25);
    assert.equal((await stats(page)).soundAlone, false);
    await publisher.kill();
    await gone();
    publisher = publishTone(t, server, "hall", "aac");
    await sounds(page, 1500);
    await hear(page);
    await hearsTone(page);
    assert.equal((await stats(page)).width, 0);
    await publisher.kill();
    await gone();
    publisher = pictures();
    await until("pictures again", async () => {
      const figures = await stats(page);
      return figures.state === "playing" && !figures.soundAlone && figures.width === 640 && figures;
    }, () => stats(page));
    await plays(page, 50);
    // What listens behind a media element loses its track with the element's source.
    if (engine === "webcodecs") await hearsTone(page);
    assert.equal((await stats(page)).engine, engine);
  });
}

browserTest("pictures without sound stay pictures", async (t) => {
  const server = await serve(t);
  const publisher = publishChanging(t, server, "mute");
  if (!publisher) return;
  publisher.sound = null;
  await server.live("mute");
  const page = await open(t, `${server.origin}/watch/mute`);
  await plays(page, 100);
  const figures = await stats(page);
  assert.equal(figures.soundAlone, false);
  await until("no sound", async () => (await stats(page)).audio === "none");
  assert.equal(await page.getByRole("button", { name: "No sound" }).isDisabled(), true);
});
