import { expect, it } from "vitest";
import { codecsOf, listedDelay } from "./dash_list";

const manifest = (template: object): object => ({
  minimumUpdatePeriod: 2, maxSegmentDuration: 2.5, Period: [{}, { AdaptationSet: [{ SegmentTemplate: template }] }],
});

it("stays behind the end of a list of segments, and not behind a rule's", () => {
  expect(listedDelay(manifest({ duration: 180_000 }))).toBeNull();
  expect(listedDelay(manifest({ SegmentTimeline: { S: [] } }))).toBe(5);
  expect(listedDelay({})).toBeNull();
});

it("tells the codecs of pictures and of sound, wherever a manifest names them", () => {
  const sets = [
    { contentType: "video", Representation: [{ codecs: "hvc1.1.6.L93.B0" }] },
    { mimeType: "audio/mp4", codecs: "mp4a.40.2", Representation: [{}] },
    { Representation: [{ mimeType: "audio/mp4", codecs: "ac-3" }] },
  ];
  const manifest = { Period: [{}, { AdaptationSet: sets }] };
  expect(codecsOf(manifest, "video")).toEqual(["hvc1.1.6.L93.B0"]);
  expect(codecsOf(manifest, "audio")).toEqual(["mp4a.40.2", "ac-3"]);
  expect(codecsOf({}, "video")).toEqual([]);
});
