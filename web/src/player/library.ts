/** What the page asks of a player for playlists, whoever wrote it. */
import type { SeekWindow } from "./follow";

/** Why a library cannot go on. */
export type Trouble =
  /** There is no such playlist, at least not now. */
  | "absent"
  /** The network or the decoder failed: it is begun anew. */
  | "lost"
  /** This browser has no decoder for what the stream has now. */
  | "unplayable"
  /** This browser cannot do it at all. */
  | "unsupported";

export interface LibraryEvents {
  trouble(kind: Trouble, detail: string | null): void;
  /** Codec strings of the sound that is played; empty: there is none. */
  sound(codecs: string): void;
  /** The browser wants a click before it plays. */
  needsGesture(): void;
}

export interface Quality {
  /** As the playlist says it. */
  bitrateBps: number | null;
}

/** One opening of a playlist in one video element. All times are seconds. */
export interface Library {
  /** It begins playback itself, and must see it begin: dash.js reloads no manifest otherwise. */
  readonly playsItself: boolean;
  /** What can be played now; null before the playlist is known. */
  window(): SeekWindow | null;
  /** Distance of the picture from the live edge, as the library reckons it; null before it does. */
  latency(): number | null;
  /** The distance that is wanted: the playlist's, or the one that was given. */
  target(): number | null;
  seek(mediaS: number): void;
  goLive(): void;
  /** When the playlist says that the picture at this time was captured, UTC in µs. */
  captureUs(mediaS: number): number | null;
  quality(): Quality | null;
  /** Whether what was opened offers pictures, shown or not. */
  offersPictures(): boolean;
  /** Plays this version of a ladder from the next segment on; null: whichever the line carries. */
  choose(version: string | null): void;
  close(): void;
}

/** What a library is told. */
export interface Wish {
  /** The wanted distance to the live edge; null: what the playlist says. */
  delayS: number | null;
  /** The version of a ladder that is played; null: whichever the line carries, or there is one only. */
  version: string | null;
  /** What is to be added to this machine's clock for the server's time, in ms; null while it is not known. */
  clockOffsetMs(): number | null;
}

export type OpenLibrary = (video: HTMLVideoElement, url: string, wish: Wish, events: LibraryEvents) => Library;
