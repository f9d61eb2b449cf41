/** What is typed or copied into other programs to publish a stream or to watch it, by each protocol that the server takes. */
import { type Door, type Overview, overview } from "../api";
import { ROOT } from "../root";
import { copyLine, element } from "./dom";

/** A label and the text. */
export type Line = [string, string];

/** The ports that addresses leave out. */
const USUAL_PORTS: Record<string, number> = { rtmp: 1935, rtmps: 443, rtsp: 554, rtsps: 322 };

function address({ protocol, port }: Door, host: string): string {
  return `${protocol}://${host}${port === USUAL_PORTS[protocol] ? "" : `:${port}`}/live`;
}

/** How to publish as `name`: by SRT, then by several lines, then by the others. */
export function publishLines(doors: readonly Door[], host: string, name = "NAME"): Line[] {
  const bySrt = doors.filter(({ protocol }) => protocol === "srt").flatMap(({ port }): Line[] => {
    const server = `srt://${host}:${port}?streamid=publish:${name}:KEY`;
    return [
      ['OBS, Service "Custom…": Server (SRT)', `${server}&latency=120000`],
      ["Any file, with FFmpeg (SRT)", `ffmpeg -re -i FILE -c copy -f mpegts "${server}"`],
      ["GStreamer (SRT)", `… ! mpegtsmux ! srtsink uri=srt://${host}:${port} streamid=publish:${name}:KEY latency=120`],
    ];
  });
  const bySeveralLines = doors.filter(({ protocol }) => protocol === "srtla").map(({ port }): Line => [
    `Phones with several lines (SRTLA): server, and stream id publish:${name}:KEY`, `srtla://${host}:${port}`,
  ]);
  return [...bySrt, ...bySeveralLines, ...doors.filter(({ protocol }) => protocol in USUAL_PORTS).flatMap((door): Line[] => {
    const [server, words] = [address(door, host), door.protocol.toUpperCase()];
    if (door.protocol.startsWith("rtsp")) {
      return [
        [`Any file, with FFmpeg (${words})`, `ffmpeg -re -i FILE -c copy -f rtsp "${server}/${name}?key=KEY"`],
        [`GStreamer (${words})`, `… ! rtspclientsink location="${server}/${name}?key=KEY"`],
      ];
    }
    return [
      [`OBS, Service "Custom…": Server (${words})`, server],
      ["OBS: Stream Key", `${name}?key=KEY`],
      [`Any file, with FFmpeg (${words})`, `ffmpeg -re -i FILE -c copy -f flv "${server}/${name}?key=KEY"`],
      [`GStreamer (${words})`, `… ! flvmux streamable=true ! rtmp2sink location="${server}/${name}?key=KEY"`],
    ];
  })];
}

/** How to watch `name` with other programs: by SRT, then by RTSP. */
export function watchLines(doors: readonly Door[], host: string, name = "NAME"): Line[] {
  return [...doors].sort((one, other) => other.protocol.localeCompare(one.protocol)).flatMap((door): Line[] => {
    const words = door.protocol.toUpperCase();
    if (door.protocol === "srt") {
      const url = `srt://${host}:${door.port}?streamid=read:${name}`;
      return [
        [`FFmpeg (${words})`, `ffplay "${url}"`], [`VLC (${words})`, `vlc "${url}"`],
        [`GStreamer (${words})`, `gst-launch-1.0 srtsrc uri=srt://${host}:${door.port} streamid=read:${name} ! …`],
      ];
    }
    if (!door.protocol.startsWith("rtsp")) return [];
    const url = `${address(door, host)}/${name}`;
    return [
      [`FFmpeg (${words})`, `ffplay "${url}"`], [`VLC built with live555 (${words})`, `vlc "${url}"`],
      [`GStreamer (${words})`, `gst-launch-1.0 rtspsrc location="${url}" latency=100 ! …`],
    ];
  });
}

/** All of a stream's lines, in two lists that open. `origin` ends with a slash. */
export function waysOf(doors: readonly Door[], host: string, origin: string, name: string): { publish: Line[]; watch: Line[] } {
  return {
    publish: [
      ["Any file, with FFmpeg (HTTP)", `ffmpeg -re -i FILE -c copy -f mpegts ${origin}live/${name}.ts`],
      ["A test picture", `glassline encode test:1280x720@50 ${origin}live/${name}.ts`],
      ...publishLines(doors, host, name),
    ],
    watch: [
      ["FFmpeg (HTTP)", `ffplay ${origin}live/${name}.ts`],
      ["VLC (HTTP)", `vlc ${origin}live/${name}.ts`],
      ["Players of HLS", `${origin}live/${name}/index.m3u8`],
      ["Players of DASH", `${origin}live/${name}/manifest.mpd`],
      ...watchLines(doors, host, name),
    ],
  };
}

/** The panel of a stream's page. It asks the server for its doors when it is opened first. */
export class WaysPanel {
  private readonly lists = element("div", { class: "ways" });
  readonly element: HTMLElement;

  constructor(private readonly name: string, private readonly ask: () => Promise<Overview | null> = overview) {
    const details = element(
      "details", {}, element("summary", {}, element("h2", {}, "Publish and watch with other programs")),
      element("p", { class: "hint" }, "KEY is the publish key where one is configured; without it, leave the part with KEY out. Viewers that need a key or a signed link show it in the same place."),
      this.lists,
    );
    details.addEventListener("toggle", () => void (details.open && this.fill()));
    this.element = element("section", { class: "panel", "aria-label": "Publish and watch with other programs" }, details);
  }

  private async fill(): Promise<void> {
    const doors = (await this.ask())?.server.doors ?? [];
    const { publish, watch } = waysOf(doors, location.hostname, location.origin + ROOT, this.name);
    const list = (title: string, lines: readonly Line[]): HTMLElement =>
      element("div", {}, element("h3", {}, title), ...lines.map(([label, text]) => copyLine(label, text)));
    this.lists.replaceChildren(list("Publish", publish), list("Watch", watch));
  }
}
