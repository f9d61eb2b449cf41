import { describe, expect, it } from "vitest";
import { type Cluster, isConfigured, type Registry } from "./cluster_api";
import { carriersText, chosenStreams, factsText, nodeState, registryText, summaryText, troubles, wayText } from "./cluster_words";
import { isPage } from "./root";

const registry: Registry = {
  heard: true, server: "nats://10.0.0.11:4222", bucket: "glassline", error: null, claims: 1, lost: 0, conflicts: 0, failed: 0, dropped: 0, sessions: 1, twin: false,
};
const node = { name: "a", address: "http://a", zone: "", version: "1", viewers: 3, alive: true, leaving: false, draining: false, own: true };
const stream = { name: "hall", node: "a", epoch: 7, live: true, carriers: [] };
const one: Cluster = { node: "b", registry, nodes: [node, { ...node, name: "b", alive: false }], streams: [stream], unread: [], static: [] };

describe("the page of a cluster", () => {
  it("is at its address alone", () => {
    expect([isPage("cluster", "/cluster", "/"), isPage("cluster", "/tv/cluster", "/tv/"), isPage("cluster", "/cluster/x", "/")]).toEqual([true, true, false]);
  });

  it("sums up what is alive", () => {
    expect(summaryText(one)).toBe("1 server alive · 1 live · 3 viewers");
    expect(summaryText({ static: [] })).toBe("Not in a cluster");
    expect([isConfigured(one), isConfigured({ static: [] }), isConfigured({ static: [{ pattern: "*", server: "http://h" }] })]).toEqual([true, false, true]);
  });

  it("says what is wrong and what to do about it, as docs/cluster.md does", () => {
    expect(troubles(one)).toEqual([]);
    const away = (error: string | null): string => troubles({ ...one, registry: { ...registry, heard: false, error } })[0]!.todo;
    expect(away("authorization violation")).toContain("credentials_file");
    expect(away("no news have come for a second")).toContain("nats stream info KV_glassline");
    expect(away("there is no bucket glassline, and it cannot be made")).toContain("nats kv add glassline");
    expect(away("invalid peer certificate: UnknownIssuer")).toContain("nats_ca");
    expect(away("connection refused")).toContain("tries again by itself");
    expect(registryText({ ...registry, heard: false })).toContain("What runs goes on without the registry");
    const both = troubles({ ...one, registry: { ...registry, twin: true }, unread: [{ name: "news", error: "x" }] });
    expect(both.map(({ what }) => what)).toEqual([expect.stringContaining("same node name"), expect.stringContaining("that of news")]);
    expect(both[1]!.todo).toContain("nats kv del glassline stream/news");
  });

  it("counts what has taken place, one and several", () => {
    expect(factsText(registry)).toBe("1 connection to the registry · 1 stream given to this server");
    expect(factsText({ ...registry, sessions: 2, claims: 0, dropped: 1, failed: 3 })).toBe(
      "2 connections to the registry · 0 streams given to this server · 3 requests that failed · 1 entry that had no room");
  });

  it("says how far a server is emptied, and what is left to do", () => {
    const drain = { draining: true, viewers: 1, publishers: 0, players: 2, pulls: 0 };
    const told = (more: object) => troubles({ ...one, drain: { ...drain, ...more } })[0];
    expect(told({ draining: false })).toBeUndefined();
    expect(told({})!.what).toBe("This server is being emptied: 1 viewer, 0 publishers, 2 players left.");
    expect(told({ viewers: 0 })!.todo).toContain("by DNS");
    expect(told({ viewers: 0, players: 0 })!.what).toContain("nothing is left");
  });

  it("has a word for each state of a server", () => {
    const words = [{}, { leaving: true }, { draining: true }, { alive: false, leaving: true }].map((more) => nodeState({ ...node, ...more }).word);
    expect(words).toEqual(["Alive", "Leaving", "Draining", "Away"]);
  });

  it("names the servers that carry a stream, the nearest to its publisher first", () => {
    expect(carriersText(stream)).toBe("–");
    expect(carriersText({ ...stream, carriers: [{ node: "d", hops: 2 }, { node: "c", hops: 1 }] })).toBe("c, d (2)");
  });

  it("shows the way that a stream takes as far as it is told", () => {
    expect(wayText(stream, undefined, "a")).toBe("has its publisher here");
    expect(wayText(stream, undefined, "b")).toBe("is not pulled here");
    expect(wayText(stream, { stream: "hall", node: "a", hops: 1 }, "b")).toBe("a → here");
    expect(wayText(stream, { stream: "hall", node: "c", hops: 2 }, "b")).toBe("a → c → here");
    expect(wayText(stream, { stream: "hall", node: null, hops: null }, "b")).toBe("does not come at the moment");
    expect(wayText(stream, { stream: "hall", node: "c", hops: 4 }, "b")).toBe("a → … → c → here");
  });

  it("lists live streams first, and those that are sought", () => {
    const streams = [{ ...stream, name: "z10" }, { ...stream, name: "z9" }, { ...stream, name: "a", live: false }, { ...stream, name: "b", node: "far" }];
    expect(chosenStreams(streams, "").map(({ name }) => name)).toEqual(["b", "z9", "z10", "a"]);
    expect(chosenStreams(streams, " FAR ").map(({ name }) => name)).toEqual(["b"]);
  });
});
