/** What the two ways of playing have in common. */
import type { ServerClock } from "../clock";
import type { AudioConfig } from "../media/audio";
import type { AudioUnit, VideoConfig, VideoUnit } from "../media/feed";
import type { Track } from "../media/ts";
import type { StageLedger } from "../stages/ledger";
import type { DelayMeter } from "./delay";
import type { LiveEdge } from "./policy";

/** Counters of an engine. */
export interface EngineStats {
  framesShown: number;
  framesDecoded: number;
  framesDropped: number;
  /** How far the newest shown picture is behind the live edge as far as it is known here; null before the first. */
  behindLiveMs: number | null;
  /** What is decoded or appended, but not yet shown. */
  bufferMs: number | null;
  width: number;
  height: number;
  audio: string;
  /** How much sound has gone out, in ms; where it is muted, how much has been decoded. */
  soundMs: number;
  /** Root mean square of the sound that goes out, 1 is full scale; null where it is not measured. */
  soundLevel: number | null;
}

/** What an engine may use, and whom it tells. */
export interface EngineContext {
  edge: LiveEdge;
  delay: DelayMeter;
  clock: ServerClock;
  stages: StageLedger;
  /** A picture reached the screen, so many from it on are not right yet; or sound that is alone was heard. */
  shown(settlingFrames: number): void;
  /** Join the stream anew: what the engine has is of no more use. The reason is for people. */
  rejoin(reason: string): void;
  /** The engine cannot play this stream at all. */
  unsupported(reason: string): void;
  /** Sound of this configuration cannot be played by this engine here. */
  deaf(config: AudioConfig): void;
  /** The browser wants a click before it plays. */
  needsGesture(): void;
}

export interface Engine {
  readonly name: "webcodecs" | "mse";
  readonly element: HTMLElement;
  /** `isSoundAlone`: there are no pictures to wait for. */
  tracks(tracks: readonly Track[], isSoundAlone: boolean): void;
  videoConfig(config: VideoConfig): void;
  video(unit: VideoUnit): void;
  audio(unit: AudioUnit): void;
  /** The network's chunk is used up: what is batched may go. */
  endOfChunk(): void;
  /** A new connection begins; the last picture stays. */
  restart(): void;
  /** `volume` from 0 to 1. Called from a click when sound is switched on. */
  sound(muted: boolean, volume: number): void;
  /** Plays after a click, where the browser wanted one. */
  resume(): void;
  stats(): EngineStats;
  close(): void;
}
