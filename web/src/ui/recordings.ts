/** Below the player: what is recorded of the stream, and how to get there. */
import { posterPath, type RecordingInfo, recordings } from "../api";
import { operatorKey } from "../operator";
import { type Replay, instantOf, localOf } from "../player/replay";
import { ClipMaker } from "./clip";
import { element, setText } from "./dom";
import { bytes } from "./format";

const LOOK_MS = 10_000;
/** The list shows so many, the newest first. */
const SHOWN_MAX = 50;
/** A picture that did not come is asked for so often. */
const POSTER_TRIES = 3;

export interface RecordingActions {
  /** Shows this time; null: what is live. */
  show(replay: Replay | null): void;
}

/** How long it is, for people. */
export function lengthText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return whole >= 60 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

/** A playlist has no longer time; one that begins without an end ends there. */
const PLAYLIST_MAX_S = 25 * 3600;

/** The end of a recording as a playlist is asked for it; null where one playlist has not all of it, and ends where it can. */
export function endOf(one: Pick<RecordingInfo, "from" | "to">): string | null {
  if (one.from === null || one.to === null) return null;
  // Playlists have whole seconds.
  return (Date.parse(one.to) - Date.parse(one.from)) / 1000 > PLAYLIST_MAX_S - 2 ? null : one.to;
}

/** Date and time in the viewer's zone. */
export function whenText(iso: string, locale?: string, timeZone?: string): string {
  const options = { dateStyle: "medium", timeStyle: "medium", ...(timeZone ? { timeZone } : {}) } as const;
  return new Date(iso).toLocaleString(locale, options);
}

/** The recordings of a stream, the newest first, with those left out that have no time yet. */
export function recordingsOf(all: readonly RecordingInfo[], name: string): RecordingInfo[] {
  const own = all.filter((one) => one.name === name && one.from !== null);
  return own.sort((one, other) => Date.parse(other.from!) - Date.parse(one.from!));
}

/** The picture of a recording that has just begun is another one some seconds later, ms. */
const YOUNG_MS = 15_000;

/** Whether a recording has just begun. */
export function isYoung(one: Pick<RecordingInfo, "from" | "to" | "state">): boolean {
  return one.state === "recording" && one.from !== null && one.to !== null && Date.parse(one.to) - Date.parse(one.from) < YOUNG_MS;
}

export class Recordings {
  private readonly list = element("ul", { class: "recording-list" });
  private readonly beginning = element("button", { type: "button", class: "choice" }, "Restart from the beginning");
  private readonly live = element("button", { type: "button", class: "choice" }, "Live");
  private readonly time = element("input", { type: "datetime-local", step: "1", "aria-label": "Go to this time (your time zone)" });
  private readonly goes = element("button", { type: "submit", class: "choice" }, "Go");
  private readonly shown = element("p", { class: "hint", role: "status" });
  private readonly clip: ClipMaker;
  readonly element: HTMLElement;
  private own: RecordingInfo[] = [];
  private told = "";
  /** By the name of the recording. */
  private readonly posters = new Map<string, HTMLElement>();
  /** How often the picture of a recording did not come. */
  private readonly failures = new Map<string, number>();

  constructor(private readonly name: () => string, private readonly actions: RecordingActions) {
    this.clip = new ClipMaker(name);
    const form = element("form", { class: "recording-time" }, element("label", {}, "Time ", this.time), this.goes);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const from = instantOf(this.time.value);
      if (from !== null) actions.show({ from, to: null });
    });
    this.beginning.addEventListener("click", () => {
      const running = this.running();
      if (running) actions.show({ from: running.from!, to: null });
    });
    this.live.addEventListener("click", () => actions.show(null));
    const row = element("div", { class: "choices" }, this.live, this.beginning, form);
    this.element = element("section", { class: "recordings", hidden: true }, element("h2", {}, "Recordings"), row, this.clip.element, this.shown, this.list);
  }

  /** Begins to ask the server. */
  start(): void {
    void this.look();
  }

  /** Says which time is shown: ms of UTC; null while it is live. */
  showTime(captureMs: number | null, replay: Replay | null): void {
    this.live.setAttribute("aria-pressed", String(replay === null));
    this.clip.showTime(captureMs, replay !== null);
    setText(this.shown, captureMs === null ? "" : `Shown: ${whenText(new Date(captureMs).toISOString())}`);
    if (captureMs !== null && this.time.value === "" && document.activeElement !== this.time) this.time.value = localOf(captureMs);
  }

  private running(): RecordingInfo | null {
    return this.own.find((one) => one.state === "recording") ?? null;
  }

  private async look(): Promise<void> {
    const all = await recordings(operatorKey());
    if (all) this.fill(recordingsOf(all, this.name()));
    window.setTimeout(() => void this.look(), LOOK_MS);
  }

  private fill(own: RecordingInfo[]): void {
    this.own = own;
    this.element.hidden = own.length === 0;
    this.beginning.hidden = this.running() === null;
    this.clip.allow(own.some((one) => one.clip));
    const told = JSON.stringify(own.slice(0, SHOWN_MAX).map(({ from, to, state, bytes, poster }) => [from, state === "complete" ? to : null, state, bytes, poster]));
    if (told === this.told) return;
    this.told = told;
    this.list.replaceChildren(...own.slice(0, SHOWN_MAX).map((one) => this.row(one)));
  }

  /** The picture of a recording, in a box that stays empty where there is none. It is kept, so that a list that changes does not flicker. */
  private poster(one: RecordingInfo): HTMLElement {
    const known = this.posters.get(one.session);
    if (known || !one.poster) return known ?? element("div", { class: "poster" });
    const image = element("img", { alt: "", decoding: "async", loading: "lazy", src: posterPath(one, location.search, isYoung(one) ? one.to : null) });
    const box = element("div", { class: "poster" }, image);
    // That of a recording which has just begun is asked for again with the next look.
    if (!isYoung(one)) this.posters.set(one.session, box);
    image.addEventListener("error", () => {
      image.remove();
      const tries = (this.failures.get(one.session) ?? 0) + 1;
      this.failures.set(one.session, tries);
      // The server may have been busy: it is asked for again with the next look.
      if (tries < POSTER_TRIES) {
        this.posters.delete(one.session);
        this.told = "";
      }
    });
    return box;
  }

  private row(one: RecordingInfo): HTMLElement {
    const isRunning = one.state === "recording";
    const seconds = one.to === null ? 0 : (Date.parse(one.to) - Date.parse(one.from!)) / 1000;
    const button = element("button", { type: "button", class: "link" }, whenText(one.from!));
    button.addEventListener("click", () => this.actions.show({ from: one.from!, to: isRunning ? null : endOf(one) }));
    const facts = [isRunning ? "recording" : lengthText(seconds), one.bytes > 0 ? bytes(one.bytes) : "", one.state === "recovered" ? "ended without a goodbye" : ""];
    return element("li", {}, this.poster(one), button, " ", element("span", { class: "hint" }, facts.filter(Boolean).join(" · ")));
  }
}
