/** A stream's player: bytes → units → an engine, and the state that the page shows. */
import { ServerClock } from "../clock";
import { Feed } from "../media/feed";
import type { Track } from "../media/ts";
import { StageLedger } from "../stages/ledger";
import { DelayMeter } from "./delay";
import type { Engine, EngineContext, EngineStats } from "./engine";
import { browserName, lackWords } from "./lack";
import { MseEngine } from "./mse";
import type { PlayerEvents, PlayerState, PlayerStats, Playing } from "./playing";
import { LiveEdge } from "./policy";
import { RateMeter } from "./rate";
import { Source, type SourceState } from "./source";
import { Splice } from "./splice";
import { playsByPlaylist } from "./way";
import { WebCodecsEngine } from "./webcodecs";

export type EngineName = Engine["name"];

/** How long a change to another rendition waits for a key frame that fits. */
const CHANGE_PATIENCE_MS = 8000;

/** A change to another rendition under way. */
interface Change {
  source: Source;
  splice: Splice;
  timer: number;
}

export class Player implements Playing {
  /** There is nothing to go back to: bytes come once. */
  readonly timeline = null;
  readonly clock = new ServerClock();
  private readonly edge = new LiveEdge();
  readonly stages = new StageLedger();
  private readonly delay = new DelayMeter();
  private feed: Feed;
  private source: Source;
  private change: Change | null = null;
  private bytesBefore = 0;
  private current: Engine | null = null;
  private knownTracks: readonly Track[] = [];
  private state: PlayerState = "connecting";
  private detail: string | null = null;
  private startedMs = 0;
  private firstFrameMs: number | null = null;
  private rightFrameMs: number | null = null;
  private settlingFrames = 0;
  private shownSinceConnect = false;
  private connections = 0;
  private reconnectReason: string | null = null;
  private stalls = 0;
  private readonly rate = new RateMeter();
  private muted = true;
  private volume = 1;
  private failed: EngineName[] = [];
  /** Engines and the sound that they cannot play here, as far as it has come. */
  private readonly deafTo = new Set<string>();
  private isSoundAlone = false;

  /** `search` is the query whose token lets the viewer in: the page's own, or where a page has several streams, that of this one. */
  constructor(
    name: string, private readonly wanted: EngineName | null, private readonly events: PlayerEvents,
    private readonly search: string = location.search,
  ) {
    this.feed = this.openFeed();
    this.source = this.openSource(name, () => this.feed);
  }

  private openFeed(): Feed {
    return new Feed({
      tracks: (tracks) => {
        this.knownTracks = tracks;
        const wasAlone = this.isSoundAlone;
        this.isSoundAlone = isSoundAlone(tracks);
        this.current?.tracks(tracks, this.isSoundAlone);
        this.events.tracks(tracks);
        if (this.isSoundAlone !== wasAlone) this.events.soundAlone(this.isSoundAlone);
        this.judge(tracks);
      },
      videoConfig: (config) => this.current?.videoConfig(config),
      video: (unit) => {
        if (unit.reset) this.edge.reset();
        this.edge.observe(performance.now(), unit.dtsUs / 1000);
        this.current?.video(unit);
      },
      audio: (unit) => {
        // Beside pictures sound says nothing of the edge: it may be sent earlier or later than they are.
        if (this.isSoundAlone) {
          if (unit.reset) this.edge.reset();
          this.edge.observe(performance.now(), unit.ptsUs / 1000);
        }
        this.current?.audio(unit);
      },
    }, (track) => !this.deafTo.has(`${this.engine} ${track.codec}`));
  }

  /** A source whose bytes go into the feed that is its own by then. */
  private openSource(name: string, feed: () => Feed): Source {
    const source: Source = new Source(name, {
      connected: (reason) => {
        if (this.source === source) this.connected(reason);
        else feed().restart();
      },
      chunk: (bytes, nowMs) => {
        feed().push(bytes, nowMs);
        this.current?.endOfChunk();
      },
      state: (state, detail) => {
        if (this.source === source) this.sourceState(state, detail);
        else if (this.change?.source === source && (state === "absent" || detail !== null)) {
          this.giveUpChange(detail ?? `${name} is not live`);
        }
      },
    }, this.search);
    return source;
  }

  /** The stream that is played. */
  get name(): string {
    return this.source.name;
  }

  /** Plays another rendition of the same capture: this one goes on until a key frame that both have. */
  switchTo(name: string): void {
    if (this.change?.source.name === name || !this.current) return;
    this.dropChange();
    if (name === this.source.name) return;
    const feed = this.openFeed();
    const source = this.openSource(name, () => feed);
    const change: Change = {
      source,
      splice: new Splice(this.feed, feed, () => performance.now(), () => this.changed(source, feed)),
      // No key frame fits: the streams have nothing in common but their names, or their group is a long one.
      timer: window.setTimeout(() => {
        change.splice.cancel();
        const old = this.feed;
        this.changed(source, feed);
        feed.replace(old);
        source.rejoin("another version was chosen");
      }, CHANGE_PATIENCE_MS),
    };
    this.change = change;
    source.start();
  }

  private changed(source: Source, feed: Feed): void {
    window.clearTimeout(this.change?.timer);
    this.change = null;
    this.bytesBefore += this.source.bytes;
    this.source.stop();
    this.source = source;
    this.feed = feed;
    this.stages.restart();
    this.events.rendition(source.name, null);
  }

  private giveUpChange(why: string): void {
    this.dropChange();
    this.events.rendition(this.source.name, why);
  }

  private dropChange(): void {
    if (!this.change) return;
    window.clearTimeout(this.change.timer);
    this.change.splice.cancel();
    this.change.source.stop();
    this.change = null;
  }

  get engine(): EngineName | "none" {
    return this.current?.name ?? "none";
  }

  start(): void {
    this.startedMs = performance.now();
    this.clock.start();
    if (this.chooseEngine("")) this.source.start();
  }

  stop(): void {
    this.dropChange();
    this.source.stop();
    this.clock.stop();
    this.current?.close();
  }

  /** Call from a click when sound is switched on. */
  sound(muted: boolean, volume: number): void {
    this.muted = muted;
    this.volume = volume;
    this.current?.sound(muted, volume);
  }

  resume(): void {
    this.current?.resume();
  }

  stats(): PlayerStats {
    const bytes = this.bytesBefore + this.source.bytes;
    const none: EngineStats = {
      framesShown: 0, framesDecoded: 0, framesDropped: 0, behindLiveMs: null, bufferMs: null, width: 0, height: 0,
      audio: "none", soundMs: 0, soundLevel: null,
    };
    return {
      state: this.state,
      soundAlone: this.isSoundAlone,
      ...(this.current?.stats() ?? none),
      delayMs: this.delay.summary(performance.now()),
      timeToFirstFrameMs: this.firstFrameMs,
      timeToRightFrameMs: this.rightFrameMs,
      settlingFrames: this.settlingFrames,
      bytes,
      continuityErrors: this.feed.demuxer.continuityErrors,
      reconnects: Math.max(0, this.connections - 1),
      reconnectReason: this.reconnectReason,
      clockRoundTripMs: this.clock.offset?.roundTripMs ?? null,
      stalls: this.stalls,
      bitrateBps: this.rate.look(performance.now(), bytes),
      targetMs: null,
      playbackRate: 1,
    };
  }

  private chooseEngine(reason: string): boolean {
    const context: EngineContext = {
      edge: this.edge,
      delay: this.delay,
      clock: this.clock,
      stages: this.stages,
      shown: (settlingFrames) => this.shown(settlingFrames),
      rejoin: (reason) => this.source.rejoin(reason),
      unsupported: (why) => this.replaceEngine(why),
      deaf: ({ codec }) => {
        this.deafTo.add(`${this.engine} ${codec}`);
        this.feed.chooseAgain();
      },
      needsGesture: () => this.events.needsGesture(),
    };
    if (this.usable("webcodecs")) this.current = new WebCodecsEngine(context);
    else if (this.usable("mse")) this.current = new MseEngine(context);
    else {
      this.current = null;
      const lacking = this.wanted === null ? "has neither WebCodecs nor Media Source Extensions" : "cannot be used for this way to watch";
      this.setState("unsupported", reason || `${browserName(navigator.userAgent)} ${lacking}.`);
      return false;
    }
    this.current.sound(this.muted, this.volume);
    this.current.tracks(this.knownTracks, this.isSoundAlone);
    this.events.engine(this.current.element);
    return true;
  }

  private usable(name: EngineName): boolean {
    if (this.failed.includes(name) || (this.wanted ?? name) !== name) return false;
    return name === "webcodecs" ? WebCodecsEngine.available() : MseEngine.available();
  }

  private replaceEngine(why: string): void {
    if (!this.current) return;
    this.failed.push(this.current.name);
    this.current.close();
    this.current = null;
    if (this.chooseEngine(why)) this.source.rejoin(why);
    else this.source.stop();
  }

  /** Says so where there is nothing that a browser could show; a later table may bring it. */
  private judge(tracks: readonly Track[]): void {
    if (!this.current) return;
    const isPlayable = this.isSoundAlone || tracks.some((t) => t.codec === "h264" || t.codec === "av1");
    if (isPlayable) {
      if (this.state === "unsupported") this.setState("buffering", null);
      return;
    }
    // Pictures that are played by their playlist are lacking here, and not in the browser.
    const byPlaylist = playsByPlaylist(tracks, (type) => MseEngine.decodes(type));
    const why = lackWords(tracks, byPlaylist ? "Glassline's own player" : browserName(navigator.userAgent)) + (byPlaylist ? " LL-HLS plays them." : "");
    // Video elements play sound that WebCodecs do not decode.
    const isSound = tracks.some((t) => t.kind === "audio") && !tracks.some((t) => t.kind === "video");
    if (isSound && this.engine === "webcodecs" && this.usable("mse")) queueMicrotask(() => this.replaceEngine(why));
    else this.setState("unsupported", why);
  }

  private connected(reason: string | null): void {
    // Where it stood when a change began is of no more use.
    if (this.change) this.giveUpChange("the connection was lost");
    this.connections += 1;
    this.reconnectReason = reason;
    this.shownSinceConnect = false;
    this.deafTo.clear();
    this.feed.restart();
    this.edge.reset();
    this.stages.restart();
    this.current?.restart();
    this.setState("buffering", null);
  }

  private shown(settlingFrames: number): void {
    this.firstFrameMs ??= performance.now() - this.startedMs;
    if (settlingFrames === 0) this.rightFrameMs ??= performance.now() - this.startedMs;
    this.settlingFrames = settlingFrames;
    this.shownSinceConnect = true;
    if (this.state === "buffering") this.setState("playing", null);
  }

  private sourceState(state: SourceState, detail: string | null): void {
    if (this.state === "unsupported") return;
    if (state === "reading") {
      if (this.state !== "playing") this.setState(this.shownSinceConnect ? "playing" : "buffering", null);
    } else if (state === "absent") this.setState("waiting", null);
    else if (state === "quiet") this.setState("stalled", null);
    else if (state === "reconnecting" && (this.state === "waiting" || this.state === "refused") && !detail) return;
    else this.setState(state, detail);
  }

  private setState(state: PlayerState, detail: string | null): void {
    if (state === this.state && detail === this.detail) return;
    if ((state === "stalled" || state === "reconnecting") && this.state === "playing") this.stalls += 1;
    this.state = state;
    this.detail = detail;
    this.events.state(state, detail);
  }
}

/** Whether there is sound that can be played, and no picture to wait for. */
export function isSoundAlone(tracks: readonly Track[]): boolean {
  return !tracks.some((t) => t.kind === "video") && tracks.some((t) => t.kind === "audio" && t.codec !== "unsupported");
}
