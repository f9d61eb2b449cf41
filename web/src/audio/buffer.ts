/**
 * The last buffer before the loudspeaker, as a ring of samples: PCM comes in as it is decoded and goes out at the sound
 * card's pace. It is held as short as the arrivals allow: senders pack several frames of sound into one PES packet, so that
 * sound comes in bursts, and what lies between two of them must be there. Within 1 % the pace is bent; what is far too much
 * is left out. No clock but the samples that were taken.
 */
const CAPACITY_SECONDS = 2;
/** What is held of sound that comes evenly. */
const TARGET_SECONDS = 0.07;
/** Longer bursts than this are the network's or a pause of the sender: they are heard. */
const MAX_TARGET_SECONDS = 0.8;
/** What is left when the next burst comes, as far as the bursts before tell. */
const MARGIN_SECONDS = 0.03;
/** What an underrun adds to that, for a while. */
const CAUTION_SECONDS = 0.015;
const MAX_CAUTION_SECONDS = 0.09;
const EXCESS_SECONDS = 0.15;
const MAX_BEND = 0.01;
/** Arrivals are looked at in pieces of this length, and this many of them are remembered. */
const PIECE_SECONDS = 0.5;
const PIECES = 6;
/** Sound that comes earlier than any before by more than this: a backlog is being read, which says nothing of the bursts. */
const EARLIER_SECONDS = 0.03;

/** How late sound came in a piece of time, in samples: between the latest and the earliest lie the bursts. */
interface Piece {
  /** Of sound that was not the earliest of all when it came. */
  latest: number;
  earliest: number;
}

/** What is told of the buffer. */
export interface BufferReport {
  playing: boolean;
  /** Media time of the sample that goes out next, in µs. */
  ptsUs: number;
  fillMs: number;
  /** What is wanted in the buffer when a burst has come. */
  targetMs: number;
  underruns: number;
  /** All that has gone out. */
  playedMs: number;
  /** Root mean square of what went out since the last report, 1 is full scale. */
  level: number;
}

export class PlayoutBuffer {
  private readonly capacity: number;
  private ring: Float32Array[] = [];
  /** Positions count samples from the start and never wrap; the ring index is the remainder. */
  private written = 0;
  private read = 0;
  private anchorUs = 0;
  private anchorAt = 0;
  /** Samples that were asked for, which is the time here. */
  private now = 0;
  private pieces: Piece[] = [];
  /** The earliest when the pieces were begun anew. */
  private base = Infinity;
  private pieceFrom = 0;
  private caution = 0;
  /** The least that was in the buffer lately, and in the piece of time before. */
  private least = Infinity;
  private leastBefore = Infinity;
  private leastFrom = 0;
  /** By how much that was too much, when it was last looked at. */
  private over = 0;
  private playing = false;
  private underruns = 0;
  private played = 0;
  private squares = 0;
  private squared = 0;

  constructor(private readonly sampleRate: number) {
    this.capacity = Math.ceil(CAPACITY_SECONDS * sampleRate);
  }

  /** Takes samples, a plane for each channel; `ptsUs` is the first one's media time. */
  push(planes: readonly Float32Array[], ptsUs: number): void {
    const length = planes[0]?.length ?? 0;
    if (length === 0 || length > this.capacity) return;
    while (this.ring.length < planes.length) this.ring.push(new Float32Array(this.capacity));
    this.anchorUs = ptsUs;
    this.anchorAt = this.written;
    planes.forEach((plane, channel) => {
      const ring = this.ring[channel]!;
      const start = this.written % this.capacity;
      const head = Math.min(length, this.capacity - start);
      ring.set(plane.subarray(0, head), start);
      ring.set(plane.subarray(head), 0);
    });
    this.written += length;
    this.observe(this.now - (ptsUs / 1e6) * this.sampleRate, length);
    const most = this.playing ? this.capacity : this.target;
    if (this.written - this.read > most) this.skipTo(this.target);
  }

  /** Fills `outputs`, planes of one length, with what comes next: silence where there is too little. */
  pull(outputs: readonly Float32Array[]): void {
    const frames = outputs[0]?.length ?? 0;
    this.now += frames;
    const fill = this.written - this.read;
    if (!this.playing && fill >= this.target - 1) {
      this.playing = true;
      this.leastFrom = this.now;
      this.least = this.leastBefore = Infinity;
    }
    if (this.playing && fill < frames * (1 + MAX_BEND) + 1) {
      this.playing = false;
      this.underruns += 1;
      this.caution = Math.min(MAX_CAUTION_SECONDS * this.sampleRate, this.caution + CAUTION_SECONDS * this.sampleRate);
    }
    if (this.playing) this.play(outputs, frames, fill);
  }

  report(): BufferReport {
    const level = this.squared > 0 ? Math.sqrt(this.squares / this.squared) : 0;
    this.squares = this.squared = 0;
    return {
      playing: this.playing,
      ptsUs: this.anchorUs + ((this.read - this.anchorAt) / this.sampleRate) * 1e6,
      fillMs: this.ms(this.written - this.read),
      targetMs: this.ms(this.target),
      underruns: this.underruns,
      playedMs: this.ms(this.played),
      level,
    };
  }

  private ms(samples: number): number {
    return (samples / this.sampleRate) * 1000;
  }

  /**
   * Remembers how late sound came that begins at `begin`, and whose last sample was due at the sender `length` later. What is
   * the earliest of all is a backlog's, or a burst's behind its first frame: neither tells how long one has to wait.
   */
  private observe(begin: number, length: number): void {
    const earliest = begin - length;
    const known = Math.min(...this.pieces.map((piece) => piece.earliest));
    if (Math.abs(earliest - known) > this.capacity || this.base - earliest > EARLIER_SECONDS * this.sampleRate) {
      this.pieces = [];
      this.base = earliest;
    }
    const latest = this.pieces.length > 0 && earliest > known - 1 ? begin : -Infinity;
    const newest = this.pieces.at(-1);
    if (newest && this.now - this.pieceFrom < PIECE_SECONDS * this.sampleRate) {
      newest.latest = Math.max(newest.latest, latest);
      newest.earliest = Math.min(newest.earliest, earliest);
      return;
    }
    this.pieceFrom = this.now;
    this.pieces.push({ latest, earliest });
    if (this.pieces.length > PIECES) this.pieces.shift();
  }

  /** Sound that comes in one go, or as late as if it did, in samples. */
  private get burst(): number {
    const latest = Math.max(...this.pieces.map((piece) => piece.latest));
    const earliest = Math.min(...this.pieces.map((piece) => piece.earliest));
    return Number.isFinite(latest) ? latest - earliest : 0;
  }

  /** What is wanted in the buffer when a burst has come. */
  private get target(): number {
    const wanted = Math.max(TARGET_SECONDS * this.sampleRate, this.burst + MARGIN_SECONDS * this.sampleRate) + this.caution;
    return Math.min(MAX_TARGET_SECONDS * this.sampleRate, wanted);
  }

  private skipTo(fill: number): void {
    this.read = Math.max(this.read, this.written - fill);
    this.least = this.leastBefore = Infinity;
  }

  private play(outputs: readonly Float32Array[], frames: number, fill: number): void {
    this.least = Math.min(this.least, fill);
    if (this.now - this.leastFrom > PIECE_SECONDS * this.sampleRate) {
      // What is there when the next burst comes should be what the target leaves of it.
      const over = Math.min(this.least, this.leastBefore) - Math.max(0, this.target - this.burst);
      this.leastBefore = this.least;
      this.least = Infinity;
      this.leastFrom = this.now;
      if (Number.isFinite(over) && over > EXCESS_SECONDS * this.sampleRate) {
        this.read += Math.min(over, fill - frames * 2);
        this.leastBefore = Infinity;
      } else this.over = Number.isFinite(over) ? over : 0;
    }
    const bend = (this.over / (TARGET_SECONDS * this.sampleRate)) * 0.02;
    const rate = 1 + Math.max(-MAX_BEND, Math.min(MAX_BEND, bend));
    outputs.forEach((out, channel) => {
      const ring = this.ring[Math.min(channel, this.ring.length - 1)]!;
      let at = this.read;
      for (let i = 0; i < frames; i++, at += rate) {
        const whole = Math.floor(at);
        const a = ring[whole % this.capacity]!;
        const b = ring[(whole + 1) % this.capacity]!;
        const sample = a + (b - a) * (at - whole);
        out[i] = sample;
        this.squares += sample * sample;
      }
      this.squared += frames;
    });
    this.read += frames * rate;
    this.played += frames;
    // Forgets a bad moment over a minute.
    this.caution = Math.max(0, this.caution - 0.0015 * frames);
  }
}
