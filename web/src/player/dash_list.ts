/** How near to live a manifest lets one be. */

/** What of a parsed manifest tells how its segments are addressed. */
interface Manifest {
  minimumUpdatePeriod?: number;
  maxSegmentDuration?: number;
  Period?: { AdaptationSet?: { SegmentTemplate?: { SegmentTimeline?: unknown } }[] }[];
}

/**
 * The least distance to live in seconds where the manifest lists its segments instead of giving a rule for them: a list
 * has whole segments alone, and is as old as its last loading. Null where there is a rule.
 */
export function listedDelay(manifest: Manifest): number | null {
  const sets = manifest.Period?.at(-1)?.AdaptationSet ?? [];
  if (!sets.some((set) => set.SegmentTemplate?.SegmentTimeline !== undefined)) return null;
  return (manifest.minimumUpdatePeriod ?? 2) + (manifest.maxSegmentDuration ?? 2) + 0.5;
}
