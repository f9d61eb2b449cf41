/**
 * Sound whose frames say how long they are: MPEG audio (ISO/IEC 11172-3 clause 2.4.1.3; at lower rates 13818-3), AC-3 and
 * E-AC-3 (ETSI TS 102 366). PES payloads go in, frames come out, each with what a decoder must be told.
 */
import type { AudioConfig, AudioFrame } from "./audio";
import { concat } from "./bits";

/** What a frame's first bytes say. */
interface Head {
  bytes: number;
  samples: number;
  /** Frames of one configuration have one key. */
  key: string;
  /** It adds channels to the frame before, and is no frame of its own. */
  extra?: boolean;
  config: () => AudioConfig;
}

/** Bytes that are looked at; shorter frames do not exist. */
const HEAD_BYTES = 8;
const MAX_CARRY_BYTES = 16384;
const NOTHING = new Uint8Array(0);

/** Cuts frames out of PES payloads; a frame may go over a PES's end. */
export class FrameSplitter {
  private carry: Uint8Array = NOTHING;
  private config: AudioConfig | null = null;
  private key = "";

  constructor(private readonly headAt: (data: Uint8Array, at: number) => Head | null) {}

  /** Forgets a half frame: call when bytes were lost. */
  reset(): void {
    this.carry = NOTHING;
  }

  /** Bytes that stand before the next payload's own first frame. */
  get carriedBytes(): number {
    return this.carry.length;
  }

  /** The frames that end within `payload`. Bytes that begin no frame are passed over. */
  split(payload: Uint8Array): AudioFrame[] {
    const data = this.carry.length > 0 ? concat([this.carry, payload]) : payload;
    const frames: AudioFrame[] = [];
    let at = 0;
    while (at + HEAD_BYTES <= data.length) {
      const head = this.headAt(data, at);
      if (!head) {
        at += 1;
        continue;
      }
      if (at + head.bytes > data.length) break;
      if (!head.extra && (!this.config || this.key !== head.key)) {
        this.key = head.key;
        this.config = head.config();
      }
      if (!head.extra && this.config) frames.push({ data: data.slice(at, at + head.bytes), samples: head.samples, config: this.config });
      at += head.bytes;
    }
    const rest = data.subarray(at);
    this.carry = rest.length > MAX_CARRY_BYTES ? NOTHING : rest.slice();
    return frames;
  }
}

/** Thousands of bits a second: layers I, II and III, and at lower sampling rates I, and II and III. */
const MPEG_BITRATES = [
  [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const MPEG_RATES = [44_100, 48_000, 32_000];

/** The header of a frame of MPEG audio; null where there is none, or one of open length. */
export function mpegHead(data: Uint8Array, at: number): Head | null {
  const [second, third, fourth] = [data[at + 1]!, data[at + 2]!, data[at + 3]!];
  if (data[at] !== 0xff || (second & 0xe0) !== 0xe0) return null;
  const version = (second >> 3) & 3; // 3: MPEG-1, 2: MPEG-2, 0: "2.5"
  const layer = 4 - ((second >> 1) & 3);
  if (version === 1 || layer === 4) return null;
  const isLow = version !== 3;
  const row = isLow ? (layer === 1 ? 3 : 4) : layer - 1;
  const bitrate = (MPEG_BITRATES[row]![(third >> 4) - 1] ?? 0) * 1000;
  const full = MPEG_RATES[(third >> 2) & 3];
  if (bitrate === 0 || full === undefined) return null;
  const sampleRate = full >> (isLow ? (version === 2 ? 1 : 2) : 0);
  const padding = (third >> 1) & 1;
  const samples = layer === 1 ? 384 : layer === 3 && isLow ? 576 : 1152;
  const slots = Math.floor((samples * bitrate) / (8 * (layer === 1 ? 4 : 1)) / sampleRate) + padding;
  const channels = fourth >> 6 === 3 ? 1 : 2;
  return {
    bytes: Math.max(HEAD_BYTES, slots * (layer === 1 ? 4 : 1)),
    samples,
    key: `${layer} ${sampleRate} ${channels}`,
    config: () => ({
      codec: "mpeg",
      name: `MP${layer}`,
      // Object types 32 to 34 of ISO/IEC 14496-3; layer III is what the registry of WebCodecs calls mp3.
      codecString: layer === 3 ? "mp3" : `mp4a.40.${31 + layer}`,
      sampleRate,
      channels,
      description: new Uint8Array([isLow ? 0x69 : 0x6b]),
    }),
  };
}

const AC3_BITRATES = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
const AC3_RATES = [48_000, 44_100, 32_000];
/** Channels by `acmod`, without that of low frequencies. */
const AC3_CHANNELS = [2, 1, 2, 3, 3, 4, 4, 5];
const AC3_BLOCK = 256;

/** Numbers of so many bits each, one behind the other, as bytes. */
function packed(...fields: [value: number, bits: number][]): number[] {
  const bits = fields.map(([value, count]) => value.toString(2).padStart(count, "0")).join("");
  return (bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2));
}

/** The header of a frame of AC-3 or E-AC-3; null where there is none. */
export function ac3Head(data: Uint8Array, at: number): Head | null {
  if (data[at] !== 0x0b || data[at + 1] !== 0x77) return null;
  const [third, fourth, fifth, sixth, seventh, eighth] = data.subarray(at + 2, at + 8) as unknown as [number, number, number, number, number, number];
  const version = sixth >> 3;
  if (version <= 10) {
    const [rateCode, size] = [fifth >> 6, fifth & 0x3f];
    const sampleRate = AC3_RATES[rateCode];
    const bitrate = (AC3_BITRATES[size >> 1] ?? 0) * 1000;
    if (sampleRate === undefined || bitrate === 0) return null;
    const words = Math.floor((bitrate * 96) / sampleRate) + (rateCode === 1 ? size & 1 : 0);
    const mode = seventh >> 5;
    // Levels of the mix stand between the mode and the bit of low frequencies.
    const levels = (mode & 1 && mode !== 1 ? 2 : 0) + (mode & 4 ? 2 : 0) + (mode === 2 ? 2 : 0);
    const low = (((seventh << 8) | eighth) >> (12 - levels)) & 1;
    const service = sixth & 7;
    return {
      bytes: words * 2,
      samples: 6 * AC3_BLOCK,
      key: `ac-3 ${sampleRate} ${mode} ${low} ${size >> 1}`,
      config: () => ({
        codec: "ac3", name: "AC-3", codecString: "ac-3", sampleRate, channels: AC3_CHANNELS[mode]! + low,
        description: new Uint8Array(packed([rateCode, 2], [version, 5], [service, 3], [mode, 3], [low, 1], [size >> 1, 5], [0, 5])),
      }),
    };
  }
  if (version > 16) return null;
  const kind = third >> 6;
  const bytes = ((((third & 7) << 8) | fourth) + 1) * 2;
  const [rateCode, second] = [fifth >> 6, (fifth >> 4) & 3];
  const sampleRate = rateCode === 3 ? (AC3_RATES[second] ?? 0) / 2 : AC3_RATES[rateCode]!;
  if (kind === 3 || !sampleRate || bytes < HEAD_BYTES) return null;
  const blocks = rateCode === 3 ? 6 : [1, 2, 3, 6][second]!;
  const [mode, low] = [(fifth >> 1) & 7, fifth & 1];
  const bitrate = Math.min(0x1fff, Math.floor((bytes * 8 * sampleRate) / (blocks * AC3_BLOCK) / 1000));
  const isFirst = kind !== 1 && ((third >> 3) & 7) === 0;
  return {
    bytes,
    samples: blocks * AC3_BLOCK,
    key: `ec-3 ${sampleRate} ${mode} ${low}`,
    extra: !isFirst,
    config: () => ({
      codec: "eac3", name: "E-AC-3", codecString: "ec-3", sampleRate, channels: AC3_CHANNELS[mode]! + low,
      description: new Uint8Array(packed(
        [bitrate, 13], [0, 3], [rateCode, 2], [version, 5], [0, 2], [0, 3], [mode, 3], [low, 1], [0, 3], [0, 4], [0, 1],
      )),
    }),
  };
}
