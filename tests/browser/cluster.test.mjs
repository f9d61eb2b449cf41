// The page of a cluster, in Chromium: of a server with a map, and of one that shows what a registry tells, wide and on a phone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, outerAddress, screenshot, serve, skip, until } from "./support.mjs";

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

const CONFIG = "[cluster]\nstatic = { studio = 'http://10.0.0.1:8080', 'sport-*' = 'http://10.0.0.2:8080' }\n";

browserTest("the dashboard leads to the cluster's page where there is a cluster", async (t) => {
  const alone = await serve(t);
  const none = await open(t, browser, `${alone.origin}/`);
  await none.getByText("No stream yet").waitFor();
  assert.ok(await none.getByRole("link", { name: "Cluster" }).isHidden());
  const server = await serve(t, [], { config: CONFIG });
  const page = await open(t, browser, `${server.origin}/`);
  await page.getByRole("link", { name: "Cluster" }).click();
  await page.getByText("its map says which streams are at other servers").waitFor();
  const row = page.getByRole("row", { name: "sport-*" });
  assert.match(await row.innerText(), /10\.0\.0\.2:8080/);
});

browserTest("viewers elsewhere get words and no cluster", async (t) => {
  const outer = outerAddress();
  if (!outer) return skip(t, "this machine has no other address than loopback");
  const server = await serve(t, [], { listen: "0.0.0.0:0", config: CONFIG });
  const port = new URL(server.origin).port;
  const answer = await fetch(`http://${outer}:${port}/cluster`, { headers: { accept: "text/html" } });
  assert.notEqual(answer.status, 200);
  const data = await fetch(`http://${outer}:${port}/api/cluster`);
  assert.equal(data.status, answer.status, "page and data have one rule");
  assert.match(await answer.text(), /This page is for operators/);
});

const node = (name, more) => ({
  name, address: `http://10.0.0.${name.length}:8080`, zone: "hall-1", version: "0.3.0", viewers: 1240, alive: true, leaving: false, own: false, ...more,
});
const TOLD = {
  node: "relay-2",
  registry: {
    heard: true, server: "nats://10.0.0.11:4222", bucket: "glassline", error: null, claims: 3, lost: 1, conflicts: 0, failed: 0, dropped: 0, sessions: 2, twin: false,
  },
  nodes: [
    node("relay-1", { draining: true }), node("relay-2", { own: true, viewers: 87 }), node("relay-3", { zone: "hall-2", leaving: true, viewers: 5 }),
    node("relay-four-with-a-long-name", { alive: false, viewers: 0, zone: "" }),
  ],
  streams: Array.from({ length: 14 }, (_, number) => ({ name: `stage-${number + 1}`, node: `relay-${(number % 3) + 1}`, epoch: 100 + number, live: number % 5 !== 4, carriers: number === 0 ? [{ node: "relay-3", hops: 2 }, { node: "relay-2", hops: 1 }] : [] })),
  unread: [],
  static: [],
  pulled: [{ stream: "stage-1", node: "relay-1", hops: 1 }, { stream: "stage-3", node: "relay-1", hops: 2 }],
};

browserTest("a cluster is shown, follows its changes, and fits on a phone", async (t) => {
  const server = await serve(t);
  const page = await open(t, browser, `${server.origin}/watch/none`);
  let told = TOLD;
  await page.route("**/api/cluster", (route) => route.fulfill({ json: told }));
  await page.goto(`${server.origin}/cluster`);
  await page.getByText("3 servers alive · 12 live").waitFor();
  const cells = (name) => page.getByRole("row", { name }).innerText();
  assert.match(await cells(/^relay-2/), /this one.*Alive.*87/s);
  assert.match(await cells(/^relay-1/), /Draining/);
  assert.match(await cells(/^relay-3/), /Leaving/);
  assert.match(await cells(/^relay-four/), /Away/);
  assert.match(await cells(/^stage-3 /), /relay-3 → relay-1 → here/);
  await screenshot(page, "cluster");
  const search = page.getByRole("searchbox");
  await search.fill("stage-14");
  await until("one stream alone", async () => (await page.getByRole("row", { name: /^stage-/ }).count()) === 1);
  await search.fill("");
  // The registry goes away, and there is an entry of a stranger.
  told = {
    ...TOLD, registry: { ...TOLD.registry, heard: false, server: null, error: "no news have come for a second" },
    unread: [{ name: "news", error: "version 9 is not known" }],
  };
  await page.getByText("nats stream info KV_glassline").waitFor();
  await page.getByText("What runs goes on").waitFor();
  await page.getByRole("row", { name: /news/ }).waitFor();
  await screenshot(page, "cluster-away");
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 360, `nothing hangs over: ${wide}`);
  await screenshot(page, "cluster-phone");
});
