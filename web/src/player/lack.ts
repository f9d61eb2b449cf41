/** What is said where a browser plays nothing of a stream: what the stream is made of, and which browser lacks it. */
import type { Track } from "../media/ts";

/** What a browser calls itself, and which of its versions it is; the first that fits counts. */
const BROWSERS: readonly [pattern: RegExp, name: string][] = [
  [/Firefox\/(\d+)/, "Firefox"], [/Edg\/(\d+)/, "Edge"], [/OPR\/(\d+)/, "Opera"], [/Chrom(?:e|ium)\/(\d+)/, "Chrome"],
  [/Linux.*Version\/(\d+).*Safari/, "WebKit"], [/Version\/(\d+).*Safari/, "Safari"],
];

/** "Firefox 153"; Chromium says that it is Chrome, and WebKit for GTK that it is a Safari of some version. */
export function browserName(agent: string): string {
  for (const [pattern, name] of BROWSERS) {
    const found = pattern.exec(agent);
    if (found) return `${name} ${found[1]}`;
  }
  return "This browser";
}

const KINDS = { video: "pictures", audio: "sound" } as const;

/** "H.265 and AC-3". */
function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** A sentence for a stream of which nothing can be played. */
export function lackWords(tracks: readonly Track[], browser: string): string {
  const parts = (["video", "audio"] as const).flatMap((kind) => {
    const names = [...new Set(tracks.filter((track) => track.kind === kind).map(({ name }) => name))];
    return names.length > 0 ? [{ kind, names }] : [];
  });
  if (parts.length === 0) {
    const others = tracks.map(({ name }) => name).join(", ");
    return `The stream has neither pictures nor sound that a browser could play (it has: ${others || "nothing"}).`;
  }
  // Sound beside pictures that cannot be shown would not be played either: the pictures are what is missing.
  const { kind, names } = parts[0]!;
  return `The stream's ${KINDS[kind]} ${kind === "video" ? "are" : "is"} ${listed(names)}, which ${browser} does not play here.`;
}

/** The same where playlists tell codecs as RFC 6381 has them. */
export function codecName(codec: string): string {
  const names: readonly [RegExp, string][] = [
    [/^(hvc1|hev1)/i, "H.265"], [/^avc[13]\.6e/i, "H.264 of 10 bits"], [/^avc[13]\.(7a|f4)/i, "H.264 of 4:2:2 or 4:4:4"], [/^avc[13]/i, "H.264"], [/^av01/i, "AV1"],
    [/^mp4a\.(40\.34|69|6b)|^mp3/i, "MP3"], [/^mp4a/i, "AAC"], [/^opus/i, "Opus"], [/^ac-3/i, "AC-3"], [/^ec-3/i, "E-AC-3"],
  ];
  return names.find(([pattern]) => pattern.test(codec))?.[1] ?? codec;
}

/** Whether a playlist of playlists or a manifest, as it is in its newest period, has pictures. */
export function namesPictures(playlist: string): boolean {
  const newest = playlist.slice(Math.max(0, playlist.lastIndexOf("<Period")));
  return /^#EXT-X-STREAM-INF:.*CODECS="[^"]*\b(avc|hvc|hev|av01)/im.test(newest) || /<AdaptationSet[^>]*(contentType="video"|mimeType="video\/)/i.test(newest);
}

/** A sentence for pictures with this codec string. */
export function pictureLack(codec: string, browser: string): string {
  return `The stream's pictures are ${codecName(codec)} (${codec}), which ${browser} does not play here.`;
}

/** Those of the codecs that the browser does not decode; all where it says that it decodes each. */
export function undecoded(codecs: readonly string[], decodes: (codec: string) => boolean): string[] {
  const lacking = codecs.filter((codec) => !decodes(codec));
  return lacking.length > 0 ? lacking : [...codecs];
}

/** A sentence for a stream whose playlist names these codecs, which the browser does not play. */
export function codecsLack(codecs: readonly string[], browser: string): string {
  const names = [...new Set(codecs.map(codecName))];
  return names.length > 0
    ? `The stream is in ${listed(names)}, which ${browser} does not play by this way to watch.`
    : `${browser} plays none of the stream's codecs by this way to watch.`;
}
