/** The page `/crew/NAME`: an event's streams and alarms, for operators with a phone in one hand. */
import { overview, type StreamInfo } from "../api";
import { keyFrameText, muteText, titleOf } from "../event/alarm_words";
import { crewBadge, type CrewKnowledge, unwatchedText } from "../event/crew_words";
import {
  type Alarms, alarms, type EventInfo, eventInfo, eventPath, keyFramePath, keyQuery, mutePath, post, sheetPath, type Told,
} from "../event_api";
import { KEY, operatorKey } from "../operator";
import { Poller } from "../poll";
import { ROOT } from "../root";
import { AlarmList } from "./alarms";
import { CrewStream } from "./crew_stream";
import { brand } from "./dashboard";
import { element, placeOnly, setAttribute, setText } from "./dom";
import { showFavicon } from "./favicon";

const EVENT_MS = 4000;
const STREAMS_MS = 1000;
const ALARMS_MS = 1500;
/** In the background: title and icon of the page's tab tell of alarms. */
const HIDDEN_ALARMS_MS = 5000;
/** What refuses, or has no such event, is asked so often whether it still does. */
const CLOSED_MS = 30_000;
const MUTE_MINUTES = 10;
/** What came of a request is read by then. */
const SAID_MS = 8000;

/** What is said instead of the page. */
export function closedCrewText(name: string, told: Told<EventInfo>): string | null {
  if (told === 404) return `There is no event called ${name} here, or this page is not for the network that you are in.`;
  if (told === 401 || told === 403 || (told !== null && typeof told !== "number" && told.crew === null)) {
    return "This page is for operators. Open it in a network that [admin] networks lists in the server's configuration, at the admin listener ([admin] listen, as through an SSH tunnel), or where there is none with the publish key behind the address: ?key=KEY.";
  }
  return null;
}

/** Streams of an event in one place: one, or all versions of a capture. */
interface Group {
  element: HTMLElement;
  heading: HTMLElement;
  total: HTMLElement;
  grid: HTMLElement;
}

function newGroup(name: string): Group {
  const [heading, total] = [element("h2", {}, name), element("span", { class: "quiet" })];
  const grid = element("div", { class: "crew-grid" });
  heading.append(" ", total);
  return { element: element("section", { class: "group", "aria-label": name }, heading, grid), heading, total, grid };
}

/** The field for the publish key, where a request was refused without it. */
function keyForm(done: () => void): HTMLFormElement {
  const field = element("input", { type: "password", autocomplete: "off", "aria-label": "Publish key", placeholder: "Publish key" });
  const form = element("form", { class: "key-form", hidden: true }, field, element("button", { type: "submit", class: "action" }, "Use this key"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      sessionStorage.setItem(KEY, field.value);
    } catch {
      // It is not kept then, and the next request is refused again.
    }
    field.value = "";
    form.hidden = true;
    done();
  });
  return form;
}

/** Shows the operators' page of the event called `name` in `root`. */
export function crewPage(root: HTMLElement, name: string): void {
  document.body.classList.add("crew-body");
  const search = location.search;
  const title = element("span", {}, name);
  const state = element("span", { class: "badge crew-state", role: "status" }, "Asking…");
  const next = element("p", { class: "event-next", hidden: true });
  const page = element("a", { href: eventPath(name), class: "action" }, "Event page");
  const sheet = element("a", { href: sheetPath(name, search), class: "action" }, "Sheet to print");
  const trouble = element("p", { class: "banner", role: "alert", hidden: true }, "The server does not answer. What is below is old.");
  const closed = element("section", { class: "empty", role: "status", hidden: true });
  const unwatched = element("p", { class: "hint", hidden: true });
  const said = element("p", { class: "crew-said", role: "status", hidden: true });
  const streamsPlace = element("div", { class: "crew-streams" });
  const key = keyForm(() => say("The key is used from now on. Ask once more."));

  let event: EventInfo | null = null;
  let streams: StreamInfo[] | null = null;
  let told: Alarms | null = null;
  let alarmsStatus: number | null = null;
  /** What is known of alarms: nothing was asked yet, it is of the last question, or that had no answer. */
  let alarmsAge: "unasked" | "new" | "old" = "unasked";
  let isClosed = false;
  const known = new Map<string, CrewStream>();
  const groups = new Map<string, Group>();
  /** Versions that were seen, by the name that they share: an alarm of one that has gone is of the event all the same. */
  const versions = new Map<string, Set<string>>();

  let saidTimer = 0;
  const say = (text: string): void => {
    setText(said, text);
    said.hidden = false;
    window.clearTimeout(saidTimer);
    saidTimer = window.setTimeout(() => (said.hidden = true), SAID_MS);
  };
  const asksForKey = (answer: { status: number } | null): void => {
    if (answer !== null && (answer.status === 401 || answer.status === 403)) key.hidden = false;
  };
  const keyFrame = (stream: string, button: HTMLButtonElement): void => {
    button.disabled = true;
    void post(keyFramePath(stream), operatorKey()).then((answer) => {
      button.disabled = false;
      asksForKey(answer);
      say(keyFrameText(stream, answer));
    });
  };
  const mute = (one: { stream: string; alarm: string }, minutes: number, button: HTMLButtonElement): void => {
    button.disabled = true;
    void post(mutePath(one.stream, one.alarm, minutes > 0 ? `${minutes}m` : "0s"), operatorKey()).then((answer) => {
      button.disabled = false;
      asksForKey(answer);
      say(muteText(one, minutes, answer));
      alarmPoller.soon();
    });
  };
  const list = new AlarmList({ mute: (one, button) => mute(one, MUTE_MINUTES, button), unmute: (one, button) => mute(one, 0, button) }, MUTE_MINUTES, operatorKey);

  const names = (): Set<string> => {
    const all = new Set<string>();
    for (const one of event?.streams ?? []) {
      all.add(one.name);
      for (const version of versions.get(one.name) ?? []) all.add(version);
    }
    return all;
  };

  const showState = (): void => {
    if (isClosed || alarmsAge === "unasked") return;
    const known: CrewKnowledge = {
      streams: event?.streams ?? [], told, status: alarmsStatus, isOld: alarmsAge === "old", names: names(), versions: (group) => versions.get(group),
    };
    const { words, className, loud } = crewBadge(known);
    state.className = `badge crew-state ${className}`;
    setText(state, words);
    const text = unwatchedText(known);
    unwatched.hidden = text === null;
    setText(unwatched, text ?? "");
    const pageTitle = titleOf(`${event?.title ?? name} · crew`, loud);
    if (document.title !== pageTitle) document.title = pageTitle;
    showFavicon(loud);
  };

  const card = (stream: string): CrewStream => {
    const one = known.get(stream) ?? new CrewStream(stream, keyFrame);
    known.set(stream, one);
    one.update(streams?.find((it) => it.name === stream) ?? null, keyQuery(operatorKey()));
    return one;
  };
  const showStreams = (): void => {
    if (!event || !streams) return;
    const shown = new Set<string>();
    const places = event.streams.map((entry) => {
      const of = entry.group ? streams!.filter((one) => one.group === entry.name) : [];
      if (!entry.group) {
        shown.add(entry.name);
        return card(entry.name).element;
      }
      const seen = versions.get(entry.name) ?? new Set<string>();
      versions.set(entry.name, seen);
      for (const one of of) seen.add(one.name);
      const group = groups.get(entry.name) ?? newGroup(entry.name);
      groups.set(entry.name, group);
      const viewers = of.reduce((sum, one) => sum + one.viewers, 0);
      setText(group.total, of.length === 0 ? "not live" : `${of.length} ${of.length === 1 ? "version" : "versions"} · ${viewers} ${viewers === 1 ? "viewer" : "viewers"}`);
      const order = of[0]?.renditions?.map((one) => one.name) ?? [];
      const sorted = [...of].sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
      for (const one of sorted) shown.add(one.name);
      placeOnly(group.grid, sorted.map((one) => card(one.name).element));
      return group.element;
    });
    for (const stream of [...known.keys()]) if (!shown.has(stream)) known.delete(stream);
    placeOnly(streamsPlace, places);
  };
  const showAlarms = (): void => {
    if (isClosed) return;
    list.show(told, alarmsStatus, names());
    showState();
  };

  const close = (text: string): void => {
    isClosed = true;
    closed.hidden = false;
    rest.hidden = true;
    trouble.hidden = true;
    closed.replaceChildren(
      element("h2", {}, "For operators"), element("p", {}, text), element("p", {}, element("a", { href: eventPath(name) }, "The page for viewers")));
    state.className = "badge crew-state idle";
    setText(state, "Closed");
    document.title = `${event?.title ?? name} · crew`;
    showFavicon(0);
  };
  const reopen = (): void => {
    isClosed = false;
    closed.hidden = true;
    rest.hidden = false;
  };
  const refreshEvent = async (): Promise<number | void> => {
    const answer = await eventInfo(name, search, operatorKey());
    const text = closedCrewText(name, answer);
    if (text !== null) {
      close(text);
      return CLOSED_MS;
    }
    if (answer !== null && typeof answer !== "number") {
      event = answer;
      if (isClosed) reopen();
      setText(title, answer.title ?? name);
      next.hidden = !answer.next;
      setText(next, answer.next ? `Next: ${answer.next}` : "");
      setAttribute(page, "href", eventPath(name, answer.crew?.access));
      showStreams();
      showAlarms();
      // Others would be refused.
      if (!begun) {
        begun = true;
        streamPoller.start();
        alarmPoller.start();
      }
    }
    trouble.hidden = answer !== null;
  };
  let begun = false;
  const streamPoller = new Poller(STREAMS_MS, async () => {
    if (isClosed) return;
    const answer = await overview(operatorKey());
    if (isClosed) return;
    trouble.hidden = answer !== null;
    streamsPlace.classList.toggle("old", answer === null);
    if (answer) {
      streams = answer.streams;
      list.clockUtcMs = answer.server.now_utc_us / 1000 - performance.now();
      showStreams();
    }
    for (const one of known.values()) one.tick();
  });
  const alarmPoller = new Poller(ALARMS_MS, async () => {
    if (isClosed) return;
    const answer = await alarms(operatorKey());
    alarmsAge = answer === null ? "old" : "new";
    if (answer !== null) {
      alarmsStatus = typeof answer === "number" ? answer : null;
      told = typeof answer === "number" ? null : answer;
    }
    showAlarms();
  }, document, HIDDEN_ALARMS_MS);

  const rest = element("div", { class: "crew-rest" }, list.element, unwatched, key, streamsPlace);
  root.append(element(
    "div", { class: "page crew" },
    element("header", { class: "top crew-top" },
      element("h1", {}, element("a", { href: ROOT, class: "home", "aria-label": "All streams" }, brand()), title), state,
      element("nav", { class: "links" }, page, sheet)),
    next, trouble, closed, rest, said));
  document.title = `${name} · crew`;
  new Poller(EVENT_MS, refreshEvent).start();
}
