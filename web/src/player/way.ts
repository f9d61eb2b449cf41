/** The ways to watch a stream, and how the page's address says which one. */
import type { Track } from "../media/ts";
import type { EngineName } from "./player";

/** Our own player on the stream's bytes, or a library on its playlists. */
export type Way = "direct" | "hls" | "dash";

export interface Choice {
  way: Way;
  /** How our own player decodes; null: as the browser can. */
  engine: EngineName | null;
  /** Wanted distance to the live edge in seconds; null: what the playlist says. */
  delayS: number | null;
}

/** Distances to the live edge that the page offers, in seconds. */
export const DELAYS_S = [0.1, 0.2, 0.4, 0.6, 1, 2, 4] as const;
const MAX_DELAY_S = 30;

/** What of this a browser can do. */
export interface Able {
  /** Our own player. */
  direct: boolean;
  /** A video element that plays HLS without a library. */
  nativeHls: boolean;
}

/** What the page's query asks for. Without a wish it is our own player, or native HLS where that alone works. */
export function choiceOf(query: URLSearchParams, able: Able): Choice {
  const wanted = query.get("engine");
  const delay = Number(query.get("delay"));
  const delayS = delay > 0 && delay <= MAX_DELAY_S ? delay : null;
  if (wanted === "hls" || wanted === "dash") return { way: wanted, engine: null, delayS };
  if (wanted === "mse" || wanted === "webcodecs") return { way: "direct", engine: wanted, delayS };
  return { way: able.direct || !able.nativeHls ? "direct" : "hls", engine: null, delayS };
}

/** Pictures that the page does not read out of MPEG-TS and that playlists have, and what to ask a browser for them. */
const BY_PLAYLIST: Record<string, string> = {
  "H.265": 'video/mp4; codecs="hvc1.1.6.L93.B0"',
};

/** Whether a stream whose pictures the page does not read itself is played by its playlist: where the browser decodes them. */
export function playsByPlaylist(tracks: readonly Track[], decodes: (type: string) => boolean): boolean {
  const pictures = tracks.filter((t) => t.kind === "video");
  if (pictures.some((t) => t.codec !== "unsupported")) return false;
  return pictures.some((t) => decodes(BY_PLAYLIST[t.name] ?? ""));
}

/** The query of a page with this choice in it: what else is in `search` stays, and stays as it was written. */
export function searchOf(search: string, choice: Choice): string {
  const kept = search.replace(/^\?/, "").split("&").filter((pair) => pair !== "" && !/^(engine|delay)(=|$)/.test(pair));
  const engine = choice.way === "direct" ? choice.engine : choice.way;
  if (engine !== null) kept.push(`engine=${engine}`);
  if (choice.delayS !== null && choice.way !== "direct") kept.push(`delay=${choice.delayS}`);
  return kept.length > 0 ? `?${kept.join("&")}` : "";
}
