/** The page `/watch/NAME`: the player, its controls, and the addresses for other players. */
import {
  access, carriedMux, crewContact, figuresPath, isLadder, type LadderInfo, livePath, type Mux, overview, playlistPath, relayStages, reportStages,
  streamInfo, type StreamInfo, watchPath,
} from "../api";
import { mayPlaySound } from "../player/autoplay";
import { MseEngine } from "../player/mse";
import { nativeHls } from "../player/native_hls";
import { Player } from "../player/player";
import type { PlayerEvents, PlayerState, PlayerStats, Playing } from "../player/playing";
import { RecordedPlayer } from "../player/recorded";
import { type Replay, replayOf, replayPath, replaySearch } from "../player/replay";
import { SegmentedPlayer } from "../player/segmented";
import { ROOT } from "../root";
import { type Choice, choiceOf, playsByPlaylist, searchOf } from "../player/way";
import { WebCodecsEngine } from "../player/webcodecs";
import { StageExchange } from "../stages/exchange";
import type { StageSummary } from "../stages/ledger";
import { Controls } from "./controls";
import { brand } from "./dashboard";
import { contactLine, copyLine, element, setText } from "./dom";
import { DELAY_SOURCES, Figures } from "./figures";
import { age, bytes, delayed, milliseconds } from "./format";
import { Recordings } from "./recordings";
import { SoundView } from "./sound_view";
import { StageBar } from "./stage_bar";

const STATUS_MS = 250;
const SERVER_MS = 2000;
const HINT_MS = 5000;
/** How often the bar of stages is drawn anew. */
const STAGES_MS = 500;
/** Where it is kept that the viewer agrees to tell the server figures. */
const REPORT = "glassline-report";

declare global {
  interface Window {
    /** For tests and benchmarks; see README.md. */
    glassline?: { readonly engine: string; stats(): PlayerStats; stages(): StageSummary };
  }
}

/** Shows the player of the stream that is first called `asked` in `root`. */
export function watch(root: HTMLElement, asked: string, query: URLSearchParams): void {
  let name = asked;
  document.title = `${name} · Glassline`;
  const popout = query.has("popout");
  if (popout) document.body.classList.add("popout");
  const able = { direct: WebCodecsEngine.available() || MseEngine.available(), nativeHls: nativeHls() };
  let choice = choiceOf(query, able);
  /** The recorded time that is shown; null: live. */
  let replay = replayOf(query);

  const picture = element("div", { class: "picture-place" });
  const said = element("span");
  const message = element("div", { class: "message", role: "status" }, said);
  /** How viewers reach the crew, where they need it. */
  let contact: string | null = null;
  const settling = element("div", { class: "settling", role: "status", hidden: true }, "Building up the picture…");
  const info = element("dl", { class: "overlay", hidden: true, "aria-label": "Playback details" });
  const hint = element("div", { class: "hint-line", role: "status", hidden: true });
  /** The rendition that is to be shown as soon as it can be. */
  let wanting: string | null = null;
  /** What the page was opened for: a token is good for that. */
  const signedFor = name;
  /** What all versions of the capture are called, and which there are, where there are several. */
  let ladder: LadderInfo | null = null;
  const start = element("button", { type: "button", class: "start", hidden: true }, "Play");
  const delay = element("button", { type: "button", class: "delay", title: "" });
  const soundView = new SoundView(name, () => {
    const { timeline } = player;
    if (timeline && !heard.muted) {
      timeline.pause(!timeline.paused);
      return;
    }
    controls.toggleSound();
    if (timeline?.paused) timeline.pause(false);
  });
  const screen = element("div", { class: "screen" }, picture, soundView.element, message, settling, hint, info, start);
  const stage = element("div", { class: "stage", tabindex: "-1" }, screen);

  const events: PlayerEvents = {
    state: (state, detail) => {
      const text = stateText(state, name, detail, location.origin + livePath(name, location.search));
      message.hidden = text === "";
      setText(said, text);
      stage.dataset["state"] = state;
      showContact();
      if (state === "playing" || state === "unsupported") showRest();
    },
    engine: (shown) => {
      shown.setAttribute("role", "img");
      shown.setAttribute("aria-label", `Live picture of ${name}`);
      picture.replaceChildren(shown);
    },
    tracks: (tracks) => {
      controls.tracks(tracks);
      // What the viewer has chosen stays, and is told why it cannot be.
      const isChosen = choice.way !== "direct" || choice.engine !== null || replay !== null;
      if (!isChosen && playsByPlaylist(tracks, (type) => MseEngine.decodes(type))) queueMicrotask(() => take({ ...choice, way: "hls" }));
    },
    soundAlone: (isAlone) => {
      stage.dataset["sound"] = isAlone ? "alone" : "";
      setText(start, isAlone ? "Play sound" : "Play");
      // Sound is all that there is: it is heard at once where the browser lets it be.
      if (isAlone && heard.muted && !hasChosenSound) {
        void mayPlaySound().then((may) => {
          if (may && heard.muted && !hasChosenSound && stage.dataset["sound"] === "alone") controls.toggleSound();
        });
      }
    },
    needsGesture: () => {
      start.hidden = false;
    },
    rendition: (played, failed) => {
      if (wanting === played || failed !== null) wanting = null;
      controls.showQuality(wanting ?? played);
      if (failed !== null) showHint(hint, `Not changed: ${failed}`);
      if (played !== name) renamed(played);
    },
  };
  const begin = (): Playing => {
    const { way, engine, delayS } = choice;
    if (replay) return new RecordedPlayer({ name, path: replayPath(name, location.search, replay), live: () => showReplay(null) }, events);
    if (way === "direct") {
      // The name of a ladder is no stream: one of its versions is watched.
      const best = name === ladder?.group ? ladder.renditions.find((one) => one.live) : undefined;
      if (best) renamed(best.name);
      return new Player(name, engine, events);
    }
    const path = (stream: string): string => playlistPath(stream, location.search, way);
    return new SegmentedPlayer({ name, way, path, delayS, ladder: () => ladder?.group ?? null }, events);
  };
  /** What is below the picture is of a stream: until there is one, it would say nothing. */
  const showRest = (): void => {
    figuresPanel.element.hidden = others.hidden = false;
  };
  /** Who is not let in, or waits for long, can ask somebody. */
  const showContact = (): void => {
    const wanted = ["refused", "waiting", "unsupported"].includes(stage.dataset["state"] ?? "") ? contactLine(contact) : null;
    message.querySelector(".contact")?.remove();
    if (wanted) message.append(wanted);
  };
  let player = begin();
  /** How loud the viewer wants it, for the next player too. */
  let heard = { muted: true, volume: 1 };
  let hasChosenSound = false;
  /** Another way to watch: the page's address is its own from now on. These are ways to watch live. */
  const choose = (chosen: Choice): void => {
    replay = null;
    window.history.replaceState(null, "", location.pathname + replaySearch(location.search, null));
    window.history.replaceState(null, "", location.pathname + searchOf(location.search, chosen));
    take(chosen);
  };
  /** Another way to watch, from now on. */
  const take = (chosen: Choice): void => {
    player.stop();
    stage.dataset["sound"] = "";
    choice = chosen;
    message.hidden = true;
    start.hidden = true;
    figuresPanel.chosen(chosen);
    player = begin();
    player.sound(heard.muted, heard.volume);
    player.start();
    status();
  };
  /** Shows a recorded time, or what is live: the page's address is its own from now on. */
  const showReplay = (wanted: Replay | null): void => {
    replay = wanted;
    window.history.replaceState(null, "", location.pathname + replaySearch(location.search, wanted));
    take(choice);
  };
  const recordings = new Recordings(() => name, { show: showReplay });
  const figuresPanel = new Figures(choice, choose);
  start.addEventListener("click", () => {
    start.hidden = true;
    player.resume();
  });

  const controls = new Controls(stage, delay, {
    sound: (muted, volume) => {
      heard = { muted, volume };
      hasChosenSound = true;
      player.sound(muted, volume);
    },
    info: () => {
      info.hidden = !info.hidden;
      return !info.hidden;
    },
    popOut: popout ? null : () => popOut(name, choice, player.stats()),
    quality: (wanted) => {
      wanting = wanted === player.name ? null : wanted;
      player.switchTo(wanted);
    },
    timeline: () => player.timeline,
    stages: () => stageBar.toggle(!stageBar.isOpen),
  });
  stage.append(controls.element);

  const exchange = new StageExchange({
    name: () => player.name,
    stages: () => player.stages,
    offset: () => player.clock.offset,
    ask: relayStages,
    tell: reportStages,
  });
  const summary = (): StageSummary => player.stages.summary(performance.now(), player.clock.offset);
  const showStages = (): void => {
    exchange.tick(performance.now());
    if (stageBar.isOpen) stageBar.show(summary(), { engine: player.engine, isSecure: window.isSecureContext, isMuted: heard.muted }, exchange.state);
  };
  const agrees = query.get("report") === "1" || remembered();
  exchange.report(agrees, performance.now());
  const stageBar = new StageBar({
    button: delay,
    reports: agrees,
    opened: (isOpen) => {
      exchange.looking = isOpen;
      main.classList.toggle("with-budget", isOpen);
      showStages();
      if (isOpen) stageBar.reveal();
    },
    agreed: (agreed) => {
      remember(agreed);
      // The address would say so again when the page is loaded anew.
      if (!agreed) window.history.replaceState(null, "", location.pathname + withoutReport(location.search));
      exchange.report(agreed, performance.now());
    },
  });
  // In full screen and in the small window there is nothing but the picture: there the bar lies over it.
  const placeStages = (): void => {
    if (popout || document.fullscreenElement === stage) screen.insertBefore(stageBar.element, start);
    else stage.after(stageBar.element);
  };
  document.addEventListener("fullscreenchange", placeStages);
  const stagesTimer = window.setInterval(showStages, STAGES_MS);

  let serverAge = "–";
  const status = (): void => {
    const stats = player.stats();
    showDelay(delay, stats);
    controls.showTime();
    figuresPanel.show(stats);
    recordings.showTime(player instanceof RecordedPlayer ? player.captureMs() : null, replay);
    settling.hidden = stats.state !== "playing" || stats.settlingFrames === 0;
    if (stats.soundAlone) soundView.show(stats, heard.muted || player.timeline?.paused === true);
    if (!info.hidden) fillInfo(info, player.engine, stats, serverAge);
  };
  const statusTimer = window.setInterval(status, STATUS_MS);

  const footer = element("footer", { class: "foot" });
  const heading = element("span", {}, name);
  const home = element("span", { class: "home" }, brand());
  const figures = element("a", { href: figuresPath(name) }, "Viewers and figures");
  const header = element(
    "header", { class: "top" },
    element("h1", {}, home, heading),
  );
  let others = addresses(name, "ts");
  figuresPanel.element.hidden = others.hidden = true;
  const main = element("div", { class: "page watch" }, header, stage, popout ? null : recordings.element, popout ? null : figuresPanel.element, popout ? null : others, popout ? null : footer);
  root.append(main);
  placeStages();

  /** Another rendition is played: the page is its own from now on. */
  const renamed = (played: string): void => {
    name = played;
    soundView.named(name);
    document.title = `${name} · Glassline`;
    setText(heading, name);
    figures.href = figuresPath(name);
    const right = addresses(name, "ts");
    right.hidden = others.hidden;
    others.replaceWith(right);
    others = right;
    window.history.replaceState(null, "", watchPath(name) + location.search);
  };

  /** For a stream that the server carries without knowing its insides: no player here knows them either. */
  const giveWay = (mux: Mux, called: string): void => {
    player.stop();
    window.clearInterval(statusTimer);
    window.clearInterval(stagesTimer);
    stageBar.element.remove();
    figuresPanel.element.remove();
    stage.replaceWith(element("p", { class: "carried", role: "status" }, carriedText(name, called)));
    const right = addresses(name, mux);
    others.replaceWith(right);
    others = right;
  };
  const askServer = async (): Promise<void> => {
    const found = await streamInfo(name);
    const stream = isLadder(found) ? null : found;
    const called = stream && carriedMux(stream);
    if (stream && called !== null) {
      giveWay(stream.mux ?? "ts", called);
      return;
    }
    if (found) showRest();
    serverAge = stream ? age(stream.newest_byte_age_ms) : "–";
    ladder = isLadder(found) ? found : stream ? ladderOf(stream) : ladder;
    if (replay === null && choice.way === "direct" && name === ladder?.group && ladder.renditions.some((one) => one.live)) choose(choice);
    // A signed address is good for one stream alone, or for a ladder.
    const isOpen = access(location.search) === "" || signedFor === ladder?.group;
    const automatic = choice.way === "direct" ? null : (ladder?.group ?? null);
    controls.renditions(isOpen ? (ladder?.renditions ?? []) : [], wanting ?? player.name, automatic);
    window.setTimeout(() => void askServer(), SERVER_MS);
  };
  void askServer();
  recordings.start();
  void crewContact().then((told) => {
    contact = told;
    const line = contactLine(told);
    if (line) footer.prepend(line);
    showContact();
  });
  void overview().then((answer) => {
    if (!answer) return;
    footer.append(element("p", {}, `Glassline ${answer.server.version}`));
    // Who is shown the list of streams is shown their figures: where the crew has a listener of its own, there alone.
    header.append(element("nav", { class: "links" }, figures));
    home.replaceWith(element("a", { href: ROOT, class: "home", "aria-label": "All streams" }, brand()));
  });

  window.glassline = {
    get engine() {
      return player.engine;
    },
    stats: () => player.stats(),
    stages: summary,
  };
  window.addEventListener("pagehide", () => player.stop());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  player.start();
}

/** Whether the viewer has agreed to tell the server figures; no where the browser keeps nothing. */
function remembered(): boolean {
  try {
    return localStorage.getItem(REPORT) === "1";
  } catch {
    return false;
  }
}

/** The page's query without the wish to tell. */
export function withoutReport(search: string): string {
  const kept = search.replace(/^\?/, "").split("&").filter((pair) => pair !== "" && !/^report(=|$)/.test(pair));
  return kept.length > 0 ? `?${kept.join("&")}` : "";
}

function remember(agreed: boolean): void {
  try {
    if (agreed) localStorage.setItem(REPORT, "1");
    else localStorage.removeItem(REPORT);
  } catch {
    // It holds for this page alone then.
  }
}

/** The ladder that a stream is a version of. */
function ladderOf({ group, renditions }: StreamInfo): LadderInfo | null {
  return group && renditions && renditions.length > 1 ? { group, renditions } : null;
}

/** What the viewer is told in each state; empty while all is well. */
export function stateText(state: PlayerState, name: string, detail: string | null, address: string): string {
  switch (state) {
    case "connecting":
    case "buffering":
      return "Connecting…";
    case "waiting":
      return `Waiting for ${name} to start. There is no stream of this name now; it is shown here as soon as it begins.`;
    case "stalled":
      return "No data is coming. Waiting…";
    case "reconnecting":
      return detail ? `Reconnecting… (${detail})` : "Reconnecting…";
    case "refused":
      return detail ?? "You are not let in. Ask for a link.";
    case "unsupported":
      return `${detail ?? "This browser cannot play the stream."} Open it in VLC or another player: ${address}`;
    case "playing":
    case "paused":
      return "";
  }
}

const ENGINES: Record<string, string> = {
  mse: "Media Source Extensions", webcodecs: "WebCodecs", hls: "hls.js", dash: "dash.js", "native-hls": "the browser's own HLS",
};

function showHint(hint: HTMLElement, text: string): void {
  setText(hint, text);
  hint.hidden = false;
  window.setTimeout(() => (hint.hidden = true), HINT_MS);
}

function showDelay(output: HTMLButtonElement, stats: PlayerStats): void {
  if (stats.delayMs) {
    setText(output, `Delay ${delayed(stats.delayMs.p50)}`);
    output.classList.remove("partial");
    output.title = `Glass to glass: from capture to this screen, ${DELAY_SOURCES[stats.delayMs.source]} (median of the last second). Opens where the milliseconds go (d)`;
  } else if (stats.state === "playing" && stats.behindLiveMs !== null) {
    const isSegmented = stats.targetMs !== null;
    setText(output, `${isSegmented ? "Behind live" : "Player adds"} ${Math.round(stats.behindLiveMs)} ms`);
    output.classList.add("partial");
    output.title = isSegmented
      ? "Nothing says when the picture was captured. This is the distance from the newest of the playlist, as the library reckons it"
      : "Nothing says when the picture was captured. This is only what this page adds: buffering and decoding since the data arrived";
  } else {
    setText(output, "");
    output.title = "";
  }
}

function fillInfo(list: HTMLElement, engine: string, stats: PlayerStats, serverAge: string): void {
  const { delayMs: delay } = stats;
  const rows: [string, string][] = [
    ["Engine", ENGINES[engine] ?? "none"],
    ["Picture", stats.width ? `${stats.width}×${stats.height}` : "–"],
    ["Glass to glass", delay ? `${milliseconds(delay.last)} · p50 ${milliseconds(delay.p50)} · p95 ${milliseconds(delay.p95)}` : "no capture time in the stream"],
    stats.targetMs === null
      ? ["Added by this page", milliseconds(stats.behindLiveMs)]
      : ["Behind live", `${milliseconds(stats.behindLiveMs)} of ${milliseconds(stats.targetMs)} wanted`],
    ["Speed", `${stats.playbackRate.toFixed(2)}×`],
    ["Stalls", String(stats.stalls)],
    ["Buffer", milliseconds(stats.bufferMs)],
    ["First picture after", firstPicture(stats)],
    ["Pictures", `${stats.framesShown} shown · ${stats.framesDecoded} decoded · ${stats.framesDropped} left out`],
    ["Sound", stats.audio],
    ["Received", bytes(stats.bytes)],
    ["Continuity errors", String(stats.continuityErrors)],
    ["Reconnects", stats.reconnectReason === null ? String(stats.reconnects) : `${stats.reconnects} (${stats.reconnectReason})`],
    ["Newest byte at server", serverAge === "–" ? "–" : `${serverAge} ago`],
    ["Clock uncertainty", stats.clockRoundTripMs === null ? "–" : `± ${(stats.clockRoundTripMs / 2).toFixed(1)} ms`],
  ];
  list.replaceChildren(...rows.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]));
}

/** When the first picture came, and where it was not right yet, when it was. */
function firstPicture({ timeToFirstFrameMs: first, timeToRightFrameMs: right }: PlayerStats): string {
  const later = right !== null && first !== null && right - first > 1;
  return later ? `${milliseconds(first)} · right after ${milliseconds(right)}` : milliseconds(first);
}

function popOut(name: string, choice: Choice, stats: PlayerStats): void {
  const width = 640;
  const height = stats.width > 0 ? Math.round((width * stats.height) / stats.width) : 360;
  const query = searchOf(["?popout=1", access(location.search)].filter(Boolean).join("&"), choice);
  window.open(watchPath(name) + query, `glassline-${name}`, `popup,width=${width},height=${height}`);
}

/** What is said of a stream that no page can play. */
export function carriedText(name: string, mux: string): string {
  return `${name} comes as ${mux}. The server hands it on as it is, and this page plays MPEG-TS alone: open it in VLC or ffplay with a line from below.`;
}

function addresses(name: string, mux: Mux): HTMLElement {
  const plain = location.origin + livePath(name, location.search, mux);
  const playlist = (way: "hls" | "dash", label: string): HTMLElement =>
    copyLine(label, location.origin + playlistPath(name, location.search, way));
  // For a shell an ampersand is more than a letter.
  const url = plain.includes("&") ? `'${plain}'` : plain;
  return element(
    "section", { class: "addresses" },
    element("h2", {}, "Open in another player"),
    copyLine("VLC", `vlc --network-caching=200 ${url}`),
    copyLine("mpv", `mpv --profile=low-latency --untimed ${url}`),
    copyLine("ffplay", `ffplay -fflags nobuffer -flags low_delay -framedrop ${url}`),
    copyLine("Address", plain),
    ...(mux === "ts" ? [playlist("hls", "LL-HLS"), playlist("dash", "LL-DASH")] : []),
  );
}

