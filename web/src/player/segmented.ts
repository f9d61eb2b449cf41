/** A stream's player by its playlists: a library loads and decodes, and this keeps the delay and says how it goes. */
import { ServerClock } from "../clock";
import type { Track } from "../media/ts";
import { StageLedger } from "../stages/ledger";
import { AppendTap } from "./append_tap";
import { BarcodeReader } from "./barcode_reader";
import { CaptureLine } from "./capture_line";
import { DelayMeter } from "./delay";
import { Follower, Patience, jump, standing } from "./follow";
import { codecName, namesPictures } from "./lack";
import type { Library, LibraryEvents, OpenLibrary, Trouble } from "./library";
import { nativeHls, openNative } from "./native_hls";
import type { PlayerEvents, PlayerState, PlayerStats, Playing, Timeline } from "./playing";
import { REFUSED_MS, RunningClock, backOff, refusal } from "./policy";
import { watchPresented } from "./presented";
import { RateMeter } from "./rate";

const STEER_MS = 100;
/** No picture for so long is a stall. */
const STALL_MS = 600;
/** No picture for so long: the library is begun anew. */
const GIVE_UP_MS = 8000;
/** A video that has not moved after this long at its beginning is begun anew too. */
const BEGIN_MS = 15_000;

/** A stall with so much in the buffer is the decoder's: a jump by next to nothing has it begin anew. */
const NUDGE_BUFFER_S = 0.1;
const NUDGE_S = 0.02;
/** A library is beginning for so long. */
const SETTLE_MS = 4000;
/** A look at the element does not come so late: what is more is a jump. */
const MAX_HEARD_STEP_S = 0.5;
/** So often it is looked whether a stream of sound alone has pictures by now. */
const LOOK_EVERY_MS = 3000;
/** How long playing waits for the server's clock, which tells where live is. */
const CLOCK_PATIENCE_MS = 1500;

/** What a server answers for a playlist of a stream of which it packages nothing. */
const NOT_ACCEPTABLE = 406;

export type SegmentedWay = "hls" | "dash";

export interface SegmentedOptions {
  name: string;
  way: SegmentedWay;
  /** Path of a stream's playlist. */
  path(name: string): string;
  /** Wanted distance to the live edge in seconds; null: what the playlist says. */
  delayS: number | null;
  /** What all versions of the stream's capture are called, whose playlist has all of them; null: it is by itself, or not known. */
  ladder(): string | null;
}

export class SegmentedPlayer implements Playing, Timeline {
  readonly timeline: Timeline = this;
  readonly clock = new ServerClock();
  readonly stages = new StageLedger();
  private readonly delay = new DelayMeter();
  private readonly line = new CaptureLine();
  private readonly reader = new BarcodeReader();
  private readonly follower = new Follower();
  private readonly patience = new Patience();
  private readonly rate = new RateMeter();
  private readonly element = document.createElement("div");
  private readonly video = document.createElement("video");
  /** Holds the last picture while the library begins anew. */
  private readonly still = document.createElement("canvas");
  private tap: AppendTap | null = null;
  private library: Library | null = null;
  /** Whose playlist is played: the stream's, or its ladder's. */
  private opened: string;
  private open: OpenLibrary | null = null;
  private native = false;
  private timers: number[] = [];
  /** The next look at the playlist. */
  private retry = 0;
  private stopped = false;
  private state: PlayerState = "connecting";
  private detail: string | null = null;
  private following = true;
  private wantsPause = false;
  private muted = true;
  private audio = "";
  /** What is played has sound and no picture, as far as the element says; null before it does. */
  private isSoundAlone: boolean | null = null;
  private readonly soundLine = new CaptureLine();
  /** When it was looked last whether pictures have come. */
  private lookedMs = 0;
  /** Where playback was at the last look, in seconds. */
  private heardS = 0;
  private soundMs = 0;
  private tries = 0;
  private reconnects = 0;
  private reconnectReason: string | null = null;
  private stalls = 0;
  /** What has not come is judged by it. */
  private readonly running = new RunningClock(STEER_MS);
  private startedMs = 0;
  /** On the running clock, as is the next. */
  private openedMs = 0;
  private firstFrameMs: number | null = null;
  private lastPictureMs: number | null = null;
  private shownSinceOpen = false;
  private presented = 0;
  private before = { decoded: 0, dropped: 0 };
  /** Of this library's dropped pictures those that it left out while it went to where it begins: they are not missed. */
  private notMissed = 0;
  private received: number | null = null;

  constructor(private readonly options: SegmentedOptions, private readonly events: PlayerEvents) {
    const { video } = this;
    this.opened = options.name;
    this.element.className = "stack";
    this.still.className = video.className = "picture";
    this.element.append(this.still, video);
    video.muted = true;
    video.playsInline = true;
    video.disableRemotePlayback = true;
    this.watchPictures();
  }

  get name(): string {
    return this.options.name;
  }

  get engine(): string {
    return this.native ? "native-hls" : this.options.way;
  }

  start(): void {
    this.startedMs = performance.now();
    this.clock.start();
    this.events.engine(this.element);
    this.timers.push(window.setInterval(() => this.steer(), STEER_MS));
    void this.load();
  }

  stop(): void {
    this.stopped = true;
    this.clock.stop();
    for (const timer of this.timers) window.clearInterval(timer);
    this.closeLibrary();
    this.tap?.close();
  }

  sound(muted: boolean, volume: number): void {
    this.muted = muted;
    this.video.volume = volume;
    this.video.muted = muted;
  }

  resume(): void {
    this.wantsPause = false;
    void this.play();
  }

  switchTo(name: string): void {
    if (name === this.options.name) return;
    this.options.name = name;
    const ladder = this.options.ladder();
    const goesOn = ladder !== null && this.opened === ladder && this.library !== null;
    this.opened = ladder ?? name;
    this.events.rendition(name, null);
    if (goesOn) {
      this.library?.choose(this.version);
      return;
    }
    this.following = true;
    if (this.state === "unsupported") this.setState("buffering", null);
    this.reopen(0);
  }

  /** The version of a ladder that is wanted; null: whichever the line carries. */
  private get version(): string | null {
    return this.opened === this.options.name ? null : this.options.name;
  }

  // The time line.

  get paused(): boolean {
    return this.wantsPause;
  }

  get live(): boolean {
    return this.following;
  }

  standing(): ReturnType<Timeline["standing"]> {
    const window = this.library?.window();
    return window ? standing(window, this.video.currentTime) : null;
  }

  pause(paused: boolean): void {
    this.wantsPause = paused;
    if (paused) {
      this.following = false;
      this.video.pause();
    } else void this.play();
    this.steer();
  }

  seekTo(position: number): void {
    const [window, now] = [this.library?.window(), this.standing()];
    if (!window || !now) return;
    const to = jump(now, position - now.position);
    if (to === null) this.goLive();
    else {
      this.following = false;
      this.library?.seek(window.live + to);
      this.video.playbackRate = 1;
    }
  }

  goLive(): void {
    this.following = true;
    this.wantsPause = false;
    this.follower.restart();
    this.library?.goLive();
    void this.play();
  }

  stats(): PlayerStats {
    const nowMs = performance.now();
    const quality = this.video.getVideoPlaybackQuality();
    const latency = this.library?.latency() ?? null;
    const target = this.library?.target() ?? null;
    const measured = this.received === null ? null : this.rate.look(nowMs, this.received);
    return {
      state: this.state,
      framesShown: this.presented,
      framesDecoded: this.before.decoded + quality.totalVideoFrames,
      framesDropped: this.before.dropped + Math.max(0, quality.droppedVideoFrames - this.notMissed),
      delayMs: this.delay.summary(nowMs),
      timeToFirstFrameMs: this.firstFrameMs,
      timeToRightFrameMs: this.firstFrameMs,
      settlingFrames: 0,
      behindLiveMs: latency === null ? null : latency * 1000,
      bufferMs: this.bufferS() * 1000,
      width: this.video.videoWidth,
      height: this.video.videoHeight,
      audio: this.audio === "" ? "none" : `${soundName(this.audio)}, ${this.muted ? "muted" : "on"}`,
      soundAlone: this.isSoundAlone === true,
      soundMs: this.soundMs,
      soundLevel: null,
      bytes: this.received ?? 0,
      continuityErrors: 0,
      reconnects: this.reconnects,
      reconnectReason: this.reconnectReason,
      clockRoundTripMs: this.clock.offset?.roundTripMs ?? null,
      stalls: this.stalls,
      // Away from live, what arrives fills the buffer as fast as it can.
      bitrateBps: (this.following ? measured : null) ?? this.library?.quality()?.bitrateBps ?? measured,
      targetMs: target === null ? null : (target + this.patience.extraS) * 1000,
      playbackRate: this.video.playbackRate,
    };
  }

  /** Fetches the library, once. */
  private async load(): Promise<void> {
    if (!("SourceBuffer" in window) && !(this.options.way === "hls" && nativeHls())) {
      this.setState("unsupported", "This browser has no Media Source Extensions, which this way to watch needs.");
      return;
    }
    try {
      this.open = await opener(this.options.way);
      this.native = this.open === openNative;
      if (this.stopped) return;
      if (!this.native) this.tap = new AppendTap(this.video, this.line, this.soundLine, this.stages);
      await this.clock.known(CLOCK_PATIENCE_MS);
      this.openLibrary();
    } catch {
      // The page is there and a part of it is not: the server has gone, or is another version by now.
      this.setState("reconnecting", "the player's library could not be loaded");
      this.later(() => void this.load());
    }
  }

  private openLibrary(): void {
    if (this.stopped || !this.open) return;
    this.closeLibrary();
    this.openedMs = this.running.at(performance.now());
    this.shownSinceOpen = false;
    this.lastPictureMs = null;
    const events: LibraryEvents = {
      trouble: (kind, detail) => {
        if (this.library === library) this.trouble(kind, detail);
      },
      sound: (codecs) => this.soundIs(codecs),
      needsGesture: () => this.events.needsGesture(),
    };
    const url = new URL(this.options.path(this.opened), location.href).href;
    const wish = { delayS: this.options.delayS, version: this.version, clockOffsetMs: () => this.clockOffsetMs() };
    const library: Library = this.open(this.video, url, wish, events);
    this.library = library;
    if (!library.playsItself) void this.play();
  }

  private closeLibrary(): void {
    if (!this.library) return;
    const quality = this.video.getVideoPlaybackQuality();
    this.before.decoded += quality.totalVideoFrames;
    this.before.dropped += Math.max(0, quality.droppedVideoFrames - this.notMissed);
    const { videoWidth: width, videoHeight: height } = this.video;
    if (width > 0) {
      this.still.width = width;
      this.still.height = height;
      this.still.getContext("2d")?.drawImage(this.video, 0, 0, width, height);
    }
    const { library } = this;
    this.library = null;
    library.close();
    this.video.pause();
    this.line.clear();
    this.soundLine.clear();
    this.stages.restart();
    this.follower.restart();
  }

  private trouble(kind: Trouble, detail: string | null): void {
    if (kind === "unsupported") {
      this.closeLibrary();
      this.setState("unsupported", detail);
      return;
    }
    if (kind === "unplayable") {
      // A publisher may come back with what can be played.
      this.setState("unsupported", detail);
      this.reopen(REFUSED_MS);
      return;
    }
    if (this.shownSinceOpen) {
      this.reconnects += 1;
      this.reconnectReason = detail ?? (kind === "absent" ? "the playlist was not there" : "the connection was lost");
    }
    this.setState(kind === "absent" ? "waiting" : "reconnecting", detail);
    this.reopen(backOff((this.tries += 1)));
  }

  private reopen(waitMs: number): void {
    this.closeLibrary();
    // One try at a time: another version may be asked for while the next try is far off.
    window.clearTimeout(this.retry);
    this.retry = this.later(() => void this.probe(), waitMs);
  }

  /** Opens the playlist as soon as there is one: a library would write into the console for each try. */
  private async probe(): Promise<void> {
    if (this.stopped || this.library) return;
    try {
      const response = await fetch(this.options.path(this.opened), { cache: "no-store" });
      void response.body?.cancel();
      if (this.stopped || this.library) return;
      if (response.ok) {
        this.openLibrary();
        return;
      }
      const refused = refusal(response.status);
      if (refused !== null) {
        this.setState("refused", refused);
        this.reopen(REFUSED_MS);
        return;
      }
      if (response.status === NOT_ACCEPTABLE) {
        // The server carries it and packages nothing of it: what comes later may be something else.
        this.setState("unsupported", "Nothing of this stream can be played by a playlist.");
        this.reopen(REFUSED_MS);
        return;
      }
      if (response.status === 404) this.setState("waiting", null);
      else this.setState("reconnecting", `the server answered ${response.status}`);
    } catch {
      this.setState("reconnecting", null);
    }
    this.reopen(backOff((this.tries += 1)));
  }

  private later(work: () => void, waitMs = 1000): number {
    const timer = window.setTimeout(() => !this.stopped && work(), waitMs);
    this.timers.push(timer);
    return timer;
  }

  private async play(): Promise<void> {
    if (this.wantsPause) return;
    try {
      await this.video.play();
    } catch (error) {
      if (error instanceof DOMException && error.name === "NotAllowedError") this.events.needsGesture();
    }
  }

  private clockOffsetMs(): number | null {
    const serverUs = this.clock.nowUs(performance.now());
    return serverUs === null ? null : serverUs / 1000 - (performance.timeOrigin + performance.now());
  }

  private soundIs(codecs: string): void {
    this.audio = codecs;
    const tracks = codecs === "" ? [] : [{ kind: "audio", codec: "opus", name: soundName(codecs) } as Track];
    this.events.tracks(tracks);
  }

  private bufferS(): number {
    const { buffered, currentTime } = this.video;
    for (let i = 0; i < buffered.length; i++) {
      if (buffered.start(i) <= currentTime + 0.05 && buffered.end(i) > currentTime) return buffered.end(i) - currentTime;
    }
    return 0;
  }

  /** Looks at playback: its rate, its place in the window, and how it goes. */
  private steer(): void {
    this.running.tick(performance.now());
    this.received = this.tap?.bytes ?? null;
    const { library, video } = this;
    if (!library) return;
    const nowMs = performance.now();
    const runMs = this.running.at(nowMs);
    this.listen(nowMs);
    if (runMs - this.openedMs < SETTLE_MS) this.notMissed = video.getVideoPlaybackQuality().droppedVideoFrames;
    if (document.hidden) {
      // Nobody is shown pictures there, and none is missed.
      if (this.lastPictureMs !== null) this.lastPictureMs = runMs;
      return;
    }
    this.judge(nowMs, runMs);
    const window = this.library?.window();
    if (!window || this.wantsPause || video.seeking) return;
    if (!this.following) {
      if (video.currentTime < window.start) library.seek(window.start + 1);
      return;
    }
    const [behindS, targetS] = [library.latency(), library.target()];
    // Safari keeps its distance itself.
    if (behindS === null || targetS === null || !this.shownSinceOpen) return;
    const order = this.follower.steer({ nowMs, behindS, targetS: targetS + this.patience.relax(nowMs), bufferS: this.bufferS() });
    if ("rate" in order) {
      if (video.playbackRate !== order.rate) video.playbackRate = order.rate;
    } else if (order.jumpS < this.bufferS()) video.currentTime += order.jumpS;
    else library.goLive();
  }

  private judge(nowMs: number, runMs: number): void {
    if (this.wantsPause) {
      this.lastPictureMs = runMs;
      this.setState("paused", null);
      return;
    }
    if (this.lastPictureMs === null) {
      // What cannot be played is tried again in silence: its words stay until there is a picture.
      if (this.state !== "reconnecting" && this.state !== "unsupported") this.setState("buffering", null);
      if (runMs - this.openedMs > BEGIN_MS) this.trouble("lost", `no picture for ${BEGIN_MS / 1000} seconds`);
      return;
    }
    const silenceMs = runMs - this.lastPictureMs;
    if (silenceMs > GIVE_UP_MS) this.trouble("lost", `no picture for ${GIVE_UP_MS / 1000} seconds`);
    else if (silenceMs > STALL_MS && !this.video.seeking) {
      if (this.state === "playing") {
        // While it begins, buffers are still filling: that says nothing of the network.
        if (runMs - this.openedMs > SETTLE_MS) this.patience.stalled(nowMs);
        // The sound may go on over a hole in the pictures, and the decoder does not find its way behind it alone.
        // Sound alone has no such hole, and a jump only holds it up further.
        if (this.bufferS() > NUDGE_BUFFER_S && this.isSoundAlone !== true) this.video.currentTime += NUDGE_S;
      }
      this.setState("stalled", null);
    } else if (silenceMs <= STALL_MS) this.setState("playing", null);
  }

  /** Sound alone brings no picture that could be watched: its time goes on. */
  private listen(nowMs: number): void {
    const { readyState, videoWidth, currentTime } = this.video;
    if (readyState < HTMLMediaElement.HAVE_CURRENT_DATA) return;
    const isAlone = videoWidth === 0;
    if (isAlone !== (this.isSoundAlone ?? false)) this.events.soundAlone(isAlone);
    this.isSoundAlone = isAlone;
    const stepS = currentTime - this.heardS;
    this.heardS = currentTime;
    if (isAlone && nowMs - this.lookedMs > LOOK_EVERY_MS && this.library?.offersPictures() === false) {
      this.lookedMs = nowMs;
      void this.lookForPictures(this.library);
    }
    if (!isAlone || stepS <= 0) return;
    if (stepS < MAX_HEARD_STEP_S) this.soundMs += stepS * 1000;
    this.began(nowMs);
    const serverUs = this.clock.nowUs(nowMs);
    const cameUs = this.soundLine.at(currentTime) ?? this.library?.captureUs(currentTime) ?? null;
    if (serverUs !== null && cameUs !== null) this.delay.shown(nowMs, serverUs, cameUs, "playlist");
  }

  /** What is opened has none, and no library looks for more by itself. */
  private async lookForPictures(library: Library): Promise<void> {
    try {
      const response = await fetch(this.options.path(this.opened), { cache: "no-store" });
      const has = response.ok && namesPictures(await response.text());
      if (has && this.library === library && !this.stopped) this.reopen(0);
    } catch {
      // It is looked for again.
    }
  }

  /** Something of this opening was shown or heard. */
  private began(nowMs: number): void {
    this.firstFrameMs ??= nowMs - this.startedMs;
    this.lastPictureMs = this.running.at(nowMs);
    this.shownSinceOpen = true;
    this.tries = 0;
  }

  private watchPictures(): void {
    watchPresented(this.video, () => this.stopped, (mediaS, presented, shownMs) => {
      this.presented += presented;
      this.picture(mediaS, shownMs);
    });
  }

  private picture(mediaS: number, shownMs: number): void {
    if (!this.library) return;
    const nowMs = performance.now();
    this.began(nowMs);
    this.stages.shown(this.line.numberAt(mediaS) ?? -1, NaN, shownMs);
    const serverUs = this.clock.nowUs(shownMs);
    if (serverUs === null) return;
    const told = this.line.at(mediaS);
    if (told !== null) {
      this.delay.shown(nowMs, serverUs, told, "stream");
      return;
    }
    const { videoWidth: width, videoHeight: height } = this.video;
    const barcode = this.reader.fromImage(this.video, width, height);
    const captureUs = barcode?.captureUs ?? this.library.captureUs(mediaS);
    if (captureUs === null) return;
    this.delay.shown(nowMs, serverUs, captureUs, barcode ? "picture" : "playlist");
    // When it came is not known: all of its way is one part.
    this.stages.shown(this.stages.arrived(captureUs, null, NaN, shownMs), NaN, shownMs);
  }

  private setState(state: PlayerState, detail: string | null): void {
    if (state === this.state && detail === this.detail) return;
    if ((state === "stalled" || state === "reconnecting") && this.state === "playing") this.stalls += 1;
    this.state = state;
    this.detail = detail;
    this.events.state(state, detail);
  }
}

/** The library for this way here: the browser's own HLS where nothing can be appended. */
async function opener(way: SegmentedWay): Promise<OpenLibrary> {
  const canAppend = "MediaSource" in window || "ManagedMediaSource" in window;
  if (way === "hls" && !canAppend && nativeHls()) return openNative;
  return way === "hls" ? (await import("./hls")).openHls : (await import("./dash")).openDash;
}

/** What people call the sound with this codec string. */
export function soundName(codecs: string): string {
  const [, codec] = /(opus|mp4a[.\w]*|mp3|ac-3|ec-3)/i.exec(codecs) ?? [];
  return codec ? codecName(codec) : "Sound";
}
