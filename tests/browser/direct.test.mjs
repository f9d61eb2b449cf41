// Direct video in AV1 on the page of `receive preview:`, in Chromium: pictures as they came, for viewers who come later.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { assertDelay, glassline, launch, open, outerAddress, plays, screenshot, showsPicture, skip, start, stats, until } from "./support.mjs";

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A receiver whose output is its page, and a sender of AV1; `sent` is what the sender tells newest of its pictures. */
async function preview(t, listen = "127.0.0.1") {
  const folder = mkdtempSync(join(tmpdir(), "glassline-direct-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const figures = join(folder, "send.jsonl");
  const receiver = start(t, glassline, ["receive", "link://127.0.0.1:0", `preview:${listen}:0`, "--insecure"]);
  const found = await until("where the receiver is", () => {
    assert.ok(!receiver.ended, receiver.output);
    const link = /listening address=(\S+)/.exec(receiver.output);
    const page = /open http:\/\/[^/]*?:(\d+)\//.exec(receiver.output);
    return link && page && { link: link[1], port: Number(page[1]) };
  });
  const options = ["--insecure", "--codec", "av1", "--speed", "10", "--stats", figures];
  const sender = start(t, glassline, ["send", "test:320x180@25", `link://${found.link}`, ...options]);
  const sent = () => {
    assert.ok(!sender.ended && !receiver.ended, sender.output + receiver.output);
    try {
      const lines = readFileSync(figures, "utf8").trimEnd().split("\n");
      return JSON.parse(lines.at(-1)).video ?? null;
    } catch {
      return null;
    }
  };
  await until("pictures", () => (sent()?.shown ?? 0) > 100, sent);
  return { port: found.port, sent };
}

for (const [engine, query] of [["webcodecs", ""], ["mse", "?engine=mse"]]) {
  test(`Chromium: a viewer who comes to a direct stream of AV1 seconds later sees it with ${engine}`, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    const { port, sent } = await preview(t);
    const before = sent();
    assert.equal(before.key, 1, "no key frame is asked for while there is no viewer");
    const page = await open(t, browser, `http://127.0.0.1:${port}/watch/preview${query}`);
    const figures = await plays(page, 75);
    assert.equal(figures.engine, engine, JSON.stringify(figures));
    assert.deepEqual([figures.width, figures.height, figures.continuityErrors], [320, 180, 0]);
    assert.equal(figures.reconnects, 0, figures.reconnectReason);
    await until("a picture of more than one colour", () => showsPicture(page));
    // Each picture says when it was captured.
    const delay = await assertDelay(page);
    await until("a key frame for the viewer", () => (sent()?.key ?? 0) >= 2, sent);
    t.diagnostic(`${engine}: first picture after ${figures.timeToFirstFrameMs.toFixed(0)} ms, glass to glass p50 ${delay.p50.toFixed(0)} ms`);
    await screenshot(page, `direct-av1-${engine}`);
  });
}

test("Chromium: a page from a plain-http address shows a direct stream of AV1 without WebCodecs", { timeout: 240_000 }, async (t) => {
  const address = outerAddress();
  if (!browser) return skip(t, "chromium is not installed");
  if (!address) return skip(t, "this machine has no address but loopback");
  const { port } = await preview(t, address);
  const page = await open(t, browser, `http://${address}:${port}/watch/preview`);
  assert.equal((await plays(page, 50)).engine, "mse", JSON.stringify(await stats(page)));
});
