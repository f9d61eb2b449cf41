/** Reads the barcode out of shown pictures, from a decoded frame or a video element. */
import { type Barcode, COLUMNS, ROWS, cellSize, readBarcode } from "../barcode";

/** Pixel formats whose first plane is luma with a byte a sample. */
const LUMA_FIRST = new Set(["I420", "I420A", "I422", "I422A", "I444", "I444A", "NV12"]);

export class BarcodeReader {
  private readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d", { willReadFrequently: true });
  private buffer = new Uint8Array(0);
  private busy = false;

  /**
   * Reads from a decoded frame; `found` is called later, once its bytes are here. Takes a clone of the frame, which it
   * closes. While one reading is under way others are left out.
   */
  fromFrame(frame: VideoFrame, found: (barcode: Barcode | null) => void): void {
    const cell = cellSize(frame.displayWidth, frame.displayHeight);
    if (cell === 0 || this.busy) return;
    if (!frame.format || !LUMA_FIRST.has(frame.format)) {
      found(this.fromImage(frame, frame.displayWidth, frame.displayHeight));
      return;
    }
    const clone = frame.clone();
    const { x, y } = clone.visibleRect!;
    const rect = { x, y, width: COLUMNS * cell, height: ROWS * cell };
    this.busy = true;
    const size = clone.allocationSize({ rect });
    if (this.buffer.length < size) this.buffer = new Uint8Array(size);
    clone
      .copyTo(this.buffer, { rect })
      .then((planes) => found(readBarcode(this.buffer.subarray(planes[0]!.offset), cell, planes[0]!.stride)))
      .catch(() => found(null))
      .finally(() => {
        this.busy = false;
        clone.close();
      });
  }

  /** Reads from something that can be drawn, of this size in pixels. */
  fromImage(image: CanvasImageSource, width: number, height: number): Barcode | null {
    const cell = cellSize(width, height);
    if (cell === 0 || !this.context) return null;
    const [w, h] = [COLUMNS * cell, ROWS * cell];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.context.drawImage(image, 0, 0, w, h, 0, 0, w, h);
    return readBarcode(this.context.getImageData(0, 0, w, h).data, cell, w * 4, 4, 1);
  }
}
