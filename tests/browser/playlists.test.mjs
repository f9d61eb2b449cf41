// The page's other ways to watch, in Chromium: LL-HLS by hls.js and LL-DASH by dash.js, and going back in them.
// No timing decides a test but by a bound that only a broken player reaches.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { glassline, launch, open, plays, publishScreen, screenshot, serve, showsPicture, skip, start, stats, until } from "./support.mjs";

/** Beyond this something is wrong on any machine: a list of whole segments takes up to six seconds. */
const DELAY_BOUND_MS = 12_000;
const WAYS = [["hls", "LL-HLS"], ["dash", "LL-DASH"]];

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

/** The longest stretch of the video element's buffer without a hole, in seconds. */
const longestRange = (page) =>
  page.evaluate(() => {
    const { buffered } = document.querySelector(".picture-place video");
    const lengths = Array.from({ length: buffered.length }, (_, i) => buffered.end(i) - buffered.start(i));
    return Math.max(0, ...lengths);
  });

/** The slider's value in words, for people who do not see it. */
const position = (page) => page.locator("input.seek").getAttribute("aria-valuetext");

/** How many seconds the page says that it is behind live. */
const secondsBehind = async (page) => Number(/^(\d+) second/.exec(await position(page))?.[1] ?? 0);

/** Waits until a delay is measured that is below the bound. */
async function delayBelowBound(page) {
  const { delayMs } = await until("a delay below the bound", async () => {
    const figures = await stats(page);
    return figures.delayMs !== null && figures.delayMs.p50 < DELAY_BOUND_MS && figures;
  }, () => stats(page));
  assert.ok(delayMs.p95 >= delayMs.p50, JSON.stringify(delayMs));
  return delayMs;
}

for (const [engine, label] of WAYS) {
  browserTest(`the page plays by ${label} and measures the delay from capture`, async (t) => {
    const server = await serve(t, ["--demo"]);
    await server.live("demo");
    const page = await open(t, browser, `${server.origin}/watch/demo?engine=${engine}`);
    const said = [];
    page.on("console", (message) => message.type() === "error" && said.push(message.text()));
    const figures = await plays(page, 100);
    assert.equal(figures.engine, engine);
    assert.deepEqual([figures.width, figures.height], [1280, 720]);
    assert.ok(figures.timeToFirstFrameMs > 0);
    await until("a picture of more than one colour", () => showsPicture(page));
    const delay = await delayBelowBound(page);
    assert.equal(delay.source, "stream", "the chunks say when they were captured");
    t.diagnostic(`${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, from capture p50 ${delay.p50.toFixed(0)} ms`);
    await until("the delay on the page", async () => /^Delay [\d.]+ m?s$/.test(await page.locator("button.delay").innerText()));
    const panel = page.locator(".how");
    await until("the figures", async () => /Buffer\s*\d+ ms/.test(await panel.innerText()) && /bit\/s/.test(await panel.innerText()), () => panel.innerText());
    await screenshot(page, `player-${engine}`);
    assert.deepEqual(said, [], "errors in the console");
  });

  browserTest(`one goes back by ${label}, and comes back to live, by keys alone`, async (t) => {
    const server = await serve(t, ["--demo"]);
    await server.live("demo");
    const page = await open(t, browser, `${server.origin}/watch/demo?engine=${engine}`);
    await plays(page, 25);
    await page.locator(".stage").focus();
    await until("a window to go back in", async () => Number(await page.locator("input.seek").getAttribute("min")) < -12, () => position(page));
    assert.equal(await position(page), "Live");

    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await until("ten seconds back", async () => (await secondsBehind(page)) >= 8, () => position(page));
    await plays(page, 25);
    const behind = await until("an old picture", async () => {
      const { delayMs } = await stats(page);
      return delayMs?.p50 > 7000 && delayMs;
    }, () => stats(page));
    assert.ok(behind.p50 < 70_000, JSON.stringify(behind));

    await page.keyboard.press("ArrowRight");
    // Where the server lists segments meanwhile, live itself is further back than it was, and so reached sooner.
    await until("nearer", async () => (await secondsBehind(page)) < 9, () => position(page));
    await page.keyboard.press("k");
    await page.getByRole("button", { name: "Play (k)" }).waitFor();
    await until("a pause", async () => (await stats(page)).state === "paused");
    await page.keyboard.press("k");
    await plays(page, 25);

    await page.keyboard.press("Home");
    await until("the beginning", async () => (await secondsBehind(page)) >= 10, () => position(page));
    await plays(page, 10);
    await page.keyboard.press("End");
    await until("live again", async () => (await position(page)) === "Live");
    await delayBelowBound(page);
    await plays(page, 25);

    // The slider itself takes arrows too, and the button brings back who uses a pointer.
    await page.locator("input.seek").focus();
    await page.keyboard.press("ArrowLeft");
    await until("back again", async () => (await secondsBehind(page)) > 0, () => position(page));
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Live");
    await page.keyboard.press("Enter");
    await until("live again", async () => (await position(page)) === "Live");
    await plays(page, 25);
  });

  browserTest(`the page goes on by ${label} when the publisher comes back`, async (t) => {
    const server = await serve(t);
    const publish = () => start(t, glassline, ["encode", "test:640x360@25", `${server.origin}/live/back.ts`]);
    const page = await open(t, browser, `${server.origin}/watch/back?engine=${engine}`);
    await page.getByText(/waiting for back/i).waitFor();
    const publisher = publish();
    await plays(page, 25);
    await page.evaluate(() => (window.samePage = true));
    await publisher.kill();
    await until("the publisher to be gone", async () => (await server.listing("back"))?.live === false);
    const { framesShown } = await stats(page);
    publish();
    await until("pictures of the new publisher", async () => {
      const figures = await stats(page);
      return figures.framesShown > framesShown + 100 && figures.state === "playing";
    }, () => stats(page));
    await delayBelowBound(page);
    assert.ok(await page.evaluate(() => window.samePage), "the page was loaded anew");
  });
}

browserTest("the way to watch is chosen on the page, and the address remembers it", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/watch/demo`);
  const loaded = [];
  page.on("request", (asked) => loaded.push(new URL(asked.url()).pathname));
  assert.equal((await plays(page, 10)).engine, "webcodecs");
  assert.ok(!loaded.some((path) => /\/(hls|dash)\.js$/.test(path)), "no library is loaded before it is chosen");
  assert.equal(await page.locator("input.seek").isVisible(), false);
  const choice = page.getByRole("group", { name: "How to watch" });
  for (const [engine, label] of WAYS) {
    await choice.getByRole("button", { name: label }).click();
    await page.waitForURL(`**/watch/demo?engine=${engine}`);
    assert.equal((await plays(page, 25)).engine, engine);
    assert.equal(await choice.getByRole("button", { name: label }).getAttribute("aria-pressed"), "true");
  }
  await page.getByLabel("Wanted delay").selectOption("2");
  await page.waitForURL("**/watch/demo?engine=dash&delay=2");
  await until("the wanted delay", async () => (await stats(page)).targetMs >= 2000, () => stats(page));
  await page.reload();
  const again = await plays(page, 10);
  assert.ok(again.engine === "dash" && again.targetMs >= 2000, JSON.stringify(again));
  await choice.getByRole("button", { name: "Direct" }).click();
  await page.waitForURL("**/watch/demo");
  assert.equal((await plays(page, 10)).engine, "webcodecs");
  // Whoever went away is no viewer any more.
  await until("one viewer", async () => (await server.listing("demo")).viewers === 1, () => server.listing("demo"));
});

const LADDER = `[encode.hall]
input = 'test:640x360@25'
preset = 'ultrafast'
keyint = '1s'
threads = 1
renditions = ['640x360@25:1M', '320x180@25:300k']
`;

for (const [engine, label] of WAYS) {
  browserTest(`a ladder is watched by ${label}, whichever version the line carries or one that is chosen`, async (t) => {
    const server = await serve(t, [], { config: LADDER });
    await server.live("hall-180p25");
    const page = await open(t, browser, `${server.origin}/watch/hall?engine=${engine}`);
    const said = [];
    page.on("console", (message) => message.type() === "error" && said.push(message.text()));
    await plays(page, 50);
    const quality = page.getByLabel("Quality (q)");
    await until("the versions", async () => (await quality.locator("option").count()) === 3, () => quality.innerText());
    assert.equal(await quality.inputValue(), "hall");
    assert.match(await quality.locator("option").first().innerText(), /Automatic/);
    await page.evaluate(() => (window.samePage = true));
    const height = (wanted) => until(`a picture of ${wanted} lines`, async () => (await stats(page)).height === wanted, () => stats(page));
    for (const [name, lines] of [["hall-180p25", 180], ["hall-360p25", 360], ["hall-180p25", 180]]) {
      const before = await stats(page);
      await quality.selectOption(name);
      await height(lines);
      await page.waitForURL(`**/watch/${name}?engine=${engine}`);
      const after = await stats(page);
      assert.equal(after.reconnects, before.reconnects, `it goes on in the same playlist: ${after.reconnectReason}`);
    }
    await quality.selectOption("hall");
    await page.waitForURL(`**/watch/hall?engine=${engine}`);
    await plays(page, 50);
    // Directly, one of the versions is watched.
    await page.getByRole("group", { name: "How to watch" }).getByRole("button", { name: "Direct" }).click();
    await page.waitForURL("**/watch/hall-360p25");
    assert.equal((await plays(page, 25)).height, 360);
    assert.ok(await page.evaluate(() => window.samePage), "the page was loaded anew");
    assert.deepEqual(said, [], "errors in the console");
  });
}

browserTest("a signed address plays by playlists too", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-key-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const key = join(folder, "viewer.key");
  writeFileSync(key, "0123456789abcdef0123456789abcdef", { mode: 0o600 });
  const server = await serve(t, ["--demo"], { config: `[viewer]\nkey_file = '${key}'\n` });
  for (const [engine] of WAYS) {
    const unsigned = `${server.origin}/watch/demo`;
    const signed = spawnSync(glassline, ["sign", unsigned, "--key-file", key, "--for", "1h"], { encoding: "utf8" });
    assert.equal(signed.status, 0, signed.stderr);
    const page = await open(t, browser, `${signed.stdout.trim()}&engine=${engine}`);
    assert.equal((await plays(page, 50)).engine, engine);
    await page.close();
  }
});

browserTest("no control lies outside of the page or on the picture of a phone, whichever way is watched", async (t) => {
  const server = await serve(t, [], { config: LADDER });
  await server.live("hall-180p25");
  for (const engine of ["webcodecs", "hls", "dash"]) {
    const page = await open(t, browser, `${server.origin}/watch/hall?engine=${engine}`);
    await plays(page, 10);
    await page.getByLabel("Quality (q)").waitFor();
    await until("the delay", async () => /\d/.test(await page.locator("button.delay").innerText()));
    for (const [width, height] of [[360, 740], [390, 844], [768, 1024]]) {
      const where = `${engine} at ${width} pixels`;
      await page.setViewportSize({ width, height });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where}: the page scrolls sideways`);
      const { boxes, screen } = await page.evaluate(() => {
        const box = (node) => {
          const { left, right, top, bottom } = node.getBoundingClientRect();
          return { name: node.getAttribute("aria-label") ?? node.className, left, right, top, bottom };
        };
        const controls = document.querySelectorAll(".controls button, .controls input, .controls select");
        return { boxes: [...controls].filter((node) => node.checkVisibility()).map(box), screen: box(document.querySelector(".screen")) };
      });
      assert.ok(boxes.length >= 5, `${where}: ${JSON.stringify(boxes)}`);
      const told = (wrong) => boxes.filter(wrong).map(({ name }) => name);
      assert.deepEqual(told((it) => it.left < 0 || it.right > width), [], `${where}: beyond the page`);
      const cut = await page.getByLabel("Quality (q)").evaluate((node) => node.clientWidth < 80);
      assert.ok(!cut, `${where}: the quality cannot be read`);
      if (width > 640) continue;
      assert.deepEqual(told((it) => it.bottom - it.top < 44 || it.right - it.left < 44), [], `${where}: too small for a finger`);
      assert.deepEqual(told((it) => it.top < screen.bottom - 1), [], `${where}: on the picture`);
      await screenshot(page, `player-${width}-${engine}`);
    }
    // A call to unmute stays where it is when nothing moves, and so does everything else.
    await page.setViewportSize({ width: 390, height: 844 });
    // At 768 pixels they may have faded by now: that is over when no transition runs any more.
    await until("nothing moves", () => page.evaluate(() =>
      document.querySelector(".stage").classList.contains("idle") && !document.getAnimations().some((it) => it instanceof CSSTransition)));
    const faded = await page.evaluate(() =>
      [...document.querySelectorAll(".bar-row > *, .seek-row")].filter((it) => getComputedStyle(it).opacity !== "1" && it.checkVisibility()).length);
    assert.equal(faded, 0, "controls that have faded below the picture");
    await page.close();
  }
});

for (const [engine, label] of WAYS) {
  browserTest(`a screen that stands still now and then leaves no hole by ${label}`, async (t) => {
    const server = await serve(t);
    if (!publishScreen(t, server, "screen", 8)) return;
    await server.live("screen");
    const page = await open(t, browser, `${server.origin}/watch/screen?engine=${engine}`);
    // Between two key frames the picture stands still four times: what a browser drops there is a hole of seven seconds.
    await until("a stretch over a whole GOP", async () => (await longestRange(page)) > 9, () => longestRange(page));
    const figures = await plays(page, 10);
    assert.equal(figures.engine, engine);
    await page.close();
  });
}
