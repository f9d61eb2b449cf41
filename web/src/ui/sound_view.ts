/** In place of the picture, where a stream has none: the stream's name, its level, and a button to hear it. */
import "./sound_view.css";
import type { PlayerStats } from "../player/playing";
import { element, setText } from "./dom";

/** The level's bar begins here; 0 dB is full scale. */
const QUIETEST_DB = -60;

/** Which part of the bar a level fills, 0 to 1. `level` is a root mean square, 1 is full scale. */
export function levelShare(level: number): number {
  if (level <= 0) return 0;
  const db = 20 * Math.log10(level);
  return Math.min(1, Math.max(0, 1 - db / QUIETEST_DB));
}

export class SoundView {
  private readonly button = element("button", { type: "button", class: "play-sound" }, "Play sound");
  private readonly title = element("div", { class: "sound-name" });
  private readonly facts = element("div", { class: "sound-facts" });
  private readonly bar = element("span");
  private readonly level = element("div", { class: "level", role: "meter", "aria-label": "Level of the sound", "aria-valuemin": "0", "aria-valuemax": "100" }, this.bar);
  readonly element = element("div", { class: "sound-alone" }, this.button, this.title, this.facts, this.level);
  private heardMs = 0;

  constructor(name: string, toggle: () => void) {
    this.named(name);
    this.button.addEventListener("click", toggle);
  }

  named(name: string): void {
    setText(this.title, name);
  }

  /** `isOff`: it is muted or paused. Call it some times a second. */
  show(stats: PlayerStats, isOff: boolean): void {
    setText(this.button, isOff ? "Play sound" : "Pause sound");
    this.button.classList.toggle("heard", !isOff);
    const codec = stats.audio.split(",")[0]!;
    const sound = codec === "none" ? "" : ` · ${codec}`;
    setText(this.facts, `Sound without pictures${sound}${isOff ? " · not heard yet" : ""}`);
    const isGoing = stats.soundMs > this.heardMs;
    this.heardMs = stats.soundMs;
    const isMeasured = stats.soundLevel !== null;
    this.level.classList.toggle("sign", !isMeasured);
    this.level.classList.toggle("going", isGoing);
    // A level that is not measured leaves a sign that sound goes on.
    const share = isMeasured ? levelShare(stats.soundLevel ?? 0) : isGoing ? 1 : 0;
    this.bar.style.width = isMeasured ? `${(share * 100).toFixed(0)}%` : "";
    this.level.setAttribute("aria-valuenow", (share * 100).toFixed(0));
  }
}
