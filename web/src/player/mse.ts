/** Engine for plain HTTP and browsers without WebCodecs: fragments of MP4 into a video element, held near the edge. */
import type { AudioConfig } from "../media/audio";
import type { AudioUnit, VideoConfig, VideoUnit } from "../media/feed";
import {
  RAW_MP3, type Sample, VIDEO_TIMESCALE, audioInit, audioMimes, fragment, toLengthPrefixed, videoInit, videoMime,
} from "../media/mp4";
import { concat } from "../media/bits";
import type { Track } from "../media/ts";
import { AppendQueue } from "./append_queue";
import { BarcodeReader } from "./barcode_reader";
import type { Engine, EngineContext, EngineStats } from "./engine";
import { browserName, pictureLack } from "./lack";
import { PictureNotes } from "./notes";
import { EdgeControl, PictureDuration, isTooFar, trimPoint } from "./policy";
import { watchPresented } from "./presented";

const STEER_MS = 50;
const KEEP_SECONDS = 4;
const TRIM_EVERY_MS = 3000;
const AUDIO_PATIENCE_MS = 1000;
const MAX_FAILURES = 4;
const MAX_HELD = 500;
/** Sound needs more in the buffer than pictures do before a browser plays it. */
const TARGET_WITH_SOUND_S = 0.12;
const TARGET_SILENT_S = 0.06;
const JITTER_S = 0.03;
/** A look at the element does not come so late: what is more is a jump. */
const MAX_HEARD_STEP_S = 0.5;

interface Timed extends Sample {
  decodeTime: number;
}

/** `MediaSource`, or what iPhones have in its place. */
function mediaSourceClass(): typeof MediaSource | null {
  const scope = window as { MediaSource?: typeof MediaSource; ManagedMediaSource?: typeof MediaSource };
  return scope.MediaSource ?? scope.ManagedMediaSource ?? null;
}

export class MseEngine implements Engine {
  readonly name = "mse";
  readonly element = document.createElement("div");
  private readonly player = document.createElement("video");
  /** Holds the last picture while the video element gets another source. */
  private readonly still = document.createElement("canvas");
  private source: MediaSource | null = null;
  private url = "";
  private videoQueue: AppendQueue | null = null;
  private audioQueue: AppendQueue | null = null;
  private config: VideoConfig | null = null;
  private audioConfig: AudioConfig | null = null;
  /** What the audio queue was told last. */
  private queuedConfig: AudioConfig | null = null;
  /** The sound that comes, and the type under which the browser plays it; null: under none. */
  private asked: { config: AudioConfig; mime: string | null } | null = null;
  private isSoundAlone = false;
  /** Where playback of sound alone was at the last look, in seconds. */
  private heardS = 0;
  private soundMs = 0;
  private audioTrack: Track | null = null;
  private needsKey = true;
  /** Pictures that wait for the sound's configuration, from a key frame on. */
  private held: VideoUnit[] = [];
  private videoBatch: Timed[] = [];
  private audioBatch: Timed[] = [];
  private sequence = 0;
  private readonly durations = new PictureDuration();
  private lastDecodeTime = -1;
  /** What the buffer was told of the newest picture that it got, in seconds. */
  private toldDuration = 0;
  /** Where the newest picture of the buffer begins, in seconds. */
  private newestS = 0;
  /** How long after its time the newest picture came, in seconds. */
  private lateS = 0;
  private nextAudio = -1;
  /** Where sound without times of its own ends, in samples. */
  private rawEnd = -1;
  private muted = true;
  private control = new EdgeControl(TARGET_SILENT_S);
  private readonly reader = new BarcodeReader();
  private readonly notes = new PictureNotes();
  private readonly timer: number;
  /** Where the appended key frames lie, in seconds. */
  private keyTimes: number[] = [];
  private lastTrimMs = 0;
  private firstUnitMs: number | null = null;
  private failures = 0;
  private closed = false;
  private presented = 0;
  private behindMs: number | null = null;
  private bufferMs: number | null = null;
  private pictureBefore = { decoded: 0, dropped: 0, shown: 0 };
  /** Of this media source's dropped pictures those that had waited for the viewer to come: they are not missed. */
  private notMissed = 0;

  constructor(private readonly context: EngineContext) {
    const video = this.player;
    this.element.className = "stack";
    this.still.className = video.className = "picture";
    this.element.append(this.still, video);
    video.muted = true;
    video.playsInline = true;
    video.disableRemotePlayback = true;
    video.addEventListener("error", () => this.failed(video.error?.message ?? "the video element failed"));
    this.timer = window.setInterval(() => this.steer(), STEER_MS);
    this.watchPictures();
  }

  static available(): boolean {
    return mediaSourceClass() !== null;
  }

  /** Whether the browser plays files of this type piece by piece. */
  static decodes(type: string): boolean {
    return mediaSourceClass()?.isTypeSupported(type) ?? false;
  }

  tracks(tracks: readonly Track[], isSoundAlone: boolean): void {
    const before = this.audioTrack;
    this.audioTrack = tracks.find((t) => t.kind === "audio" && t.codec !== "unsupported") ?? null;
    this.audioConfig = null;
    const picturesChanged = isSoundAlone !== this.isSoundAlone;
    this.isSoundAlone = isSoundAlone;
    // The element waits for each of its source's buffers: what comes or goes needs another source.
    const soundChanged = !this.muted && (before === null) !== (this.audioTrack === null);
    if (this.source && (picturesChanged || soundChanged)) {
      this.rebuild();
      this.context.rejoin(picturesChanged ? "pictures came or went" : "sound came or went");
    }
    // The last picture says nothing of what is heard now.
    if (isSoundAlone) this.still.width = this.still.height = 0;
  }

  videoConfig(config: VideoConfig): void {
    this.flushVideo();
    this.config = config;
    this.needsKey = true;
    this.videoQueue?.init(videoMime(config), videoInit(config));
  }

  video(unit: VideoUnit): void {
    if (this.closed || !this.config || this.isSoundAlone) return;
    if (unit.reset) {
      this.held = [];
      this.flushVideo();
      this.needsKey = true;
      this.lastDecodeTime = -1;
      this.control.rejoin();
    }
    if (this.needsKey && !unit.idr && this.held.length === 0) return;
    this.firstUnitMs ??= performance.now();
    if (!this.source && !this.open(this.config)) {
      if (this.closed || this.held.length >= MAX_HELD) this.held = [];
      else this.held.push(unit);
      return;
    }
    this.needsKey = false;
    const decodeTime = Math.round((unit.dtsUs * 9) / 100);
    const step = this.lastDecodeTime < 0 ? 0 : decodeTime - this.lastDecodeTime;
    const previous = this.videoBatch.at(-1);
    if (!previous && !unit.idr && isTooFar(step / VIDEO_TIMESCALE, this.toldDuration)) {
      // The browser would drop all up to the next key frame. A join brings what is there since the last one.
      this.durations.add(step / VIDEO_TIMESCALE);
      this.rebuild();
      this.context.rejoin("a picture was far from the one before");
      return;
    }
    this.durations.add(step / VIDEO_TIMESCALE);
    this.lastDecodeTime = decodeTime;
    this.newestS = unit.reset ? unit.ptsUs / 1e6 : Math.max(this.newestS, unit.ptsUs / 1e6);
    if (unit.idr) this.keyTimes.push(unit.ptsUs / 1e6);
    this.notes.add(unit, this.context.stages.arrived(unit.captureUs, unit.record, unit.receivedMs, performance.now()));
    // In order of presentation, the newest picture alone tells.
    if (unit.reset) this.lateS = 0;
    else if (unit.ptsUs / 1e6 === this.newestS) this.lateS = Math.max(0, this.player.currentTime - this.newestS);
    if (previous && step > 0) previous.duration = step;
    this.toldDuration = this.durations.told;
    this.videoBatch.push({
      data: this.config.codec === "av1" ? unit.data : toLengthPrefixed(unit.data, unit.nals),
      decodeTime,
      duration: Math.round(this.toldDuration * VIDEO_TIMESCALE),
      compositionOffset: Math.round(((unit.ptsUs - unit.dtsUs) * 9) / 100),
      sync: unit.idr,
    });
  }

  audio(unit: AudioUnit): void {
    if (this.closed) return;
    const mime = this.mimeOf(unit.config);
    if (mime === null || (this.muted && !this.isSoundAlone)) return;
    if (this.queuedConfig && !sameBytes(this.queuedConfig, unit.config)) {
      this.flushAudio();
      this.audioQueue?.init(mime, soundInit(unit.config, mime));
      this.queuedConfig = unit.config;
      this.nextAudio = -1;
    }
    this.audioConfig = unit.config;
    if (this.held.length > 0) for (const held of this.held.splice(0)) this.video(held);
    if (this.isSoundAlone) {
      if (unit.reset) this.control.rejoin();
      if (!this.source && !this.open(null)) return;
    }
    if (!this.audioQueue) return;
    const rate = unit.config.sampleRate;
    const exact = (unit.ptsUs / 1e6) * rate;
    // Stamps are rounded to 90 kHz: going on by whole frames leaves no gaps.
    const near = this.nextAudio >= 0 && !unit.reset && Math.abs(exact - this.nextAudio) < JITTER_S * rate;
    const decodeTime = near ? this.nextAudio : Math.round(exact);
    if (!near) this.flushAudio();
    this.audioBatch.push({ data: unit.data, decodeTime, duration: unit.samples, compositionOffset: 0, sync: true });
    this.nextAudio = decodeTime + unit.samples;
  }

  endOfChunk(): void {
    this.flushVideo();
    this.flushAudio();
  }

  restart(): void {
    this.endOfChunk();
    this.held = [];
    this.needsKey = true;
    this.lastDecodeTime = -1;
    this.nextAudio = -1;
    this.firstUnitMs = null;
    this.control.rejoin();
  }

  sound(muted: boolean, volume: number): void {
    this.player.volume = volume;
    this.player.muted = muted;
    if (muted === this.muted) return;
    this.muted = muted;
    // Silent pictures leave sound out and so run nearer to the edge; the change needs another media source.
    if (this.audioTrack && !this.isSoundAlone) {
      this.rebuild();
      this.context.rejoin("sound was switched on or off");
    }
  }

  resume(): void {
    void this.play();
  }

  stats(): EngineStats {
    const quality = this.player.getVideoPlaybackQuality();
    const before = this.pictureBefore;
    const sound = this.muted ? "muted" : "on";
    return {
      framesShown: before.shown + this.presented,
      framesDecoded: before.decoded + quality.totalVideoFrames,
      framesDropped: before.dropped + Math.max(0, quality.droppedVideoFrames - this.notMissed),
      behindLiveMs: this.behindMs,
      bufferMs: this.bufferMs,
      width: this.player.videoWidth,
      height: this.player.videoHeight,
      audio: this.audioTrack ? `${this.asked?.config.name ?? this.audioTrack.name}, ${sound}` : "none",
      soundMs: this.soundMs,
      soundLevel: null,
    };
  }

  close(): void {
    this.closed = true;
    window.clearInterval(this.timer);
    this.rebuild();
  }

  /** The type under which the browser plays this sound. The context is told where there is none. */
  private mimeOf(config: AudioConfig): string | null {
    if (this.asked?.config !== config) {
      const mime = audioMimes(config).find((one) => MseEngine.decodes(one)) ?? null;
      this.asked = { config, mime };
      if (mime === null) this.context.deaf(config);
    }
    return this.asked?.mime ?? null;
  }

  /** Makes the media source, of sound alone where `config` is null; false while the sound's configuration is still to come. */
  private open(config: VideoConfig | null): boolean {
    const wantsAudio = (!this.muted || !config) && this.audioTrack !== null;
    const waitedMs = performance.now() - (this.firstUnitMs ?? 0);
    if (wantsAudio && !this.audioConfig && waitedMs < AUDIO_PATIENCE_MS) return false;
    const Source = mediaSourceClass();
    if (!Source) return false;
    const mime = config && videoMime(config);
    if (mime !== null && !Source.isTypeSupported(mime)) {
      this.context.unsupported(pictureLack(config!.parameters.codecString, browserName(navigator.userAgent)));
      return false;
    }
    const source = new Source();
    const failed = (message: string): void => this.failed(message);
    this.source = source;
    if (mime !== null) {
      this.videoQueue = new AppendQueue(failed);
      this.videoQueue.init(mime, videoInit(config!));
    }
    const sound = wantsAudio ? this.audioConfig : null;
    const soundMime = sound && this.mimeOf(sound);
    if (sound && soundMime !== null) {
      this.audioQueue = new AppendQueue(failed);
      this.audioQueue.init(soundMime, soundInit(sound, soundMime));
      this.queuedConfig = sound;
    }
    this.control = new EdgeControl(this.audioQueue ? TARGET_WITH_SOUND_S : TARGET_SILENT_S);
    this.heardS = this.player.currentTime;
    source.addEventListener("sourceopen", () => {
      if (this.source !== source) return;
      URL.revokeObjectURL(this.url);
      if (mime !== null) this.videoQueue?.attach(source, mime);
      if (soundMime !== null) this.audioQueue?.attach(source, soundMime);
      void this.play();
    }, { once: true });
    this.url = URL.createObjectURL(source);
    this.player.src = this.url;
    return true;
  }

  private async play(): Promise<void> {
    try {
      await this.player.play();
    } catch (error) {
      if (error instanceof DOMException && error.name === "NotAllowedError") this.context.needsGesture();
    }
  }

  /** Lets the media source go; the next key frame makes another. */
  private rebuild(): void {
    const quality = this.player.getVideoPlaybackQuality();
    this.pictureBefore.decoded += quality.totalVideoFrames;
    this.pictureBefore.dropped += Math.max(0, quality.droppedVideoFrames - this.notMissed);
    this.notMissed = 0;
    this.pictureBefore.shown += this.presented;
    this.presented = 0;
    this.keepPicture();
    this.source = null;
    this.held = [];
    this.videoQueue?.close();
    this.audioQueue?.close();
    this.videoQueue = this.audioQueue = null;
    this.videoBatch = [];
    this.audioBatch = [];
    this.keyTimes = [];
    this.audioConfig = null;
    this.queuedConfig = null;
    this.nextAudio = this.rawEnd = -1;
    this.firstUnitMs = null;
    this.needsKey = true;
    if (this.closed) this.player.removeAttribute("src");
  }

  private keepPicture(): void {
    const { videoWidth: width, videoHeight: height } = this.player;
    if (width === 0) return;
    this.still.width = width;
    this.still.height = height;
    this.still.getContext("2d")?.drawImage(this.player, 0, 0, width, height);
  }

  private failed(message: string): void {
    if (this.closed || !this.source) return;
    this.failures += 1;
    this.rebuild();
    if (this.failures >= MAX_FAILURES) this.context.unsupported(`Media Source Extensions: ${message}`);
    else this.context.rejoin(`the decoder failed: ${message}`);
  }

  private flushVideo(): void {
    const first = this.videoBatch[0];
    if (!first) return;
    this.videoQueue?.append(fragment((this.sequence += 1), first.decodeTime, this.videoBatch));
    this.videoBatch = [];
  }

  private flushAudio(): void {
    const first = this.audioBatch[0];
    if (!first) return;
    if (this.queuedConfig && this.asked?.mime === RAW_MP3) {
      const goesOn = this.rawEnd === first.decodeTime;
      this.audioQueue?.append(concat(this.audioBatch.map(({ data }) => data)), goesOn ? null : first.decodeTime / this.queuedConfig.sampleRate);
      this.rawEnd = first.decodeTime + this.audioBatch.reduce((sum, { duration }) => sum + duration, 0);
    } else this.audioQueue?.append(fragment((this.sequence += 1), first.decodeTime, this.audioBatch));
    this.audioBatch = [];
  }

  private steer(): void {
    const { buffered, currentTime, seeking, readyState, paused } = this.player;
    if (!this.source || buffered.length === 0) return;
    const nowMs = performance.now();
    const bufferedStart = buffered.start(buffered.length - 1);
    // The newest picture lasts until another comes, however long the buffer was told.
    const end = buffered.end(buffered.length - 1);
    const bufferedEnd = this.isSoundAlone ? end : Math.min(end, Math.max(bufferedStart, this.newestS + this.durations.shortest));
    this.bufferMs = Math.max(0, (bufferedEnd - currentTime) * 1000);
    const starved = !paused && !seeking && readyState < HTMLMediaElement.HAVE_FUTURE_DATA;
    if (!seeking) {
      const settled = this.context.edge.settled(nowMs);
      if (!this.control.atEdge) this.notMissed = this.player.getVideoPlaybackQuality().droppedVideoFrames;
      const order = this.control.steer({ nowMs, currentTime, bufferedStart, bufferedEnd, settled, starved, late: this.lateS });
      if ("seekTo" in order) {
        this.lateS = 0;
        this.player.currentTime = order.seekTo;
      } else if (this.player.playbackRate !== order.rate) this.player.playbackRate = order.rate;
    }
    if (this.isSoundAlone) this.listen(nowMs);
    if (nowMs - this.lastTrimMs > TRIM_EVERY_MS) {
      this.lastTrimMs = nowMs;
      const before = currentTime - KEEP_SECONDS;
      const point = this.isSoundAlone ? before : trimPoint(this.keyTimes, before);
      if (point !== null) {
        this.keyTimes = this.keyTimes.filter((time) => time >= point);
        this.videoQueue?.trim(point);
        this.audioQueue?.trim(point);
      }
    }
  }

  /** Sound alone is heard where the element's time goes on. */
  private listen(nowMs: number): void {
    const { currentTime } = this.player;
    const stepS = currentTime - this.heardS;
    this.heardS = currentTime;
    if (stepS <= 0 || stepS > MAX_HEARD_STEP_S) return;
    this.soundMs += stepS * 1000;
    this.failures = 0;
    this.behindMs = this.context.edge.behind(nowMs, currentTime * 1000);
    this.context.shown(0);
  }

  private watchPictures(): void {
    watchPresented(this.player, () => this.closed, (mediaS, presented, shownMs) => {
      this.presented += presented;
      this.picture(mediaS, shownMs);
    });
  }

  private picture(mediaTime: number, shownMs: number): void {
    const nowMs = performance.now();
    this.failures = 0;
    this.behindMs = this.context.edge.behind(nowMs, mediaTime * 1000);
    const note = this.notes.of(mediaTime * 1e6);
    this.context.shown(note?.settlingFrames ?? 0);
    const number = note?.number ?? -1;
    // The element decodes as it likes, and does not tell when.
    this.context.stages.shown(number, NaN, shownMs);
    const serverUs = this.context.clock.nowUs(shownMs);
    if (serverUs === null) return;
    if (note && note.captureUs !== null) {
      this.context.delay.shown(nowMs, serverUs, note.captureUs, "stream");
      return;
    }
    const barcode = this.reader.fromImage(this.player, this.player.videoWidth, this.player.videoHeight);
    if (!barcode) return;
    this.context.delay.shown(nowMs, serverUs, barcode.captureUs, "picture");
    this.context.stages.captured(number, barcode.captureUs);
  }
}

function soundInit(config: AudioConfig, mime: string): Uint8Array<ArrayBuffer> {
  return mime === RAW_MP3 ? new Uint8Array(0) : audioInit(config);
}

function sameBytes(a: AudioConfig, b: AudioConfig): boolean {
  return a === b || (a.codecString === b.codecString && a.description.join() === b.description.join());
}
