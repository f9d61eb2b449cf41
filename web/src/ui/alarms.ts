/** Active alarms with their pictures, what is muted, and what was lately. */
import { alarmKey, alarmText, alarmTitle, muteOf, ofEvent, timeOfDay } from "../event/alarm_words";
import { type AlarmEvent, alarmPicturePath, type Alarms, type Mute } from "../event_api";
import { ROOT } from "../root";
import { element, placeOnly, setAttribute, setText } from "./dom";
import { duration } from "./format";

export interface AlarmActions {
  mute(event: { stream: string; alarm: string }, button: HTMLButtonElement): void;
  unmute(event: { stream: string; alarm: string }, button: HTMLButtonElement): void;
}

/** The picture of an alarm's moment, as a link to itself; null where there is none. */
function pictureLink(event: AlarmEvent, className: string, key: string): HTMLElement | null {
  if (!event.picture) return null;
  const path = alarmPicturePath(event.picture, key);
  const image = element("img", { src: path, alt: `Picture of ${event.stream} when the alarm began`, decoding: "async", loading: "lazy" });
  const link = element("a", { href: path, class: className, target: "_blank", rel: "noopener noreferrer" }, image);
  // The server keeps the newest pictures.
  image.addEventListener("error", () => link.remove());
  return link;
}

/** An alarm that is there now. */
class ActiveAlarm {
  readonly element: HTMLElement;
  private readonly text = element("p", { class: "alarm-text" });
  private readonly since = element("p", { class: "alarm-since" });
  private readonly muted = element("span", { class: "alarm-muted" });
  private readonly button = element("button", { type: "button", class: "action" });
  private mutedBy: Mute | null = null;
  private event: AlarmEvent;

  constructor(event: AlarmEvent, actions: AlarmActions, private readonly minutes: number, key: string) {
    this.event = event;
    this.button.addEventListener("click", () => {
      if (this.mutedBy) actions.unmute(this.mutedBy, this.button);
      else actions.mute(this.event, this.button);
    });
    this.element = element(
      "li", { class: "alarm" }, pictureLink(event, "alarm-picture", key),
      element("div", { class: "alarm-words" },
        element("h3", {}, `${alarmTitle(event.alarm)} · ${event.stream}`), this.text, this.since),
      element("div", { class: "alarm-buttons" }, this.button, this.muted),
    );
  }

  update(event: AlarmEvent, muted: readonly Mute[], nowUtcMs: number): void {
    this.event = event;
    setText(this.text, alarmText(event));
    const begun = Date.parse(event.at_utc);
    const lasts = Number.isNaN(begun) ? "" : `, for ${duration((nowUtcMs - begun) / 1000)}`;
    setText(this.since, `since ${timeOfDay(event.at_utc)}${lasts}`);
    this.mutedBy = muteOf(event, muted);
    this.element.classList.toggle("muted", event.muted ?? this.mutedBy !== null);
    setText(this.muted, this.mutedBy ? `muted until ${timeOfDay(this.mutedBy.until_utc)}` : "");
    setText(this.button, this.mutedBy ? "Unmute" : `Mute ${this.minutes} min`);
    setAttribute(this.button, "aria-label", `${this.button.textContent}: ${alarmTitle(event.alarm)} of ${event.stream}`);
  }
}

/** A line of what was lately. */
function recentLine(event: AlarmEvent, key: string): HTMLElement {
  const words = event.state === "over" ? "over" : alarmText(event);
  return element(
    "li", { class: event.state === "over" ? "recent over" : "recent" },
    element("time", { datetime: event.at_utc }, timeOfDay(event.at_utc)),
    element("span", {}, element("strong", {}, `${alarmTitle(event.alarm)} · ${event.stream}`), ` ${words}`),
    pictureLink(event, "recent-picture", key),
  );
}

export class AlarmList {
  readonly element: HTMLElement;
  /** The server's time of day in ms less `performance.now()`; this machine's until the server has told its own. */
  clockUtcMs = Date.now() - performance.now();
  private readonly active = element("ul", { class: "alarms" });
  private readonly note = element("p", { class: "hint" });
  private readonly mutes = element("ul", { class: "mutes" });
  private readonly elsewhere = element("p", { class: "hint", hidden: true });
  private readonly recent = element("ul", { class: "recents" });
  private readonly summary = element("summary", {}, "Recent alarms");
  private readonly details: HTMLDetailsElement;
  private readonly known = new Map<string, ActiveAlarm>();
  private recentShown = "";
  private mutesShown = "";

  /** `key` is what lets the operator in, where one is needed; `minutes` is how long an alarm is muted. */
  constructor(private readonly actions: AlarmActions, private readonly minutes: number, private readonly key: () => string) {
    this.details = element("details", { class: "recent-alarms", hidden: true }, this.summary, this.recent);
    this.element = element(
      "section", { class: "crew-alarms", "aria-label": "Alarms" }, this.active, this.note, this.mutes, this.elsewhere, this.details);
  }

  /** Shows the alarms of the streams called `names`; `status` is the server's where it does not tell. */
  show(told: Alarms | null, status: number | null, names: ReadonlySet<string>): void {
    setText(this.note, noteText(status));
    this.note.hidden = this.note.textContent === "";
    const active = ofEvent(told?.active ?? [], names);
    const nowUtcMs = this.clockUtcMs + performance.now();
    const muted = told?.muted ?? [];
    const lines = active.own.map((event) => {
      // Begun anew it is another one, with a picture of its own.
      const key = `${alarmKey(event)} ${event.at_utc}`;
      const line = this.known.get(key) ?? new ActiveAlarm(event, this.actions, this.minutes, this.key());
      this.known.set(key, line);
      line.update(event, muted, nowUtcMs);
      return [key, line] as const;
    });
    const shown = new Set(lines.map(([key]) => key));
    for (const key of [...this.known.keys()]) if (!shown.has(key)) this.known.delete(key);
    placeOnly(this.active, lines.map(([, line]) => line.element));
    this.active.hidden = lines.length === 0;
    this.elsewhere.hidden = active.elsewhere === 0;
    if (active.elsewhere > 0) {
      const count = `${active.elsewhere} ${active.elsewhere === 1 ? "alarm" : "alarms"} of other streams: `;
      if (!this.elsewhere.textContent?.startsWith(count)) this.elsewhere.replaceChildren(count, element("a", { href: ROOT }, "all streams"));
    }
    this.showMutes(ofEvent(muted, names).own, active.own);
    this.showRecent(ofEvent(told?.recent ?? [], names).own);
  }

  /** What is muted without being there now. */
  private showMutes(muted: readonly Mute[], active: readonly AlarmEvent[]): void {
    const quiet = muted.filter((one) => !active.some((event) => muteOf(event, [one]) !== null));
    const text = JSON.stringify(quiet);
    if (text === this.mutesShown) return;
    this.mutesShown = text;
    this.mutes.hidden = quiet.length === 0;
    this.mutes.replaceChildren(...quiet.map((one) => {
      const what = one.alarm === "*" ? "All alarms" : alarmTitle(one.alarm);
      const button: HTMLButtonElement = element(
        "button", { type: "button", class: "action", "aria-label": `Unmute: ${what} of ${one.stream}`, onclick: () => this.actions.unmute(one, button) }, "Unmute");
      return element("li", {}, element("span", {}, `${what} · ${one.stream}: muted until ${timeOfDay(one.until_utc)}`), button);
    }));
  }

  private showRecent(recent: readonly AlarmEvent[]): void {
    const text = JSON.stringify(recent);
    if (text === this.recentShown) return;
    this.recentShown = text;
    this.details.hidden = recent.length === 0;
    setText(this.summary, `Recent alarms (${recent.length})`);
    this.recent.replaceChildren(...recent.map((event) => recentLine(event, this.key())));
  }
}

function noteText(status: number | null): string {
  if (status === 404) return "This server watches no streams: alarms need a section [watch] in its configuration.";
  if (status === 401 || status === 403) return "Alarms are told to operators alone.";
  if (status !== null) return `Alarms are not told (status ${status}).`;
  return "";
}
