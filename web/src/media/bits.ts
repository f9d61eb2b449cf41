/** Reads bits, most significant first, out of bytes. Throws RangeError past the end, so a parser needs no checks. */
export class BitReader {
  private position = 0;

  constructor(private readonly data: Uint8Array) {}

  /** The next bit. */
  bit(): number {
    const byte = this.data[this.position >> 3];
    if (byte === undefined) throw new RangeError(`bit ${this.position} is past the end of ${this.data.length} bytes`);
    const value = (byte >> (7 - (this.position & 7))) & 1;
    this.position += 1;
    return value;
  }

  /** The next `count` bits (0 to 32) as an unsigned number. */
  bits(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++) value = value * 2 + this.bit();
    return value;
  }

  /** ue(v), ISO/IEC 14496-10 clause 9.1. */
  unsigned(): number {
    let zeros = 0;
    while (this.bit() === 0) {
      zeros += 1;
      if (zeros > 32) throw new RangeError("Exp-Golomb code longer than 32 bits");
    }
    return 2 ** zeros - 1 + this.bits(zeros);
  }

  /** se(v), ISO/IEC 14496-10 clause 9.1.1. */
  signed(): number {
    const code = this.unsigned();
    return code % 2 === 1 ? (code + 1) / 2 : -code / 2;
  }
}

/** One array out of several, in order. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const part of parts) length += part.length;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Whether two arrays hold the same bytes. */
export function equalBytes(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === b) return true;
  if (!a || !b || a.length !== b.length) return false;
  return a.every((byte, i) => byte === b[i]);
}
