// WebKit in its build for GTK, driven by WebDriver (https://www.w3.org/TR/webdriver2/): its driver is an HTTP server that
// starts the browser. A page here answers what the helpers in support.mjs ask of a page of Playwright.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram, pictures, until } from "./support.mjs";

/** Where Debian has the small browser that the driver starts. */
function miniBrowser() {
  if (process.env.MINIBROWSER) return process.env.MINIBROWSER;
  for (const folder of ["/usr/lib", "/usr/libexec"]) {
    for (const machine of ["", ...(existsSync(folder) ? readdirSync(folder) : [])]) {
      for (const version of ["webkit2gtk-4.1", "webkit2gtk-4.0", "webkitgtk-6.0"]) {
        const file = join(folder, machine, version, "MiniBrowser");
        if (existsSync(file)) return file;
      }
    }
  }
  return null;
}

/** What is missing of WebKit, its driver and a display; null where all is there. */
export function missingWebkit() {
  if (!findProgram("WebKitWebDriver") || !miniBrowser()) return "webkit2gtk-driver is not installed";
  if (!process.env.DISPLAY && !process.env.WAYLAND_DISPLAY && !findProgram("Xvfb")) return "there is no display, and xvfb is not installed";
  return null;
}

/** A display of its own, where there is none. */
async function display(env) {
  if (env.DISPLAY || env.WAYLAND_DISPLAY) return { env, close: async () => undefined };
  const child = spawn("Xvfb", ["-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  let number = "";
  child.stdio[3].on("data", (bytes) => (number += bytes));
  const over = new Promise((done) => child.on("close", done));
  await until("the display", () => number.endsWith("\n"));
  const close = async () => {
    child.kill();
    await over;
  };
  return { env: { ...env, DISPLAY: `:${number.trim()}` }, close };
}

/** A port that was free a moment ago: the driver takes no other way to choose one. */
function freePort() {
  return new Promise((found, failed) => {
    const server = createServer();
    server.on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

/** One exchange with the driver; its errors are exceptions. */
async function ask(origin, method, path, body) {
  const answer = await fetch(origin + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const { value } = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${value?.error}: ${value?.message}`);
  return value;
}

/**
 * A driver and one session of its browser, which ends with `close`; null where something is missing. `autoplay`: "allow",
 * "deny", or as the browser has it, which lets a page play unheard.
 */
export async function launchWebkit({ autoplay = "allow-without-sound" } = {}) {
  if (missingWebkit() !== null) return null;
  mkdirSync(pictures, { recursive: true });
  const home = mkdtempSync(join(tmpdir(), "glassline-webkit-"));
  const shown = await display({ ...process.env, HOME: home, XDG_RUNTIME_DIR: home, NO_AT_BRIDGE: "1", LIBGL_ALWAYS_SOFTWARE: "1" });
  const port = await freePort();
  const child = spawn("WebKitWebDriver", [`--port=${port}`], { env: shown.env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let ended = false;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  child.on("error", (error) => (output += error));
  const over = new Promise((done) => child.on("close", done)).then(() => (ended = true));
  const origin = `http://127.0.0.1:${port}`;
  let session = null;
  const close = async () => {
    if (session) await ask(origin, "DELETE", session).catch(() => undefined);
    child.kill("SIGKILL");
    await over;
    await shown.close();
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await until("WebKit's driver", async () => {
      assert.ok(!ended, `the driver ended: ${output}`);
      return fetch(`${origin}/status`).then((answer) => answer.ok, () => false);
    }, () => output);
    const browserOptions = { binary: miniBrowser(), args: ["--automation", `--autoplay-policy=${autoplay}`] };
    const capabilities = { alwaysMatch: { acceptInsecureCerts: true, "webkitgtk:browserOptions": browserOptions } };
    const made = await ask(origin, "POST", "/session", { capabilities });
    session = `/session/${made.sessionId}`;
    await ask(origin, "POST", `${session}/timeouts`, { script: 60_000, pageLoad: 60_000 });
    const { browserVersion } = made.capabilities;
    return { version: browserVersion, command: (method, path, body) => ask(origin, method, session + path, body), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The name under which WebDriver hands on elements. */
const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

/** The page of a session: WebDriver knows one at a time. */
class Page {
  constructor(browser) {
    this.command = browser.command;
  }

  async goto(url) {
    await this.command("POST", "/url", { url });
  }

  /** What `body` answers in the page; arguments and answer are what JSON carries. */
  async evaluate(body, ...args) {
    const script = `
      const [args, done] = arguments;
      Promise.resolve().then(() => (${body})(...args)).then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const { value, error } = await this.command("POST", "/execute/async", { script, args: [args] });
    if (error) throw new Error(error);
    return value;
  }

  /** Presses what this selector finds, as a person does. */
  async click(selector) {
    const found = await this.command("POST", "/element", { using: "css selector", value: selector });
    await this.command("POST", `/element/${found[ELEMENT]}/click`, {});
  }

  async screenshot({ path }) {
    writeFileSync(path, Buffer.from(await this.command("GET", "/screenshot"), "base64"));
  }

  async close() {
    await this.goto("about:blank");
  }
}

/** The session's page at `url`; it is left when the test ends. */
export async function openPage(t, browser, url) {
  const page = new Page(browser);
  t.after(() => page.close());
  await page.goto(url);
  return page;
}
