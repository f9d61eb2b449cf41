/**
 * Where the milliseconds of one picture went: the parts of its way from capture to this screen, out of the stamps that its
 * hops set (docs/latency.md).
 *
 *     captured ─ arrived ─ encoder in ─ (look-ahead) ─ encoded ─ muxed ─ sent ─ (relay received ─ relay released ─ relay sent) ─ received ─ decoded ─ shown
 *         capture   queue     look-ahead      encode    mux     send   network          hold            relay        network   decode     display
 */
import { STAGE_LONGEST_US } from "../media/stamp_record";

/** The parts, in the order of the way. */
export const PARTS = ["capture", "queue", "look_ahead", "encode", "mux", "send", "hold", "relay", "network", "decode", "display"] as const;
export type Part = (typeof PARTS)[number];
/** Where the sum of all stands in what `split` writes. */
export const TOTAL = PARTS.length;
/** Numbers that `split` writes. */
export const FIGURES = PARTS.length + 1;

/** Stamps of a picture, in µs after its capture; NaN: not known. */
export interface Stamps {
  arrived: number;
  encoderIn: number;
  lookAhead: number;
  encoded: number;
  muxed: number;
  sent: number;
  relayReceived: number;
  /** Given out by the transport that held it back for its latency, as SRT does. */
  relayReleased: number;
  /** The last byte with the relay's kernel; or let out to its viewers, where no more is known. */
  relaySent: number;
  /** When its last byte was here and when it was shown, by the server's clock. */
  received: number;
  shown: number;
  /** By this page's own clock, from the last byte to the decoder's giving the picture, in µs. */
  decodeUs: number;
  /** Likewise from there, or from the last byte where the decoder does not tell, to the screen. */
  displayUs: number;
}

const SENDER = ["arrived", "encoderIn", "lookAhead", "encoded", "muxed", "sent"] as const;
/** On one machine a picture may be here before the call that sent it has returned: so much earlier it may seem. */
const CALL_US = 1000;
const [HOLD, RELAY, NETWORK, DECODE, DISPLAY] = [PARTS.indexOf("hold"), PARTS.indexOf("relay"), PARTS.indexOf("network"), PARTS.indexOf("decode"), PARTS.indexOf("display")];

/**
 * Writes how long each part took into `out`, in µs, and at `TOTAL` all of it. NaN is what is not known: what lies before
 * its predecessor, or more than 60 s behind it, is not, and falls into the next part that is. `uncertaintyUs` is how far the server's clock may be from what
 * this page takes it for. Returns by how much the picture was here before its sender says that it had left, in µs: the clocks
 * disagree then, and the way from there to here is not known; 0 otherwise.
 */
export function split(stamps: Stamps, uncertaintyUs: number, out: Float64Array): number {
  out.fill(NaN, 0, FIGURES);
  let at = 0;
  for (let part = 0; part < SENDER.length; part++) {
    const stamp = stamps[SENDER[part]!];
    const took = sane(stamp - at);
    if (Number.isNaN(took)) continue;
    out[part] = took;
    at = stamp;
  }
  out[DECODE] = sane(stamps.decodeUs);
  out[DISPLAY] = sane(stamps.displayUs);
  const isHere = !Number.isNaN(stamps.received);
  const way = (isHere ? stamps.received : stamps.shown) - at;
  const hold = sane(stamps.relayReleased - stamps.relayReceived);
  const relay = sane(stamps.relaySent - (Number.isNaN(hold) ? stamps.relayReceived : stamps.relayReleased));
  out[HOLD] = hold;
  out[RELAY] = relay;
  if (way < -(CALL_US + uncertaintyUs)) return -way;
  const known = sane(Math.max(0, way));
  if (Number.isNaN(known)) return 0;
  // What the relay says took no longer than all of the way that it is a part of.
  let rest = known;
  for (const part of [HOLD, RELAY]) {
    if (Number.isNaN(out[part]!)) continue;
    out[part] = Math.min(out[part]!, rest);
    rest -= out[part]!;
  }
  if (!isHere) out[DECODE] = NaN;
  out[isHere ? NETWORK : DISPLAY] = rest;
  const page = isHere ? out[DISPLAY]! + (Number.isNaN(out[DECODE]!) ? 0 : out[DECODE]!) : 0;
  out[TOTAL] = sane(at + known + page);
  return 0;
}

/** A time that a part of a live picture's way can take; NaN is any other. */
function sane(us: number): number {
  return us >= 0 && us <= STAGE_LONGEST_US ? us : NaN;
}
