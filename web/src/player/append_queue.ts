/** What waits to go into a SourceBuffer: it takes one append at a time. */

const MAX_QUEUED_BYTES = 64 << 20;

interface Entry {
  bytes: Uint8Array<ArrayBuffer>;
  /** Set for initialisation segments: the type that is valid from here on. */
  mime: string | null;
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
    this.buffer.mode = "segments";
    this.buffer.addEventListener("updateend", () => this.pump());
    this.buffer.addEventListener("error", () => this.failed(`the browser refused ${mime}`));
    this.pump();
  }

  init(mime: string, bytes: Uint8Array<ArrayBuffer>): void {
    this.push({ bytes, mime });
  }

  append(bytes: Uint8Array<ArrayBuffer>): void {
    this.push({ bytes, mime: null });
  }

  /** Media before `seconds` is no more needed. */
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
        buffer.appendBuffer(head.bytes);
        this.entries.shift();
        this.queuedBytes -= head.bytes.length;
      } else this.removeOld(buffer);
    } catch (error) {
      if (error instanceof DOMException && error.name === "QuotaExceededError") this.removeOld(buffer);
      else this.failed(String(error));
    }
  }

  private removeOld(buffer: SourceBuffer): void {
    const start = buffer.buffered.length > 0 ? buffer.buffered.start(0) : Infinity;
    // Where key frames are rare, little can be removed; asking again and again would only cost time.
    if (this.trimTo - start < 1) return;
    buffer.remove(0, this.trimTo);
    this.trimTo = 0;
  }
}
