/** The audio thread: sound comes in by messages and goes out at the sound card's pace, through `PlayoutBuffer`. */
import { PlayoutBuffer } from "./buffer";

declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
declare const sampleRate: number;

interface Push {
  planes: Float32Array[];
  ptsUs: number;
}

const REPORT_BLOCKS = 8;

class LiveBuffer extends AudioWorkletProcessor {
  private readonly buffer = new PlayoutBuffer(sampleRate);
  private blocks = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<Push>) => this.buffer.push(data.planes, data.ptsUs);
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    this.buffer.pull(outputs[0]!);
    this.blocks += 1;
    if (this.blocks % REPORT_BLOCKS === 0) this.port.postMessage(this.buffer.report());
    return true;
  }
}

registerProcessor("live-buffer", LiveBuffer);
