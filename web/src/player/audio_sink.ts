/** Sound of the WebCodecs engine: AudioDecoder → audio worklet → loudspeaker, and the clock that pictures follow. */
import type { AudioConfig } from "../media/audio";
import type { AudioUnit } from "../media/feed";
import { ROOT } from "../root";

const WORKLET = `${ROOT}assets/audio-worklet.js`;
const STALE_MS = 300;
const MAX_QUEUED = 50;

interface Report {
  playing: boolean;
  ptsUs: number;
  fillMs: number;
  underruns: number;
}

export class AudioSink {
  private readonly context: AudioContext;
  private readonly gain: GainNode;
  private node: AudioWorkletNode | null = null;
  private decoder: AudioDecoder | null = null;
  private report: Report | null = null;
  private reportedMs = 0;
  private closed = false;
  failure: string | null = null;

  /** Call from a click, or the browser keeps the sound off. */
  constructor(readonly config: AudioConfig, volume: number) {
    this.context = new AudioContext({ latencyHint: "interactive", sampleRate: config.sampleRate });
    this.gain = this.context.createGain();
    this.gain.gain.value = volume;
    this.gain.connect(this.context.destination);
    void this.context.resume();
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

  push(unit: AudioUnit): void {
    if (this.closed || !this.node || this.failure) return;
    this.decoder ??= this.startDecoder();
    if (this.decoder.state !== "configured" || this.decoder.decodeQueueSize > MAX_QUEUED) return;
    this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: unit.ptsUs, data: unit.data }));
  }

  /** Media time that is heard at `nowMs`; null while nothing plays. */
  clockUs(nowMs: number): number | null {
    const report = this.report;
    if (!report?.playing || nowMs - this.reportedMs > STALE_MS) return null;
    const outputUs = (this.context.outputLatency || this.context.baseLatency || 0) * 1e6;
    return report.ptsUs + (nowMs - this.reportedMs) * 1000 - outputUs;
  }

  close(): void {
    this.closed = true;
    if (this.decoder && this.decoder.state !== "closed") this.decoder.close();
    this.node?.disconnect();
    void this.context.close();
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
    this.node.port.onmessage = (event: MessageEvent<Report>) => {
      this.report = event.data;
      this.reportedMs = performance.now();
    };
    this.node.connect(this.gain);
  }

  private startDecoder(): AudioDecoder {
    const decoder = new AudioDecoder({
      output: (data) => this.play(data),
      error: (error) => {
        this.failure = `sound: ${error.message}`;
      },
    });
    const { codec, codecString, sampleRate, channels, description } = this.config;
    decoder.configure({
      codec: codecString,
      sampleRate,
      numberOfChannels: channels || 2,
      ...(codec === "aac" || channels > 2 ? { description } : {}),
    });
    return decoder;
  }

  private play(data: AudioData): void {
    const planes: Float32Array<ArrayBuffer>[] = [];
    for (let planeIndex = 0; planeIndex < data.numberOfChannels; planeIndex++) {
      const plane = new Float32Array(data.numberOfFrames);
      data.copyTo(plane, { planeIndex, format: "f32-planar" });
      planes.push(plane);
    }
    this.node?.port.postMessage({ planes, ptsUs: data.timestamp }, planes.map((plane) => plane.buffer));
    data.close();
  }
}
