// Draws the time code that src/barcode.ts reads into a yuv420p picture's luma, at both of its places.
export function barcodeBytes(frame, captureUs) {
  const bytes = new Uint8Array(10);
  const put = (from, to, value) => {
    for (let i = to - 1; i >= from; i--) {
      bytes[i] = value % 256;
      value = Math.floor(value / 256);
    }
  };
  put(0, 3, frame % 2 ** 24);
  put(3, 8, Math.round(captureUs) % 2 ** 40);
  let crc = 0xffff;
  for (const byte of bytes.subarray(0, 8)) {
    crc ^= byte << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  bytes[8] = crc >> 8;
  bytes[9] = crc & 255;
  return bytes;
}

export function drawBarcode(luma, width, height, frame, captureUs) {
  const cell = width >= 320 ? 16 * Math.max(1, Math.floor(height / 1080)) : width >= 160 ? 8 : 0;
  if (cell === 0) return;
  const bytes = barcodeBytes(frame, captureUs);
  const down = (n) => Math.floor(n / (cell === 8 ? 8 : 16)) * (cell === 8 ? 8 : 16);
  for (const [left, top] of [[0, 0], [down(width - 20 * cell), down(height - 4 * cell)]]) {
    for (let bit = 0; bit < 80; bit++) {
      const value = bytes[bit >> 3] & (0x80 >> (bit & 7)) ? 235 : 16;
      const x = left + (bit % 20) * cell;
      const y = top + Math.floor(bit / 20) * cell;
      for (let row = 0; row < cell; row++) luma.fill(value, (y + row) * width + x, (y + row) * width + x + cell);
    }
  }
}
