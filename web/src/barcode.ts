/**
 * The time code that Glassline draws into pictures: 80 bits as black and white cells, 20 columns by 4 rows, most
 * significant bit first, row by row: 24 bits frame number, 40 bits capture time (UTC, µs, modulo 2^40), 16 bits
 * CRC-16/CCITT-FALSE over the eight bytes before.
 */
export const COLUMNS = 20;
export const ROWS = 4;
const WRAP_US = 2 ** 40;

export interface Barcode {
  frame: number;
  /** Capture time, UTC in µs modulo 2^40. */
  captureUs: number;
}

/** Side of a cell in pixels for a picture of this size; 0: too small to carry a barcode. */
export function cellSize(width: number, height: number): number {
  if (width >= 320) return 16 * Math.max(1, Math.floor(height / 1080));
  return width >= 160 ? 8 : 0;
}

/** CRC-16/CCITT-FALSE: polynomial 0x1021, initial value 0xFFFF. */
export function crc16(data: Uint8Array): number {
  let crc = 0xffff;
  for (const byte of data) {
    crc ^= byte << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

/**
 * Reads the barcode whose top left corner is the first sample of `luma`. Samples lie `step` apart in a row (4 and
 * offset 1 for RGBA, where green stands for luma), rows `stride` apart. Null when nothing valid is there.
 * Cost: a quarter of the barcode's samples.
 */
export function readBarcode(
  luma: Uint8Array | Uint8ClampedArray, cell: number, stride: number, step = 1, offset = 0,
): Barcode | null {
  if (cell < 4 || luma.length < (ROWS * cell - 1) * stride + COLUMNS * cell * step) return null;
  const means: number[] = [];
  const margin = cell >> 2;
  const side = cell - 2 * margin;
  for (let row = 0; row < ROWS; row++) {
    for (let column = 0; column < COLUMNS; column++) {
      let sum = 0;
      for (let y = 0; y < side; y++) {
        let at = offset + (row * cell + margin + y) * stride + (column * cell + margin) * step;
        for (let x = 0; x < side; x++, at += step) sum += luma[at]!;
      }
      means.push(sum / (side * side));
    }
  }
  const darkest = Math.min(...means);
  const brightest = Math.max(...means);
  if (brightest - darkest < 32) return null;
  const threshold = (darkest + brightest) / 2;
  const bytes = new Uint8Array(10);
  means.forEach((mean, i) => {
    if (mean > threshold) bytes[i >> 3]! |= 0x80 >> (i & 7);
  });
  if (crc16(bytes.subarray(0, 8)) !== ((bytes[8]! << 8) | bytes[9]!)) return null;
  const number = (from: number, to: number): number => bytes.subarray(from, to).reduce((n, b) => n * 256 + b, 0);
  return { frame: number(0, 3), captureUs: number(3, 8) };
}

/** Age in µs of a picture captured at `captureUs`, when it is `nowUs` (UTC). Negative when the clocks disagree. */
export function ageUs(nowUs: number, captureUs: number): number {
  const age = (((nowUs - captureUs) % WRAP_US) + WRAP_US) % WRAP_US;
  return age >= WRAP_US / 2 ? age - WRAP_US : age;
}
