/** Sees what a library appends to the browser's buffers: the libraries have no common place where media passes by. */
import { ChunkTimes } from "../media/chunk_times";
import type { StageLedger } from "../stages/ledger";
import type { CaptureLine } from "./capture_line";

/** What of a video element says which media source it plays. */
export interface Attached {
  readonly src: string;
  readonly currentSrc: string;
  readonly srcObject: unknown;
}

/** The media source of each buffer that was made since the first tap, and the addresses that each source was given. */
const sources = new WeakMap<SourceBuffer, MediaSource>();
const addresses = new WeakMap<object, Set<string>>();
const taps = new Set<AppendTap>();
/** Prototypes that have been changed, for good: taking a change back would undo others that were made on top of it. */
const changed = new WeakSet<object>();

/** Puts `replacement` in the place of a method of this class, where it is declared, once. */
function change<F>(owner: object | undefined, method: string, replacement: (original: F) => F): void {
  let place: object | null = owner ?? null;
  while (place !== null && !Object.hasOwn(place, method)) place = Object.getPrototypeOf(place) as object | null;
  if (place === null || changed.has(place)) return;
  changed.add(place);
  const methods = place as Record<string, F>;
  methods[method] = replacement(methods[method]!);
}

/** Safari on phones has classes of its own. */
const classes = globalThis as { [name in "MediaSource" | "ManagedMediaSource" | "SourceBuffer" | "ManagedSourceBuffer"]?: { prototype: object } };

/** Libraries make their media source after the tap: what is made from now on is known. */
function listen(): void {
  for (const one of [classes.MediaSource, classes.ManagedMediaSource]) {
    change<MediaSource["addSourceBuffer"]>(one?.prototype, "addSourceBuffer", (original) => function (this: MediaSource, type) {
      const buffer = original.call(this, type);
      sources.set(buffer, this);
      return buffer;
    });
  }
  change<typeof URL.createObjectURL>(URL, "createObjectURL", (original) => function (this: typeof URL, object) {
    const address = original.call(this, object);
    const known = addresses.get(object) ?? new Set();
    addresses.set(object, known.add(address));
    return address;
  });
  for (const one of [classes.SourceBuffer, classes.ManagedSourceBuffer]) {
    change<SourceBuffer["appendBuffer"]>(one?.prototype, "appendBuffer", (original) => function (this: SourceBuffer, data) {
      const source = sources.get(this);
      if (source) for (const tap of taps) if (tap.plays(source)) tap.seen(this, data);
      original.call(this, data);
    });
  }
}

export class AppendTap {
  /** All that was appended. */
  bytes = 0;
  private readonly readers = new WeakMap<SourceBuffer, ChunkTimes>();

  /** Watches what `video` plays until `close`. Sound has a line of its own: its chunks are not the pictures'. */
  constructor(
    private readonly video: Attached, private readonly line: CaptureLine, private readonly soundLine: CaptureLine, private readonly stages: StageLedger,
  ) {
    listen();
    taps.add(this);
  }

  /** Whether this media source is the video's. */
  plays(source: MediaSource): boolean {
    const { src, currentSrc, srcObject } = this.video;
    if (srcObject === source) return true;
    const own = addresses.get(source);
    // The address of a `<source>` inside of the element is in `currentSrc` alone.
    return own !== undefined && own.has(src === "" ? currentSrc : src);
  }

  /** Takes what is appended to one of the video's buffers. */
  seen(buffer: SourceBuffer, data: BufferSource): void {
    const { line, soundLine, stages } = this;
    const bytes = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
    this.bytes += bytes.length;
    let reader = this.readers.get(buffer);
    if (!reader) this.readers.set(buffer, (reader = new ChunkTimes()));
    const nowMs = performance.now();
    for (const { mediaS, captureUs, record, isSound } of reader.read(bytes)) {
      if (isSound) soundLine.add({ mediaS: mediaS + buffer.timestampOffset, captureUs });
      else line.add({ mediaS: mediaS + buffer.timestampOffset, captureUs, number: stages.arrived(captureUs, record, nowMs, nowMs) });
    }
  }

  close(): void {
    taps.delete(this);
  }
}
