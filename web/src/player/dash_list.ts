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

interface Coded {
  codecs?: string;
  mimeType?: string;
}

/** What of a parsed manifest tells its codecs. */
interface CodedManifest {
  Period?: { AdaptationSet?: (Coded & { contentType?: string; Representation?: Coded[] })[] }[];
}

/** The codecs of a manifest's pictures or of its sound, as it names them. */
export function codecsOf(manifest: CodedManifest, kind: "video" | "audio"): string[] {
  const sets = manifest.Period?.at(-1)?.AdaptationSet ?? [];
  const isOf = (set: (typeof sets)[number]): boolean =>
    set.contentType === kind || [set, ...(set.Representation ?? [])].some(({ mimeType }) => mimeType?.startsWith(`${kind}/`) === true);
  return sets.filter(isOf).flatMap((set) => [set, ...(set.Representation ?? [])].flatMap(({ codecs }) => codecs ?? []));
}
