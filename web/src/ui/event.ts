/** The page `/event/NAME`: all streams of an event side by side, and the sound of one of them. For viewers. */
import { crewContact } from "../api";
import { heardOf, mayBeHeard, nextHeard } from "../event/choose";
import { grid, type Layout, type Space, withLarge } from "../event/layout";
import { crewPath, type EventInfo, eventInfo, type EventStream, type Told } from "../event_api";
import { MseEngine } from "../player/mse";
import { nativeHls } from "../player/native_hls";
import { type Choice, choiceOf } from "../player/way";
import { WebCodecsEngine } from "../player/webcodecs";
import { Poller } from "../poll";
import { ROOT } from "../root";
import { brand } from "./dashboard";
import { contactLine, element, placeOnly, setAttribute, setText } from "./dom";
import { icon } from "./icons";
import { Tile } from "./tile";

const REFRESH_MS = 3000;
const STATUS_MS = 500;
/** The window is laid out anew this long after its size has changed. */
const LAYOUT_MS = 120;
/** Between tiles. */
const GAP_PX = 12;
/** Room below the pictures: the page's own edge. */
const BELOW_PX = 20;

declare global {
  interface Window {
    /** For tests; see README.md. */
    glasslineEvent?: { streams(): Record<string, ReturnType<Tile["look"]>> };
  }
}

/** An address that a link may lead to, in ASCII as URLs are; null for anything else. */
export function webAddress(text: string | null): string | null {
  if (text === null || !/^https?:\/\/\S+$/i.test(text)) return null;
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
}

/** What is said where there is no event to show. */
export function closedText(name: string, told: number): string {
  switch (told) {
    case 404:
      return `This server has no event called ${name}. Check the address.`;
    case 401:
    case 403:
      return "This event is for invited viewers. Open the whole link that you were given, or ask for a new one: it may have expired.";
    case 429:
      return "Too many requests came from here. This page tries again by itself.";
    default:
      return `The server answered ${told}. This page tries again by itself.`;
  }
}

/** Title, what is next, contact, chat: what a reload of the server's configuration may change. */
class Words {
  readonly header: HTMLElement;
  readonly footer = element("footer", { class: "foot" });
  private readonly home = element("span", { class: "home" }, brand());
  private readonly title = element("span");
  private readonly next = element("p", { class: "event-next", hidden: true });
  private readonly chat = element("a", { class: "action", target: "_blank", rel: "noopener noreferrer", hidden: true }, "Chat");
  private readonly crew: HTMLAnchorElement;
  private contact: string | null = null;

  constructor(private readonly name: string) {
    this.crew = element("a", { href: crewPath(name, location.search), hidden: true }, "For the crew");
    this.header = element(
      "header", { class: "top event-top" },
      element("h1", {}, this.home, this.title), this.next, element("nav", { class: "links" }, this.crew, this.chat),
    );
    this.called(name);
  }

  show(event: EventInfo): void {
    this.called(event.title ?? this.name);
    this.next.hidden = !event.next;
    setText(this.next, event.next ? `Next: ${event.next}` : "");
    const chat = webAddress(event.chat);
    this.chat.hidden = chat === null;
    if (chat !== null) setAttribute(this.chat, "href", chat);
    this.crew.hidden = event.crew === null;
    // Operators alone are shown the list of streams.
    if (event.crew !== null && this.home.firstElementChild?.tagName !== "A") {
      this.home.replaceChildren(element("a", { href: ROOT, class: "home", "aria-label": "All streams" }, brand()));
    }
    this.showContact(event.contact);
  }

  showContact(contact: string | null): void {
    if (contact === this.contact) return;
    this.contact = contact;
    const line = contactLine(contact);
    this.footer.querySelector(".contact")?.remove();
    if (line) this.footer.prepend(line);
  }

  private called(title: string): void {
    setText(this.title, title);
    if (document.title !== title) document.title = title;
  }
}

/** Which sound is heard, and how loud. */
class SoundLine {
  readonly element: HTMLElement;
  private readonly button = element("button", { type: "button", class: "control labelled" });
  private readonly choices = element("fieldset", { class: "heard" }, element("legend", { class: "offscreen" }, "Which sound is heard"));
  private readonly radios = new Map<string, { label: HTMLElement; input: HTMLInputElement }>();
  private readonly slider: HTMLInputElement;
  private readonly quiet = element("span", { class: "hint" });

  constructor(actions: { toggle(): void; hear(name: string): void; volume(volume: number): void }) {
    this.button.addEventListener("click", () => actions.toggle());
    this.slider = element("input", { type: "range", min: "0", max: "1", step: "0.05", value: "1", "aria-label": "Volume", class: "volume" });
    this.slider.addEventListener("input", () => actions.volume(Number(this.slider.value)));
    this.choices.addEventListener("change", (event) => actions.hear((event.target as HTMLInputElement).value));
    this.element = element("div", { class: "sound-line" }, this.button, this.slider, this.choices, this.quiet);
  }

  show(streams: readonly EventStream[], heard: string | null, muted: boolean, volume: number): void {
    const label = heard === null ? "No sound" : muted ? "Sound on" : "Sound off";
    if (this.button.textContent !== label) this.button.replaceChildren(icon(muted || heard === null ? "muted" : "sound"), label);
    this.button.disabled = heard === null;
    this.button.classList.toggle("call", muted && heard !== null);
    setAttribute(this.button, "title", heard === null ? "" : "m");
    this.slider.hidden = heard === null || muted;
    if (document.activeElement !== this.slider) this.slider.value = String(volume);
    const possible = streams.filter(mayBeHeard).map((one) => one.name);
    for (const [name, { label: old }] of this.radios) {
      if (possible.includes(name)) continue;
      old.remove();
      this.radios.delete(name);
    }
    for (const name of possible) {
      const radio = this.radios.get(name) ?? this.radio(name);
      if (radio.input.checked !== (name === heard)) radio.input.checked = name === heard;
    }
    this.choices.hidden = possible.length < 2;
    setText(this.quiet, possible.length === 1 && !muted ? `You hear ${possible[0]}.` : "");
  }

  private radio(name: string): { label: HTMLElement; input: HTMLInputElement } {
    const input = element("input", { type: "radio", name: "heard", value: name });
    const label = element("label", {}, input, element("span", {}, name));
    this.choices.append(label);
    const radio = { label, input };
    this.radios.set(name, radio);
    return radio;
  }
}

/** Shows the event called `name` in `root`. */
export function eventPage(root: HTMLElement, name: string, query: URLSearchParams): void {
  document.body.classList.add("event-body");
  const words = new Words(name);
  const choice: Choice = choiceOf(query, { direct: WebCodecsEngine.available() || MseEngine.available(), nativeHls: nativeHls() });
  const trouble = element("p", { class: "banner", role: "alert", hidden: true }, "The server does not answer. Trying again…");
  const said = element("p", { class: "summary event-said", role: "status" }, "Asking the server…");
  const pictures = element("div", { class: "tiles" });
  const bars = element("div", { class: "sound-bars" });
  const alike = element("button", { type: "button", class: "action", hidden: true, title: "0", onclick: () => enlarge(null) }, "All alike");
  const keys = element("p", { class: "event-keys" }, "Keys: 1 to 9 a stream large, 0 all alike, m sound on and off, s the next sound, f full screen.");
  const tiles = new Map<string, Tile>();
  let streams: EventStream[] = [];
  let audio: string | null = null;
  /** The sound that the viewer has chosen. */
  let chosen: string | null = null;
  let muted = true;
  let volume = 1;
  let large: string | null = null;

  const heard = (): string | null => heardOf(streams, chosen, audio);
  const showSound = (): void => {
    const name = heard();
    for (const tile of tiles.values()) tile.sound({ isHeard: tile.name === name, muted, volume });
    soundLine.show(streams, name, muted, volume);
  };
  /** A click on a stream's sound switches the sound on; a click on the one that is heard, off. */
  const hear = (wanted: string): void => {
    muted = wanted === heard() && !muted;
    chosen = wanted;
    showSound();
  };
  const soundLine = new SoundLine({
    toggle: () => toggleSound(),
    hear: (wanted) => {
      chosen = wanted;
      muted = false;
      showSound();
    },
    volume: (wanted) => {
      volume = wanted;
      showSound();
    },
  });
  const toggleSound = (): void => {
    if (heard() === null) return;
    muted = !muted;
    showSound();
  };

  const inPictures = (): Tile[] => streams.map((one) => tiles.get(one.name)!).filter((tile) => tile !== undefined && !tile.isBar);
  const enlarge = (wanted: string | null): void => {
    large = wanted;
    arrange();
  };
  const toggleLarge = (wanted: string): void => enlarge(large === wanted ? null : wanted);

  /** Puts pictures and bars where they belong, and gives them their sizes. */
  const arrange = (): void => {
    const shown = inPictures();
    if (!shown.some((tile) => tile.name === large)) large = null;
    placeOnly(pictures, shown.map((tile) => tile.element));
    const alone = streams.map((one) => tiles.get(one.name)!).filter((tile) => tile.isBar);
    placeOnly(bars, alone.map((tile) => tile.element));
    bars.hidden = alone.length === 0;
    pictures.hidden = shown.length === 0;
    alike.hidden = large === null || shown.length < 2;
    keys.hidden = streams.length === 0;
    const layout = layOut(shown.length);
    pictures.dataset["kind"] = layout.kind;
    const { columns, small, large: largest } = layout;
    const names = layout.kind === "side" ? `${largest}px repeat(${columns}, ${small}px)` : `repeat(${columns}, ${small}px)`;
    const others = Math.ceil((shown.length - 1) / columns);
    pictures.style.gridTemplateColumns = names;
    // Small ones stand close together at the top, beside a large one that is higher.
    pictures.style.gridTemplateRows = layout.kind === "side" ? `repeat(${others - 1}, auto) 1fr` : "";
    pictures.style.setProperty("--rows", String(Math.max(1, others)));
    for (const tile of shown) {
      const isLarge = tile.name === large;
      const widthPx = isLarge && largest !== null ? largest : small;
      tile.element.style.width = `${widthPx}px`;
      tile.place({ widthPx, isLarge, hasOthers: shown.length > 1 });
    }
    for (const tile of alone) {
      tile.element.style.width = "";
      tile.place({ widthPx: 0, isLarge: false, hasOthers: false });
    }
  };
  const layOut = (count: number): Layout => {
    const top = pictures.getBoundingClientRect().top + window.scrollY;
    const barPx = pictures.querySelector(".tile-bar")?.getBoundingClientRect().height ?? 44;
    const barsPx = bars.hidden ? 0 : bars.getBoundingClientRect().height + GAP_PX;
    const space: Space = {
      width: Math.floor(main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2),
      height: Math.floor(window.innerHeight - top - barsPx - BELOW_PX), gap: GAP_PX, bar: Math.ceil(barPx),
    };
    return large === null ? grid(count, space) : withLarge(count, space);
  };
  let laying = 0;
  const arrangeSoon = (): void => {
    window.clearTimeout(laying);
    laying = window.setTimeout(arrange, LAYOUT_MS);
  };

  const show = (event: EventInfo): void => {
    words.show(event);
    const before = shape(streams);
    // A link that has expired lets no connection in, and those that are there stay.
    streams = event.streams.map((one) => {
      const tile = tiles.get(one.name);
      return !one.known && tile?.goesOn ? tile.stream : one;
    });
    audio = event.audio;
    for (const [known, tile] of tiles) {
      if (streams.some((one) => one.name === known)) continue;
      tile.stop();
      tile.element.remove();
      tiles.delete(known);
    }
    for (const stream of streams) {
      const known = tiles.get(stream.name);
      if (known) known.update(stream);
      else {
        const { name: own } = stream;
        tiles.set(own, new Tile(stream, choice, { large: () => toggleLarge(own), hear: () => hear(own), changed: arrange }));
      }
    }
    setText(said, streams.length === 0 ? "This event has no streams yet." : "");
    said.hidden = streams.length > 0;
    soundLine.element.hidden = streams.length === 0;
    if (before !== shape(streams)) arrange();
    showSound();
  };
  const close = (told: number): void => {
    setText(said, closedText(name, told));
    said.hidden = false;
    for (const tile of tiles.values()) {
      tile.stop();
      tile.element.remove();
    }
    tiles.clear();
    streams = [];
    soundLine.element.hidden = true;
    arrange();
    // The event itself is not told: the crew's contact is told to everyone.
    void crewContact().then((contact) => words.showContact(contact));
  };
  const refresh = async (): Promise<void> => {
    const told: Told<EventInfo> = await eventInfo(name, location.search);
    trouble.hidden = told !== null;
    if (typeof told === "number") {
      // What plays is ended by nothing but the end of the event: not by a server that is busy, nor by a link that has expired.
      if (told === 404 || tiles.size === 0) close(told);
    } else if (told !== null) show(told);
    else if (tiles.size === 0) setText(said, "Asking the server…");
  };

  const full = (): void => (tiles.get(large ?? "") ?? inPictures()[0])?.fill();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLSelectElement) return;
    const { key } = event;
    const numbered = /^[1-9]$/.test(key) ? inPictures()[Number(key) - 1] : undefined;
    if (numbered) toggleLarge(numbered.name);
    else if (key === "0" || (key === "Escape" && !document.fullscreenElement)) enlarge(null);
    else if (key === "m") toggleSound();
    else if (key === "f") full();
    else if (key === "s") {
      const next = nextHeard(streams, heard());
      if (next === null) return;
      chosen = next;
      muted = false;
      showSound();
    } else return;
    event.preventDefault();
  });

  const main = element(
    "div", { class: "page event" }, words.header, trouble,
    element("div", { class: "event-line" }, soundLine.element, element("span", { class: "space" }), alike), said, pictures, bars, words.footer,
  );
  words.footer.append(keys);
  soundLine.element.hidden = true;
  root.append(main);
  arrange();
  window.addEventListener("resize", arrangeSoon);
  window.setInterval(() => tiles.forEach((tile) => tile.status()), STATUS_MS);
  new Poller(REFRESH_MS, refresh).start();
  window.glasslineEvent = { streams: () => Object.fromEntries([...tiles].map(([own, tile]) => [own, tile.look()])) };
  window.addEventListener("pagehide", () => tiles.forEach((tile) => tile.stop()));
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}

/** What the arrangement depends on. */
function shape(streams: readonly EventStream[]): string {
  return JSON.stringify(streams.map(({ name, picture }) => [name, picture === false]));
}
