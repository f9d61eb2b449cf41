// The page of an event for viewers, in Chromium: streams side by side, the versions that fit, one sound, links.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { findProgram, glassline, launch, open, screenshot, serve, skip, start, until } from "./support.mjs";

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A test that needs the browser and FFmpeg, which publishes. */
function browserTest(name, body) {
  test(name, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    if (!findProgram("ffmpeg")) return skip(t, "ffmpeg is not installed");
    return body(t);
  });
}

/** A capture in two versions, with sound. */
const HALL = `[encode.hall]
input = 'test:640x360@25'
preset = 'ultrafast'
threads = 1
renditions = ['640x360@25:600k', '192x108@25:200k']
`;

const EVENT = (words) => `[event.finals]
streams = ['hall', 'slides', 'later']
audio = 'hall'
${words}
`;

/** FFmpeg that publishes as `name` what the arguments make. */
function publish(t, server, name, inputs, codecs) {
  return start(t, findProgram("ffmpeg"), [
    "-v", "warning", ...inputs.flatMap((input) => ["-re", "-f", "lavfi", "-i", input]), ...codecs, "-f", "mpegts", "-flush_packets", "1",
    "-muxdelay", "0", `${server.origin}/live/${name}.ts`,
  ]);
}

const H264 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25"];
const publishSlides = (t, server) => publish(t, server, "slides", ["testsrc=size=320x180:rate=25"], H264);
const publishPicture = (t, server, name) => publish(t, server, name, ["testsrc2=size=320x180:rate=25", "sine=frequency=300:sample_rate=48000"], [...H264, "-c:a", "aac"]);

const look = (page) => page.evaluate(() => window.glasslineEvent?.streams() ?? {});

/** Waits until these streams play, and returns how all of them stand. */
async function allPlay(page, names, more = 10) {
  const shown = {};
  return until(`pictures of ${names}`, async () => {
    const seen = await look(page);
    return names.every((name) => {
      const frames = seen[name]?.stats?.state === "playing" ? seen[name].stats.framesShown : null;
      shown[name] ??= frames;
      return frames !== null && frames >= shown[name] + more;
    }) && seen;
  }, () => look(page));
}

const heard = async (page) => Object.entries(await look(page)).filter(([, one]) => one.isHeard).map(([name]) => name);
const tile = (page, name) => page.locator(`article[aria-label="${name}"]`);

browserTest("an event shows its streams side by side, one large where that is wanted, in versions that fit", async (t) => {
  const server = await serve(t, [], { config: HALL + EVENT("title = 'Finals <b>2026</b>'\nnext = 'Keynote at 20:15'\nchat = 'https://chat.example.org/x'") });
  publishSlides(t, server);
  await server.live("slides");
  await server.live("hall-360p25");
  await server.live("hall-108p25");
  const page = await open(t, browser, `${server.origin}/event/finals`);
  assert.equal(await page.title(), await page.locator("h1").innerText());
  let seen = await allPlay(page, ["hall", "slides"]);
  assert.equal(await page.title(), "Finals <b>2026</b>");
  assert.equal(await page.getByText("Next: Keynote at 20:15").count(), 1);
  const chat = page.getByRole("link", { name: "Chat" });
  assert.deepEqual([await chat.getAttribute("href"), await chat.getAttribute("target"), await chat.getAttribute("rel")],
    ["https://chat.example.org/x", "_blank", "noopener noreferrer"]);
  // Half of the window is more than the small version has.
  assert.equal(seen.hall.version, "hall-360p25");
  assert.ok((await tile(page, "later").innerText()).includes("later is not live. It is shown here as soon as it begins."));
  const fits = await page.evaluate(() => document.querySelector(".tiles").getBoundingClientRect().bottom <= innerHeight);
  assert.ok(fits, "the streams fit the window");
  await screenshot(page, "event-grid");

  // Beside a large picture the small one gets the small version, without a break.
  await tile(page, "slides").getByRole("button", { name: "Show slides large" }).click();
  seen = await until("the small version of hall", async () => {
    const now = await look(page);
    return now.slides.isLarge && now.hall.version === "hall-108p25" && now.hall.stats.width === 192 && now;
  }, () => look(page));
  assert.equal(seen.hall.stats.reconnects, 0, "it was changed to without joining anew");
  const width = async (name) => (await tile(page, name).boundingBox()).width;
  assert.ok(await width("slides") > 2 * await width("hall"), "the large one is large");
  await screenshot(page, "event-large");
  // The key of its number makes it the large one, and that the best version.
  await page.keyboard.press("1");
  await until("the best version of hall", async () => {
    const now = await look(page);
    return now.hall.isLarge && !now.slides.isLarge && now.hall.version === "hall-360p25" && now.hall.stats.width === 640;
  }, () => look(page));
  // What the viewer chooses stays.
  await tile(page, "hall").getByRole("combobox", { name: "Quality of hall" }).selectOption("hall-108p25");
  await until("the chosen version", async () => (await look(page)).hall.stats.width === 192, () => look(page));
  await page.keyboard.press("0");
  await page.keyboard.press("1");
  await page.waitForFunction(() => window.glasslineEvent.streams().hall.isLarge);
  assert.equal((await allPlay(page, ["hall"], 25)).hall.version, "hall-108p25");

  // A stream that begins is shown by itself, and one that ends says so.
  const later = publishPicture(t, server, "later");
  await allPlay(page, ["hall", "slides", "later"]);
  await later.kill();
  await until("words about the end", async () => /later is not live/.test(await tile(page, "later").innerText()), () => look(page));
  publishPicture(t, server, "later");
  await allPlay(page, ["later"]);
  await page.setViewportSize({ width: 360, height: 740 });
  await page.waitForFunction(() => document.querySelector(".tiles").dataset.kind === "column");
  await page.keyboard.press("0");
  const [first, second] = [await tile(page, "hall").boundingBox(), await tile(page, "slides").boundingBox()];
  assert.ok(first.x === second.x && second.y > first.y + 100, "one column on a phone");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing hangs over the edge");
  await screenshot(page, "event-phone");
});

browserTest("one sound of an event is heard, which the viewer chooses", async (t) => {
  const server = await serve(t, [], { config: "[event.finals]\nstreams = ['one', 'two', 'mute', 'voice']\naudio = 'two'\n" });
  for (const name of ["one", "two"]) publishPicture(t, server, name);
  publish(t, server, "mute", ["testsrc=size=320x180:rate=25"], H264);
  publish(t, server, "voice", ["sine=frequency=500:sample_rate=48000"], ["-c:a", "aac"]);
  for (const name of ["one", "two", "mute"]) await server.live(name);
  await until("the sound alone", async () => (await server.listing("voice"))?.codecs.length > 0);
  const page = await open(t, browser, `${server.origin}/event/finals`);
  await allPlay(page, ["one", "two", "mute"]);
  assert.deepEqual(await heard(page), [], "it begins without sound");
  const button = page.getByRole("button", { name: "Sound on" });
  await button.click();
  await until("the event's sound", async () => (await heard(page)).join() === "two", () => look(page));
  await allPlay(page, ["one", "two", "mute"]);
  // Arrows choose, as in every group of radio buttons.
  const group = page.getByRole("group", { name: "Which sound is heard" });
  assert.equal(await group.getByRole("radio").count(), 3, "what has no sound is not offered");
  await group.getByRole("radio", { name: "two" }).focus();
  await page.keyboard.press("ArrowUp");
  await until("the other sound", async () => (await heard(page)).join() === "one", () => look(page));
  // Sound alone is a bar, and is fetched while it is heard.
  assert.equal(await page.locator(".sound-bars article").getAttribute("aria-label"), "voice");
  assert.ok((await look(page)).voice.isBar && (await look(page)).voice.version === null);
  await group.getByRole("radio", { name: "voice" }).check({ force: true });
  await until("the voice", async () => (await look(page)).voice.stats?.bytes > 0, () => look(page));
  assert.deepEqual(await heard(page), ["voice"]);
  assert.ok(await tile(page, "mute").getByRole("button", { name: "mute has no sound" }).isDisabled());
  await tile(page, "two").getByRole("button", { name: "Hear two" }).click();
  await until("the sound that was clicked", async () => (await heard(page)).join() === "two", () => look(page));
  assert.ok(await group.getByRole("radio", { name: "two" }).isChecked());
  await page.locator("body").press("m");
  await until("silence", async () => (await heard(page)).length === 0, () => look(page));
  await page.locator("body").press("s");
  await until("the next sound", async () => (await heard(page)).join() === "voice", () => look(page));
  const alone = tile(page, "one").getByRole("link", { name: "Open one alone" });
  assert.equal(new URL(await alone.getAttribute("href"), page.url()).pathname, "/watch/one");
});

browserTest("an event's page follows the configuration without a break", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-event-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "glassline.toml");
  const config = (next, streams) => `contact = 'desk@example.org'\n[event.finals]\nstreams = [${streams}]\nnext = '${next}'\n`;
  writeFileSync(file, config("Doors at 19:00", "'slides'"));
  const server = await serve(t, ["--config", file]);
  publishSlides(t, server);
  publishPicture(t, server, "hall");
  await server.live("slides");
  await server.live("hall");
  const page = await open(t, browser, `${server.origin}/event/finals`);
  await allPlay(page, ["slides"]);
  await page.getByText("Next: Doors at 19:00").waitFor();
  assert.equal(await page.getByRole("link", { name: "desk@example.org" }).getAttribute("href"), "mailto:desk@example.org");
  await page.evaluate(() => (document.querySelector(".tile canvas, .tile video").dataset.same = "yes"));
  writeFileSync(file, config("Keynote at 20:15", "'hall', 'slides'"));
  server.run.child.kill("SIGHUP");
  await page.getByText("Next: Keynote at 20:15").waitFor({ timeout: 60_000 });
  await allPlay(page, ["hall", "slides"]);
  assert.equal(await page.locator("[data-same=yes]").count(), 1, "the picture that was there is the same");
  assert.equal((await look(page)).slides.stats.reconnects, 0);
  writeFileSync(file, config("Over", "'slides'"));
  server.run.child.kill("SIGHUP");
  await page.getByText("Next: Over").waitFor({ timeout: 60_000 });
  await until("the other one to go", async () => !("hall" in await look(page)));
});

browserTest("an event's signed link opens all its streams, and without one the page says what is missing", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-event-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const key = join(folder, "viewer.key");
  writeFileSync(key, "0123456789abcdef0123456789abcdef", { mode: 0o600 });
  const config = `contact = 'Ring the desk'\n[viewer]\nkey_file = '${key}'\n[admin]\nlisten = ['127.0.0.1:0']\n${HALL}${EVENT("")}`;
  const server = await serve(t, [], { config });
  const admin = /all streams: (http:\/\/[^/]+)/.exec(server.run.output)[1];
  publishSlides(t, server);
  const live = async (name) => (await (await fetch(`${admin}/api/streams`)).json()).streams.some((one) => one.name === name && one.live && one.codecs.length > 0);
  for (const name of ["slides", "hall-360p25", "hall-108p25"]) await until(name, () => live(name));
  const address = `${server.origin}/event/finals`;
  const closed = await open(t, browser, address);
  await until("words about a link", async () => /A signed link is needed to watch hall/.test(await closed.innerText("body")), () => closed.innerText("body"));
  assert.ok((await closed.innerText("body")).includes("Ring the desk"));
  assert.equal(await closed.getByRole("link", { name: "For the crew" }).count(), 0);
  let asked = 0;
  closed.on("request", (request) => (asked += request.url().includes("/live/") ? 1 : 0));
  await closed.waitForTimeout(1500);
  assert.equal(asked, 0, "what may not be watched is not asked for");
  await screenshot(closed, "event-closed");
  const signed = spawnSync(glassline, ["sign", address, "--key-file", key, "--for", "1h"], { encoding: "utf8" });
  assert.equal(signed.status, 0, signed.stderr);
  const page = await open(t, browser, signed.stdout.trim());
  const seen = await allPlay(page, ["hall", "slides"]);
  assert.match(seen.hall.version, /^hall-/);
  const alone = await tile(page, "hall").getByRole("link", { name: "Open hall alone" }).getAttribute("href");
  assert.match(alone, /\/watch\/hall\?expires=\d+&token=/);
  const single = await open(t, browser, new URL(alone, address).href);
  await until("the stream alone", () => single.evaluate(() => window.glassline?.stats().state === "playing"));
  // A link that has expired opens nothing any more, and viewers that watch stay. A busy machine has to open it in time: what
  // was opened before plays no longer.
  for (const before of [closed, page, single]) await before.close();
  const short = spawnSync(glassline, ["sign", address, "--key-file", key, "--for", "30s"], { encoding: "utf8" }).stdout.trim();
  const stays = await open(t, browser, short);
  await allPlay(stays, ["hall", "slides"], 5);
  await stays.getByRole("button", { name: "Sound on" }).click();
  await until("the link's end", async () => {
    const { streams } = await (await fetch(short.replace("/event/", "/api/events/"))).json();
    return streams.every((one) => !one.known);
  });
  const seenUnknown = stays.waitForResponse(async (answer) => answer.url().includes("/api/events/") && (await answer.json()).streams.every((one) => !one.known));
  await seenUnknown;
  await allPlay(stays, ["hall", "slides"], 25);
  assert.deepEqual([await heard(stays), (await look(stays)).hall.stats.reconnects], [["hall"], 0]);
  const wrong = await open(t, browser, `${server.origin}/event/nothing`);
  await until("words about the name", async () => /no such event/i.test(await wrong.innerText("body")), () => wrong.innerText("body"));
});

browserTest("an event's page works with each engine", async (t) => {
  const server = await serve(t, [], { config: HALL + EVENT("") });
  publishSlides(t, server);
  for (const name of ["slides", "hall-360p25", "hall-108p25"]) await server.live(name);
  for (const engine of ["mse", "hls", "dash"]) {
    const page = await open(t, browser, `${server.origin}/event/finals?engine=${engine}`);
    const seen = await allPlay(page, ["hall", "slides"]);
    assert.deepEqual([seen.hall.engine, seen.slides.engine], [engine, engine]);
    await page.getByRole("button", { name: "Sound on" }).click();
    await until("its sound", async () => (await heard(page)).join() === "hall", () => look(page));
    await page.keyboard.press("2");
    await allPlay(page, ["hall", "slides"]);
    await page.close();
  }
});
