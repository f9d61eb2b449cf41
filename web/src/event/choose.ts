/** What an event's page chooses for its viewer: which version of a stream, and which sound. */
import type { Rendition } from "../api";
import type { EventStream } from "../event_api";

/**
 * The version of a capture for a picture of `heightPx` device pixels; `renditions` are best first. The large picture gets
 * the best one, the others the smallest that is not magnified much. Null where none is live.
 */
export function versionFor(renditions: readonly Rendition[], heightPx: number, isLarge: boolean): Rendition | null {
  const live = renditions.filter((one) => one.live);
  const best = live[0] ?? null;
  if (isLarge || best === null) return best;
  const sized = live.filter((one) => one.height !== null);
  // Sizes are known once the server has seen the first pictures.
  if (sized.length === 0) return live.at(-1)!;
  return [...sized].reverse().find((one) => one.height! >= heightPx * 0.85) ?? sized[0]!;
}

/** Whether a stream has a sound that could be heard here. What is not known counts as one. */
export function mayBeHeard(stream: EventStream): boolean {
  return stream.known && stream.sound !== false;
}

/**
 * Which stream is heard: what the viewer has chosen, or else what the event says, or else the first with sound. Null where
 * none has any.
 */
export function heardOf(streams: readonly EventStream[], chosen: string | null, audio: string | null): string | null {
  const possible = streams.filter(mayBeHeard).map((one) => one.name);
  for (const wanted of [chosen, audio]) {
    if (wanted !== null && possible.includes(wanted)) return wanted;
  }
  return possible[0] ?? null;
}

/** The next stream to hear, the first one behind the last. */
export function nextHeard(streams: readonly EventStream[], heard: string | null): string | null {
  const possible = streams.filter(mayBeHeard).map((one) => one.name);
  if (possible.length === 0) return null;
  return possible[(possible.indexOf(heard ?? "") + 1) % possible.length]!;
}
