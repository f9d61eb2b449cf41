/** Engine for secure contexts: VideoDecoder → canvas, each picture as soon as it is decoded. */
import type { AudioConfig } from "../media/audio";
import type { AudioUnit, VideoConfig, VideoUnit } from "../media/feed";
import type { Track } from "../media/ts";
import { AudioSink } from "./audio_sink";
import { BarcodeReader } from "./barcode_reader";
import type { Engine, EngineContext, EngineStats } from "./engine";
import { browserName, pictureLack } from "./lack";
import { PictureNotes } from "./notes";
import { type Waiting, admit, choose } from "./policy";
import { Refresh } from "./refresh";
import { SoundDecoder, decodesSound, levelOf } from "./sound_decoder";

const MAX_WAITING = 12;
const MAX_FAILURES = 3;

interface WaitingFrame extends Waiting {
  frame: VideoFrame;
}

export class WebCodecsEngine implements Engine {
  readonly name = "webcodecs";
  readonly element = document.createElement("canvas");
  private readonly drawing = this.element.getContext("2d", { alpha: false, desynchronized: true });
  private readonly reader = new BarcodeReader();
  private readonly notes = new PictureNotes();
  private readonly refresh = new Refresh();
  private decoder: VideoDecoder | null = null;
  private config: VideoConfig | null = null;
  private needsKey = true;
  private waiting: WaitingFrame[] = [];
  private scheduled = false;
  private sink: AudioSink | null = null;
  private audioTrack: Track | null = null;
  /** What the browser was asked last whether it decodes it. */
  private askedSound: AudioConfig | null = null;
  private isSoundAlone = false;
  /** Decodes sound that is alone and muted, so that the page shows that there is some. */
  private preview: SoundDecoder | null = null;
  private previewed = { ms: 0, level: 0 };
  /** What earlier sinks have played. */
  private soundBeforeMs = 0;
  private muted = true;
  private volume = 1;
  private failures = 0;
  private closed = false;
  private frameRate = 30;
  private lastDtsUs = 0;
  private counts = { shown: 0, decoded: 0, dropped: 0 };
  private behindMs: number | null = null;
  private shownUs = -Infinity;

  constructor(private readonly context: EngineContext) {
    this.element.className = "picture";
  }

  /** Whether this page may use WebCodecs at all. */
  static available(): boolean {
    const has = window.isSecureContext && typeof VideoDecoder === "function" && typeof EncodedVideoChunk === "function";
    return has && !endsAtSound(navigator.userAgent);
  }

  tracks(tracks: readonly Track[], isSoundAlone: boolean): void {
    this.audioTrack = tracks.find((t) => t.kind === "audio" && t.codec !== "unsupported") ?? null;
    if (!this.audioTrack) this.closeSound();
    if (isSoundAlone && !this.isSoundAlone) {
      this.closeDecoder();
      this.discard(this.waiting.length);
      this.config = null;
    }
    this.isSoundAlone = isSoundAlone;
    if (!isSoundAlone) this.closePreview();
  }

  videoConfig(config: VideoConfig): void {
    this.config = config;
    this.retireDecoder();
    this.askForDecoder(config.parameters.codecString);
  }

  /** Not every browser decodes every profile, and what it does not decode brings no error that says so, or a late one. */
  private askForDecoder(codec: string): void {
    VideoDecoder.isConfigSupported({ codec }).then(
      ({ supported }) => {
        if (!supported && !this.closed) this.context.unsupported(pictureLack(codec, browserName(navigator.userAgent)));
      },
      () => undefined,
    );
  }

  video(unit: VideoUnit): void {
    if (!this.config || this.closed) return;
    if (unit.reset) this.needsKey = true;
    if (this.needsKey && !unit.idr) return;
    const step = unit.dtsUs - this.lastDtsUs;
    if (step > 4000 && step < 1_000_000) this.frameRate += (1e6 / step - this.frameRate) * 0.1;
    this.lastDtsUs = unit.dtsUs;
    const verdict = admit(this.decoder?.decodeQueueSize ?? 0, { key: unit.idr, reference: unit.reference }, this.frameRate);
    if (verdict === "skip") {
      this.drop(1);
      return;
    }
    if (verdict === "restart") {
      this.drop(this.decoder?.decodeQueueSize ?? 0);
      this.closeDecoder();
    }
    try {
      this.decoder ??= this.openDecoder(this.config);
      this.notes.add(unit, this.context.stages.arrived(unit.captureUs, unit.record, unit.receivedMs, performance.now()));
      this.decoder.decode(
        new EncodedVideoChunk({ type: unit.idr ? "key" : "delta", timestamp: unit.ptsUs, data: unit.data }),
      );
      this.needsKey = false;
    } catch (error) {
      this.failed(String(error));
    }
  }

  audio(unit: AudioUnit): void {
    if (this.closed) return;
    this.askForSound(unit.config);
    if (this.muted) {
      if (this.isSoundAlone) this.listen(unit);
      return;
    }
    if (this.sink && this.sink.config !== unit.config && !sameSound(this.sink.config, unit.config)) this.closeSound();
    this.sink ??= new AudioSink(unit.config, this.volume, {
      heard: (ptsUs) => this.heard(ptsUs),
      needsGesture: () => this.context.needsGesture(),
    });
    this.sink.push(unit);
  }

  /** Not every browser decodes every sound, and of what is muted that would show late. */
  private askForSound(config: AudioConfig): void {
    if (config === this.askedSound) return;
    this.askedSound = config;
    void decodesSound(config).then((decodes) => {
      if (!decodes && !this.closed && this.askedSound === config) this.context.deaf(config);
    });
  }

  /** Decodes sound that is alone and muted. */
  private listen(unit: AudioUnit): void {
    if (this.preview && !sameSound(this.preview.config, unit.config)) this.closePreview();
    this.preview ??= new SoundDecoder(
      unit.config,
      (planes, ptsUs) => {
        this.previewed.ms += ((planes[0]?.length ?? 0) / unit.config.sampleRate) * 1000;
        this.previewed.level = levelOf(planes);
        this.heard(ptsUs);
      },
      () => this.closePreview(),
    );
    this.preview.push(unit);
  }

  private heard(ptsUs: number): void {
    if (!this.isSoundAlone || this.closed) return;
    this.failures = 0;
    this.behindMs = this.context.edge.behind(performance.now(), ptsUs / 1000);
    this.context.shown(0);
  }

  private closePreview(): void {
    this.preview?.close();
    this.preview = null;
    this.previewed.level = 0;
  }

  private closeSound(): void {
    this.soundBeforeMs += this.sink?.playedMs ?? 0;
    this.sink?.close();
    this.sink = null;
  }

  endOfChunk(): void {
    // Every unit has been handed to the decoder already.
  }

  restart(): void {
    this.needsKey = true;
  }

  sound(muted: boolean, volume: number): void {
    this.muted = muted;
    this.volume = volume;
    if (muted) this.closeSound();
    else {
      this.closePreview();
      if (this.sink) this.sink.volume = volume;
    }
  }

  resume(): void {
    // Pictures need no leave to be drawn.
    this.sink?.resume();
  }

  stats(): EngineStats {
    const oldest = this.waiting[0];
    const newest = this.waiting.at(-1);
    const sink = this.sink;
    const buffered = oldest && newest ? (newest.ptsUs - oldest.ptsUs) / 1000 : 0;
    const hasPicture = this.counts.shown > 0 && !this.isSoundAlone;
    const sound = this.muted ? "muted" : sink?.failure ?? (sink ? `${Math.round(sink.fillMs ?? 0)} ms buffered` : "off");
    return {
      framesShown: this.counts.shown,
      framesDecoded: this.counts.decoded,
      framesDropped: this.counts.dropped,
      behindLiveMs: this.behindMs,
      bufferMs: this.isSoundAlone ? (sink?.fillMs ?? 0) : buffered,
      // An empty canvas has a size of its own.
      width: hasPicture ? this.element.width : 0,
      height: hasPicture ? this.element.height : 0,
      audio: this.audioTrack ? `${this.askedSound?.name ?? this.audioTrack.name}, ${sound}` : "none",
      soundMs: this.soundBeforeMs + (sink?.playedMs ?? 0) + this.previewed.ms,
      soundLevel: sink ? sink.level : this.preview ? this.previewed.level : null,
    };
  }

  close(): void {
    this.closed = true;
    this.closeDecoder();
    this.closeSound();
    this.closePreview();
    for (const { frame } of this.waiting) frame.close();
    this.waiting = [];
  }

  private openDecoder(config: VideoConfig): VideoDecoder {
    const decoder = new VideoDecoder({
      output: (frame) => {
        if (this.decoder === decoder) this.decoded(frame);
        else this.decodedLate(frame);
      },
      error: (error) => {
        if (this.decoder === decoder) this.failed(error.message);
      },
    });
    // No description: the bytes are Annex B, or AV1's units with their sizes, with their parameter sets in band.
    decoder.configure({
      codec: config.parameters.codecString,
      optimizeForLatency: true,
      hardwareAcceleration: "no-preference",
    });
    this.needsKey = true;
    return decoder;
  }

  private closeDecoder(): void {
    if (this.decoder && this.decoder.state !== "closed") this.decoder.close();
    this.decoder = null;
    this.needsKey = true;
  }

  /** Other parameters come: what the decoder has is still shown, and another one begins beside it. */
  private retireDecoder(): void {
    const old = this.decoder;
    this.decoder = null;
    this.needsKey = true;
    if (old?.state !== "configured") return;
    const close = (): void => {
      if (old.state !== "closed") old.close();
    };
    old.flush().then(close, close);
  }

  private failed(message: string): void {
    this.closeDecoder();
    this.failures += 1;
    if (this.failures >= MAX_FAILURES) this.context.unsupported(`WebCodecs: ${message}`);
    // The next key frame may be far: a new join brings one at once.
    else this.context.rejoin(`the decoder failed: ${message}`);
  }

  private decoded(frame: VideoFrame): void {
    if (this.closed) {
      frame.close();
      return;
    }
    this.failures = 0;
    this.counts.decoded += 1;
    const last = this.waiting.at(-1);
    // Times only go back across a restart: what waits from before it is of no more use.
    if (last && frame.timestamp < last.ptsUs) this.discard(this.waiting.length);
    this.waiting.push({ frame, ptsUs: frame.timestamp, decodedMs: performance.now() });
    if (this.waiting.length > MAX_WAITING) this.discard(1);
    this.schedule();
  }

  /** The last pictures of a decoder that was retired: those that another one's have overtaken are of no more use. */
  private decodedLate(frame: VideoFrame): void {
    const newest = this.waiting.at(-1)?.ptsUs ?? this.shownUs;
    if (frame.timestamp > newest) this.decoded(frame);
    else {
      frame.close();
      this.drop(1);
    }
  }

  /** Pictures are left out. Those that had waited for this viewer to come are not missed. */
  private drop(count: number): void {
    if (this.context.edge.settled(performance.now())) this.counts.dropped += count;
  }

  private discard(count: number): void {
    for (const { frame } of this.waiting.splice(0, count)) {
      frame.close();
      this.drop(1);
    }
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame((frameMs) => {
      this.scheduled = false;
      this.refresh.follow(frameMs);
      if (!this.closed) this.draw(frameMs, performance.now());
      if (this.waiting.length > 0) this.schedule();
    });
  }

  private draw(frameMs: number, nowMs: number): void {
    const index = choose(this.waiting, nowMs, this.sink?.clockUs(nowMs) ?? null);
    if (index < 0 || !this.drawing) return;
    this.discard(index);
    const { frame, ptsUs, decodedMs } = this.waiting.shift()!;
    const { displayWidth: width, displayHeight: height } = frame;
    if (this.element.width !== width || this.element.height !== height) {
      this.element.width = width;
      this.element.height = height;
    }
    this.drawing.drawImage(frame, 0, 0, width, height);
    this.counts.shown += 1;
    this.shownUs = ptsUs;
    this.behindMs = this.context.edge.behind(nowMs, ptsUs / 1000);
    const note = this.notes.of(ptsUs);
    this.context.shown(note?.settlingFrames ?? 0);
    const number = note?.number ?? -1;
    // Drawing takes its time where no graphics processor does it.
    const shownMs = this.refresh.shownMs(frameMs, performance.now());
    this.context.stages.shown(number, decodedMs, shownMs);
    const serverUs = this.context.clock.nowUs(shownMs);
    const captureUs = note?.captureUs ?? null;
    if (serverUs !== null && captureUs !== null) this.context.delay.shown(nowMs, serverUs, captureUs, "stream");
    else if (serverUs !== null) {
      this.reader.fromFrame(frame, (barcode) => {
        if (!barcode) return;
        this.context.delay.shown(nowMs, serverUs, barcode.captureUs, "picture");
        this.context.stages.captured(number, barcode.captureUs);
      });
    }
    frame.close();
  }
}

function sameSound(one: AudioConfig, other: AudioConfig): boolean {
  return one.codecString === other.codecString && one.sampleRate === other.sampleRate && one.channels === other.channels;
}

/**
 * Whether the browser ends the page when it decodes sound by WebCodecs, as WebKit 2.50 for GTK does. Without a graphics
 * processor it draws few pictures a second so, too, and its media element does better.
 */
export function endsAtSound(agent: string): boolean {
  return /Linux.*AppleWebKit/.test(agent) && !/Chrom|Android/.test(agent);
}
