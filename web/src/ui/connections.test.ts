import { describe, expect, it } from "vitest";
import type { Output, Peer, Source } from "../api";
import { connectionsOf } from "./connections";

const SOURCE: Source = {
  url: "rtsp://camera/main", state: "waiting", error: "cannot connect: refused", retry_in_ms: 1500, reconnects: 2, failures: 3, datagrams: null,
  rtp: { received: 1200, lost: 4 },
};
const PUBLISHER: Peer = {
  role: "publish", protocol: "srt", address: "192.0.2.7:4000", seconds: 61, bytes: 2_500_000,
  figures: [{ name: "rtt_ms", words: "Round trip (ms)", value: 40.25 }, { name: "lost", words: "Lost on the way", value: 12 }],
};
const FORWARD: Peer = {
  role: "forward", protocol: "rtmps", target: "rtmps://live.example/app", state: "refused", reason: "it takes no Opus", retry_in_s: 9.2, seconds: 0,
  bytes: 0, figures: [],
};
const OUTPUT: Output = { url: "udp://239.0.0.1:5004", sending: true, error: null, datagrams: 10, bytes: 13_160, errors: 0, moved_forward: 1 };

describe("the connections of a stream", () => {
  it("are told with their figures in words", () => {
    const [publisher] = connectionsOf({ peers: [PUBLISHER] });
    expect(publisher).toEqual({
      title: "Publishes by SRT", place: "192.0.2.7:4000", state: "for 1 min 1 s", troubled: false,
      figures: [["Bytes", "2.5 MB"], ["Round trip (ms)", "40.3"], ["Lost on the way", "12"]],
    });
  });

  it("say why nothing passes, and when it is tried again", () => {
    const [source, forward] = connectionsOf({ source: SOURCE, peers: [FORWARD] });
    expect(source).toMatchObject({ place: "rtsp://camera/main", state: "waiting: cannot connect: refused, again in 2 s", troubled: true });
    expect(source!.figures).toContainEqual(["Lost", "4"]);
    expect(forward).toMatchObject({
      title: "Forwarded by RTMPS", place: "rtmps://live.example/app", state: "refused: it takes no Opus, again in 10 s", troubled: true,
    });
  });

  it("of a forward that is idle are no trouble", () => {
    const [idle] = connectionsOf({ peers: [{ ...FORWARD, state: "idle", reason: null, retry_in_s: null }] });
    expect(idle).toMatchObject({ state: "idle", troubled: false });
    const [on] = connectionsOf({ peers: [{ ...FORWARD, state: "publishing", reason: null, retry_in_s: null, seconds: 5 }] });
    expect(on).toMatchObject({ state: "publishing for 5 s", troubled: false });
  });

  it("are outputs, too", () => {
    const [output, broken] = connectionsOf({ outputs: [OUTPUT, { ...OUTPUT, sending: false, error: "no route to host" }] });
    expect(output).toMatchObject({ title: "Sent to", place: "udp://239.0.0.1:5004", state: "sending", troubled: false });
    expect(broken).toMatchObject({ state: "no route to host", troubled: true });
  });

  it("are none where the caller is told of none", () => {
    expect(connectionsOf({})).toEqual([]);
    expect(connectionsOf({ source: null, peers: [], outputs: [] })).toEqual([]);
  });
});
