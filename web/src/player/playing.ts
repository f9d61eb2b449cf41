/** What the page knows of a player, whichever way it plays. */
import type { ServerClock } from "../clock";
import type { Track } from "../media/ts";
import type { StageLedger } from "../stages/ledger";
import type { DelaySummary } from "./delay";
import type { Standing } from "./follow";

export type PlayerState =
  | "connecting" | "waiting" | "buffering" | "playing" | "paused" | "stalled" | "reconnecting" | "refused" | "unsupported";

/** What `window.glassline.stats()` answers. See README.md. */
export interface PlayerStats {
  state: PlayerState;
  framesShown: number;
  framesDecoded: number;
  framesDropped: number;
  /** Glass-to-glass, of the pictures shown in the last second; null where nothing says when they were captured. */
  delayMs: DelaySummary | null;
  timeToFirstFrameMs: number | null;
  /** The first that is right: later, where the stream was joined at a recovery point. */
  timeToRightFrameMs: number | null;
  /** Pictures from the one on the screen on that are not right yet. */
  settlingFrames: number;
  behindLiveMs: number | null;
  bufferMs: number | null;
  width: number;
  height: number;
  audio: string;
  /** There is sound and no picture: the figures of pictures say nothing. */
  soundAlone: boolean;
  /** How much sound has gone out, in ms; where it is muted, how much has been decoded or passed by. */
  soundMs: number;
  /** Root mean square of the sound, 1 is full scale; null where it is not measured. */
  soundLevel: number | null;
  bytes: number;
  continuityErrors: number;
  reconnects: number;
  /** Why playback was begun anew the last time; null before it was. */
  reconnectReason: string | null;
  clockRoundTripMs: number | null;
  /** How often playback stood still for want of data. */
  stalls: number;
  /** What arrives, over the last seconds; or what the playlist says. */
  bitrateBps: number | null;
  /** Wanted distance to the live edge, where a playlist is played. */
  targetMs: number | null;
  playbackRate: number;
}

export interface PlayerEvents {
  state(state: PlayerState, detail: string | null): void;
  /** The element with the picture, anew with each engine; it goes into the page. */
  engine(element: HTMLElement): void;
  tracks(tracks: readonly Track[]): void;
  /** The stream is of sound alone from now on, or has pictures again. */
  soundAlone(isAlone: boolean): void;
  needsGesture(): void;
  /** Another rendition is played from now on; or, with a reason, the one that was asked for cannot be. */
  rendition(name: string, failed: string | null): void;
}

/** Where one can go in what is still there. Positions are seconds, 0 is live, negative the past. */
export interface Timeline {
  /** Null before the playlist is known. */
  standing(): Standing | null;
  seekTo(position: number): void;
  goLive(): void;
  readonly paused: boolean;
  /** Playback keeps itself at the live edge. */
  readonly live: boolean;
  pause(paused: boolean): void;
}

/** A stream that is played. */
export interface Playing {
  readonly name: string;
  /** For tests and for the details. */
  readonly engine: string;
  /** Null where there is nothing but now. */
  readonly timeline: Timeline | null;
  readonly clock: ServerClock;
  /** Where the milliseconds of the shown pictures went. */
  readonly stages: StageLedger;
  start(): void;
  stop(): void;
  /** `volume` from 0 to 1. Call from a click when sound is switched on. */
  sound(muted: boolean, volume: number): void;
  /** Plays after a click, where the browser wanted one. */
  resume(): void;
  /** Plays another rendition of the same capture. */
  switchTo(name: string): void;
  stats(): PlayerStats;
}
