// The pages of `serve` in Chromium: the list of streams, the player with both engines, and what goes wrong around it.
// No timing decides a test; `make bench-page` reports the figures.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  MIN_CONTRAST, assertDelay, findProgram, glassline, https, launch, open, outerAddress, plays, publishBunny, publishChanging, publishIntraRefresh, publishScreen, screenshot,
  serve, showsPicture, skip, start, stats, until,
} from "./support.mjs";

const CONTACT = "Trouble? Ring the <video> desk & ask: +49 30 123";
let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A test that needs the browser. */
function browserTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    return body(t);
  });
}

browserTest("the dashboard lists what is live", async (t) => {
  const server = await serve(t, ["--demo"], { config: `contact = '${CONTACT}'\n` });
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/`);
  const card = page.locator(".card", { hasText: "demo" });
  await card.waitFor({ timeout: 60_000 });
  await until("the card's facts", async () => {
    const text = await card.innerText();
    return /live/i.test(text) && text.includes("1280×720") && text.includes("50 fps") && text.includes("Opus") && /bit\/s/.test(text);
  }, () => card.innerText());
  await page.getByText(CONTACT).waitFor();
  await screenshot(page, "dashboard");
  await card.getByRole("link", { name: "demo" }).click();
  await page.waitForURL("**/watch/demo");
  await plays(page, 10);
  assert.equal((await server.listing("demo")).viewers, 1);
});

browserTest("a viewer who is not let in, or comes too early, is told what to do and left in peace", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-key-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const key = join(folder, "viewer.key");
  writeFileSync(key, "0123456789abcdef0123456789abcdef", { mode: 0o600 });
  const config = `contact = '${CONTACT}'\n[viewer]\nkey_file = '${key}'\n[admin]\nlisten = ['127.0.0.1:0']\n`;
  const server = await serve(t, ["--demo"], { config });
  const admin = /all streams: (http:\/\/[^/]+)/.exec(server.run.output)[1];
  for (const engine of ["webcodecs", "hls"]) {
    const page = await open(t, browser, `${server.origin}/watch/demo?engine=${engine}`);
    let asked = 0;
    page.on("request", (request) => (asked += request.url().includes("/live/") ? 1 : 0));
    const message = page.locator(".message");
    await until("the words", async () => /for invited viewers/.test(await message.innerText()), () => message.innerText());
    assert.ok((await message.innerText()).includes(CONTACT), await message.innerText());
    assert.ok(!(await page.innerText("body")).includes("glassline sign"));
    const before = asked;
    await page.waitForTimeout(3000);
    assert.ok(asked - before <= 1, `${asked - before} requests within three seconds`);
    await screenshot(page, `refused-${engine}`);
    await page.close();
  }
  // People who open the root see words, and programs a problem; the logo leads nowhere.
  const root = await open(t, browser, `${server.origin}/`);
  assert.match(await root.innerText("body"), /Open the address that you were given/);
  assert.ok((await root.innerText("body")).includes(CONTACT));
  const plain = await fetch(`${server.origin}/`);
  assert.ok(plain.status === 404 && plain.headers.get("content-type").includes("json"), plain.status);
  // Operators' links let them in.
  const dashboard = await open(t, browser, `${admin}/`);
  const card = dashboard.locator(".card", { hasText: "demo" });
  await until("a signed link", async () => /token=/.test((await card.getByRole("link", { name: "demo" }).getAttribute("href")) ?? ""));
  await card.getByText("Watch", { exact: true }).click();
  await dashboard.waitForURL("**/watch/demo?expires=*");
  await plays(dashboard, 10);
  const free = await serve(t);
  const early = await open(t, browser, `${free.origin}/watch/nothing`);
  await until("the words", async () => /Waiting for nothing to start\. There is no stream/.test(await early.innerText("body")), () => early.innerText("body"));
  const body = await early.innerText("body");
  assert.ok(!/300×150|ffplay|bit\/s/.test(body), body);
  assert.ok(await early.getByRole("link", { name: "All streams" }).isVisible());
  await screenshot(early, "no-stream");
});

/** A proxy that has `server` in the folder /tv, and nothing else; its origin. Ends with the test. */
async function folder(t, server) {
  const strangers = [];
  const proxy = createServer((asked, answer) => {
    if (!asked.url.startsWith("/tv/")) {
      strangers.push(asked.url);
      answer.writeHead(404).end();
      return;
    }
    const upstream = request(server.origin + asked.url.slice("/tv".length), { method: asked.method, headers: asked.headers }, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      from.pipe(answer);
    });
    upstream.on("error", () => answer.destroy());
    answer.on("close", () => upstream.destroy());
    asked.pipe(upstream);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return { origin: `http://127.0.0.1:${proxy.address().port}`, strangers };
}

browserTest("all of it works behind a proxy's folder", async (t) => {
  const server = await serve(t, ["--demo"], { config: "base_path = '/tv'\n" });
  await server.live("demo");
  const { origin, strangers } = await folder(t, server);
  const page = await open(t, browser, `${origin}/tv/`);
  await page.locator(".card", { hasText: "demo" }).getByRole("link", { name: "demo" }).click();
  await page.waitForURL("**/tv/watch/demo");
  await plays(page, 10);
  for (const engine of ["hls", "dash"]) {
    const other = await open(t, browser, `${origin}/tv/watch/demo?engine=${engine}`);
    assert.equal((await plays(other, 10)).engine, engine);
  }
  await page.getByRole("link", { name: "All streams" }).click();
  await page.waitForURL("**/tv/");
  // Browsers ask for that by themselves.
  assert.deepEqual(strangers.filter((path) => path !== "/favicon.ico"), []);
});

browserTest("the empty dashboard says how to publish", async (t) => {
  const server = await serve(t);
  const page = await open(t, browser, `${server.origin}/`);
  await page.getByText("No stream yet").waitFor();
  assert.ok((await page.locator("body").innerText()).includes(`${server.origin}/live/NAME.ts`));
  await screenshot(page, "empty");
});

/** It was not begun anew, but where a busy encoder left out so many pictures that a media source would wait for a key frame. */
async function assertPlayedOn(server, { reconnects, reconnectReason }) {
  if (reconnects === 0) return;
  const metrics = await (await fetch(`${server.origin}/metrics`)).text();
  const dropped = metrics.matchAll(/^glassline_encoder_dropped_pictures_total\S* (\d+)/gm);
  const leftOut = [...dropped].reduce((sum, [, count]) => sum + Number(count), 0);
  const told = `${reconnects} times: ${reconnectReason}; ${leftOut} pictures left out`;
  assert.ok(reconnectReason === "a picture was far from the one before" && leftOut > 0, told);
}

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  browserTest(`the player plays with ${engine} and measures the delay`, async (t) => {
    const server = await serve(t, ["--demo"]);
    await server.live("demo");
    const page = await open(t, browser, `${server.origin}/watch/demo${query}`);
    const figures = await plays(page, 100);
    assert.equal(figures.engine, engine);
    assert.deepEqual([figures.width, figures.height], [1280, 720]);
    assert.equal(figures.continuityErrors, 0);
    await assertPlayedOn(server, figures);
    assert.ok(figures.timeToFirstFrameMs > 0);
    await until("a picture of more than one colour", () => showsPicture(page));
    const delay = await assertDelay(page);
    t.diagnostic(`${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, glass to glass p50 ${delay.p50.toFixed(0)} ms, p95 ${delay.p95.toFixed(0)} ms`);
    await until("the delay on the page", async () => /^Delay \d+ ms$/.test(await page.locator("button.delay").innerText()));
    await page.keyboard.press("i");
    await page.locator(".overlay", { hasText: "Glass to glass" }).waitFor();
    await screenshot(page, `player-${engine}`);
  });
}

const LADDER = `[encode.hall]
input = 'test:320x180@25'
preset = 'ultrafast'
threads = 1
renditions = ['320x180@25:600k', '160x90@25:200k']
`;

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  browserTest(`another version of a stream is changed to without a gap with ${engine}`, async (t) => {
    const server = await serve(t, [], { config: LADDER });
    await server.live("hall-180p25");
    await server.live("hall-90p25");
    const page = await open(t, browser, `${server.origin}/watch/hall-180p25${query}`);
    assert.equal((await plays(page, 50)).engine, engine);
    // From here on the page looks all the time whether a picture is there.
    await page.evaluate((contrast) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 32, height: 18 });
      const context = canvas.getContext("2d", { willReadFrequently: true });
      window.looks = { all: 0, blank: 0 };
      const look = () => {
        for (const shown of document.querySelectorAll(".picture-place canvas.picture, .picture-place video")) {
          context.drawImage(shown, 0, 0, 32, 18);
        }
        const { data } = context.getImageData(0, 0, 32, 18);
        const luma = Array.from({ length: 32 * 18 }, (_, i) => data[4 * i] + data[4 * i + 1] + data[4 * i + 2]);
        window.looks.all += 1;
        if (Math.max(...luma) - Math.min(...luma) < contrast) window.looks.blank += 1;
        context.clearRect(0, 0, 32, 18);
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    }, MIN_CONTRAST);
    const quality = page.locator("select.quality");
    await quality.waitFor({ state: "attached" });
    for (const [name, width] of [["hall-90p25", 160], ["hall-180p25", 320]]) {
      const before = await stats(page);
      await quality.selectOption(name, { force: true });
      const after = await until(`pictures of ${name}`, async () => {
        const figures = await stats(page);
        return figures.width === width && figures.framesShown > before.framesShown + 25 && figures;
      }, () => stats(page));
      await assertPlayedOn(server, after);
      assert.equal(after.state, "playing");
      await page.waitForURL(`**/watch/${name}${query.replace("?", "\\?")}`);
      assert.ok((await page.locator("h1").innerText()).includes(name));
      assert.equal(await quality.inputValue(), name);
      // The one that was left is no longer read.
      await until("one viewer", async () => {
        const viewers = await Promise.all(["hall-90p25", "hall-180p25"].map((one) => server.listing(one)));
        return viewers.reduce((sum, stream) => sum + stream.viewers, 0) === 1;
      });
    }
    const looks = await page.evaluate(() => window.looks);
    assert.ok(looks.all > 20 && looks.blank === 0, JSON.stringify(looks));
  });
}

browserTest("the dashboard shows versions of one capture together", async (t) => {
  const server = await serve(t, ["--demo"], { config: LADDER });
  for (const name of ["demo", "hall-180p25", "hall-90p25"]) await server.live(name);
  const page = await open(t, browser, `${server.origin}/`);
  const group = page.locator(".group", { hasText: "hall" });
  await group.waitFor();
  await until("both versions, best first", async () => {
    const names = await group.locator("article h2").allInnerTexts();
    return names.join() === "hall-180p25,hall-90p25";
  }, () => group.innerText());
  assert.equal(await page.locator(".group article", { hasText: "demo" }).count(), 0);
  await screenshot(page, "dashboard-ladder");
});

browserTest("a page from a plain-http address plays without WebCodecs", async (t) => {
  const address = outerAddress();
  if (!address) return skip(t, "this machine has no address but loopback");
  const server = await serve(t, ["--demo"], { listen: "0.0.0.0:0" });
  await server.live("demo");
  const page = await open(t, browser, `http://${address}:${server.port}/watch/demo`);
  assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof VideoDecoder]), [false, "undefined"]);
  const figures = await plays(page, 100);
  assert.equal(figures.engine, "mse");
  await assertDelay(page);
  await screenshot(page, "player-plain-http");
});

browserTest("a page over https plays with WebCodecs, from another machine's address too", async (t) => {
  const address = outerAddress();
  if (!address) return skip(t, "this machine has no address but loopback");
  const secure = https(t);
  if (!secure) return skip(t, "openssl is not installed");
  const server = await serve(t, ["--demo"], { config: secure.config });
  await server.live("demo");
  const page = await open(t, browser, `https://${address}:${secure.port(server.run.output)}/watch/demo`);
  assert.deepEqual(await page.evaluate(() => [isSecureContext, typeof VideoDecoder]), [true, "function"]);
  const figures = await plays(page, 100);
  assert.equal(figures.engine, "webcodecs");
  await assertDelay(page);
});

browserTest("addresses for other players and the crew's line are in sight", async (t) => {
  const server = await serve(t, ["--demo"], { config: `contact = '${CONTACT}'\n` });
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/watch/demo`);
  const url = `${server.origin}/live/demo.ts`;
  for (const player of ["vlc", "mpv", "ffplay"]) {
    await page.locator(".addresses", { hasText: new RegExp(`${player} .*${url}`) }).waitFor();
  }
  await page.getByText(CONTACT).waitFor();
});

browserTest("the player pops out into a small window", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/watch/demo`);
  await plays(page, 10);
  const opened = page.waitForEvent("popup");
  await page.locator(".stage").hover();
  await page.getByRole("button", { name: /small window/ }).click();
  const popup = await opened;
  await plays(popup, 50);
  assert.ok(await popup.locator(".addresses").count() === 0, "the small window holds the picture alone");
  await screenshot(popup, "popout");
});

browserTest("a stream without key frames is joined at a recovery point, and the page says when it is right", async (t) => {
  const server = await serve(t);
  if (!publishIntraRefresh(t, server, "sweep")) return;
  await until("a recovery point", async () => (await server.listing("sweep"))?.join?.at === "recovery point");
  const { settling_frames: settling } = (await server.listing("sweep")).join;
  assert.ok(settling > 10, `${settling} pictures are not right`);
  for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
    const page = await open(t, browser, `${server.origin}/watch/sweep${query}`);
    const figures = await plays(page, 100);
    assert.equal(figures.engine, engine);
    assert.equal(figures.continuityErrors, 0);
    assert.equal(figures.reconnects, 0, figures.reconnectReason);
    assert.equal(figures.settlingFrames, 0);
    assert.ok(figures.timeToRightFrameMs >= figures.timeToFirstFrameMs, JSON.stringify(figures));
    assert.equal(await page.locator(".settling").isVisible(), false);
    await until("a picture of more than one colour", () => showsPicture(page));
    t.diagnostic(`${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, right after ${figures.timeToRightFrameMs.toFixed(0)} ms`);
    await screenshot(page, `refresh-${engine}`);
    await page.close();
  }
});

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  browserTest(`a screen that stands still now and then loses no picture with ${engine}`, async (t) => {
    const server = await serve(t);
    if (!publishScreen(t, server, "screen")) return;
    await server.live("screen");
    const page = await open(t, browser, `${server.origin}/watch/screen${query}`);
    const before = await plays(page, 1);
    const began = Date.now();
    const figures = await plays(page, 90);
    // Twenty pictures in two seconds, which a wait for the next key frame would interrupt.
    const tookS = (Date.now() - began) / 1000;
    assert.equal(figures.engine, engine);
    assert.equal(figures.continuityErrors, 0);
    // The first still second may be longer than anything that a browser was told to expect.
    assert.ok(figures.reconnects - before.reconnects <= 1, JSON.stringify(figures));
    assert.ok(tookS < 16, `${tookS} s for 90 pictures: ${JSON.stringify(figures)}`);
    t.diagnostic(`${engine}: 90 pictures in ${tookS.toFixed(1)} s, ${figures.framesDropped} dropped`);
  });
}

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  browserTest(`a program whose PIDs change goes on with ${engine}`, async (t) => {
    const server = await serve(t);
    const publisher = publishChanging(t, server, "change");
    if (!publisher) return;
    await server.live("change");
    const page = await open(t, browser, `${server.origin}/watch/change${query}`);
    assert.equal((await plays(page, 10)).engine, engine);
    const { parts } = publisher;
    // Over two changes that the page has seen, of video and sound alone and of the PMT.
    await until("three more parts", () => publisher.parts >= parts + 3, () => publisher.parts);
    const figures = await plays(page, 50);
    assert.equal(figures.reconnects, 0, figures.reconnectReason);
    assert.equal(figures.continuityErrors, 0);
    assert.ok(figures.framesShown >= 100, JSON.stringify(figures));
    await until("a picture of more than one colour", () => showsPicture(page));
  });
}

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  browserTest(`sound that changes, goes and comes back does not stop the picture with ${engine}`, async (t) => {
    const server = await serve(t);
    const publisher = publishChanging(t, server, "sound");
    if (!publisher) return;
    await server.live("sound");
    const page = await open(t, browser, `${server.origin}/watch/sound${query}`);
    await plays(page, 10);
    await page.locator(".stage").hover();
    await page.getByRole("button", { name: "Unmute" }).click();
    await until("sound", async () => /AAC/.test((await stats(page)).audio) && !/muted/.test((await stats(page)).audio), () => stats(page));
    for (const [sound, shown] of [["libopus", /Opus/], [null, /none/], ["aac", /AAC/]]) {
      publisher.sound = sound;
      await until(`the page to tell of ${sound ?? "no"} sound`, async () => shown.test((await stats(page)).audio), () => stats(page));
      const figures = await plays(page, 75);
      assert.equal(figures.engine, engine, "the engine has not failed");
    }
  });
}

browserTest("pictures of AV1 are played as they come by either engine, and by the playlist", async (t) => {
  if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
  const server = await serve(t);
  start(t, "ffmpeg", [
    "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-re", "-f", "lavfi", "-i", "sine=sample_rate=48000",
    "-c:v", "libaom-av1", "-usage", "realtime", "-cpu-used", "8", "-g", "25", "-b:v", "500k", "-c:a", "aac",
    "-f", "dash", "-seg_duration", "2", "-ldash", "1", "-streaming", "1", "-method", "PUT", `${server.origin}/live/av1/manifest.mpd`,
  ]);
  await server.live("av1");
  for (const [query, engine] of [["", "webcodecs"], ["?engine=mse", "mse"], ["?engine=hls", "hls"]]) {
    const page = await open(t, browser, `${server.origin}/watch/av1${query}`);
    const figures = await plays(page, 50);
    assert.equal(figures.engine, engine, JSON.stringify(figures));
    assert.deepEqual([figures.width, figures.height], [320, 180]);
    assert.equal(new URL(page.url()).search, query);
    await until("a picture of more than one colour", () => showsPicture(page));
    await page.close();
  }
});

browserTest("who joins at an old key frame catches up to live", async (t) => {
  const server = await serve(t);
  if (!publishBunny(t, server, "bbb")) return;
  await server.live("bbb");
  for (const query of ["", "?engine=mse"]) {
    // The newest key frame is some seconds old: it came with the first byte of this round through the file.
    const round = 5.28;
    await until("an old key frame", async () => {
      const into = (await server.listing("bbb")).uptime_s % round;
      return into > 3.5 && into < 4.5;
    });
    const opened = Date.now();
    const page = await open(t, browser, `${server.origin}/watch/bbb${query}`);
    await until("live", async () => {
      const figures = await stats(page);
      return figures?.state === "playing" && figures.behindLiveMs !== null && figures.behindLiveMs < 500;
    }, () => stats(page));
    const figures = await stats(page);
    t.diagnostic(`${figures.engine}: live ${Date.now() - opened} ms after opening, ${figures.behindLiveMs.toFixed(0)} ms behind`);
    const later = await plays(page, 50);
    assert.equal(later.delayMs, null, "there is no barcode in it");
    assert.equal(later.continuityErrors, 0);
    await screenshot(page, `bunny-${figures.engine}`);
    await until("a picture of more than one colour", () => showsPicture(page));
    await page.close();
  }
});

for (const query of ["", "?engine=mse"]) {
  browserTest(`the page goes on when the publisher comes back ${query}`, async (t) => {
    const server = await serve(t);
    const publish = () => start(t, glassline, ["encode", "test:640x360@25", `${server.origin}/live/back.ts`]);
    const page = await open(t, browser, `${server.origin}/watch/back${query}`);
    await page.getByText(/waiting for back/i).waitFor();
    let publisher = publish();
    await plays(page, 25);
    await page.evaluate(() => (window.samePage = true));
    for (let round = 0; round < 2; round += 1) {
      await publisher.kill();
      await until("the publisher to be gone", async () => (await server.listing("back"))?.live === false);
      const { framesShown } = await stats(page);
      publisher = publish();
      await until("pictures of the new publisher", async () => (await stats(page)).framesShown > framesShown + 50, () => stats(page));
      await assertDelay(page);
      assert.ok(await page.evaluate(() => window.samePage), "the page was loaded anew");
    }
  });
}

browserTest("the page goes on when the server comes back", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/watch/demo`);
  await plays(page, 25);
  await server.run.kill();
  await page.getByText(/reconnecting|waiting|no data/i).first().waitFor({ timeout: 60_000 });
  await serve(t, ["--demo"], { listen: `127.0.0.1:${server.port}` });
  const figures = await plays(page, 50);
  assert.ok(figures.reconnects > 0);
  assert.match(figures.reconnectReason, /connection/);
  assert.ok(figures.stalls > 0, "the picture stood still meanwhile");
  await assertDelay(page);
});
