/**
 * Fragmented MP4 for Media Source Extensions (ISO/IEC 14496-12, -14, -15; Opus: its ISOBMFF encapsulation): an
 * initialisation segment for one track, and fragments of one `moof` and one `mdat`.
 */
import type { AudioConfig } from "./audio";
import { concat } from "./bits";
import type { Av1Config, H264Config, VideoConfig } from "./feed";
import type { Nal } from "./h264";

export const VIDEO_TIMESCALE = 90_000;
const AUD = 9;
const FILLER = 12;

/** A sample of a fragment. Times in units of the track's timescale. */
export interface Sample {
  data: Uint8Array;
  duration: number;
  /** Presentation minus decoding time. */
  compositionOffset: number;
  sync: boolean;
}

const u8 = (...values: number[]): Uint8Array => new Uint8Array(values);
const u16 = (value: number): Uint8Array => u8((value >> 8) & 255, value & 255);
const u32 = (value: number): Uint8Array => u8((value >>> 24) & 255, (value >>> 16) & 255, (value >>> 8) & 255, value & 255);
const u64 = (value: number): Uint8Array => concat([u32(Math.floor(value / 2 ** 32)), u32(value % 2 ** 32)]);
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

function box(type: string, ...parts: Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 8);
  return concat([u32(length), text(type), ...parts]);
}

function fullBox(type: string, version: number, flags: number, ...parts: Uint8Array[]): Uint8Array {
  return box(type, u32(version * 2 ** 24 + flags), ...parts);
}

const UNITY_MATRIX = concat([0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000].map(u32));

/** The MIME type of a video track for `addSourceBuffer`. */
export function videoMime(config: VideoConfig): string {
  return `video/mp4; codecs="${config.parameters.codecString}"`;
}

/** Frames of MPEG audio one behind the other, which browsers take that have no MP3 in MP4. */
export const RAW_MP3 = "audio/mpeg";

/** MIME types for `addSourceBuffer` that an audio track may have, the best first: browsers know their codecs by different names. */
export function audioMimes(config: AudioConfig): string[] {
  const mp4 = (codec: string): string => `audio/mp4; codecs="${codec}"`;
  if (config.codec === "opus") return [mp4("opus"), mp4("Opus")];
  if (config.codec === "mpeg" && config.codecString === "mp3") return [mp4("mp3"), mp4("mp4a.6B"), mp4("mp4a.69"), RAW_MP3];
  return [mp4(config.codecString)];
}

/** `ftyp` and `moov` of a video track. No duration is written: the stream is live. */
export function videoInit(config: VideoConfig): Uint8Array<ArrayBuffer> {
  const { width, height } = config.parameters;
  const boxes = config.codec === "av1" ? [av1C(config)] : [avcC(config), ...colourAndAspect(config)];
  const entry = box(
    config.codec === "av1" ? "av01" : "avc1", new Uint8Array(6), u16(1), new Uint8Array(16), u16(width), u16(height), u32(0x480000),
    u32(0x480000), u32(0), u16(1), new Uint8Array(32), u16(24), u16(0xffff), ...boxes,
  );
  return init(VIDEO_TIMESCALE, "vide", fullBox("vmhd", 0, 1, new Uint8Array(8)), entry, width, height);
}

/** `ftyp` and `moov` of an audio track; its timescale is the sample rate. */
export function audioInit(config: AudioConfig): Uint8Array<ArrayBuffer> {
  const channels = config.channels || 2;
  const entry = box(
    AUDIO_ENTRIES[config.codec], new Uint8Array(6), u16(1), new Uint8Array(8), u16(channels), u16(16),
    u32(0), u32(config.sampleRate < 65536 ? config.sampleRate * 65536 : 0),
    decoderBox(config),
  );
  return init(config.sampleRate, "soun", fullBox("smhd", 0, 0, u32(0)), entry, 0, 0);
}

function init(
  timescale: number, handler: string, mediaHeader: Uint8Array, entry: Uint8Array, width: number, height: number,
): Uint8Array<ArrayBuffer> {
  const ftyp = box("ftyp", text("iso5"), u32(512), text("iso5iso6mp41"));
  const mvhd = fullBox(
    "mvhd", 0, 0, u32(0), u32(0), u32(timescale), u32(0), u32(0x10000), u16(0x100), new Uint8Array(10), UNITY_MATRIX,
    new Uint8Array(24), u32(2),
  );
  const tkhd = fullBox(
    "tkhd", 0, 3, u32(0), u32(0), u32(1), u32(0), u32(0), new Uint8Array(8), u16(0), u16(0),
    u16(handler === "soun" ? 0x100 : 0), u16(0), UNITY_MATRIX, u32(width * 65536), u32(height * 65536),
  );
  const mdhd = fullBox("mdhd", 0, 0, u32(0), u32(0), u32(timescale), u32(0), u16(0x55c4), u16(0));
  const hdlr = fullBox("hdlr", 0, 0, u32(0), text(handler), new Uint8Array(12), text("live\0"));
  const dinf = box("dinf", fullBox("dref", 0, 0, u32(1), fullBox("url ", 0, 1)));
  const stbl = box(
    "stbl", fullBox("stsd", 0, 0, u32(1), entry), fullBox("stts", 0, 0, u32(0)), fullBox("stsc", 0, 0, u32(0)),
    fullBox("stsz", 0, 0, u32(0), u32(0)), fullBox("stco", 0, 0, u32(0)),
  );
  const trak = box("trak", tkhd, box("mdia", mdhd, hdlr, box("minf", mediaHeader, dinf, stbl)));
  const trex = fullBox("trex", 0, 0, u32(1), u32(1), u32(0), u32(0), u32(0));
  return concat([ftyp, box("moov", mvhd, trak, box("mvex", trex))]);
}

/** "AV1 Codec ISO Media File Format Binding" clause 2.3. */
function av1C({ sequence, parameters }: Av1Config): Uint8Array {
  return box("av1C", u8(0x81, ...parameters.configuration, 0), sequence);
}

function avcC({ sps, pps, parameters }: H264Config): Uint8Array {
  const high = ![66, 77, 88].includes(parameters.profile);
  const extension = high
    ? [u8(0xfc | parameters.chromaFormat, 0xf8 | (parameters.bitDepthLuma - 8), 0xf8 | (parameters.bitDepthChroma - 8), 0)]
    : [];
  return box(
    "avcC", u8(1, sps[1]!, sps[2]!, sps[3]!, 0xff, 0xe1), u16(sps.length), sps, u8(1), u16(pps.length), pps, ...extension,
  );
}

function colourAndAspect({ parameters }: H264Config): Uint8Array[] {
  const boxes: Uint8Array[] = [];
  const { colour, sampleAspect, fullRange } = parameters;
  if (sampleAspect.width !== sampleAspect.height) {
    boxes.push(box("pasp", u32(sampleAspect.width), u32(sampleAspect.height)));
  }
  if (colour) {
    const points = [colour.primaries, colour.transfer, colour.matrix].map(u16);
    boxes.push(box("colr", text("nclx"), ...points, u8(fullRange ? 0x80 : 0)));
  }
  return boxes;
}

/** Sample entries: ISO/IEC 14496-14, the encapsulation of Opus, ETSI TS 102 366 annex F. */
const AUDIO_ENTRIES: Record<AudioConfig["codec"], string> = { aac: "mp4a", mpeg: "mp4a", opus: "Opus", ac3: "ac-3", eac3: "ec-3" };

function decoderBox(config: AudioConfig): Uint8Array {
  switch (config.codec) {
    case "opus":
      return dOps(config);
    case "ac3":
      return box("dac3", config.description);
    case "eac3":
      return box("dec3", config.description);
    default:
      return esds(config);
  }
}

function dOps({ description }: AudioConfig): Uint8Array {
  // As OpusHead, but version 0 and big-endian.
  const view = new DataView(description.buffer, description.byteOffset, description.length);
  return box(
    "dOps", u8(0, description[9]!), u16(view.getUint16(10, true)), u32(view.getUint32(12, true)),
    u16(view.getUint16(16, true)), description.subarray(18),
  );
}

function esds({ codec, description }: AudioConfig): Uint8Array {
  const descriptor = (tag: number, ...parts: Uint8Array[]): Uint8Array => {
    const body = concat(parts);
    return concat([u8(tag, 0x80, 0x80, 0x80, body.length), body]);
  };
  // objectTypeIndication 0x40: MPEG-4 audio, which has a configuration of its own; streamType 5: audio.
  const isMpeg4 = codec === "aac";
  const own = isMpeg4 ? [descriptor(5, description)] : [];
  const decoder = descriptor(4, u8(isMpeg4 ? 0x40 : description[0]!, 0x15, 0, 0, 0), u32(0), u32(0), ...own);
  return fullBox("esds", 0, 0, descriptor(3, u16(0), u8(0), decoder, descriptor(6, u8(2))));
}

/** One `moof` and its `mdat`. `sequence` counts fragments from 1, `decodeTime` is that of the first sample. */
export function fragment(sequence: number, decodeTime: number, samples: readonly Sample[]): Uint8Array<ArrayBuffer> {
  const rows = samples.map((sample) =>
    concat([
      u32(sample.duration),
      u32(sample.data.length),
      u32(sample.sync ? 0x02000000 : 0x01010000), // depends on no other, or on others and not a sync sample
      u32(sample.compositionOffset),
    ]),
  );
  const moofWith = (dataOffset: number): Uint8Array =>
    box(
      "moof",
      fullBox("mfhd", 0, 0, u32(sequence)),
      box(
        "traf",
        fullBox("tfhd", 0, 0x020000, u32(1)), // default-base-is-moof
        fullBox("tfdt", 1, 0, u64(decodeTime)),
        fullBox("trun", 1, 0x000f01, u32(samples.length), u32(dataOffset), ...rows),
      ),
    );
  const dataOffset = moofWith(0).length + 8;
  return concat([moofWith(dataOffset), box("mdat", ...samples.map((sample) => sample.data))]);
}

/** Annex B → length-prefixed NAL units of an `avc1` sample. Parameter sets stay: they may change in mid-stream. */
export function toLengthPrefixed(data: Uint8Array, nals: readonly Nal[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const nal of nals) {
    if (nal.type === AUD || nal.type === FILLER) continue;
    parts.push(u32(nal.end - nal.start), data.subarray(nal.start, nal.end));
  }
  return concat(parts);
}
