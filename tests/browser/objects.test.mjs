// How long requests for objects waited, on the dashboard and on a stream's page, in Chromium: in front of an origin that
// holds its answers back, and of a stream that is packaged here.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { launch, open, screenshot, serve, skip, until } from "./support.mjs";

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

/** How long the origin holds its answers back. */
const HELD_MS = 500;

/** The address of an origin that has whatever is asked for, after a while. */
async function origin(t) {
  const server = createServer((_, response) => {
    setTimeout(() => response.writeHead(200, { "cache-control": "max-age=600" }).end("bytes"), HELD_MS);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

async function ask(server, path) {
  const answer = await fetch(server.origin + path);
  assert.equal(answer.status, 200, path);
  await answer.arrayBuffer();
}

const label = (page, title) => page.locator(`.objects svg[aria-label^='${title}']`).getAttribute("aria-label");

browserTest("the dashboard shows an origin that holds its answers back as a step", async (t) => {
  const server = await serve(t, ["--upstream", await origin(t)]);
  const page = await open(t, browser, `${server.origin}/`);
  await page.getByText("No stream yet").waitFor();
  const section = page.getByRole("region", { name: "Objects" });
  assert.ok(await section.isHidden(), "nothing has been asked for");
  for (let number = 0; number < 4; number += 1) {
    for (let turn = 0; turn < 10; turn += 1) await ask(server, `/live/hall/video/${number}.m4s`);
  }
  await Promise.all([1, 2, 3].map(() => ask(server, "/live/hall/video.m3u8?_HLS_msn=4&_HLS_part=1")));
  await ask(server, "/elsewhere/1.ts");

  await section.waitFor();
  const row = section.getByRole("row", { name: "hall" });
  const numbers = async () => (await row.getByRole("cell").allInnerTexts()).slice(0, 5);
  await until("all requests in the row", async () => (await numbers())[1] === "84 %", numbers);
  const [rate, , p50, p95] = await numbers();
  assert.ok(Number(rate) > 0, rate);
  assert.equal(p50, "0.1 ms");
  const slow = /^(\d+) ms$/.exec(p95);
  assert.ok(slow && slow[1] > 440, `p95 is ${p95}`);
  await section.getByRole("row", { name: "Other addresses" }).waitFor();

  // By keyboard: the charts are there, and tell the same in words.
  const button = row.getByRole("button", { name: "hall" });
  assert.equal(await button.getAttribute("aria-expanded"), "false");
  await button.focus();
  await page.keyboard.press("Enter");
  assert.equal(await button.getAttribute("aria-expanded"), "true");
  assert.match(await label(page, "First byte over time, over 60 s"), /p95: now \d+ ms/);
  assert.match(await label(page, "First byte within, over ten minutes"), /half within 0\.1 ms, 95 of 100 within \d+ ms.* 10 % waited about \d+ ms, all alike: a step; not made yet: half within/);
  await section.getByText("10 % waited about").waitFor();
  await section.getByText("3 playlists, 40 segments").waitFor();
  const distribution = section.locator("svg[aria-label^='First byte within']");
  assert.ok((await distribution.locator("path.curve.line-a").getAttribute("d")).split("L").length > 60);
  await distribution.focus();
  await page.keyboard.press("ArrowLeft");
  await section.locator(".readout.past", { hasText: /^within [\d.]+ s/ }).waitFor();
  await page.keyboard.press("Escape");

  for (const [scheme, width] of [["dark", 1280], ["light", 1280], ["dark", 390], ["light", 390]]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    await section.scrollIntoViewIfNeeded();
    const wide = () => page.evaluate(() => {
      const place = document.querySelector(".objects .table-place");
      return [document.documentElement.scrollWidth - innerWidth, place.scrollWidth - place.clientWidth];
    });
    await until(`the page to fit ${width}`, async () => (await wide()).every((surplus) => surplus <= 0), wide);
    await screenshot(page, `objects-${scheme}-${width}`);
  }

  await button.focus();
  await page.keyboard.press("Space");
  assert.equal(await button.getAttribute("aria-expanded"), "false");
  assert.equal(await section.locator("svg.plot:visible").count(), 0);
});

browserTest("a stream's page shows how long its objects were waited for", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/stream/demo`);
  await page.getByText("How bursty the stream arrives").waitFor();
  const panel = page.getByRole("region", { name: "Objects" });
  assert.ok(await panel.isHidden());
  await until("a playlist", async () => (await fetch(`${server.origin}/live/demo/index.m3u8`)).status === 200);
  await panel.waitFor();
  assert.equal(await panel.locator("svg.plot").count(), 2);
  await panel.getByText(/100 % packaged here/).waitFor();
  await panel.scrollIntoViewIfNeeded();
  await screenshot(page, "objects-stream");
});

browserTest("who may not know of objects sees the dashboard without them", async (t) => {
  const server = await serve(t, ["--upstream", await origin(t)]);
  await ask(server, "/live/hall/1.m4s");
  const page = await open(t, browser, "about:blank");
  // As if the page came through a proxy: then this machine's address says nothing.
  await page.setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
  const refused = page.waitForResponse((response) => response.url().endsWith("/api/objects"));
  await page.goto(`${server.origin}/`);
  assert.equal((await refused).status(), 403);
  await page.getByText("No stream yet").waitFor();
  assert.ok(await page.getByRole("region", { name: "Objects" }).isHidden());
});
