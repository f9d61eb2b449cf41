/**
 * From demultiplexed PES units to what an engine plays: access units and audio frames with times on one continuous
 * line of microseconds, across restarts, jumps and wraps of the stream's own clock.
 */
import { type AudioConfig, type AudioFrame, AdtsSplitter, opusConfig, splitOpus } from "./audio";
import { FrameSplitter, ac3Head, mpegHead } from "./sound_frames";
import { concat, equalBytes } from "./bits";
import { type Av1Parameters, inspectAv1, parseSequenceHeader, toSample } from "./av1";
import { type AccessUnitInfo, type SequenceParameters, inspect, parseSps } from "./h264";
import { greyIdr } from "./grey_idr";
import { type DemuxHandler, type PesUnit, type Track, TsDemuxer } from "./ts";

/** A coded picture. */
export interface VideoUnit extends AccessUnitInfo {
  /** Annex B bytes; of AV1 a sample as MP4 has it. */
  data: Uint8Array;
  ptsUs: number;
  dtsUs: number;
  /** Not a continuation of the unit before: only a key frame may follow. */
  reset: boolean;
  /** Pictures from this one on, itself included, that are not right yet, because decoding began at a recovery point. */
  settlingFrames: number;
  /** When its last byte came, by the clock of who pushes; NaN: nobody said. */
  receivedMs: number;
}

/** A coded audio frame with its place in time. */
export interface AudioUnit extends AudioFrame {
  ptsUs: number;
  reset: boolean;
}

/** Parameter sets in force, of H.264. */
export interface H264Config {
  codec: "h264";
  sps: Uint8Array;
  pps: Uint8Array;
  parameters: SequenceParameters;
}

/** The sequence header in force, of AV1. */
export interface Av1Config {
  codec: "av1";
  /** The unit with its size. */
  sequence: Uint8Array;
  parameters: Av1Parameters;
}

export type VideoConfig = H264Config | Av1Config;

/** Judges the picture of a PES unit by its codec. */
export function inspectPicture({ track, data }: PesUnit): AccessUnitInfo {
  return track.codec === "av1" ? inspectAv1(data) : inspect(data);
}

export interface FeedHandler {
  tracks(tracks: readonly Track[]): void;
  /** Comes before the first picture that needs it, and again when it changes. */
  videoConfig(config: VideoConfig): void;
  video(unit: VideoUnit): void;
  audio(unit: AudioUnit): void;
}

/** The type of an access unit delimiter. */
const DELIMITER = 9;
/** Where the line begins: room for what comes a little earlier than the first picture. */
const START_US = 10_000_000;
const MAX_FORWARD_US = 2_000_000;
const MAX_BACKWARD_US = 500_000;
const NEAR_US = 3_000_000;
/** Pictures of slides or of a screen may be this far apart. */
const MAX_GAP_US = 60_000_000;
/** Stamps are rounded: a frame that begins this little before another's end follows it. */
const SOUND_OVERLAP_US = 1000;

/** 33-bit stamps → µs on the line. An epoch is one run of the stream's clock. */
interface Epoch {
  /** Where the epoch's stamp `stamp` lies on the line. */
  us: number;
  stamp: number;
}

/** Where a stamp lies on the line. */
interface Place {
  us: number;
  /** It does not continue the track. */
  jumped: boolean;
  /** It may be that nothing was sent for a while, so that what comes still refers to what was there. */
  gap: boolean;
}

/** Signed distance from `b` to `a`, both 33-bit counts. */
export function stampDistance(a: number, b: number): number {
  const wrap = 2 ** 33;
  const d = (((a - b) % wrap) + wrap) % wrap;
  return d >= wrap / 2 ? d - wrap : d;
}

/** Lays the tracks' stamps on one line; each jump of a clock begins a new epoch right after what was there. */
export class Timeline {
  private newest: Epoch | null = null;
  private endUs = START_US;
  private readonly tracks = new Map<number, { epoch: Epoch; lastUs: number }>();

  /** The time of `stamp` on track `pid`. */
  place(pid: number, stamp: number): Place {
    const track = this.tracks.get(pid);
    let gap = false;
    if (track) {
      const us = at(track.epoch, stamp);
      const step = us - track.lastUs;
      gap = step > 0 && step <= MAX_GAP_US;
      // Where another track has gone on meanwhile, the line is there already.
      const isNear = step <= MAX_FORWARD_US || (gap && Math.abs(us - this.endUs) < NEAR_US);
      if (isNear && step >= -MAX_BACKWARD_US) return this.settle(pid, track.epoch, us, stamp, false, false);
    }
    if (this.newest && (!track || this.newest !== track.epoch)) {
      const us = at(this.newest, stamp);
      if (us >= 0 && Math.abs(us - this.endUs) < NEAR_US) return this.settle(pid, this.newest, us, stamp, !!track, gap);
    }
    const epoch = { us: this.endUs, stamp };
    const first = !this.newest;
    this.newest = epoch;
    return this.settle(pid, epoch, epoch.us, stamp, !first, gap);
  }

  private settle(pid: number, epoch: Epoch, us: number, stamp: number, jumped: boolean, gap: boolean): Place {
    // The anchor moves along, so that distances stay far below half a wrap; not rounded, or the line would drift.
    epoch.us = us;
    epoch.stamp = stamp;
    this.tracks.set(pid, { epoch, lastUs: us });
    this.endUs = Math.max(this.endUs, us + 1000);
    return { us: Math.round(us), jumped, gap };
  }

  /** A new connection: what comes next is laid behind what was. */
  cut(): void {
    this.newest = null;
    this.tracks.clear();
    this.endUs += 20_000;
  }
}

function at(epoch: Epoch, stamp: number): number {
  return epoch.us + (stampDistance(stamp, epoch.stamp) * 100) / 9;
}

function splitterOf(track: Track): AdtsSplitter | FrameSplitter | null {
  if (track.codec === "aac") return new AdtsSplitter();
  if (track.codec === "opus") return null;
  return new FrameSplitter(track.codec === "mpeg" ? mpegHead : ac3Head);
}

function sameStream(one: Track | null, other: Track | null): boolean {
  return one?.pid === other?.pid && one?.codec === other?.codec;
}

/** The whole way from bytes to units. */
export class Feed {
  readonly demuxer: TsDemuxer;
  /** Gets every unit in place of the handler, and gives back with `take` what is to go on. */
  gate: ((unit: PesUnit) => void) | null = null;
  private timeline = new Timeline();
  /** As the program map has them. */
  private declared: readonly Track[] = [];
  private tracks: readonly Track[] = [];
  private video: Track | null = null;
  private audio: Track | null = null;
  private sps: Uint8Array | null = null;
  private pps: Uint8Array | null = null;
  private videoReset = true;
  private audioReset = true;
  private settlingFrames = 0;
  /** Cuts frames that may go over the end of a PES packet; null: packets of Opus, which do not. */
  private splitter: AdtsSplitter | FrameSplitter | null = null;
  private opus: AudioConfig = opusConfig(2);
  private audioEndUs = 0;
  /** Sound that begins before this has been handed on already. */
  private audioFromUs = -Infinity;

  /** `plays`: whether sound of this track can be played; the first one of those is. */
  constructor(private readonly handler: FeedHandler, private readonly plays: (track: Track) => boolean = () => true) {
    const demuxHandler: DemuxHandler = {
      tracks: (tracks) => {
        this.declared = tracks;
        this.choose();
      },
      unit: (unit) => (this.gate ?? ((passed: PesUnit) => this.take(passed)))(unit),
      broken: () => {
        this.videoReset = true;
      },
    };
    this.demuxer = new TsDemuxer(demuxHandler);
  }

  push(chunk: Uint8Array, nowMs = NaN): void {
    this.demuxer.push(chunk, nowMs);
  }

  /** A new connection begins. */
  restart(): void {
    this.demuxer.reset();
    this.timeline.cut();
    // With a configuration of its own, which an engine asks the browser about anew.
    this.splitter = this.audio ? splitterOf(this.audio) : null;
    this.sps = null;
    this.pps = null;
    this.videoReset = true;
    this.audioReset = true;
    this.audioFromUs = -Infinity;
  }

  isPicture(unit: PesUnit): boolean {
    return unit.track.pid === this.video?.pid;
  }

  /** A unit goes on. */
  take(unit: PesUnit): void {
    if (this.isPicture(unit)) this.picture(unit);
    else if (unit.track.pid === this.audio?.pid) this.sound(unit);
  }

  /** Keeps the parameter sets of a picture that does not go on. */
  remember(info: AccessUnitInfo): void {
    this.sps = info.sps?.slice() ?? this.sps;
    this.pps = info.pps?.slice() ?? this.pps;
  }

  /** What comes next continues what `other` has handed on: a stream of the same clock, from a key frame on. */
  continueFrom(other: Feed): void {
    this.timeline = other.timeline;
    this.videoReset = other.videoReset;
    this.audioReset = other.audioReset;
    this.settlingFrames = 0;
    this.audioFromUs = other.audioReset ? -Infinity : other.audioEndUs - SOUND_OVERLAP_US;
    this.handler.tracks(this.tracks);
    if (!equalBytes(this.sps, other.sps) || !equalBytes(this.pps, other.pps)) this.announce();
  }

  /** What comes next is laid behind what `other` has handed on: a stream of another clock. */
  replace(other: Feed): void {
    this.gate = null;
    this.timeline = other.timeline;
    this.handler.tracks(this.tracks);
  }

  /** What can be played has changed. */
  chooseAgain(): void {
    if (this.declared.length > 0) this.choose();
  }

  private choose(): void {
    const tracks = this.declared.map((track): Track => track.kind === "audio" && !this.plays(track) ? { ...track, codec: "unsupported" } : track);
    const pick = (kind: Track["kind"]): Track | null =>
      tracks.find((t) => t.kind === kind && t.codec !== "unsupported") ?? null;
    const [video, audio] = [pick("video"), pick("audio")];
    // What comes on another PID, or in another codec, continues nothing: it begins with a key frame.
    if (!sameStream(video, this.video)) this.videoReset = true;
    if (video?.codec !== this.video?.codec) this.sps = this.pps = null;
    if (!sameStream(audio, this.audio)) {
      this.audioReset = true;
      this.splitter = audio ? splitterOf(audio) : null;
    }
    [this.video, this.audio] = [video, audio];
    if (this.audio?.codec === "opus") this.opus = opusConfig(this.audio.channels || 2);
    this.tracks = tracks;
    if (!this.gate) this.handler.tracks(tracks);
  }

  private picture(unit: PesUnit): void {
    const info = inspectPicture(unit);
    const place = this.timeline.place(unit.track.pid, unit.dts);
    const ptsUs = place.us + Math.round((stampDistance(unit.pts, unit.dts) * 100) / 9);
    // What comes after a gap of slides or of a screen is decoded as what comes without one.
    if (unit.discontinuity || (place.jumped && !place.gap)) this.videoReset = true;
    this.parameterSets(info);
    if (info.slices === 0) return;
    const reset = this.videoReset;
    if (reset && !info.key) return;
    this.videoReset = false;
    if (info.idr) this.settlingFrames = 0;
    else if (reset) this.settlingFrames = info.recoveryFrames ?? 0;
    const settlingFrames = this.settlingFrames;
    const begun = reset && !info.idr && this.startGrey(ptsUs, place.us);
    const { receivedMs } = unit;
    if (unit.track.codec === "av1") {
      const sample = toSample(unit.data);
      const data = info.idr && !info.sps && this.sps ? concat([this.sps, sample]) : sample;
      this.handler.video({ ...info, data, ptsUs, dtsUs: place.us, reset, settlingFrames, receivedMs });
      return;
    }
    // A decoder begins with parameter sets: where a stream says them once, they are put in front.
    const data = info.idr && !(info.sps && info.pps) ? this.withSets(unit.data, info) : unit.data;
    this.handler.video({ ...info, data, ptsUs, dtsUs: place.us, reset: reset && !begun, settlingFrames, receivedMs });
    this.settlingFrames = Math.max(0, settlingFrames - 1);
  }

  /** Browsers start at IDR pictures alone: before a recovery point (intra refresh) a grey one is put. */
  private startGrey(ptsUs: number, dtsUs: number): boolean {
    const parameters = this.sps && parseSps(this.sps);
    const data = this.sps && parameters && greyIdr(this.sps, parameters);
    if (!data) return false;
    const beforeUs = 500;
    const settlingFrames = this.settlingFrames + 1;
    const times = { ptsUs: ptsUs - beforeUs, dtsUs: dtsUs - beforeUs };
    this.handler.video({ ...inspect(data), data, ...times, reset: true, settlingFrames, receivedMs: NaN });
    return true;
  }

  private withSets(data: Uint8Array, info: AccessUnitInfo): Uint8Array {
    if (!this.sps || !this.pps) return data;
    const [first, second] = info.nals;
    // The delimiter comes first.
    const at = first?.type === DELIMITER && second ? second.start - 3 : 0;
    const start = new Uint8Array([0, 0, 0, 1]);
    return concat([data.subarray(0, at), start, this.sps, start, this.pps, data.subarray(at)]);
  }

  private parameterSets(info: AccessUnitInfo): void {
    const changed =
      (info.sps !== null && !equalBytes(info.sps, this.sps)) || (info.pps !== null && !equalBytes(info.pps, this.pps));
    if (!changed) return;
    this.remember(info);
    this.announce();
  }

  private announce(): void {
    if (!this.sps) return;
    if (this.video?.codec === "av1") {
      const parameters = parseSequenceHeader(this.sps);
      if (parameters) this.handler.videoConfig({ codec: "av1", sequence: this.sps, parameters });
      return;
    }
    if (!this.pps) return;
    const parameters = parseSps(this.sps);
    if (parameters) this.handler.videoConfig({ codec: "h264", sps: this.sps, pps: this.pps, parameters });
  }

  private sound(unit: PesUnit): void {
    const place = this.timeline.place(unit.track.pid, unit.pts);
    if (unit.discontinuity || place.jumped) {
      this.audioReset = true;
      this.splitter?.reset();
    }
    const { splitter } = this;
    // A frame that began in the PES before has that one's time, by going on from it.
    let us = splitter !== null && splitter.carriedBytes > 0 && this.audioEndUs > 0 ? this.audioEndUs : place.us;
    for (const frame of splitter ? splitter.split(unit.data) : splitOpus(unit.data, this.opus)) {
      if (frame.samples === 0) continue;
      if (us < this.audioFromUs) {
        us += (frame.samples * 1e6) / frame.config.sampleRate;
        continue;
      }
      this.handler.audio({ ...frame, ptsUs: Math.round(us), reset: this.audioReset });
      this.audioReset = false;
      us += (frame.samples * 1e6) / frame.config.sampleRate;
    }
    this.audioEndUs = us;
  }
}
