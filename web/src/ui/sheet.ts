/** The view `/crew/NAME?sheet`: addresses and their QR codes, to be printed and put on the wall. */
import { isLadder, type LadderInfo, streamInfo } from "../api";
import { qrPath } from "../event/qr";
import { baseOf, eventAddress, firstExpiry, streamAddresses, type UnsignedLinks, unsignedLinks, untilText, vlcName } from "../event/sheet";
import { crewPath, type EventInfo, eventInfo } from "../event_api";
import { Poller } from "../poll";
import { ROOT } from "../root";
import { operatorKey } from "../operator";
import { closedCrewText } from "./crew";
import { element, svg } from "./dom";
import { webAddress } from "./event";

/** Where the address is kept that was typed in. */
const PUBLIC = "glassline-public";
const RETRY_MS = 2000;
const HOUR_MS = 3_600_000;

/** The code of an address, or a line that says that the address is too long for one. */
export function qrElement(address: string, className: string): Element {
  try {
    const { size, path } = qrPath(address);
    return svg(
      "svg", { viewBox: `0 0 ${size} ${size}`, class: `qr ${className}`, role: "img", "aria-label": `QR code of ${address}`, "shape-rendering": "crispEdges" },
      svg("rect", { width: String(size), height: String(size), fill: "#fff" }), svg("path", { d: path, fill: "#000" }));
  } catch {
    return element("p", { class: `qr ${className}` }, "This address is too long for a QR code.");
  }
}

function kept(): string | null {
  try {
    return localStorage.getItem(PUBLIC);
  } catch {
    return null;
  }
}

function keep(text: string): void {
  try {
    localStorage.setItem(PUBLIC, text);
  } catch {
    // It is asked for again the next time.
  }
}

/** What addresses begin with: the server's own suggestions, and a field for another one. */
class BaseChoice {
  readonly element: HTMLElement;
  private readonly select = element("select", { class: "target", "aria-label": "Addresses begin with" });
  private readonly field = element("input", { type: "url", class: "sheet-field", "aria-label": "Another address", placeholder: "https://live.example.org/" });
  private readonly wrong = element("span", { class: "sheet-wrong", role: "status" });
  private static readonly OTHER = "";

  constructor(offered: readonly string[], private readonly changed: (base: string) => void) {
    const bases = [...new Set([...offered.map(baseOf), location.origin + ROOT].filter((base) => base !== null))];
    for (const base of bases) this.select.append(element("option", { value: base }, base));
    this.select.append(element("option", { value: BaseChoice.OTHER }, "Another address…"));
    const before = kept();
    if (before !== null && bases.includes(before)) this.select.value = before;
    else if (before !== null) {
      this.select.value = BaseChoice.OTHER;
      this.field.value = before;
    }
    this.select.addEventListener("change", () => this.chosen());
    this.field.addEventListener("input", () => this.chosen());
    this.element = element("div", { class: "sheet-base" }, element("span", {}, "Addresses begin with"), this.select, this.field, this.wrong);
    this.show();
  }

  get base(): string | null {
    return this.select.value === BaseChoice.OTHER ? baseOf(this.field.value) : this.select.value;
  }

  private chosen(): void {
    this.show();
    const { base } = this;
    if (base === null) return;
    keep(this.select.value === BaseChoice.OTHER ? this.field.value : base);
    this.changed(base);
  }

  private show(): void {
    const isOther = this.select.value === BaseChoice.OTHER;
    this.field.hidden = !isOther;
    this.wrong.textContent = isOther && this.base === null && this.field.value !== "" ? "This is no address of http or https." : "";
  }
}

function line(label: string, address: string): HTMLElement {
  return element("div", {}, element("dt", {}, label), element("dd", {}, address));
}

/** What stands on the paper itself where its links are refused, so that no such sheet is put on the wall unread. */
function unsignedElement({ text, commands }: UnsignedLinks): HTMLElement {
  return element("section", { class: "sheet-unsigned", role: "status" }, element("p", {}, text), ...commands.map((command) => element("code", {}, command)));
}

/** The paper. */
function paper(event: EventInfo, ladders: ReadonlyMap<string, LadderInfo>, base: string): HTMLElement {
  const title = event.title ?? event.name;
  const page = eventAddress(base, event.name, event.crew?.access ?? null);
  const expiry = firstExpiry([event.crew?.access ?? null, ...event.streams.map((one) => one.access)]);
  const unsigned = unsignedLinks(base, event.name, event.crew, event.streams);
  const rows = event.streams.map((stream) => {
    const best = vlcName(stream, ladders.get(stream.name)?.renditions[0]?.name ?? null);
    const { page: own, vlc, hls, dash } = streamAddresses(base, stream.name, stream.access, best);
    const kind = stream.picture === false ? "sound alone" : stream.group ? "in several versions" : "";
    return element(
      "section", { class: "sheet-row" }, qrElement(own, "small"),
      element("div", {}, element("h2", {}, stream.name, kind === "" ? null : element("small", {}, ` ${kind}`)),
        element("dl", {}, line("Browser", own), line("VLC", vlc ?? "is known once the stream is live"), line("LL-HLS", hls), line("LL-DASH", dash))));
  });
  const chat = webAddress(event.chat);
  return element(
    "article", { class: "sheet" },
    element("header", {}, element("h1", {}, title), element("p", {}, "Watch it in your browser: scan the code, or type the address.")),
    unsigned === null ? null : unsignedElement(unsigned),
    element("div", { class: "sheet-main" }, qrElement(page, "big"), element("p", { class: "sheet-address" }, page)),
    expiry === null ? null : element("p", { class: "sheet-until" }, `These addresses are good until ${untilText(expiry)}. Anybody with a link may watch.`),
    ...rows,
    event.contact || chat
      ? element("footer", { class: "sheet-row sheet-foot" }, chat === null ? null : qrElement(chat, "small"),
        element("div", {}, event.contact ? element("p", { class: "sheet-contact" }, event.contact) : null, chat === null ? null : element("dl", {}, line("Chat", chat))))
      : null,
  );
}

/** What the operator is warned of before printing. */
export function expiryWarning(expiry: number | null, nowMs: number): string | null {
  if (expiry === null) return null;
  if (expiry <= nowMs) return "The links on this sheet have expired. Load this page again, or sign new ones.";
  const hours = (expiry - nowMs) / HOUR_MS;
  const left = hours < 1 ? `${Math.max(1, Math.round(hours * 60))} minutes` : hours < 48 ? `${Math.round(hours)} hours` : `${Math.round(hours / 24)} days`;
  return `The links on this sheet are good for ${left}, until ${untilText(expiry)}. Print it anew before that.`;
}

/** The address without the operator's key: browsers print the address at the paper's edge. */
export function addressToPrint(path: string, search: string): string {
  const query = search.replace(/^\?/, "").split("&").filter((part) => !/^key=/.test(part)).join("&");
  return query === "" ? path : `${path}?${query}`;
}

/** Shows the sheet of the event called `name` in `root`. */
export function sheetPage(root: HTMLElement, name: string): void {
  document.body.classList.add("sheet-body");
  const own = location.pathname + location.search;
  window.addEventListener("beforeprint", () => history.replaceState(null, "", addressToPrint(location.pathname, location.search)));
  window.addEventListener("afterprint", () => history.replaceState(null, "", own));
  document.title = `${name} · sheet`;
  const said = element("p", { class: "summary", role: "status" }, "Asking the server…");
  const tools = element("div", { class: "sheet-tools" });
  const place = element("div");
  const back = element("a", { href: crewPath(name, location.search), class: "action" }, "Back");
  const print = element("button", { type: "button", class: "action", hidden: true, onclick: () => window.print() }, "Print");
  root.append(element("div", { class: "page sheet-page" }, element("nav", { class: "links sheet-nav" }, back, print), tools, said, place));

  const show = async (event: EventInfo): Promise<void> => {
    const groups = event.streams.filter((one) => one.group);
    const found = await Promise.all(groups.map((one) => streamInfo(one.name, one.access ?? "")));
    const ladders = new Map<string, LadderInfo>();
    for (const ladder of found) if (isLadder(ladder)) ladders.set(ladder.group, ladder);
    document.title = `${event.title ?? event.name} · sheet`;
    const draw = (base: string): void => place.replaceChildren(paper(event, ladders, base));
    const choice = new BaseChoice(event.crew?.public ?? [], draw);
    const warning = expiryWarning(firstExpiry([event.crew?.access ?? null, ...event.streams.map((one) => one.access)]), Date.now());
    tools.replaceChildren(choice.element, ...(warning === null ? [] : [element("p", { class: "sheet-warning", role: "status" }, warning)]));
    said.hidden = true;
    print.hidden = false;
    draw(choice.base ?? location.origin + ROOT);
  };
  const poller = new Poller(RETRY_MS, async () => {
    const answer = await eventInfo(name, location.search, operatorKey());
    const closed = closedCrewText(name, answer);
    if (closed !== null) said.textContent = closed;
    else if (answer !== null && typeof answer !== "number") {
      await show(answer);
      return false;
    } else said.textContent = "The server does not answer. Trying again…";
    return closed === null;
  });
  poller.start();
}
