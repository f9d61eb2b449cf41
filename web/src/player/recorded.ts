/** The player of what was recorded: a list that one moves in, with no live edge to keep to. */
import { ServerClock } from "../clock";
import type { Track } from "../media/ts";
import { StageLedger } from "../stages/ledger";
import { type Standing, standing } from "./follow";
import { nativeHls } from "./native_hls";
import type { PlayerEvents, PlayerState, PlayerStats, Playing, Timeline } from "./playing";
import { REFUSED_MS, backOff, refusal } from "./policy";
import { watchPresented } from "./presented";
import type { RecordedLibrary } from "./recorded_hls";
import { soundName } from "./segmented";

const LOOK_MS = 200;
/** No picture for so long is a stall. */
const STALL_MS = 600;
/** Nearer to the end of a list that does not grow, it is over. */
const END_S = 0.3;

export interface RecordedOptions {
  name: string;
  /** Address of the playlist. */
  path: string;
  /** The viewer wants what is live. */
  live(): void;
}

export class RecordedPlayer implements Playing, Timeline {
  readonly timeline: Timeline = this;
  readonly clock = new ServerClock();
  readonly stages = new StageLedger();
  /** One is never at the live edge here: the button leads to it. */
  readonly live = false;
  private readonly element = document.createElement("div");
  private readonly video = document.createElement("video");
  private library: RecordedLibrary | null = null;
  private timer = 0;
  private stopped = false;
  private wantsPause = false;
  private state: PlayerState = "connecting";
  private detail: string | null = null;
  private audio = "";
  private muted = true;
  private tries = 0;
  private reconnects = 0;
  private stalls = 0;
  private startedMs = 0;
  private firstFrameMs: number | null = null;
  private pictureMs: number | null = null;
  /** When the picture was captured that was shown last, before it was opened anew. */
  private leftMs: number | null = null;
  private presented = 0;

  constructor(private readonly options: RecordedOptions, private readonly events: PlayerEvents) {
    this.element.className = "stack";
    this.video.className = "picture";
    this.video.muted = true;
    this.video.playsInline = true;
    this.element.append(this.video);
    watchPresented(this.video, () => this.stopped, (_mediaS, presented) => this.shown(presented));
  }

  get name(): string {
    return this.options.name;
  }

  get engine(): string {
    return "recorded";
  }

  start(): void {
    this.startedMs = performance.now();
    this.events.engine(this.element);
    this.timer = window.setInterval(() => this.look(), LOOK_MS);
    void this.open();
  }

  stop(): void {
    this.stopped = true;
    window.clearInterval(this.timer);
    this.library?.close();
    this.video.removeAttribute("src");
    this.video.load();
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

  /** A recording has one version. */
  switchTo(): void {}

  get paused(): boolean {
    return this.wantsPause;
  }

  pause(paused: boolean): void {
    this.wantsPause = paused;
    if (paused) this.video.pause();
    else void this.play();
    this.look();
  }

  standing(): Standing | null {
    const range = this.range();
    return range ? standing({ start: range.start, live: range.end }, this.video.currentTime) : null;
  }

  seekTo(position: number): void {
    const range = this.range();
    if (range) this.video.currentTime = Math.min(range.end - END_S, Math.max(range.start, range.end + position));
  }

  goLive(): void {
    this.options.live();
  }

  /** When the picture that is shown was captured, in ms of UTC; null where that is not known. */
  captureMs(): number | null {
    const date = (this.video as { getStartDate?: () => Date }).getStartDate?.().getTime() ?? NaN;
    return this.library?.captureMs(this.video.currentTime) ?? (Number.isFinite(date) ? date + this.video.currentTime * 1000 : null);
  }

  stats(): PlayerStats {
    const quality = this.video.getVideoPlaybackQuality();
    const { buffered, currentTime } = this.video;
    let bufferS = 0;
    for (let i = 0; i < buffered.length; i++) {
      if (buffered.start(i) <= currentTime + 0.05 && buffered.end(i) > currentTime) bufferS = buffered.end(i) - currentTime;
    }
    return {
      state: this.state,
      framesShown: this.presented,
      framesDecoded: quality.totalVideoFrames,
      framesDropped: quality.droppedVideoFrames,
      delayMs: null,
      timeToFirstFrameMs: this.firstFrameMs,
      timeToRightFrameMs: this.firstFrameMs,
      settlingFrames: 0,
      behindLiveMs: null,
      bufferMs: bufferS * 1000,
      width: this.video.videoWidth,
      height: this.video.videoHeight,
      audio: this.audio === "" ? "none" : `${soundName(this.audio)}, ${this.muted ? "muted" : "on"}`,
      soundAlone: false,
      soundMs: 0,
      soundLevel: null,
      bytes: 0,
      continuityErrors: 0,
      reconnects: this.reconnects,
      reconnectReason: null,
      clockRoundTripMs: null,
      stalls: this.stalls,
      bitrateBps: null,
      targetMs: null,
      playbackRate: this.video.playbackRate,
    };
  }

  private async open(): Promise<void> {
    const url = new URL(this.options.path, location.href).href;
    const { openRecorded } = await import("./hls");
    if (this.stopped) return;
    this.library = openRecorded(this.video, url, this.leftMs, {
      failed: (status, detail) => this.failed(status, detail),
      sound: (codecs) => this.soundIs(codecs),
    });
    if (!this.library) {
      if (!nativeHls()) {
        this.setState("unsupported", "This browser has no Media Source Extensions, which recordings need.");
        return;
      }
      this.video.addEventListener("error", () => this.failed(null, "the recording cannot be played"), { once: true });
      this.video.src = url;
      this.soundIs("sound");
    }
    void this.play();
  }

  private failed(status: number | null, detail: string): void {
    // Opened anew, it goes on where it was.
    if (this.pictureMs !== null) this.leftMs = this.captureMs() ?? this.leftMs;
    this.library?.close();
    this.library = null;
    const refused = status === null ? null : refusal(status);
    if (refused !== null) this.setState("refused", refused);
    else if (status === 404 || status === 410) this.setState("unsupported", "Nothing is recorded of that time.");
    else if (status === 400) this.setState("unsupported", "The address asks for no time that can be played.");
    else this.setState("reconnecting", status === null ? detail : `the server answered ${status}`);
    if (status !== 400) {
      this.reconnects += 1;
      const waitMs = refused !== null || status === 404 ? REFUSED_MS : backOff((this.tries += 1));
      window.setTimeout(() => !this.stopped && void this.open(), waitMs);
    }
  }

  private async play(): Promise<void> {
    if (this.wantsPause) return;
    try {
      await this.video.play();
    } catch (error) {
      if (error instanceof DOMException && error.name === "NotAllowedError") this.events.needsGesture();
    }
  }

  private range(): { start: number; end: number } | null {
    const { seekable } = this.video;
    const native = seekable.length > 0 ? { start: seekable.start(0), end: seekable.end(seekable.length - 1) } : null;
    return this.library ? this.library.range() : native;
  }

  private soundIs(codecs: string): void {
    this.audio = codecs;
    this.events.tracks(codecs === "" ? [] : [{ kind: "audio", codec: "opus", name: soundName(codecs) } as Track]);
  }

  private shown(presented: number): void {
    this.presented += presented;
    this.pictureMs = performance.now();
    this.firstFrameMs ??= this.pictureMs - this.startedMs;
    this.tries = 0;
  }

  /** Says how it goes. */
  private look(): void {
    if (this.stopped || this.state === "refused" || this.state === "unsupported" || this.state === "reconnecting") {
      if (!this.library || this.pictureMs === null || performance.now() - this.pictureMs > LOOK_MS) return;
    }
    const range = this.library?.range() ?? null;
    const isOver = this.video.ended || (range !== null && !this.library!.grows() && this.video.currentTime > range.end - END_S);
    if (this.wantsPause || isOver) this.setState("paused", null);
    else if (this.pictureMs === null) this.setState("buffering", null);
    else if (performance.now() - this.pictureMs > STALL_MS && !this.video.seeking) this.setState("stalled", null);
    else this.setState("playing", null);
  }

  private setState(state: PlayerState, detail: string | null): void {
    if (state === this.state && detail === this.detail) return;
    if (state === "stalled" && this.state === "playing") this.stalls += 1;
    this.state = state;
    this.detail = detail;
    this.events.state(state, detail);
  }
}
