/** What waits to go into a SourceBuffer: it takes one append at a time. */
import { RAW_MP3 } from "../media/mp4";

const MAX_QUEUED_BYTES = 64 << 20;
/** Little pieces are not worth the time that removing takes. */
const MIN_REMOVED_SECONDS = 1;

interface Entry {
  bytes: Uint8Array<ArrayBuffer>;
  /** Set for initialisation segments: the type that is valid from here on. */
  mime: string | null;
  /** Where bytes without times of their own go, in seconds; null: behind those before. */
  atS: number | null;
}

export class AppendQueue {
  private buffer: SourceBuffer | null = null;
  private entries: Entry[] = [];
  private queuedBytes = 0;
  private mime = "";
  private trimTo = 0;
  private closed = false;

  /** `failed` is told when nothing can be appended any more. */
  constructor(private readonly failed: (message: string) => void) {}

  /** From now on bytes go into a new buffer of `source`. */
  attach(source: MediaSource, mime: string): void {
    try {
      this.buffer = source.addSourceBuffer(mime);
    } catch (error) {
      this.failed(`${mime}: ${String(error)}`);
      return;
    }
    this.mime = mime;
    // Frames of sound without times of their own have no other mode.
    if (mime !== RAW_MP3) this.buffer.mode = "segments";
    this.buffer.addEventListener("updateend", () => this.pump());
    this.buffer.addEventListener("error", () => this.failed(`the browser refused ${mime}`));
    this.pump();
  }

  init(mime: string, bytes: Uint8Array<ArrayBuffer>): void {
    this.push({ bytes, mime, atS: null });
  }

  /** `atS`: where bytes go that have no times of their own, and do not go on from those before. */
  append(bytes: Uint8Array<ArrayBuffer>, atS: number | null = null): void {
    this.push({ bytes, mime: null, atS });
  }

  /** Media before `seconds`, the time of a key frame, is no more needed. */
  trim(seconds: number): void {
    this.trimTo = Math.max(this.trimTo, seconds);
    this.pump();
  }

  close(): void {
    this.closed = true;
    this.entries = [];
    this.queuedBytes = 0;
  }

  private push(entry: Entry): void {
    this.entries.push(entry);
    this.queuedBytes += entry.bytes.length;
    if (this.queuedBytes > MAX_QUEUED_BYTES) this.failed(`${this.queuedBytes} bytes wait to be appended`);
    else this.pump();
  }

  private pump(): void {
    const buffer = this.buffer;
    if (!buffer || buffer.updating || this.closed) return;
    try {
      const head = this.entries[0];
      if (head) {
        if (head.mime && head.mime !== this.mime) {
          buffer.changeType(head.mime);
          this.mime = head.mime;
        }
        if (head.atS !== null) buffer.timestampOffset = head.atS;
        if (head.bytes.length > 0) buffer.appendBuffer(head.bytes);
        this.entries.shift();
        this.queuedBytes -= head.bytes.length;
        // A change of type alone brings no event.
        if (head.bytes.length === 0) this.pump();
      } else this.removeOld(buffer);
    } catch (error) {
      const full = error instanceof DOMException && error.name === "QuotaExceededError";
      // Full of one endless GOP, of which nothing can be removed: only a new join helps.
      if (!full || !this.removeOld(buffer)) this.failed(String(error));
    }
  }

  /** Whether something is being removed. */
  private removeOld(buffer: SourceBuffer): boolean {
    const start = buffer.buffered.length > 0 ? buffer.buffered.start(0) : Infinity;
    if (this.trimTo - start < MIN_REMOVED_SECONDS) return false;
    // A little earlier than the key frame there: rounding must not take it along.
    buffer.remove(0, this.trimTo - 0.001);
    this.trimTo = 0;
    return true;
  }
}
