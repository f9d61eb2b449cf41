/** The page `/`: the live streams, once a second. */
import { alarmTitle } from "../event/alarm_words";
import { alarms, type Alarms, crewPath, events, type Told } from "../event_api";
import { cluster, clusterPath, isConfigured } from "../cluster_api";
import { carriedMux, type Codec, figuresPath, type Overview, type StreamInfo, overview, watchPath, type Why } from "../api";
import { Poller } from "../poll";
import { ROOT } from "../root";
import { contactLine, copyLine, element, setText } from "./dom";
import { age, bitrate, countOf, duration } from "./format";
import { ObjectsSection } from "./objects";
import { Sparkline } from "./sparkline";
import { Thumbnail } from "./thumbnail";
import { publishLines } from "./ways";
import { WHY_WORDS } from "./why";

const REFRESH_MS = 1000;
const ALARMS_MS = 5000;
/** What is refused, or not there, is asked for so often: the server's configuration may change. */
const REFUSED_ALARMS_MS = 30_000;
/** So many alarms are named, and the others counted. */
const NAMED_ALARMS = 5;

class StreamCard {
  private readonly state = element("span", { class: "badge" });
  private readonly rate = element("span", { class: "rate" });
  private readonly codecs = element("p", { class: "codecs" });
  private readonly facts: Record<string, HTMLElement> = {};
  private readonly notes = element("p", { class: "notes", hidden: true });
  private readonly spark = new Sparkline();
  private readonly link: HTMLAnchorElement;
  private readonly watch: HTMLAnchorElement;
  private readonly thumbnail: Thumbnail;
  readonly element: HTMLElement;

  constructor(private readonly name: string) {
    this.thumbnail = new Thumbnail(name);
    const link = (this.link = element("a", { href: watchPath(name), class: "card-link" }, name));
    // The card's heading leads there too: one way is enough for the keyboard.
    this.watch = element("a", { href: watchPath(name), class: "action", tabindex: "-1", "aria-hidden": "true" }, "Watch");
    const facts = element("dl", { class: "facts" });
    for (const label of ["Viewers", "Up for", "Newest byte"]) {
      const value = element("dd");
      this.facts[label] = value;
      facts.append(element("div", {}, element("dt", {}, label), value));
    }
    this.element = element(
      "article", { class: "card" }, this.thumbnail.element,
      element("header", {}, element("h2", {}, link), this.state),
      this.codecs,
      element("div", { class: "rate-row" }, this.rate, this.spark.element),
      facts, this.notes,
      element("div", { class: "card-links" }, this.watch, element("a", { href: figuresPath(name), class: "figures-link" }, "Viewers and figures")),
    );
  }

  update(stream: StreamInfo): void {
    for (const link of [this.link, this.watch]) setHref(link, watchPath(this.name, stream.access));
    this.thumbnail.show(stream.thumbnail ?? null, stream.access);
    this.state.className = stateClass(stream);
    setText(this.state, stateWord(stream));
    setText(this.codecs, codecsText(stream));
    setText(this.rate, bitrate(stream.bitrate_bps));
    this.spark.push(stream.bitrate_bps);
    setText(this.facts["Viewers"]!, String(stream.viewers));
    setText(this.facts["Up for"]!, duration(stream.uptime_s));
    setText(this.facts["Newest byte"]!, `${age(stream.newest_byte_age_ms)} ago`);
    const notes = noteTexts(stream);
    this.notes.hidden = notes.length === 0;
    setText(this.notes, notes.join(" · "));
  }
}

/** What is in a stream. */
export function codecsText(stream: StreamInfo): string {
  const mux = carriedMux(stream);
  const known = stream.codecs.map(codecText).join("  ·  ");
  if (mux !== null) return [`${mux}, carried as it is`, known].filter((part) => part !== "").join("  ·  ");
  return known || "Looking at the stream…";
}

function codecText(codec: Codec): string {
  const size = codec.width && codec.height ? ` ${codec.width}×${codec.height}` : "";
  const rate = codec.frame_rate ? ` ${Number(codec.frame_rate.toFixed(2))} fps` : "";
  const name = codec.name ?? `stream type 0x${(codec.stream_type ?? 0).toString(16).padStart(2, "0")}`;
  return `${name}${size}${rate}`;
}

/** Whether a stream's publisher is shown, its slate, or neither. */
export function stateWord(stream: StreamInfo): string {
  if (stream.slate?.on_air) return "Slate";
  return stream.live ? "Live" : "Not live";
}

/** The look of that word. */
export function stateClass(stream: StreamInfo): string {
  return stream.live && !stream.slate?.on_air ? "badge live" : "badge idle";
}

/** What about a stream deserves a look. */
export function noteTexts(stream: StreamInfo): string[] {
  const notes: string[] = [];
  if (stream.slate?.on_air) notes.push(`viewers see the slate: the publisher is ${stream.live ? "silent, or its next key frame has not come" : "away"}`);
  if (stream.continuity_errors > 0) notes.push(`${stream.continuity_errors} continuity errors from the publisher`);
  for (const why of Object.keys(WHY_WORDS) as Why[]) {
    const count = stream.why?.[why] ?? 0;
    if (why !== "fine" && count > 0) notes.push(`${count} slow: ${WHY_WORDS[why].label}`);
  }
  for (const left of stream.left_out ?? []) notes.push(`LL-HLS and LL-DASH leave out ${left.codec} (${left.why})`);
  if (stream.moved_forward > 0) notes.push(`slow viewers skipped to live ${countOf(stream.moved_forward, "time")}`);
  if ((stream.key_frame_interval_s ?? 0) > 4) {
    notes.push(`a ${stream.join?.at ?? "key frame"} only every ${stream.key_frame_interval_s!.toFixed(1)} s: joining is slow`);
  }
  return notes;
}

/** What stands in one place of the dashboard: a stream, or all versions of one capture under its name, best first. */
export interface Arranged {
  group: string | null;
  streams: StreamInfo[];
}

/** Streams by name, with the versions of one capture together. */
export function arranged(streams: readonly StreamInfo[]): Arranged[] {
  const places = new Map<string, Arranged>();
  for (const stream of [...streams].sort((a, b) => a.name.localeCompare(b.name))) {
    const group = (stream.renditions?.length ?? 0) > 1 ? (stream.group ?? null) : null;
    const key = group === null ? `stream ${stream.name}` : `group ${group}`;
    const place = places.get(key) ?? { group, streams: [] };
    place.streams.push(stream);
    places.set(key, place);
  }
  for (const { group, streams: own } of places.values()) {
    const order = own[0]?.renditions?.map((rendition) => rendition.name) ?? [];
    if (group !== null) own.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
  }
  const called = (place: Arranged): string => place.group ?? place.streams[0]!.name;
  return [...places.values()].sort((a, b) => called(a).localeCompare(called(b)));
}

function setHref(link: HTMLAnchorElement, path: string): void {
  if (link.getAttribute("href") !== path) link.setAttribute("href", path);
}

function groupElement(group: string): HTMLElement {
  const link = element("a", { href: watchPath(group), class: "group-link" }, group);
  const heading = element("h2", {}, link, element("span", { class: "quiet" }, " in several versions"));
  return element("section", { class: "group", "aria-label": group }, heading, element("div", { class: "grid" }));
}

/** Has `children`, in this order, in `parent`; what is there already is not touched. */
function placeAll(parent: Element, children: readonly Element[]): void {
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/** Active alarms in one line: those that are not muted, by stream. */
export function alarmsLine({ active }: Alarms): string {
  const loud = active.filter((one) => !one.muted);
  if (loud.length === 0) return "";
  const named = loud.slice(0, NAMED_ALARMS).map((one) => `${one.stream}: ${alarmTitle(one.alarm)}`);
  if (loud.length > NAMED_ALARMS) named.push(`${loud.length - NAMED_ALARMS} more`);
  return `${loud.length} ${loud.length === 1 ? "alarm" : "alarms"} · ${named.join(" · ")}`;
}

/** What the line of alarms says after this answer, and in how many ms it is asked again; `before` is what it said. */
export function alarmsAfter(told: Told<Alarms>, before: string): { text: string; againMs: number } {
  if (told === null || isFailure(told)) return { text: before, againMs: ALARMS_MS };
  if (typeof told === "number") return { text: "", againMs: REFUSED_ALARMS_MS };
  return { text: alarmsLine(told), againMs: ALARMS_MS };
}

/** Whether the server, or what stands before it, failed to answer: that says nothing of what was asked. */
function isFailure(told: unknown): boolean {
  return typeof told === "number" && told >= 500;
}

/** Shows the alarms in `line` as long as the server tells them. */
function watchAlarms(line: HTMLElement): void {
  new Poller(ALARMS_MS, async () => {
    const { text, againMs } = alarmsAfter(await alarms(), line.textContent ?? "");
    line.hidden = text === "";
    setText(line, text);
    return againMs;
  }).start();
}

/** The events' pages, as links in `place`, where the server has events and tells them. Asked until there is an answer. */
function showEvents(place: HTMLElement): void {
  new Poller(ALARMS_MS, async () => {
    const told = await events();
    if (told === null || isFailure(told)) return ALARMS_MS;
    if (typeof told === "number") return REFUSED_ALARMS_MS;
    place.hidden = told.events.length === 0;
    place.replaceChildren("Events: ", ...told.events.map(({ name, title }) => element("a", { href: crewPath(name), class: "action" }, title ?? name)));
    return false;
  }).start();
}

/** The link to the cluster's page in `place`, where the server is in one and tells it. Asked until there is an answer. */
function showCluster(place: HTMLElement): void {
  new Poller(ALARMS_MS, async () => {
    const told = await cluster();
    if (told === null || isFailure(told)) return ALARMS_MS;
    if (typeof told === "number") return REFUSED_ALARMS_MS;
    place.hidden = !isConfigured(told);
    return false;
  }).start();
}

/** Shows the dashboard in `root` and keeps it fresh. */
export function dashboard(root: HTMLElement): void {
  document.title = "Glassline";
  const summary = element("p", { class: "summary", role: "status" }, "Asking the server…");
  const trouble = element("p", { class: "banner", role: "alert", hidden: true }, "The server does not answer. Trying again…");
  const alarmLine = element("p", { class: "banner", role: "alert", hidden: true });
  const eventLinks = element("nav", { class: "event-links", "aria-label": "Events", hidden: true });
  const clusterLink = element("nav", { class: "event-links", "aria-label": "Cluster", hidden: true },
    "This server is one of several: ", element("a", { href: clusterPath(), class: "action" }, "Cluster"));
  const grid = element("section", { class: "grid", "aria-label": "Streams" });
  const empty = emptyState();
  const objects = new ObjectsSection();
  const footer = element("footer", { class: "foot" });
  root.append(
    element("div", { class: "page" },
      element("header", { class: "top" }, element("h1", {}, brand(), "Glassline"), summary), trouble, alarmLine, eventLinks, clusterLink, grid, empty, objects.element, footer),
  );
  const cards = new Map<string, StreamCard>();
  const groups = new Map<string, HTMLElement>();
  let footerText = "";
  let doorsText = "[]";

  const show = ({ server, streams }: Overview): void => {
    const names = new Set(streams.map((s) => s.name));
    for (const [name, card] of cards) {
      if (names.has(name)) continue;
      card.element.remove();
      cards.delete(name);
    }
    const places = arranged(streams);
    for (const [name, place] of groups) {
      if (places.some((one) => one.group === name)) continue;
      place.remove();
      groups.delete(name);
    }
    placeAll(grid, places.map(({ group, streams: own }) => {
      const ownCards = own.map((stream) => {
        const card = cards.get(stream.name) ?? new StreamCard(stream.name);
        cards.set(stream.name, card);
        card.update(stream);
        return card.element;
      });
      if (group === null) return ownCards[0]!;
      const place = groups.get(group) ?? groupElement(group);
      groups.set(group, place);
      setHref(place.querySelector<HTMLAnchorElement>(".group-link")!, watchPath(group, own[0]?.group_access));
      placeAll(place.lastElementChild!, ownCards);
      return place;
    }));
    empty.hidden = streams.length > 0;
    const nextDoors = JSON.stringify(server.doors ?? []);
    if (nextDoors !== doorsText) {
      doorsText = nextDoors;
      empty.querySelector(".doors")!.replaceChildren(...publishLines(server.doors ?? [], location.hostname).map(([label, text]) => copyLine(label, text)));
    }
    const viewers = streams.reduce((sum, s) => sum + s.viewers, 0);
    const live = streams.filter((s) => s.live).length;
    setText(summary, `${live} live · ${viewers} ${viewers === 1 ? "viewer" : "viewers"} · up for ${duration(server.uptime_s)}`);
    const nextFooter = `${server.version}|${server.contact}`;
    if (nextFooter !== footerText) {
      footerText = nextFooter;
      const contact = contactLine(server.contact);
      footer.replaceChildren(...(contact ? [contact] : []), element("p", {}, `Glassline ${server.version}`));
    }
  };

  const refresh = async (): Promise<void> => {
    const answer = await overview();
    trouble.hidden = answer !== null;
    grid.classList.toggle("old", answer === null);
    if (answer) show(answer);
    else setText(summary, "No answer from the server");
    window.setTimeout(() => void refresh(), REFRESH_MS);
  };
  void refresh();
  void objects.run();
  watchAlarms(alarmLine);
  showEvents(eventLinks);
  showCluster(clusterLink);
}

/** The line in the corner that says whose page this is. */
export function brand(): HTMLElement {
  return element("img", { src: `${ROOT}assets/favicon.svg`, alt: "", class: "brand", width: "28", height: "28" });
}

function emptyState(): HTMLElement {
  const origin = location.origin + ROOT;
  return element(
    "section", { class: "empty", hidden: true },
    element("h2", {}, "No stream yet"),
    element("p", {}, "Publish one under any NAME and it appears here within a second:"),
    copyLine("Any file, with FFmpeg", `ffmpeg -re -i FILE -c copy -f mpegts ${origin}live/NAME.ts`),
    copyLine("A test picture", `glassline encode test:1280x720@50 ${origin}live/NAME.ts`),
    element("div", { class: "doors" }),
    element("p", { class: "hint" },
      "Unless keys are configured, only programs on the server's own machine may publish (or start the server with --open-publish)."),
  );
}
