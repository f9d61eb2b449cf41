import { expect, it } from "vitest";
import { listedDelay } from "./dash_list";

const manifest = (template: object): object => ({
  minimumUpdatePeriod: 2, maxSegmentDuration: 2.5, Period: [{}, { AdaptationSet: [{ SegmentTemplate: template }] }],
});

it("stays behind the end of a list of segments, and not behind a rule's", () => {
  expect(listedDelay(manifest({ duration: 180_000 }))).toBeNull();
  expect(listedDelay(manifest({ SegmentTimeline: { S: [] } }))).toBe(5);
  expect(listedDelay({})).toBeNull();
});
