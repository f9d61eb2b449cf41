/**
 * A stream on an event's page: its picture, or a bar where it is sound alone, with its state, its delay and the choice of
 * its version. It plays while the stream is live and begins by itself when it becomes so.
 */
import { carriedMux, isLadder, type LadderInfo, playlistPath, streamInfo, watchPath } from "../api";
import { versionFor } from "../event/choose";
import { ASPECT } from "../event/layout";
import type { EventStream } from "../event_api";
import type { Track } from "../media/ts";
import { MseEngine } from "../player/mse";
import { Player } from "../player/player";
import type { PlayerEvents, PlayerState, PlayerStats, Playing } from "../player/playing";
import { SegmentedPlayer } from "../player/segmented";
import { type Choice, playsByPlaylist } from "../player/way";
import { renditionText } from "./controls";
import { element, setAttribute, setText } from "./dom";
import { DELAY_SOURCES } from "./figures";
import { delayed } from "./format";
import { icon } from "./icons";

/** More device pixels than this in a CSS pixel show nothing that a moving picture needs. */
const MOST_DENSE = 2;

export interface TileActions {
  /** The picture was chosen to be the large one, or no longer. */
  large(): void;
  /** The sound was chosen. */
  hear(): void;
  /** It turned out to have no picture, or to have one. */
  changed(): void;
}

/** Where a tile stands. */
export interface Placed {
  widthPx: number;
  isLarge: boolean;
  /** There are others that it could be larger than. */
  hasOthers: boolean;
}

/** What is heard. */
export interface Heard {
  isHeard: boolean;
  muted: boolean;
  volume: number;
}

/** What stands in the place of the picture; empty while all is well. `state` is null where nothing is played. */
export function tileText(stream: EventStream, state: PlayerState | null, detail: string | null): string {
  const { name } = stream;
  const notLive = `${name} is not live. It is shown here as soon as it begins.`;
  if (!stream.known) return `A signed link is needed to watch ${name}. Ask the crew for one.`;
  // The server keeps viewers for a while, in case the publisher comes back.
  if (!stream.live && isWithout(state)) return notLive;
  switch (state) {
    case null:
    case "connecting":
    case "buffering":
      return "Connecting…";
    case "waiting":
      return notLive;
    case "stalled":
      return "No data is coming. Waiting…";
    case "reconnecting":
      return detail ? `Reconnecting… (${detail})` : "Reconnecting…";
    case "refused":
      return detail ?? "You are not let in. Ask for a link.";
    case "unsupported":
      return `${detail ?? "This browser cannot play the stream."} Its own page has addresses for other players.`;
    case "playing":
    case "paused":
      return "";
  }
}

/** Whether nothing comes. */
function isWithout(state: PlayerState | null): boolean {
  return state === null || ["connecting", "buffering", "waiting", "stalled", "reconnecting"].includes(state);
}

/** Whether a player of a stream that is not live ends: one that plays what is left goes on. */
export function isGone(stream: EventStream, state: PlayerState | null): boolean {
  return !stream.live && (state === null || state === "waiting" || state === "unsupported");
}

/** The delay in few words, and what it means; null while there is none. */
export function delayText(stats: PlayerStats): { text: string; title: string } | null {
  if (stats.state !== "playing") return null;
  if (stats.delayMs) {
    return { text: delayed(stats.delayMs.p50), title: `Delay from capture to this screen, ${DELAY_SOURCES[stats.delayMs.source]} (median of the last second)` };
  }
  if (stats.behindLiveMs === null) return null;
  const text = `+${delayed(Math.max(0, stats.behindLiveMs))}`;
  return stats.targetMs !== null
    ? { text, title: "Nothing says when the picture was captured. This is the distance from the newest of the playlist" }
    : { text, title: "Nothing says when the picture was captured. This is what this page adds: buffering and decoding" };
}

export class Tile {
  readonly element: HTMLElement;
  private readonly picture = element("div", { class: "picture-place" });
  private readonly message = element("div", { class: "message", role: "status" });
  private readonly said = element("span", { class: "tile-said", role: "status" });
  private readonly start = element("button", { type: "button", class: "start", hidden: true }, "Play");
  private readonly enlarge: HTMLButtonElement;
  private readonly screen: HTMLElement;
  private readonly speaker: HTMLButtonElement;
  private readonly delay = element("span", { class: "tile-delay" });
  private readonly quality: HTMLSelectElement;
  private readonly alone: HTMLAnchorElement;
  private player: Playing | null = null;
  private playerState: PlayerState | null = null;
  private detail: string | null = null;
  private ladder: LadderInfo | null = null;
  /** The version that the viewer has chosen. */
  private chosen: string | null = null;
  /** The version that is changed to. */
  private wanting: string | null = null;
  private carried: string | null = null;
  /** The query that the player was begun with. */
  private begunWith = "";
  /** What the tracks say, once they are known. */
  private tracksSound: boolean | null = null;
  private tracksPicture: boolean | null = null;
  private placed: Placed = { widthPx: 640, isLarge: false, hasOthers: false };
  private heard: Heard = { isHeard: false, muted: true, volume: 1 };
  private stopped = false;
  private asking = false;

  constructor(private entry: EventStream, private choice: Choice, private readonly actions: TileActions) {
    const { name } = entry;
    this.enlarge = element("button", { type: "button", class: "tile-large", "aria-pressed": "false", onclick: () => actions.large() });
    this.speaker = element("button", { type: "button", class: "control tile-speaker", onclick: () => actions.hear() });
    this.quality = element("select", { class: "quality", "aria-label": `Quality of ${name}`, title: "Quality", hidden: true });
    this.quality.addEventListener("change", () => this.choose(this.quality.value));
    this.alone = element("a", { class: "control", "aria-label": `Open ${name} alone`, title: "Open alone" }, icon("window"));
    const heading = element("h2", { class: "tile-name" }, name);
    this.start.addEventListener("click", () => {
      this.start.hidden = true;
      this.player?.resume();
    });
    this.screen = element("div", { class: "tile-screen" }, this.picture, this.message, this.enlarge, this.start);
    const full = document.fullscreenEnabled
      ? element("button", { type: "button", class: "control tile-full", "aria-label": `${name} in full screen`, title: "Full screen", onclick: () => this.fill() }, icon("fullscreen"))
      : null;
    this.element = element(
      "article", { class: "tile", "aria-label": name }, this.screen,
      element("div", { class: "tile-bar" }, this.speaker, heading, this.said, this.delay, this.quality, this.alone, full),
    );
    this.update(entry);
  }

  get name(): string {
    return this.entry.name;
  }

  /** Sound alone: a bar, as far as it is known. */
  get isBar(): boolean {
    return (this.tracksPicture ?? this.entry.picture) === false;
  }

  /** What it was last told of the stream. */
  get stream(): EventStream {
    return this.entry;
  }

  /** It has a connection that goes on, whether another one would be let in or not. */
  get goesOn(): boolean {
    return this.playerState !== null && !["connecting", "waiting", "refused", "unsupported"].includes(this.playerState);
  }

  /** What the server says of the stream now. */
  update(entry: EventStream): void {
    // The server has seen another programme than the player has, which may not play now.
    if (entry.picture !== this.entry.picture) this.tracksPicture = null;
    if (entry.sound !== this.entry.sound) this.tracksSound = null;
    // Another publisher may send what can be played.
    if (!entry.live) this.carried = null;
    this.entry = entry;
    setAttribute(this.alone, "href", watchPath(entry.name, entry.access));
    this.showSound();
    void this.refresh();
  }

  place(placed: Placed): void {
    this.placed = placed;
    const { isLarge, hasOthers } = placed;
    this.element.classList.toggle("large", isLarge);
    this.enlarge.hidden = !hasOthers;
    setAttribute(this.enlarge, "aria-pressed", String(isLarge));
    setAttribute(this.enlarge, "aria-label", `Show ${this.name} large`);
    setAttribute(this.enlarge, "title", isLarge ? "Click: all alike" : "Click: show it large");
    this.fit();
  }

  sound(heard: Heard): void {
    this.heard = heard;
    this.player?.sound(heard.muted || !heard.isHeard, heard.volume);
    this.showSound();
    this.settle();
  }

  /** In full screen, or no longer. */
  fill(): void {
    if (document.fullscreenElement) void document.exitFullscreen();
    else void this.element.requestFullscreen().catch(() => undefined);
  }

  /** Shows what changes by itself; call it now and then. */
  status(): void {
    const delay = this.player ? delayText(this.player.stats()) : null;
    setText(this.delay, delay?.text ?? "");
    setAttribute(this.delay, "title", delay?.title ?? "");
  }

  /** For tests. */
  look(): { engine: string; version: string | null; isLarge: boolean; isHeard: boolean; isBar: boolean; stats: PlayerStats | null } {
    return {
      engine: this.player?.engine ?? "none", version: this.player?.name ?? null, isLarge: this.placed.isLarge,
      isHeard: this.heard.isHeard && !this.heard.muted, isBar: this.isBar, stats: this.player?.stats() ?? null,
    };
  }

  /** Ends it for good. */
  stop(): void {
    this.stopped = true;
    this.halt();
  }

  /** Versions are asked for with each look at the event. */
  private async refresh(): Promise<void> {
    const { entry } = this;
    this.settle();
    // What the server carries without knowing its insides is not waited for.
    const mayBeCarried = !entry.group && this.playerState === "waiting" && this.carried === null;
    if (this.asking || !entry.known || !entry.live || !(entry.group || mayBeCarried)) return;
    this.asking = true;
    const found = await streamInfo(entry.name, entry.access ?? "");
    this.asking = false;
    if (this.stopped || found === null) return;
    if (isLadder(found)) this.ladder = found;
    else {
      const mux = carriedMux(found);
      this.carried = mux === null ? null : `${entry.name} comes as ${mux}, which this page does not play. Its own page has addresses for other players.`;
      if (this.carried !== null) this.halt();
    }
    this.settle();
  }

  /** Begins, ends, or leaves as it is. */
  private settle(): void {
    if (this.stopped) return;
    const { entry, playerState: state } = this;
    const wanted = entry.known && this.carried === null && (!this.isBar || (this.heard.isHeard && !this.heard.muted));
    const lives = (name: string): boolean => this.ladder?.renditions.some((one) => one.name === name && one.live) ?? false;
    const isOld = this.player !== null && entry.live && (
      (state === "waiting" && entry.group && !lives(this.player.name) && this.version() !== null)
      || (state === "refused" && this.begunWith !== (entry.access ?? ""))
    );
    if (!wanted || isGone(entry, state) || isOld) this.halt();
    if (wanted && entry.live && this.player === null) this.begin();
    this.show();
  }

  /** What is played: the stream, or one of its versions; null while these are not known. */
  private version(): string | null {
    if (!this.entry.group) return this.entry.name;
    const live = (this.ladder?.renditions ?? []).filter((one) => one.live);
    if (this.chosen !== null && live.some((one) => one.name === this.chosen)) return this.chosen;
    const heightPx = (this.placed.widthPx / ASPECT) * Math.min(window.devicePixelRatio || 1, MOST_DENSE);
    return versionFor(live, heightPx, this.placed.isLarge)?.name ?? null;
  }

  private begin(): void {
    const name = this.version();
    if (name === null) return;
    const { way, engine, delayS } = this.choice;
    const access = this.entry.access ?? "";
    this.begunWith = access;
    const group = this.entry.group ? this.entry.name : null;
    const path = (stream: string): string => playlistPath(stream, access, way as "hls" | "dash");
    const player: Playing = way === "direct"
      ? new Player(name, engine, this.events(() => player), access)
      : new SegmentedPlayer({ name, way, path, delayS, ladder: () => group }, this.events(() => player));
    this.player = player;
    player.sound(this.heard.muted || !this.heard.isHeard, this.heard.volume);
    player.start();
    this.showVersions();
  }

  private events(own: () => Playing): PlayerEvents {
    const isOwn = (): boolean => this.player !== null && this.player === own();
    const events = {
      state: (state: PlayerState, detail: string | null): void => {
        if (!isOwn()) return;
        this.playerState = state;
        this.detail = detail;
        this.show();
        // Another version may be live, or another link be good.
        if (state === "waiting" || state === "refused") void this.refresh();
      },
      engine: (shown: HTMLElement): void => {
        shown.setAttribute("role", "img");
        shown.setAttribute("aria-label", `Live picture of ${this.name}`);
        this.picture.replaceChildren(shown);
      },
      tracks: (tracks: readonly Track[]): void => {
        if (!isOwn() || tracks.length === 0) return;
        this.tracksSound = tracks.some((one) => one.kind === "audio" && one.codec !== "unsupported");
        this.showSound();
        // Of a playlist the sound alone is told here.
        if (this.choice.way !== "direct" || this.hasPicture(tracks.some((one) => one.kind === "video"))) return;
        if (this.choice.engine === null && playsByPlaylist(tracks, (type) => MseEngine.decodes(type))) {
          this.choice = { ...this.choice, way: "hls" };
          queueMicrotask(() => this.again());
        }
      },
      soundAlone: (isAlone: boolean): void => {
        if (isOwn()) this.hasPicture(!isAlone);
      },
      needsGesture: (): void => {
        if (isOwn()) this.start.hidden = false;
      },
      rendition: (played: string, failed: string | null): void => {
        if (!isOwn()) return;
        if (this.wanting === played || failed !== null) this.wanting = null;
        // What cannot be changed to is not chosen.
        if (failed !== null && this.chosen !== null && this.chosen !== played) this.chosen = null;
        this.showVersions();
      },
    };
    return events;
  }

  /** Whether there is a picture, as the player has found; answers whether that makes another thing of the tile. */
  private hasPicture(hasOne: boolean): boolean {
    const wasBar = this.isBar;
    this.tracksPicture = hasOne;
    if (wasBar === this.isBar) return false;
    queueMicrotask(() => this.turn());
    return true;
  }

  /** A picture became a bar, or a bar a picture: what is played stands elsewhere from now on. */
  private turn(): void {
    this.halt();
    this.actions.changed();
    this.settle();
  }

  private again(): void {
    this.halt();
    this.settle();
  }

  private halt(): void {
    this.player?.stop();
    this.player = null;
    this.playerState = null;
    this.detail = null;
    this.wanting = null;
    this.start.hidden = true;
    this.picture.replaceChildren();
  }

  private choose(name: string): void {
    this.chosen = name === "" ? null : name;
    this.fit();
  }

  /** Plays the version that fits its place, or the chosen one. */
  private fit(): void {
    const wanted = this.version();
    if (this.player === null || wanted === null || wanted === (this.wanting ?? this.player.name)) return;
    this.wanting = wanted === this.player.name ? null : wanted;
    this.player.switchTo(wanted);
  }

  private show(): void {
    const text = this.carried ?? tileText(this.entry, this.playerState, this.detail);
    const { isBar } = this;
    this.element.classList.toggle("sound-only", isBar);
    this.element.dataset["state"] = !this.entry.live && isWithout(this.playerState) ? "waiting" : (this.playerState ?? "idle");
    this.screen.hidden = isBar;
    this.message.hidden = text === "";
    setText(this.message, text);
    this.said.hidden = !isBar;
    // A sound that is not heard is not played.
    const idle = this.entry.known && this.entry.live && this.playerState === null && this.carried === null;
    setText(this.said, isBar ? (idle || text === "" ? "Sound alone" : text) : "");
    this.showVersions();
  }

  private showSound(): void {
    const hasSound = (this.tracksSound ?? this.entry.sound) !== false && this.entry.known;
    const isOn = this.heard.isHeard && !this.heard.muted;
    this.speaker.disabled = !hasSound;
    setAttribute(this.speaker, "aria-pressed", String(isOn && hasSound));
    setAttribute(this.speaker, "aria-label", hasSound ? `Hear ${this.name}` : `${this.name} has no sound`);
    setAttribute(this.speaker, "title", hasSound ? (isOn ? "This is heard" : "Hear this") : "No sound");
    const name = isOn && hasSound ? "sound" : "muted";
    if (this.speaker.dataset["icon"] === name) return;
    this.speaker.dataset["icon"] = name;
    this.speaker.replaceChildren(icon(name));
  }

  private showVersions(): void {
    const live = this.entry.group ? (this.ladder?.renditions ?? []).filter((one) => one.live) : [];
    const played = live.find((one) => one.name === this.player?.name);
    this.quality.hidden = live.length < 2 || this.carried !== null;
    if (this.quality.hidden || document.activeElement === this.quality) return;
    const offered = [{ value: "", text: played && this.chosen === null ? `Auto · ${renditionText(played)}` : "Auto" }];
    for (const one of live) offered.push({ value: one.name, text: renditionText(one) });
    const known = [...this.quality.options].map((option) => option.value);
    if (known.join("/") !== offered.map(({ value }) => value).join("/")) {
      this.quality.replaceChildren(...offered.map(({ value, text }) => element("option", { value }, text)));
    } else {
      for (const [index, { text }] of offered.entries()) setText(this.quality.options[index]!, text);
    }
    if (this.quality.value !== (this.chosen ?? "")) this.quality.value = this.chosen ?? "";
  }
}
