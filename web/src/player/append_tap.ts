/** Sees what a library appends to the browser's buffers: the libraries have no common place where media passes by. */
import { ChunkTimes } from "../media/chunk_times";
import type { StageLedger } from "../stages/ledger";
import type { CaptureLine } from "./capture_line";

export class AppendTap {
  /** All that was appended. */
  bytes = 0;
  private readonly readers = new WeakMap<SourceBuffer, ChunkTimes>();
  private readonly original = SourceBuffer.prototype.appendBuffer;

  /** Watches until `close`; there is one at a time. Sound has a line of its own: its chunks are not the pictures'. */
  constructor(line: CaptureLine, soundLine: CaptureLine, stages: StageLedger) {
    const { original, readers } = this;
    const seen = (buffer: SourceBuffer, data: BufferSource): void => {
      const bytes = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
      this.bytes += bytes.length;
      let reader = readers.get(buffer);
      if (!reader) readers.set(buffer, (reader = new ChunkTimes()));
      const nowMs = performance.now();
      for (const { mediaS, captureUs, record, isSound } of reader.read(bytes)) {
        if (isSound) soundLine.add({ mediaS: mediaS + buffer.timestampOffset, captureUs });
        else line.add({ mediaS: mediaS + buffer.timestampOffset, captureUs, number: stages.arrived(captureUs, record, nowMs, nowMs) });
      }
    };
    SourceBuffer.prototype.appendBuffer = function (data: BufferSource): void {
      seen(this, data);
      original.call(this, data);
    };
  }

  close(): void {
    SourceBuffer.prototype.appendBuffer = this.original;
  }
}
