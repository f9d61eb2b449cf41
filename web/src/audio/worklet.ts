/**
 * The last buffer before the loudspeaker: PCM comes in by messages, goes out at the sound card's pace. The buffer is
 * held near a target by playing up to 1 % faster or slower; what is far too much is dropped. Runs on the audio thread.
 */
declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
declare const sampleRate: number;

interface Push {
  planes: Float32Array[];
  ptsUs: number;
}

const CAPACITY_SECONDS = 2;
const TARGET_SECONDS = 0.07;
const MAX_TARGET_SECONDS = 0.16;
const EXCESS_SECONDS = 0.15;
const REPORT_BLOCKS = 8;
const MAX_BEND = 0.01;

class LiveBuffer extends AudioWorkletProcessor {
  private readonly capacity = Math.ceil(CAPACITY_SECONDS * sampleRate);
  private ring: Float32Array[] = [];
  /** Positions count samples from the start and never wrap; the ring index is the remainder. */
  private written = 0;
  private read = 0;
  private anchorUs = 0;
  private anchorAt = 0;
  private target = TARGET_SECONDS * sampleRate;
  private average = 0;
  private playing = false;
  private underruns = 0;
  private blocks = 0;

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<Push>) => this.push(event.data);
  }

  private push({ planes, ptsUs }: Push): void {
    const length = planes[0]?.length ?? 0;
    if (length === 0 || length > this.capacity) return;
    while (this.ring.length < planes.length) this.ring.push(new Float32Array(this.capacity));
    this.anchorUs = ptsUs;
    this.anchorAt = this.written;
    planes.forEach((plane, channel) => {
      const ring = this.ring[channel]!;
      const start = this.written % this.capacity;
      const head = Math.min(length, this.capacity - start);
      ring.set(plane.subarray(0, head), start);
      ring.set(plane.subarray(head), 0);
    });
    this.written += length;
    const excess = this.target + EXCESS_SECONDS * sampleRate;
    if (this.written - this.read > (this.playing ? excess : this.target)) this.read = this.written - this.target;
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const output = outputs[0]!;
    const frames = output[0]?.length ?? 0;
    const fill = this.written - this.read;
    if (!this.playing && fill >= this.target) {
      this.playing = true;
      this.average = fill;
    }
    if (this.playing && fill < frames * (1 + MAX_BEND) + 1) {
      this.playing = false;
      this.underruns += 1;
      this.target = Math.min(MAX_TARGET_SECONDS * sampleRate, this.target + 0.015 * sampleRate);
    }
    if (this.playing) this.play(output, frames, fill);
    this.blocks += 1;
    if (this.blocks % REPORT_BLOCKS === 0) this.report();
    return true;
  }

  private play(output: Float32Array[], frames: number, fill: number): void {
    this.average += (fill - this.average) * 0.01;
    const bend = ((this.average - this.target) / this.target) * 0.02;
    const rate = 1 + Math.max(-MAX_BEND, Math.min(MAX_BEND, bend));
    output.forEach((out, channel) => {
      const ring = this.ring[Math.min(channel, this.ring.length - 1)]!;
      let at = this.read;
      for (let i = 0; i < frames; i++, at += rate) {
        const whole = Math.floor(at);
        const a = ring[whole % this.capacity]!;
        const b = ring[(whole + 1) % this.capacity]!;
        out[i] = a + (b - a) * (at - whole);
      }
    });
    this.read += frames * rate;
    // Forgets a bad moment over a minute.
    this.target = Math.max(TARGET_SECONDS * sampleRate, this.target - (0.0015 * frames));
  }

  private report(): void {
    const ptsUs = this.anchorUs + ((this.read - this.anchorAt) / sampleRate) * 1e6;
    const fillMs = ((this.written - this.read) / sampleRate) * 1000;
    this.port.postMessage({ playing: this.playing, ptsUs, fillMs, underruns: this.underruns });
  }
}

registerProcessor("live-buffer", LiveBuffer);
