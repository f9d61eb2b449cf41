// The pages of an event for operators, in Chromium: alarms with what can be done about them, streams, and the sheet.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { findProgram, launch, open, pictures, screenshot, serve, skip, start, until } from "./support.mjs";

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

const HALL = `[encode.hall]
input = 'test:640x360@25'
preset = 'ultrafast'
threads = 1
renditions = ['640x360@25:600k', '192x108@25:200k']
`;
const EVENT = "[event.finals]\ntitle = 'Finals 2026'\nstreams = ['hall', 'slides', 'later']\ncontact = 'Ring the desk'\nchat = 'https://chat.example.org/x'\n";

/** FFmpeg that publishes a picture of `source` with a tone. */
function publish(t, server, name, source) {
  return start(t, findProgram("ffmpeg"), [
    "-v", "warning", "-re", "-f", "lavfi", "-i", source, "-re", "-f", "lavfi", "-i", "sine=frequency=300:sample_rate=48000",
    "-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25", "-c:a", "aac",
    "-f", "mpegts", "-flush_packets", "1", "-muxdelay", "0", `${server.origin}/live/${name}.ts`,
  ]);
}

const card = (page, name) => page.locator(`article[aria-label="${name}"]`);

/** Whether an image has come. */
const isDrawn = (image) => image.evaluate((node) => node.complete && node.naturalWidth > 0);

browserTest("the crew sees an alarm with its picture, mutes it, and is told what came of it", async (t) => {
  const server = await serve(t, [], { config: `${HALL}${EVENT}[watch]\nstreams = ['slides']\n[watch.black]\nafter = '1s'\n` });
  publish(t, server, "slides", "color=black:size=320x180:rate=25");
  await server.live("slides");
  await server.live("hall-360p25");
  const page = await open(t, browser, `${server.origin}/crew/finals`);
  await page.setViewportSize({ width: 360, height: 740 });
  const alarm = page.locator("li.alarm", { hasText: "Black picture · slides" });
  await alarm.waitFor({ timeout: 60_000 });
  assert.match(await alarm.innerText(), /limit 10 %[\s\S]*since \d/);
  assert.equal(await page.title(), "(1) Finals 2026 · crew");
  assert.match(await page.locator('link[rel="icon"]').getAttribute("href"), /^data:image\/svg\+xml/);
  assert.equal(await page.locator(".crew-state").innerText(), "1 alarm");
  await until("the alarm's picture", () => isDrawn(alarm.locator("img")));
  await until("the stream's picture", () => isDrawn(card(page, "slides").locator(".thumbnail img")));
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing hangs over the edge");
  const small = await page.evaluate(() => [...document.querySelectorAll(".crew button, .crew a.action")].filter((one) => one.offsetParent && one.offsetHeight < 44).map((one) => one.textContent));
  assert.deepEqual(small, [], "all is large enough for a thumb");
  await page.screenshot({ path: join(pictures, "crew-phone.png"), fullPage: true });

  await alarm.getByRole("button", { name: /^Mute 10 min/ }).click();
  await page.getByRole("status").filter({ hasText: "Black picture of slides: muted for 10 minutes." }).waitFor();
  await alarm.getByText(/muted until/).waitFor();
  await page.waitForFunction(() => document.title === "Finals 2026 · crew");
  const { muted } = await (await fetch(`${server.origin}/api/alarms`)).json();
  assert.deepEqual(muted.map(({ stream, alarm: kind }) => [stream, kind]), [["slides", "black"]]);
  await alarm.getByRole("button", { name: /^Unmute/ }).click();
  await page.waitForFunction(() => document.title === "(1) Finals 2026 · crew");
  assert.deepEqual((await (await fetch(`${server.origin}/api/alarms`)).json()).muted, []);

  await page.setViewportSize({ width: 1280, height: 800 });
  await page.screenshot({ path: join(pictures, "crew-wide.png"), fullPage: true });
});

browserTest("the crew sees each stream's state and asks encoders for key frames", async (t) => {
  const server = await serve(t, [], { config: HALL + EVENT });
  publish(t, server, "slides", "testsrc=size=320x180:rate=25");
  for (const name of ["slides", "hall-360p25", "hall-108p25"]) await server.live(name);
  const page = await open(t, browser, `${server.origin}/crew/finals`);
  const group = page.getByRole("region", { name: "hall" });
  await group.getByText("2 versions · 0 viewers").waitFor({ timeout: 60_000 });
  await until("its figures", async () => /bit\/s/.test(await card(page, "hall-360p25").innerText()), () => page.innerText("body"));
  assert.match(await card(page, "later").innerText(), /Not live/);
  assert.equal(await page.locator(".crew-state").innerText(), "2 of 3 live");
  const said = page.locator(".crew-said");
  await card(page, "hall-108p25").getByRole("button", { name: "Key frame of hall-108p25" }).click();
  await until("a key frame", async () => /hall-108p25: the encoder was asked for a key frame/.test(await said.innerText()), () => said.innerText());
  await card(page, "slides").getByRole("button", { name: "Key frame of slides" }).click();
  await until("the refusal", async () => /slides: not encoded here/.test(await said.innerText()), () => said.innerText());

  // While the page is hidden alarms alone are asked for, more seldom; afterwards all at once, in its rhythm.
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  // What was under way may still come.
  await page.waitForTimeout(500);
  asked.length = 0;
  await page.waitForTimeout(11_000);
  const hidden = asked.filter((path) => path.startsWith("/api/"));
  assert.deepEqual([...new Set(hidden)], ["/api/alarms"]);
  assert.ok(hidden.length <= 3, `${hidden.length} times in eleven seconds`);
  await hide(false);
  await until("questions", () => asked.includes("/api/streams") && asked.includes("/api/events/finals"));
  asked.length = 0;
  await page.waitForTimeout(6000);
  for (const [path, everyMs] of [["/api/streams", 1000], ["/api/alarms", 1500], ["/api/events/finals", 4000]]) {
    const count = asked.filter((one) => one === path).length;
    assert.ok(count >= 1 && count <= 6000 / everyMs + 1, `${path}: ${count} times in six seconds`);
  }
});

browserTest("the crew's page is for the crew alone", async (t) => {
  const server = await serve(t, [], { config: `${EVENT}[admin]\nlisten = ['127.0.0.1:0']\n` });
  const admin = /all streams: (http:\/\/[^/]+)/.exec(server.run.output)[1];
  assert.equal((await fetch(`${server.origin}/crew/finals`)).status, 404);
  const stranger = await (await fetch(`${server.origin}/api/events/finals`)).json();
  assert.equal(stranger.crew, null);
  const page = await open(t, browser, `${admin}/crew/finals`);
  await page.getByRole("heading", { name: "Finals 2026" }).waitFor();
  await page.getByRole("link", { name: "Event page" }).click();
  await page.waitForURL("**/event/finals");
  await page.getByRole("link", { name: "For the crew" }).click();
  await page.waitForURL("**/crew/finals");
  // Served by another way, the page itself says so too.
  await page.route("**/api/events/finals*", (route) => route.fulfill({ json: stranger }));
  await page.reload();
  await page.getByText("This page is for operators.").waitFor();
  assert.equal(await page.locator(".crew-state").innerText(), "Closed");
  // It opens again by itself, closes where access is lost while it is open, and stays closed whatever alarms there are.
  await page.unroute("**/api/events/finals*");
  await page.locator(".crew-rest").waitFor({ timeout: 60_000 });
  await page.getByText("This page is for operators.").waitFor({ state: "hidden" });
  await until("what is watched", async () => (await page.locator(".crew-state").innerText()) !== "Closed");
  await page.route("**/api/events/finals*", (route) => route.fulfill({ status: 403, json: {} }));
  await page.getByText("This page is for operators.").waitFor({ timeout: 60_000 });
  await page.waitForTimeout(3000);
  assert.equal(await page.locator(".crew-state").innerText(), "Closed");
});

browserTest("the sheet has an address and a QR code for the event and for each stream, and prints", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "glassline-sheet-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const key = join(folder, "viewer.key");
  writeFileSync(key, "0123456789abcdef0123456789abcdef", { mode: 0o600 });
  const config = `hosts = ['live.example.org']\n[viewer]\nkey_file = '${key}'\n[admin]\nlisten = ['127.0.0.1:0']\n${HALL}${EVENT}`;
  const server = await serve(t, [], { config });
  const admin = /all streams: (http:\/\/[^/]+)/.exec(server.run.output)[1];
  await until("the versions of hall", async () => {
    const { streams } = await (await fetch(`${admin}/api/streams`)).json();
    return ["hall-360p25", "hall-108p25"].every((name) => streams.some((one) => one.name === name && one.live));
  });
  const page = await open(t, browser, `${admin}/crew/finals`);
  await page.getByRole("link", { name: "Sheet to print" }).click();
  const sheet = page.locator("article.sheet");
  await sheet.waitFor();
  const text = await sheet.innerText();
  for (const part of ["Finals 2026", "/event/finals?expires=", "/watch/hall?expires=", "/live/hall-360p25.ts?expires=", "/live/hall/index.m3u8?expires=",
    "/live/slides/manifest.mpd?expires=", "good until", "Ring the desk", "https://chat.example.org/x"]) assert.ok(text.includes(part), `${part} in ${text}`);
  assert.equal(await sheet.locator("svg.qr").count(), 5, "the event, three streams, the chat");
  assert.match(await page.locator(".sheet-warning").innerText(), /good for \d+ hours/);
  // The addresses are those of viewers, not the operator's own.
  assert.ok(!text.includes(admin), text);
  const label = await sheet.locator("svg.qr.big").getAttribute("aria-label");
  assert.equal(label, `QR code of ${await sheet.locator(".sheet-address").innerText()}`);
  // What is printed is good.
  const watch = /https?:\/\/\S+(\/watch\/hall\?\S+)/.exec(text)[1];
  assert.equal((await fetch(server.origin + watch.replace("/watch/hall", "/api/streams/hall"))).status, 200);
  // Another address is kept.
  await page.getByRole("combobox", { name: "Addresses begin with" }).selectOption({ label: "Another address…" });
  await page.getByRole("textbox", { name: "Another address" }).fill("tv.example.com/live");
  await until("the other address", async () => (await sheet.locator(".sheet-address").innerText()).startsWith("https://tv.example.com/live/event/finals?"));
  await page.reload();
  await until("the other address again", async () => (await sheet.locator(".sheet-address").innerText()).startsWith("https://tv.example.com/live/event/finals?"));
  const file = join(pictures, "sheet.pdf");
  await page.pdf({ path: file, format: "A4" });
  assert.ok(statSync(file).size > 5000);
  await screenshot(page, "sheet");
});

browserTest("a sheet whose links are refused says so on the paper, and how they are signed", async (t) => {
  const config = `[viewer]\nkey = '0123456789abcdef0123456789abcdef'\n[admin]\nlisten = ['127.0.0.1:0']\n${EVENT}`;
  const server = await serve(t, [], { config });
  const admin = /all streams: (http:\/\/[^/]+)/.exec(server.run.output)[1];
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  // What the server tells a crew that came by the publish key (tests/blackbox/event.rs).
  await page.route("**/api/events/finals*", async (route) => {
    const response = await route.fetch();
    const told = await response.json();
    told.crew.access = null;
    for (const stream of told.streams) stream.access = null;
    await route.fulfill({ response, json: told });
  });
  await page.goto(`${admin}/crew/finals?sheet`);
  const unsigned = page.locator("article.sheet .sheet-unsigned");
  await unsigned.waitFor();
  const text = await unsigned.innerText();
  assert.match(text, /The links to the event, hall, slides, later on this sheet are not signed/);
  assert.match(text, /glassline sign https?:\/\/\S+\/event\/finals --key-file viewer\.key --for 36h/);
  assert.equal(await unsigned.locator("code").count(), 4);
  await page.emulateMedia({ media: "print" });
  assert.ok(await unsigned.isVisible(), "it is printed");
  await screenshot(page, "sheet-unsigned");
});

browserTest("the dashboard has small pictures, active alarms and the events", async (t) => {
  const server = await serve(t, [], { config: `${EVENT}[watch]\nstreams = ['slides']\n[watch.black]\nafter = '1s'\n` });
  publish(t, server, "slides", "color=black:size=320x180:rate=25");
  await server.live("slides");
  const page = await open(t, browser, `${server.origin}/`);
  const image = page.locator(".card", { hasText: "slides" }).locator(".thumbnail img");
  await until("the picture", () => isDrawn(image));
  await page.getByText("1 alarm · slides: Black picture").waitFor({ timeout: 60_000 });
  await screenshot(page, "dashboard-event");
  await page.getByRole("link", { name: "Finals 2026" }).click();
  await page.waitForURL("**/crew/finals");
});
