/** Sound of the WebCodecs engine: AudioDecoder → audio worklet → loudspeaker, and the clock that pictures follow. */
import type { BufferReport } from "../audio/buffer";
import type { AudioConfig } from "../media/audio";
import type { AudioUnit } from "../media/feed";
import { ROOT } from "../root";
import { SoundDecoder } from "./sound_decoder";

const WORKLET = `${ROOT}assets/audio-worklet.js`;
const STALE_MS = 300;
/** A browser that lets sound be played starts it within this time. */
const START_MS = 700;

export interface SinkEvents {
  /** Sound went out: the media time that is heard now. */
  heard(ptsUs: number): void;
  /** The browser plays no sound before a click. */
  needsGesture(): void;
}

export class AudioSink {
  private readonly context: AudioContext;
  private readonly gain: GainNode;
  private node: AudioWorkletNode | null = null;
  private decoder: SoundDecoder | null = null;
  private report: BufferReport | null = null;
  private reportedMs = 0;
  private closed = false;
  failure: string | null = null;

  /** Call from a click, or the browser may keep the sound off. */
  constructor(readonly config: AudioConfig, volume: number, private readonly events: SinkEvents) {
    this.context = new AudioContext({ latencyHint: "interactive", sampleRate: config.sampleRate });
    this.gain = this.context.createGain();
    this.gain.gain.value = volume;
    this.gain.connect(this.context.destination);
    this.resume();
    void this.open();
  }

  set volume(volume: number) {
    this.gain.gain.value = volume;
  }

  get fillMs(): number | null {
    return this.report?.fillMs ?? null;
  }

  get underruns(): number {
    return this.report?.underruns ?? 0;
  }

  /** What has gone out, in ms. */
  get playedMs(): number {
    return this.report?.playedMs ?? 0;
  }

  /** Root mean square of what goes out, 1 is full scale. */
  get level(): number {
    return this.isFresh(performance.now()) ? (this.report?.level ?? 0) : 0;
  }

  /** Plays, after a click where the browser wants one. */
  resume(): void {
    void this.context.resume();
    window.setTimeout(() => {
      if (!this.closed && this.context.state === "suspended") this.events.needsGesture();
    }, START_MS);
  }

  push(unit: AudioUnit): void {
    if (this.closed || !this.node || this.failure) return;
    this.decoder ??= new SoundDecoder(
      this.config,
      (planes, ptsUs) => this.node?.port.postMessage({ planes, ptsUs }, planes.map((plane) => plane.buffer)),
      (message) => (this.failure = `sound: ${message}`),
    );
    this.decoder.push(unit);
  }

  /** Media time that is heard at `nowMs`; null while nothing plays. */
  clockUs(nowMs: number): number | null {
    const report = this.report;
    if (!report?.playing || !this.isFresh(nowMs)) return null;
    const outputUs = (this.context.outputLatency || this.context.baseLatency || 0) * 1e6;
    return report.ptsUs + (nowMs - this.reportedMs) * 1000 - outputUs;
  }

  close(): void {
    this.closed = true;
    this.decoder?.close();
    this.node?.disconnect();
    void this.context.close();
  }

  private isFresh(nowMs: number): boolean {
    return nowMs - this.reportedMs <= STALE_MS;
  }

  private async open(): Promise<void> {
    try {
      await this.context.audioWorklet.addModule(WORKLET);
    } catch (error) {
      this.failure = `no audio worklet: ${String(error)}`;
      return;
    }
    if (this.closed) return;
    const channels = this.config.channels || 2;
    this.node = new AudioWorkletNode(this.context, "live-buffer", { numberOfInputs: 0, outputChannelCount: [channels] });
    this.node.port.onmessage = (event: MessageEvent<BufferReport>) => {
      this.report = event.data;
      this.reportedMs = performance.now();
      const heardUs = this.clockUs(this.reportedMs);
      if (heardUs !== null && !this.closed) this.events.heard(heardUs);
    };
    this.node.connect(this.gain);
  }
}
