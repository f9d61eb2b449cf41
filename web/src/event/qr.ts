/** QR codes (ISO/IEC 18004) as paths of squares. */
import { correction, generate } from "lean-qr";

/** Modules of nothing around a code, without which readers do not find it (ISO/IEC 18004, 9.1). */
export const QUIET = 4;

export interface QrPath {
  /** Modules on a side, with the quiet zone. */
  size: number;
  /** SVG path of the dark modules, a rectangle for each run in a row; one unit is one module. */
  path: string;
}

/** The code of an address (ASCII, since readers differ in what they make of other letters), with error correction M, or more of it where that takes no larger code. Throws where the text is too long (about 2,300 bytes). */
export function qrPath(text: string): QrPath {
  const code = generate(text, { minCorrectionLevel: correction.M });
  const parts: string[] = [];
  for (let y = 0; y < code.size; y++) {
    for (let x = 0; x < code.size; x++) {
      if (!code.get(x, y)) continue;
      const from = x;
      while (x < code.size && code.get(x, y)) x += 1;
      parts.push(`M${from + QUIET} ${y + QUIET}h${x - from}v1h${from - x}z`);
    }
  }
  return { size: code.size + 2 * QUIET, path: parts.join("") };
}
