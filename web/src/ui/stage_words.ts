/** Where the milliseconds went, in words: what each stage is, which one is the largest, and what would make it smaller (docs/latency.md). */
import type { StageSummary } from "../stages/ledger";
import { PARTS, type Part } from "../stages/parts";

interface PartWords {
  label: string;
  /** Begins a sentence that goes on with "takes". */
  subject: string;
  /** What happens there: a sentence. */
  meaning: string;
  /** What would make it smaller: goes on behind "To make it smaller: ". */
  smaller: string;
}

export const PART_WORDS: Record<Part, PartWords> = {
  capture: {
    label: "Capture", subject: "The capture", meaning: "The camera, card or pipe gives all of the picture to the sender.",
    smaller: "a camera with a shorter readout, or a higher frame rate, whose pictures take less time to come",
  },
  queue: {
    label: "Queue", subject: "The encoder's queue", meaning: "The picture waits until the encoder has coded the one before it.",
    smaller: "an encoder that is done before the next picture comes: --preset ultrafast, more --threads, a smaller picture; of a pipe, a writer that writes each picture at once",
  },
  look_ahead: {
    label: "Look-ahead", subject: "The encoder's look-ahead", meaning: "The picture waits in the encoder until those behind it are known, for quality.",
    smaller: "a shorter --look-ahead, fewer --bframes, or a version without them",
  },
  encode: {
    label: "Encode", subject: "The encoder", meaning: "The encoder codes the picture.",
    smaller: "--preset ultrafast, --threads 2 and more, a lower --bitrate",
  },
  mux: {
    label: "Mux", subject: "The multiplexer", meaning: "The coded picture is packed, and at a constant rate waits for its place.",
    smaller: "leave out --cbr and --constant-size",
  },
  send: {
    label: "Send", subject: "The sending", meaning: "The sender's kernel takes the picture's last byte.",
    smaller: "over TCP a path that is wide enough for the largest picture; --vbv and --intra-refresh make that smaller",
  },
  hold: {
    label: "Hold", subject: "SRT's latency", meaning: "The picture came by SRT, and was held back at the server for the latency of that connection, in which lost packets are sent again.",
    smaller: "a shorter latency of SRT, at the sender or in [srt] of the server: three to four round trips of the line make good nearly all losses",
  },
  relay: {
    label: "Relay", subject: "The server", meaning: "The server has the last byte, and hands it to its kernel for a viewer, spread over time where that is paced.",
    smaller: "flush = \"frame\" in the server's configuration, pacing = \"off\" where the path takes whole pictures at once, more cores where it is busy",
  },
  network: {
    label: "Network", subject: "The network", meaning: "The picture is on its way: to the server, and from there to this page.",
    smaller: "a path without queues, such as a cable in place of Wi-Fi; --intra-refresh, since a large key frame takes long on a narrow path",
  },
  decode: {
    label: "Decode", subject: "The decoder", meaning: "The browser's decoder gives the picture.",
    smaller: "a smaller picture or fewer of them in a second, a browser that decodes in hardware, a machine that is less busy",
  },
  display: {
    label: "Display", subject: "The display", meaning: "The picture waits for the screen's next refresh, and with sound for its sound.",
    smaller: "a screen that refreshes more often",
  },
};

/** How the picture is played, for what depends on that. */
export interface PlayedBy {
  engine: string;
  /** The page may use WebCodecs. */
  isSecure: boolean;
  isMuted: boolean;
}

/** What the last stage is where a video element decodes, holds and shows. */
function elementWords({ engine, isSecure }: PlayedBy): Pick<PartWords, "subject" | "meaning" | "smaller"> {
  const subject = "The browser's player";
  const meaning = "The browser decodes the picture, holds some in reserve and shows each at its time.";
  if (engine !== "mse") return { subject, meaning, smaller: "a smaller wanted delay, or watching by “Direct”" };
  const smaller = isSecure
    ? "decoding picture by picture, with ?engine=webcodecs in the address where the browser can"
    : "this page over HTTPS, where the browser lets it decode picture by picture (WebCodecs)";
  return { subject, meaning, smaller };
}

/** A time in ms, with a digit behind the point where it is short. */
export function fine(ms: number): string {
  if (ms < 0.05) return ms === 0 ? "0 ms" : "< 0.1 ms";
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  return ms < 9_999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export interface StageRow {
  part: Part;
  label: string;
  /** In ms; null where the part is not known by itself. */
  p50: number | null;
  p99: number | null;
  /** One sentence. */
  text: string;
  isLargest: boolean;
}

/** All that the page shows of a summary. */
export interface StageView {
  rows: StageRow[];
  /** From capture to here; null where it is not known. */
  total: { p50: number; p99: number } | null;
  /** The largest part, and what would make it smaller; empty where nothing is known. */
  advice: string;
  notes: string[];
}

/** What to show, `summary` being of a picture that is played like this. */
export function viewOf(summary: StageSummary, by: PlayedBy): StageView {
  const { parts } = summary;
  const known = PARTS.filter((part) => parts[part] !== null);
  const largest = known.reduce<Part | null>((best, part) => (best === null || parts[part]!.p50 > parts[best]!.p50 ? part : best), null);
  const rows = PARTS.map((part): StageRow => {
    const figures = parts[part];
    const text = figures ? meaningOf(part, summary, by) : unknownText(part, summary);
    return {
      part, label: PART_WORDS[part].label, p50: figures?.p50 ?? null, p99: figures?.p99 ?? null, text, isLargest: part === largest,
    };
  });
  return { rows, total: summary.total, advice: largest ? adviceOf(largest, summary, by) : "", notes: notesOf(summary) };
}

/** The sender said nothing of its stages. */
function senderIsSilent({ parts }: StageSummary): boolean {
  return parts.encode === null && parts.mux === null && parts.send === null;
}

function meaningOf(part: Part, summary: StageSummary, by: PlayedBy): string {
  if (part === "display" && summary.parts.decode === null) return elementWords(by).meaning;
  if (part === "network" && senderIsSilent(summary)) return "All of the way from capture to this page, since the sender does not say its stages.";
  return PART_WORDS[part].meaning;
}

/** Where the time of an unknown part is. */
function unknownText(part: Part, { parts, total }: StageSummary): string {
  // What the relay takes lies between two parts of the network: nothing else falls into it.
  const holder = PARTS.slice(PARTS.indexOf(part) + 1).find((one) => parts[one] !== null && one !== "relay" && one !== "hold");
  const isOfThePage = part === "decode" || part === "display";
  // Where the way to this page is not known, its parts are in no other one's time.
  const isLost = !isOfThePage && total === null && (holder === undefined || holder === "decode" || holder === "display");
  return !holder || isLost ? "Not known." : `Not told apart here: part of “${PART_WORDS[holder].label}”.`;
}

function adviceOf(part: Part, summary: StageSummary, by: PlayedBy): string {
  const took = fine(summary.parts[part]!.p50);
  if (part === "network" && senderIsSilent(summary)) {
    return `From capture to this page it takes ${took}. Which part of that is the encoder's, the server's and the network's, an encoder that says its stages would tell, as glassline encode does.`;
  }
  const isElement = part === "display" && summary.parts.decode === null;
  const { subject, smaller } = isElement ? elementWords(by) : PART_WORDS[part];
  const waits = part === "display" && !isElement && !by.isMuted ? "; no sound, since pictures wait for it" : "";
  return `${subject} takes ${took}, more than anything else. To make it smaller: ${smaller}${waits}.`;
}

function notesOf(summary: StageSummary): string[] {
  const { shown, pictures, total, fromTheFuture, futureMs, clockMs, senderClockMs } = summary;
  if (shown === 0) return ["No picture was shown in the last ten seconds."];
  const notes: string[] = [];
  if (fromTheFuture > 0) {
    notes.push(
      `${fromTheFuture} of ${pictures} pictures come from the future: they were here up to ${fine(futureMs)} before their sender says that they ` +
      "had left. Its clock and the server's disagree by at least that, or it was too busy to write the time down at once; the way between is not known for these.");
  } else if (total === null) {
    notes.push("Nothing says when these pictures were captured: only what this page adds is known.");
  }
  if (clockMs === null) notes.push("The server's clock is not known here yet, and so no way from there.");
  else if (total !== null || fromTheFuture > 0) notes.push(`The server's clock is known here to ± ${fine(clockMs)}.`);
  if (senderClockMs === Infinity) {
    notes.push("The sender says that nothing keeps its clock: where it is another machine than the server, the network's part is as wrong as that clock.");
  } else if (senderClockMs !== null) notes.push(`The sender's clock is right to ${fine(senderClockMs)}, by its own estimate.`);
  notes.push(`Of ${pictures} pictures of the last ten seconds; medians of parts need not add up to that of all.`);
  return notes;
}
