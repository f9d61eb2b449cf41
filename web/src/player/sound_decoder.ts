/** An AudioDecoder for one configuration: coded frames in, planes of PCM out. */
import type { AudioConfig } from "../media/audio";
import type { AudioUnit } from "../media/feed";

const MAX_QUEUED = 50;

export type Planes = Float32Array<ArrayBuffer>[];

function decoderConfig({ codec, codecString, sampleRate, channels, description }: AudioConfig): AudioDecoderConfig {
  const isDescribed = codec === "aac" || (codec === "opus" && channels > 2);
  return { codec: codecString, sampleRate, numberOfChannels: channels || 2, ...(isDescribed ? { description } : {}) };
}

/** Whether WebCodecs decode sound of this configuration here. */
export async function decodesSound(config: AudioConfig): Promise<boolean> {
  if (typeof AudioDecoder !== "function") return false;
  try {
    return (await AudioDecoder.isConfigSupported(decoderConfig(config))).supported === true;
  } catch {
    return false;
  }
}

export class SoundDecoder {
  private readonly decoder: AudioDecoder;

  /** `failed` is told once, when nothing more comes. */
  constructor(readonly config: AudioConfig, output: (planes: Planes, ptsUs: number) => void, failed: (message: string) => void) {
    this.decoder = new AudioDecoder({
      output: (data) => {
        const planes: Planes = [];
        for (let planeIndex = 0; planeIndex < data.numberOfChannels; planeIndex++) {
          const plane = new Float32Array(data.numberOfFrames);
          data.copyTo(plane, { planeIndex, format: "f32-planar" });
          planes.push(plane);
        }
        const { timestamp } = data;
        data.close();
        output(planes, timestamp);
      },
      error: (error) => failed(error.message),
    });
    this.decoder.configure(decoderConfig(config));
  }

  push(unit: AudioUnit): void {
    if (this.decoder.state !== "configured" || this.decoder.decodeQueueSize > MAX_QUEUED) return;
    this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: unit.ptsUs, data: unit.data }));
  }

  close(): void {
    if (this.decoder.state !== "closed") this.decoder.close();
  }
}

/** Root mean square of samples, 1 is full scale. */
export function levelOf(planes: readonly Float32Array[]): number {
  let [squares, count] = [0, 0];
  for (const plane of planes) {
    for (const sample of plane) squares += sample * sample;
    count += plane.length;
  }
  return count > 0 ? Math.sqrt(squares / count) : 0;
}
