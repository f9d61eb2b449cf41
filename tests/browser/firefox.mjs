// Firefox, driven by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/), which it speaks itself: commands and events
// as JSON over one WebSocket. A page here answers what the helpers in support.mjs ask of a page of Playwright.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import WebSocket from "ws";
import { findProgram, pictures, until } from "./support.mjs";

/** A fresh profile that asks nobody anything, and plays without a click as a page with a muted picture may. */
const PREFERENCES = {
  "app.normandy.enabled": false,
  "app.update.disabledForTesting": true,
  "browser.aboutwelcome.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.homepage_override.mstone": "ignore",
  "datareporting.policy.dataSubmissionEnabled": false,
  "toolkit.telemetry.enabled": false,
};

/** Debian's Firefox, or another one that is called so; null where there is none. It ends with `close`. */
export async function launchFirefox() {
  const program = process.env.FIREFOX ?? findProgram("firefox-esr") ?? findProgram("firefox");
  if (!program) return null;
  mkdirSync(pictures, { recursive: true });
  const profile = mkdtempSync(join(tmpdir(), "glassline-firefox-"));
  const lines = Object.entries(PREFERENCES).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`);
  writeFileSync(join(profile, "user.js"), lines.join(""));
  // It refuses a home that is not its user's own.
  const env = { ...process.env, HOME: profile, MOZ_HEADLESS: "1" };
  const child = spawn(program, ["--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank"], {
    env, stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  let ended = false;
  child.stderr.on("data", (bytes) => (output += bytes));
  child.on("error", (error) => (output += error));
  const over = new Promise((done) => child.on("close", done)).then(() => (ended = true));
  const close = async () => {
    child.kill("SIGKILL");
    await over;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const [, address] = await until("Firefox's address", () => {
      assert.ok(!ended, `Firefox ended: ${output}`);
      return /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(output);
    }, () => output);
    const session = await Session.open(`${address}/session`);
    const alwaysMatch = { acceptInsecureCerts: true };
    const { capabilities } = await session.command("session.new", { capabilities: { alwaysMatch } });
    await session.command("session.subscribe", { events: ["log.entryAdded"] });
    return { session, version: capabilities.browserVersion, close: () => session.close().then(close) };
  } catch (error) {
    await close();
    throw error;
  }
}

/** One WebSocket: answers find their command by its number, events go to who listens. */
class Session {
  #socket;
  #next = 1;
  #waiting = new Map();
  listeners = new Set();

  static open(address) {
    const session = new Session();
    const socket = new WebSocket(address, { perMessageDeflate: false });
    session.#socket = socket;
    socket.on("message", (text) => session.#receive(JSON.parse(text)));
    socket.on("close", () => session.#fail(new Error("Firefox has closed the session")));
    return new Promise((opened, failed) => {
      socket.once("open", () => opened(session));
      socket.on("error", failed);
    });
  }

  command(method, params) {
    const id = this.#next++;
    return new Promise((answered, failed) => {
      this.#waiting.set(id, { answered, failed, method });
      this.#socket.send(JSON.stringify({ id, method, params }), (error) => error && failed(error));
    });
  }

  #receive(message) {
    if (message.type === "event") {
      for (const listener of this.listeners) listener(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === "success") waiting?.answered(message.result);
    else waiting?.failed(new Error(`${waiting.method}: ${message.error}: ${message.message}`));
  }

  #fail(error) {
    for (const { failed } of this.#waiting.values()) failed(error);
    this.#waiting.clear();
  }

  close() {
    const closed = new Promise((done) => this.#socket.once("close", done));
    this.#socket.terminate();
    return closed;
  }
}

/** A tab of Firefox. */
class Page {
  errors = [];

  constructor(session, context) {
    Object.assign(this, { session, context });
    this.listen = ({ method, params }) => {
      const ours = method === "log.entryAdded" && params.source.context === context;
      if (ours && params.type === "javascript" && params.level === "error") this.errors.push(params.text);
    };
    session.listeners.add(this.listen);
  }

  async goto(url) {
    await this.session.command("browsingContext.navigate", { context: this.context, url, wait: "complete" });
  }

  /** What `body` answers in the page; arguments and answer are what JSON carries. */
  async evaluate(body, ...args) {
    const call = `(${body})(...${JSON.stringify(args)})`;
    const { type, result, exceptionDetails } = await this.session.command("script.evaluate", {
      expression: `(async () => JSON.stringify({ value: await ${call} }))()`,
      awaitPromise: true,
      target: { context: this.context },
    });
    assert.equal(type, "success", exceptionDetails?.text);
    return JSON.parse(result.value).value;
  }

  async setViewportSize(viewport) {
    await this.session.command("browsingContext.setViewport", { context: this.context, viewport });
  }

  async screenshot({ path }) {
    const { data } = await this.session.command("browsingContext.captureScreenshot", { context: this.context });
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async close() {
    this.session.listeners.delete(this.listen);
    await this.session.command("browsingContext.close", { context: this.context });
  }
}

/** A new tab at `url` that ends with the test; an exception in its page fails the test. */
export async function openTab(t, { session }, url) {
  const { context } = await session.command("browsingContext.create", { type: "tab" });
  const page = new Page(session, context);
  t.after(async () => {
    await page.close();
    assert.deepEqual(page.errors, [], "exceptions in the page");
  });
  await page.goto(url);
  return page;
}
