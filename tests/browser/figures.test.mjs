// The page of a stream's figures in Chromium: curves, viewers and why they are slow, packet flight; and the page of a
// stream that no browser plays. Nothing waits for a time to pass, but for things to be seen.
import assert from "node:assert/strict";
import { connect } from "node:net";
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

/** A viewer of `name`; `reads` says whether it takes what it gets. */
async function watch(t, server, name, reads) {
  const socket = connect(server.port, "127.0.0.1");
  t.after(() => socket.destroy());
  await new Promise((done, failed) => socket.once("connect", done).once("error", failed));
  socket.on("error", () => {});
  socket.write(`GET /live/${name}.ts HTTP/1.1\r\nHost: h\r\n\r\n`);
  if (reads) socket.resume();
  else socket.pause();
  return `127.0.0.1:${socket.localPort}`;
}

/** The numbers in the rows of the table whose address is `address`. */
const rowOf = (page, address) => page.locator("tbody tr", { hasText: address });

browserTest("the figures of a stream: curves, viewers, and why one is slow", async (t) => {
  // Whoever takes nothing stays for as long as the test takes.
  const server = await serve(t, ["--demo"], { config: "[viewer]\nstall_timeout = '300s'\n" });
  await server.live("demo");
  const [keen, lazy] = [await watch(t, server, "demo", true), await watch(t, server, "demo", false)];
  const page = await open(t, browser, `${server.origin}/`);
  await page.getByRole("link", { name: "Viewers and figures" }).click();
  await page.waitForURL("**/stream/demo");
  await rowOf(page, keen).getByText("fine").waitFor({ timeout: 60_000 });
  await rowOf(page, lazy).getByText("slow reader").waitFor({ timeout: 60_000 });

  const curve = page.locator("svg[aria-label^='Bit rate, over'] path.curve");
  await until("a curve of some seconds", async () => ((await curve.getAttribute("d")) ?? "").split("L").length > 4);
  const label = page.locator("svg[aria-label^='Viewers, over']");
  await until("the viewers' curve in words", async () => /all: now 2.*slow: now 1/.test(await label.getAttribute("aria-label")),
    () => label.getAttribute("aria-label"));

  // The slow one is the furthest behind and comes first; the other way round it comes last.
  const first = page.locator("tbody tr").first();
  assert.ok((await first.innerText()).includes(lazy));
  await page.getByRole("button", { name: "Behind" }).click();
  await until("the other order", async () => (await first.innerText()).includes(keen));
  assert.equal(await page.locator("th", { hasText: "Behind" }).getAttribute("aria-sort"), "ascending");
  assert.equal(await page.locator(".bars li").count(), 8);

  // A key tells a value of the past, in all charts at once.
  await label.focus();
  await page.keyboard.press("ArrowLeft");
  const readouts = page.locator(".readout.past");
  await until("the values of one moment", async () => (await readouts.count()) === 4, () => readouts.count());
  await page.keyboard.press("Escape");
  assert.equal(await readouts.count(), 0);

  for (const [scheme, width] of [["dark", 1280], ["light", 1280], ["dark", 390], ["light", 390]]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide at ${width}`);
    await screenshot(page, `figures-${scheme}-${width}`);
  }
});

browserTest("packet flight tells how the stream arrives", async (t) => {
  const server = await serve(t, ["--demo"]);
  await server.live("demo");
  const page = await open(t, browser, `${server.origin}/stream/demo`);
  await page.getByText("A browser sees reads, not packets").waitFor();
  await page.getByRole("button", { name: "Look for 10 s" }).click();
  const verdict = page.locator(".verdict");
  await until("a verdict", async () => /^(Smooth|Bursts)/.test(await verdict.innerText()), () => verdict.innerText());
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Look again" }).waitFor();
  assert.equal(await page.locator(".flight-figure svg").count(), 3);
  assert.ok((await page.locator(".flight-bars").getAttribute("d")).includes("V"), "no bar is drawn");
  const table = await page.locator(".flight-table").innerText();
  for (const row of ["Rate in each 1 ms", "Rate in each 10 ms", "Rate in each 100 ms", "Burst", "Gap between bursts"]) {
    assert.ok(table.includes(row), table);
  }
  assert.match(table, /\d+(\.\d+)? Mb\/s in the mean/);
  await page.locator(".flight").scrollIntoViewIfNeeded();
  await screenshot(page, "flight");
  await until("its leave", async () => (await server.listing("demo")).viewers === 0);
});

browserTest("who may not see viewers is told who may", async (t) => {
  const key = "a-key-of-twenty-letters";
  const server = await serve(t, ["--demo"], { config: `[publish]\nkey = '${key}'\n` });
  await server.live("demo");
  const page = await open(t, browser, "about:blank");
  // As if the page came through a proxy: then this machine's address says nothing.
  await page.setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
  await page.goto(`${server.origin}/stream/demo`);
  await page.getByText(/Viewers' addresses are shown to who has the publish key/).waitFor();
  const watcher = await watch(t, server, "demo", true);
  await page.getByLabel("Publish key").fill("wrong");
  await page.getByRole("button", { name: "Show viewers" }).click();
  await page.getByText("That key does not open the list.").waitFor();
  await page.getByLabel("Publish key").fill(key);
  await page.getByRole("button", { name: "Show viewers" }).click();
  await rowOf(page, watcher).waitFor();
  assert.ok(!page.url().includes(key));
});

browserTest("a stream that is gone, or was never there, is said to be", async (t) => {
  const server = await serve(t);
  const page = await open(t, browser, `${server.origin}/stream/none`);
  await page.getByText("The server knows no stream none now").waitFor();
});

browserTest("a stream that no page can play gives the lines for other players", async (t) => {
  const server = await serve(t, ["--demo"]);
  const demo = await server.live("demo");
  const page = await open(t, browser, "about:blank");
  await page.route("**/api/streams/demo", (route) => route.fulfill({ json: { ...demo, mux: "flv" } }));
  await page.goto(`${server.origin}/watch/demo`);
  await page.getByText("demo comes as FLV").waitFor();
  for (const player of ["vlc", "ffplay"]) {
    await page.locator(".addresses", { hasText: new RegExp(`${player} .*${server.origin}/live/demo\\.flv`) }).waitFor();
  }
  assert.equal(await page.locator(".stage").count(), 0, "there is nothing to play");
});
