/**
 * An IDR picture out of nothing: all grey, in the form that a given SPS asks for. A stream with intra refresh has no
 * IDR picture to join at, only recovery points, and browsers refuse to start a decoder there. Decoded before a
 * recovery point, this picture is what the refresh then paints over.
 */
import { concat } from "./bits";
import type { SequenceParameters } from "./h264";

const START = new Uint8Array([0, 0, 0, 1]);
const IDR_HEADER = 0x65;
const PPS_HEADER = 0x68;
/** An id that streams do not use, so that their own picture parameter sets stay in force. */
const PPS_ID = 200;
const I_SLICE = 7;
const I_16X16_DC = 3;

class BitWriter {
  private readonly bytes: number[] = [];
  private count = 0;

  bits(value: number, count: number): void {
    for (let i = count - 1; i >= 0; i--) {
      if (this.count % 8 === 0) this.bytes.push(0);
      const bit = Math.floor(value / 2 ** i) % 2;
      if (bit) this.bytes[this.count >> 3]! |= 0x80 >> (this.count & 7);
      this.count += 1;
    }
  }

  /** ue(v). */
  unsigned(value: number): void {
    const length = Math.floor(Math.log2(value + 1));
    this.bits(0, length);
    this.bits(value + 1, length + 1);
  }

  /** The NAL unit: trailing bits, and emulation prevention (clause 7.4.1). */
  nal(header: number): Uint8Array {
    this.bits(1, 1);
    const out = [header];
    let zeros = 0;
    for (const byte of this.bytes) {
      if (zeros >= 2 && byte <= 3) {
        out.push(3);
        zeros = 0;
      }
      out.push(byte);
      zeros = byte === 0 ? zeros + 1 : 0;
    }
    return new Uint8Array(out);
  }
}

/** Clause 7.3.2.2: CAVLC, one slice group, deblocking under the slice's control. */
function pictureParameters(spsId: number): Uint8Array {
  const bits = new BitWriter();
  bits.unsigned(PPS_ID);
  bits.unsigned(spsId);
  bits.bits(0, 2); // entropy_coding_mode, bottom_field_pic_order_in_frame_present
  for (let i = 0; i < 3; i++) bits.unsigned(0); // slice groups - 1, default reference counts - 1
  bits.bits(0, 3); // weighted prediction
  for (let i = 0; i < 3; i++) bits.unsigned(0); // initial QP, QS, chroma offset
  bits.bits(0b100, 3); // deblocking control, constrained intra, redundant pictures
  return bits.nal(PPS_HEADER);
}

/**
 * SPS, a picture parameter set of its own and one slice, in Annex B form. Null for separate colour planes. Each
 * macroblock takes a byte.
 */
export function greyIdr(sps: Uint8Array, parameters: SequenceParameters): Uint8Array | null {
  const { spsId, separatePlanes, frameNumBits, orderType, orderBits, orderAlwaysZero, framesOnly, macroblocks } =
    parameters.slice;
  if (separatePlanes) return null;
  const bits = new BitWriter();
  bits.unsigned(0); // first_mb_in_slice
  bits.unsigned(I_SLICE);
  bits.unsigned(PPS_ID);
  bits.bits(0, frameNumBits);
  if (!framesOnly) bits.bits(0, 1); // field_pic_flag
  bits.unsigned(0); // idr_pic_id
  if (orderType === 0) bits.bits(0, orderBits);
  if (orderType === 1 && !orderAlwaysZero) bits.unsigned(0);
  bits.bits(0, 2); // no_output_of_prior_pics_flag, long_term_reference_flag
  bits.unsigned(0); // slice_qp_delta
  bits.unsigned(1); // disable_deblocking_filter_idc
  for (let i = 0; i < macroblocks; i++) {
    bits.unsigned(I_16X16_DC);
    if (parameters.chromaFormat === 1 || parameters.chromaFormat === 2) bits.unsigned(0); // chroma prediction: DC
    bits.unsigned(0); // mb_qp_delta
    bits.bits(1, 1); // coeff_token: no luma DC coefficients
    // In 4:4:4 the two chroma planes are coded as luma is.
    if (parameters.chromaFormat === 3) bits.bits(0b11, 2);
  }
  return concat([START, sps, START, pictureParameters(spsId), START, bits.nal(IDR_HEADER)]);
}
