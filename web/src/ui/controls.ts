/**
 * The bar over the picture: position, sound, delay, quality, details, a window of its own, full screen. Keys: m, ↑, ↓, q,
 * d, i, p, f; and where one can go back ←, →, Home, End, l, k and the space bar.
 */
import type { Rendition } from "../api";
import type { Track } from "../media/ts";
import type { Timeline } from "../player/playing";
import { element } from "./dom";
import { bitrate } from "./format";
import { type IconName, icon } from "./icons";
import { SeekBar } from "./seekbar";

const IDLE_MS = 2500;

export interface ControlActions {
  sound(muted: boolean, volume: number): void;
  /** Toggles the details; answers whether they are shown now. */
  info(): boolean;
  /** Null where there is no use for it. */
  popOut: (() => void) | null;
  /** Another rendition is wanted. */
  quality(name: string): void;
  /** The stream's time line, where one can go back in it. */
  timeline(): Timeline | null;
  /** Opens or closes the bar of stages. */
  stages(): void;
}

/** What a rendition is called beside the others. */
export function renditionText(rendition: Rendition): string {
  const rate = rendition.frame_rate ? String(Math.round(rendition.frame_rate)) : "";
  const picture = rendition.height ? `${rendition.height}p${rate}` : rendition.name;
  return rendition.bitrate_bps > 0 ? `${picture} · ${bitrate(rendition.bitrate_bps)}` : picture;
}

export class Controls {
  readonly element: HTMLElement;
  private muted = true;
  private volume = 1;
  private hasSound = true;
  private readonly mute: HTMLButtonElement;
  private readonly slider: HTMLInputElement;
  private readonly infoButton: HTMLButtonElement;
  private readonly quality = element("select", { class: "quality", "aria-label": "Quality (q)", title: "Quality (q)", hidden: true });
  private readonly pause: HTMLButtonElement;
  private readonly seekBar: SeekBar;
  private idle = 0;

  constructor(private readonly stage: HTMLElement, delay: HTMLElement, private readonly actions: ControlActions) {
    this.mute = button("muted", "Unmute", () => this.toggleSound());
    this.mute.classList.add("labelled");
    this.slider = element("input", { type: "range", min: "0", max: "1", step: "0.05", value: "1", "aria-label": "Volume", class: "volume" });
    this.slider.addEventListener("input", () => this.setVolume(Number(this.slider.value)));
    this.infoButton = button("info", "Details (i)", () => this.toggleInfo());
    this.infoButton.setAttribute("aria-pressed", "false");
    this.quality.addEventListener("change", () => actions.quality(this.quality.value));
    const right: HTMLElement[] = [this.quality, this.infoButton];
    if (actions.popOut) {
      const popOut = button("window", "Open in a small window (p)", actions.popOut);
      popOut.classList.add("pop-out");
      right.push(popOut);
    }
    // iPhones show their own player full screen, and nothing else.
    if (canFill(stage)) right.push(button("fullscreen", "Full screen (f)", () => this.toggleFullscreen()));
    this.pause = button("pause", "Pause (k)", () => this.togglePause());
    this.pause.hidden = true;
    this.seekBar = new SeekBar(() => actions.timeline());
    const bar = element(
      "div", { class: "bar-row" }, this.pause, this.mute, this.slider, element("span", { class: "space" }), delay, ...right,
    );
    this.element = element("div", { class: "controls" }, this.seekBar.element, bar);
    this.showSound();
    document.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["pointermove", "pointerdown", "focusin"]) stage.addEventListener(kind, () => this.wake());
    stage.addEventListener("dblclick", (event) => {
      if (!this.element.contains(event.target as Node)) this.toggleFullscreen();
    });
    this.wake();
  }

  tracks(tracks: readonly Track[]): void {
    const sounds = tracks.filter((t) => t.kind === "audio");
    this.hasSound = sounds.some((t) => t.codec !== "unsupported");
    const unsupported = sounds.find((t) => t.codec === "unsupported");
    this.mute.disabled = !this.hasSound;
    this.mute.title = this.hasSound ? "" : unsupported ? `This browser does not play ${unsupported.name} sound` : "The stream has no sound";
    this.showSound();
  }

  /** Shows where playback is; call it now and then. */
  showTime(): void {
    const timeline = this.actions.timeline();
    this.pause.hidden = timeline === null;
    const label = timeline?.paused ? "Play (k)" : "Pause (k)";
    if (this.pause.getAttribute("aria-label") !== label) {
      this.pause.setAttribute("aria-label", label);
      this.pause.title = label;
      this.pause.replaceChildren(icon(timeline?.paused ? "play" : "pause"));
    }
    this.seekBar.show();
  }

  private togglePause(): void {
    const timeline = this.actions.timeline();
    timeline?.pause(!timeline.paused);
    this.showTime();
  }

  /** Offers these renditions, `current` of which is played; `automatic` stands for whichever the line carries. */
  renditions(renditions: readonly Rendition[], current: string, automatic: string | null): void {
    const live = renditions.filter((one) => one.live || one.name === current);
    const offered = live.map((one) => ({ value: one.name, text: renditionText(one) }));
    if (automatic !== null && live.length > 1) offered.unshift({ value: automatic, text: "Automatic" });
    this.quality.hidden = offered.length < 2;
    const known = [...this.quality.options].map((option) => option.value);
    if (known.join("/") !== offered.map(({ value }) => value).join("/")) {
      this.quality.replaceChildren(...offered.map(({ value, text }) => element("option", { value }, text)));
    } else if (document.activeElement !== this.quality) {
      // The text of a list that is open would move under the pointer.
      for (const [index, { text }] of offered.entries()) this.quality.options[index]!.text = text;
    }
    this.showQuality(current);
  }

  /** Shows which rendition is played, or will be. */
  showQuality(name: string): void {
    if (this.quality.value !== name) this.quality.value = name;
  }

  /** The next rendition of the list, the first one behind the last. */
  private nextQuality(): void {
    const { options, selectedIndex } = this.quality;
    if (this.quality.hidden || options.length < 2) return;
    this.quality.selectedIndex = (selectedIndex + 1) % options.length;
    this.actions.quality(this.quality.value);
  }

  /** As the button does. */
  toggleSound(): void {
    if (!this.hasSound) return;
    this.muted = !this.muted;
    if (!this.muted && this.volume === 0) this.volume = 1;
    this.changed();
  }

  private setVolume(volume: number): void {
    this.volume = Math.min(1, Math.max(0, volume));
    if (this.hasSound) this.muted = this.volume === 0;
    this.changed();
  }

  private changed(): void {
    this.showSound();
    this.actions.sound(this.muted, this.volume);
  }

  private showSound(): void {
    const label = !this.hasSound ? "No sound" : this.muted ? "Unmute" : "Mute";
    this.mute.replaceChildren(icon(this.muted || !this.hasSound ? "muted" : "sound"), label);
    this.mute.setAttribute("aria-label", label);
    this.mute.classList.toggle("call", this.muted && this.hasSound);
    this.slider.value = String(this.muted ? 0 : this.volume);
    this.slider.hidden = !this.hasSound;
  }

  private toggleInfo(): void {
    this.infoButton.setAttribute("aria-pressed", String(this.actions.info()));
  }

  private toggleFullscreen(): void {
    if (document.fullscreenElement) void document.exitFullscreen();
    else if (document.fullscreenEnabled) void this.stage.requestFullscreen().catch(() => undefined);
    else this.stage.querySelector<VideoOfIPhones>("video.picture")?.webkitEnterFullscreen?.();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target, event.key)) return;
    const actions: Record<string, () => void> = {
      m: () => this.toggleSound(),
      f: () => this.toggleFullscreen(),
      i: () => this.toggleInfo(),
      q: () => this.nextQuality(),
      d: () => this.actions.stages(),
      p: () => this.actions.popOut?.(),
      ArrowUp: () => this.setVolume((this.muted ? 0 : this.volume) + 0.1),
      ArrowDown: () => this.setVolume((this.muted ? 0 : this.volume) - 0.1),
    };
    // The space bar presses the button that has the focus.
    if (this.actions.timeline() && (event.key === "k" || (event.key === " " && !(event.target instanceof HTMLButtonElement)))) {
      actions[event.key] = () => this.togglePause();
    }
    if (!(event.key in actions) && SEEK_KEYS.has(event.key) && this.actions.timeline()) {
      actions[event.key] = () => void this.seekBar.key(event.key);
    }
    const action = actions[event.key];
    if (!action) return;
    // Arrows scroll the page, but for who has the picture in front.
    if (SCROLL_KEYS.has(event.key) && !this.stage.contains(document.activeElement) && !document.fullscreenElement) return;
    event.preventDefault();
    this.wake();
    action();
  }

  /** Shows the bar, and hides it again when nothing moves. */
  private wake(): void {
    this.stage.classList.remove("idle");
    window.clearTimeout(this.idle);
    this.idle = window.setTimeout(() => {
      if (!this.element.contains(document.activeElement) || !this.element.querySelector(":focus-visible")) {
        this.stage.classList.add("idle");
      }
    }, IDLE_MS);
  }
}

interface VideoOfIPhones extends HTMLVideoElement {
  webkitEnterFullscreen?(): void;
}

/** Whether the picture can fill the screen here, by itself or as an iPhone's player. */
function canFill(stage: HTMLElement): boolean {
  return document.fullscreenEnabled || "webkitEnterFullscreen" in stage.ownerDocument.createElement("video");
}

const SEEK_KEYS = new Set(["ArrowLeft", "ArrowRight", "Home", "End", "l"]);
const SCROLL_KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", " "]);

/** Whether this key means something else there: in a list, on a slider, on a curve. */
function isField(target: EventTarget | null, key: string): boolean {
  if (target instanceof HTMLSelectElement) return true;
  return SCROLL_KEYS.has(key) && (target instanceof HTMLInputElement || target instanceof SVGElement);
}

function button(name: IconName, label: string, action: () => void): HTMLButtonElement {
  const node = element("button", { type: "button", class: "control", "aria-label": label, title: label }, icon(name));
  node.addEventListener("click", action);
  return node;
}
