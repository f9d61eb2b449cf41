/** Audio frames out of PES payloads: AAC in ADTS (ISO/IEC 13818-7), Opus in MPEG-TS (ETSI TS 103 491 and its draft). */
import { concat } from "./bits";

/** What an audio decoder must be told. */
export interface AudioConfig {
  codec: "aac" | "opus" | "mpeg" | "ac3" | "eac3";
  /** For people: `AAC`, `MP3`, … */
  name: string;
  /** For WebCodecs and, but for MP3, for MSE: `mp4a.40.2`, `opus`. */
  codecString: string;
  sampleRate: number;
  channels: number;
  /** AAC: AudioSpecificConfig. Opus: OpusHead (RFC 7845). MPEG: objectTypeIndication. AC-3, E-AC-3: body of `dac3`, `dec3`. */
  description: Uint8Array<ArrayBuffer>;
}

/** One coded audio frame, without ADTS or TS control header. */
export interface AudioFrame {
  data: Uint8Array;
  /** Length in samples at the configuration's rate. */
  samples: number;
  config: AudioConfig;
}

const ADTS_RATES = [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350];
const MAX_CARRY_BYTES = 16384;

/** Cuts ADTS frames out of PES payloads; a frame may go over a PES's end. */
export class AdtsSplitter {
  private carry: Uint8Array = new Uint8Array(0);
  private config: AudioConfig | null = null;
  private key = -1;

  /** Forgets a half frame: call when bytes were lost. */
  reset(): void {
    this.carry = new Uint8Array(0);
  }

  /** Bytes that stand before this payload's own first frame. */
  get carriedBytes(): number {
    return this.carry.length;
  }

  /** The frames that end within `payload`. */
  split(payload: Uint8Array): AudioFrame[] {
    const data = this.carry.length > 0 ? concat([this.carry, payload]) : payload;
    const frames: AudioFrame[] = [];
    let at = 0;
    while (at + 7 <= data.length) {
      // syncword 0xFFF, layer 0
      if (data[at] !== 0xff || (data[at + 1]! & 0xf6) !== 0xf0) {
        at += 1;
        continue;
      }
      const headerBytes = (data[at + 1]! & 1) === 1 ? 7 : 9;
      const length = ((data[at + 3]! & 3) << 11) | (data[at + 4]! << 3) | (data[at + 5]! >> 5);
      const rate = ADTS_RATES[(data[at + 2]! >> 2) & 15];
      if (length <= headerBytes || rate === undefined) {
        at += 1;
        continue;
      }
      if (at + length > data.length) break;
      const blocks = (data[at + 6]! & 3) + 1;
      frames.push({
        data: data.slice(at + headerBytes, at + length),
        samples: 1024 * blocks,
        config: this.configOf(data[at + 2]!, data[at + 3]!, rate),
      });
      at += length;
    }
    const rest = data.subarray(at);
    this.carry = rest.length > MAX_CARRY_BYTES ? new Uint8Array(0) : rest.slice();
    return frames;
  }

  private configOf(second: number, third: number, rate: number): AudioConfig {
    const key = (second << 8) | (third & 0xc0);
    if (this.config && key === this.key) return this.config;
    const objectType = (second >> 6) + 1;
    const rateIndex = (second >> 2) & 15;
    const channelCode = ((second & 1) << 2) | (third >> 6);
    this.key = key;
    this.config = {
      codec: "aac",
      name: "AAC",
      codecString: `mp4a.40.${objectType}`,
      sampleRate: rate,
      channels: channelCode === 7 ? 8 : channelCode,
      description: new Uint8Array([(objectType << 3) | (rateIndex >> 1), ((rateIndex & 1) << 7) | (channelCode << 3)]),
    };
    return this.config;
  }
}

/** Streams and coupled streams for 1 to 8 channels in Vorbis order, and the channel mapping (RFC 7845 clause 5.1.1.2). */
const OPUS_LAYOUTS: readonly { streams: number; coupled: number; mapping: readonly number[] }[] = [
  { streams: 1, coupled: 0, mapping: [0] },
  { streams: 1, coupled: 1, mapping: [0, 1] },
  { streams: 2, coupled: 1, mapping: [0, 2, 1] },
  { streams: 2, coupled: 2, mapping: [0, 1, 2, 3] },
  { streams: 3, coupled: 2, mapping: [0, 4, 1, 2, 3] },
  { streams: 4, coupled: 2, mapping: [0, 4, 1, 2, 3, 5] },
  { streams: 4, coupled: 3, mapping: [0, 4, 1, 2, 3, 5, 6] },
  { streams: 5, coupled: 3, mapping: [0, 6, 1, 2, 3, 4, 5, 7] },
];

/** The configuration of an Opus track of 1 to 8 channels; a strange count counts as two. */
export function opusConfig(channelCount: number): AudioConfig {
  const channels = channelCount >= 1 && channelCount <= 8 ? channelCount : 2;
  const layout = OPUS_LAYOUTS[channels - 1]!;
  const head = [
    ...new TextEncoder().encode("OpusHead"), 1, channels,
    0, 0, // pre-skip: a live join has nothing to skip
    0x80, 0xbb, 0, 0, // 48000, little-endian
    0, 0, // output gain
    channels > 2 ? 1 : 0,
  ];
  if (channels > 2) head.push(layout.streams, layout.coupled, ...layout.mapping);
  return { codec: "opus", name: "Opus", codecString: "opus", sampleRate: 48000, channels, description: new Uint8Array(head) };
}

/** Cuts Opus packets out of a PES payload: each stands behind a control header with prefix 0x3FF. */
export function splitOpus(payload: Uint8Array, config: AudioConfig): AudioFrame[] {
  const frames: AudioFrame[] = [];
  let at = 0;
  while (at + 2 < payload.length) {
    const prefix = (payload[at]! << 8) | payload[at + 1]!;
    if ((prefix & 0xffe0) !== 0x7fe0) break;
    const startTrim = (prefix & 0x10) !== 0;
    const endTrim = (prefix & 0x08) !== 0;
    const extension = (prefix & 0x04) !== 0;
    at += 2;
    let size = 0;
    while (payload[at] === 255) {
      size += 255;
      at += 1;
    }
    size += payload[at++] ?? 0;
    if (startTrim) at += 2;
    if (endTrim) at += 2;
    if (extension) at += 1 + (payload[at] ?? 0);
    if (size === 0 || at + size > payload.length) break;
    const data = payload.slice(at, at + size);
    frames.push({ data, samples: opusSamples(data), config });
    at += size;
  }
  return frames;
}

/** Length of an Opus packet in samples at 48 kHz, from its first bytes (RFC 6716 clause 3.1). 0 when it is malformed. */
export function opusSamples(packet: Uint8Array): number {
  const toc = packet[0];
  if (toc === undefined) return 0;
  const config = toc >> 3;
  let frame: number;
  if (config < 12) frame = [480, 960, 1920, 2880][config & 3]!;
  else if (config < 16) frame = [480, 960][config & 1]!;
  else frame = [120, 240, 480, 960][config & 3]!;
  const code = toc & 3;
  const count = code === 0 ? 1 : code < 3 ? 2 : (packet[1] ?? 0) & 63;
  const samples = frame * count;
  return samples <= 5760 ? samples : 0;
}
