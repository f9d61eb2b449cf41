// A stream with KLV metadata and cues of SCTE 35 beside its pictures plays as one without them, by each way to watch. No timing
// decides a test.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { glassline, launch, open, plays, serve, showsPicture, skip } from "./support.mjs";

const [KLV_PID, CUE_PID, PMT_PID, VIDEO_PID] = [0x1f0, 0x1f1, 0x1000, 0x100];
const PACKET = 188;
/** An empty set of a drone (MISB ST 0601): its version, and a checksum. */
const SET = Buffer.from("060e2b34020b01010e010301010000000741011301024fa6", "hex");
/** What the program map says of both streams. */
const STREAMS = [
  [0x06, KLV_PID, Buffer.from("\x05\x04KLVA", "latin1")],
  [0x86, CUE_PID, Buffer.from("\x05\x04CUEI", "latin1")],
];

let browser = null;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A section with its checksum (13818-1 annex B). */
function sealed(section) {
  section.writeUInt16BE((section.readUInt16BE(1) & 0xf000) | (section.length + 1), 1);
  let crc = 0xffffffff;
  for (const byte of section) {
    crc ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc < 0 ? 0x04c11db7 : 0);
  }
  const end = Buffer.alloc(4);
  end.writeInt32BE(crc | 0);
  return Buffer.concat([section, end]);
}

/** One packet of this PID with what fits it; the rest is stuffed. */
function packet(pid, counter, payload, isSection) {
  const head = Buffer.from([0x47, 0x40 | (pid >> 8), pid & 0xff, 0x10 | (counter & 15)]);
  if (isSection) return Buffer.concat([head, Buffer.from([0]), payload, Buffer.alloc(PACKET - 5 - payload.length, 0xff)]);
  head[3] |= 0x20;
  const field = Buffer.alloc(PACKET - 4 - payload.length, 0xff);
  [field[0], field[1]] = [field.length - 1, 0];
  return Buffer.concat([head, field, payload]);
}

/** splice_insert: out for four seconds, at once, or back. */
function cue(event, isOut) {
  const duration = isOut ? [0xfe, 0, 0x05, 0x7e, 0x40] : [];
  const command = [0, 0, 0, event, 0x7f, isOut ? 0xff : 0x5f, ...duration, 0, 1, 0, 0];
  const head = [0xfc, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xf0, command.length, 5];
  return sealed(Buffer.from([...head, ...command, 0, 0]));
}

/** Puts the metadata beside the pictures of a transport stream, in front of its own streams in the map. */
class Beside {
  rest = Buffer.alloc(0);
  counters = [0, 0, 0];
  pictures = 0;

  push(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    const out = [];
    while (this.rest.length >= PACKET) {
      out.push(...this.packet(this.rest.subarray(0, PACKET)));
      this.rest = this.rest.subarray(PACKET);
    }
    return Buffer.concat(out);
  }

  packet(bytes) {
    const [pid, begins] = [bytes.readUInt16BE(1) & 0x1fff, (bytes[1] & 0x40) !== 0];
    if (pid === PMT_PID && begins) {
      const at = 5 + bytes[4];
      const end = at + 3 + (bytes.readUInt16BE(at + 1) & 0xfff) - 4;
      const own = at + 12 + (bytes.readUInt16BE(at + 10) & 0xfff);
      const added = STREAMS.map(([type, of, descriptors]) =>
        Buffer.concat([Buffer.from([type, 0xe0 | (of >> 8), of & 0xff, 0xf0, descriptors.length]), descriptors]));
      const section = sealed(Buffer.concat([bytes.subarray(at, own), ...added, bytes.subarray(own, end)]));
      return [packet(PMT_PID, this.counters[0]++, section, true)];
    }
    if (pid !== VIDEO_PID || !begins) return [bytes];
    const out = [];
    if (this.pictures % 3 === 0) {
      const head = Buffer.from([0, 0, 1, 0xbd, 0, SET.length + 3, 0x84, 0, 0]);
      out.push(packet(KLV_PID, this.counters[1]++, Buffer.concat([head, SET]), false));
    }
    const second = Math.floor(this.pictures / 25);
    if (this.pictures % 25 === 10) {
      out.push(packet(CUE_PID, this.counters[2]++, cue((second >> 1) & 0xff, second % 2 === 0), true));
    }
    this.pictures++;
    return [...out, bytes];
  }
}

/** Publishes the test pattern with metadata beside it. */
function publish(t, server, name) {
  const encoder = spawn(glassline, ["encode", "test:320x180@25", "-", "--keyint", "1s", "--audio", "aac"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const sending = request(`${server.origin}/live/${name}.ts`, { method: "PUT" });
  sending.on("error", () => encoder.kill());
  const beside = new Beside();
  encoder.stdout.on("data", (bytes) => sending.write(beside.push(bytes)));
  t.after(() => {
    encoder.kill();
    sending.destroy();
  });
}

for (const engine of ["webcodecs", "mse", "hls", "dash"]) {
  test(`metadata beside the pictures change nothing for ${engine}`, { timeout: 240_000 }, async (t) => {
    if (!browser) return skip(t, "chromium is not installed");
    const server = await serve(t, [], { config: "[package]\nsegment = '1s'\npart = '200ms'\n" });
    publish(t, server, "drone");
    await server.live("drone");
    const page = await open(t, browser, `${server.origin}/watch/drone?engine=${engine}`);
    const figures = await plays(page, 100);
    assert.equal(figures.engine, engine);
    assert.ok(await showsPicture(page), "a picture");
    // The stream did have them, for programs that ask.
    const playlist = await (await fetch(`${server.origin}/live/drone/video.m3u8`)).text();
    assert.match(playlist, /#EXT-X-DATERANGE:ID="splice-\d+-\d+",START-DATE="[^"]+",PLANNED-DURATION=4.000,SCTE35-OUT=0xFC/);
    const manifest = await (await fetch(`${server.origin}/live/drone/manifest.mpd`)).text();
    assert.match(manifest, /<InbandEventStream schemeIdUri="urn:misb:KLV:bin:1910.1" value="KLV0:01BD"\/>/);
  });
}
