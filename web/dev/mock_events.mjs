// The mock's event: a ladder of two versions, slides, sound alone and a stream that is not live, with the alarms, pictures
// and answers that the pages of an event want. POST /mock/event with JSON changes what the event says.
import { spawn, spawnSync } from "node:child_process";

const SIZES = { "hall-720": [1280, 720, 2_000_000], "hall-360": [640, 360, 500_000] };
const THUMBNAIL_MS = 5000;

/** One FFmpeg with an output for each version; their key frames are of the same pictures. */
export function publishLadder(Stream, streams, children, rate) {
  const names = Object.keys(SIZES);
  const audio = { kind: "audio", name: "AAC" };
  const outputs = names.flatMap((name, index) => {
    const [width, height, bits] = SIZES[name];
    return ["-map", "0:v", "-map", "1:a", "-s", `${width}x${height}`, "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p",
      "-g", String(rate * 2), "-sc_threshold", "0", "-b:v", String(bits), "-maxrate", String(bits), "-bufsize", String(bits / 2), "-c:a", "aac",
      "-f", "mpegts", "-muxdelay", "0", "-muxpreload", "0", "-flush_packets", "1", "-mpegts_flags", "+pat_pmt_at_frames", `pipe:${index + 3}`];
  });
  const child = spawn("ffmpeg", ["-hide_banner", "-loglevel", "error", "-re", "-f", "lavfi", "-i", `testsrc2=size=1280x720:rate=${rate}`,
    "-re", "-f", "lavfi", "-i", "sine=frequency=440:beep_factor=4:sample_rate=48000", ...outputs], { stdio: ["ignore", "ignore", "inherit", "pipe", "pipe"] });
  children.push(child);
  names.forEach((name, index) => {
    const [width, height] = SIZES[name];
    const stream = new Stream(name, [{ kind: "video", name: "H.264", codec_string: "avc1.42c01f", width, height, frame_rate: rate }, audio]);
    stream.restart = () => {};
    stream.group = "hall";
    streams.set(name, stream);
    child.stdio[index + 3].on("data", (chunk) => stream.push(chunk));
  });
}

/** Four small JPEGs, or none where FFmpeg is missing. */
function pictures() {
  return [0, 3, 6, 9].map((at) => spawnSync("ffmpeg", ["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=1", "-ss", String(at), "-frames:v", "1",
    "-f", "mjpeg", "-"]).stdout);
}

export class MockEvents {
  event = {
    name: "finals", title: "Finals 2026", contact: "Trouble? Ask the video desk, +49 30 1234567", chat: "https://chat.example.org/finals",
    next: "Keynote at 20:15", audio: "hall",
  };
  alarms;
  muted = [];
  asked = [];

  constructor(streams) {
    this.streams = streams;
    this.pictures = pictures();
    const utc = (agoS) => new Date(Date.now() - agoS * 1000).toISOString();
    this.alarms = {
      watched: ["hall-720", "hall-360", "opus"],
      active: [
        { alarm: "black", state: "begun", stream: "hall-720", at_utc: utc(130), value: 2.5, limit: 10, unit: "% of the luma range", picture: "a1", muted: false },
        { alarm: "silence", state: "begun", stream: "opus", at_utc: utc(4000), value: -71.2, limit: -60, unit: "dBFS", picture: null, muted: false },
      ],
      recent: [
        { alarm: "discontinuity", state: "over", stream: "hall-720", at_utc: utc(30), value: 0, limit: 0, unit: "errors a second", picture: null, muted: false },
        { alarm: "discontinuity", state: "begun", stream: "hall-720", at_utc: utc(33), value: 12, limit: 0, unit: "errors a second", picture: "a2", muted: false },
        { alarm: "black", state: "begun", stream: "hall-720", at_utc: utc(130), value: 2.5, limit: 10, unit: "% of the luma range", picture: "a1", muted: false },
        { alarm: "absent", state: "over", stream: "elsewhere", at_utc: utc(900), value: null, limit: 1, unit: "s", picture: null, muted: false },
      ],
    };
  }

  json(origin) {
    const live = (name) => this.streams.get(name)?.live ?? false;
    const expires = Math.floor(Date.now() / 1000) + 36 * 3600;
    const access = `expires=${expires}&token=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg`;
    const stream = (name, more) => ({ name, group: false, known: true, live: live(name), sound: true, picture: true, access: null, ...more });
    return {
      ...this.event,
      streams: [
        stream("hall", { group: true, live: live("hall-720"), access }), stream("opus"), stream("barcode", { sound: false }),
        stream("english", { picture: false }), stream("later", { sound: null, picture: null }), stream("closed", { known: false, live: false }),
      ],
      crew: { access, public: [`${origin}/`, "https://live.example.org/"] },
    };
  }

  /** Whether it was for an event's page; then it is answered. */
  async handle(url, request, response) {
    const json = (value) => {
      response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(JSON.stringify(value));
      return true;
    };
    const jpeg = (bytes) => {
      if (bytes?.length) response.writeHead(200, { "content-type": "image/jpeg" }).end(bytes);
      else response.writeHead(404).end();
      return true;
    };
    const status = (code, detail) => {
      response.writeHead(code, { "content-type": "application/problem+json" }).end(detail ? JSON.stringify({ detail }) : undefined);
      return true;
    };
    const { pathname: path } = url;
    if (path === "/api/events") return json({ events: [{ name: "finals", title: this.event.title }] });
    if (path === "/api/events/finals") return json(this.json(`http://${request.headers.host}`));
    if (path.startsWith("/api/events/")) return status(404, "There is no event of this name.");
    if (path === "/api/streams/hall") return json(this.ladder());
    if (path === "/api/alarms") return json({ ...this.alarms, active: this.alarms.active.map((one) => ({ ...one, muted: this.isMuted(one) })), muted: this.muted });
    const thumbnail = /^\/api\/streams\/(.+)\/thumbnail$/.exec(path);
    if (thumbnail) return jpeg(this.streams.has(thumbnail[1]) ? this.pictures[Number(this.version(thumbnail[1])) % 4] : null);
    if (path.startsWith("/api/alarms/pictures/")) return jpeg(this.pictures[1]);
    if (path === "/api/alarms/mute" && request.method === "POST") {
      const { stream, alarm, for: time } = Object.fromEntries(url.searchParams);
      this.muted = this.muted.filter((one) => one.stream !== stream || one.alarm !== alarm);
      if (time !== "0s") this.muted.push({ stream, alarm, until_utc: new Date(Date.now() + Number.parseInt(time, 10) * 60_000).toISOString() });
      return status(204);
    }
    const key = /^\/api\/streams\/(.+)\/keyframe$/.exec(path);
    if (key && request.method === "POST") {
      this.asked.push(key[1]);
      return key[1].startsWith("hall") ? status(204) : status(409, "This server only passes the stream on: ask its own encoder ('glassline encode --control').");
    }
    if (path === "/mock/event" && request.method === "POST") {
      let body = "";
      for await (const part of request) body += part;
      const { alarms, ...event } = JSON.parse(body);
      Object.assign(this.event, event);
      Object.assign(this.alarms, alarms);
      return json({});
    }
    return false;
  }

  /** What `/api/streams/hall` says. */
  ladder() {
    return {
      group: "hall",
      renditions: Object.keys(SIZES).filter((name) => this.streams.has(name)).map((name) => {
        const [width, height, bitrate_bps] = SIZES[name];
        return { name, live: this.streams.get(name).live, width, height, frame_rate: 25, bitrate_bps };
      }),
    };
  }

  isMuted({ stream, alarm }) {
    return this.muted.some((one) => one.stream === stream && (one.alarm === alarm || one.alarm === "*"));
  }

  /** What changes when a stream's small picture does. */
  version(name) {
    return String(Math.floor(Date.now() / THUMBNAIL_MS) + name.length);
  }
}
