import { describe, expect, it } from "vitest";
import { access, historyPath, infoPath, livePath, reportPath, stagesPath } from "./api";

describe("a stream's address", () => {
  it("takes along what lets the viewer in, and nothing else", () => {
    expect(livePath("stage", "")).toBe("/live/stage.ts");
    expect(livePath("stage", "?engine=mse&popout=1")).toBe("/live/stage.ts");
    expect(livePath("stage", "?expires=1000&engine=mse&token=a-b_c")).toBe("/live/stage.ts?expires=1000&token=a-b_c");
    expect(infoPath("stage", "?engine=mse")).toBe("/api/streams/stage");
    expect(infoPath("stage", "?expires=1000&engine=mse&token=a-b_c")).toBe("/api/streams/stage?expires=1000&token=a-b_c");
    expect(historyPath("stage", "", 1, 60)).toBe("/api/streams/stage/history?step=1&points=60");
    expect(historyPath("stage", "?token=a", 10, 5)).toBe("/api/streams/stage/history?step=10&points=5&token=a");
    expect(stagesPath("stage", "?report=1", null)).toBe("/live/stage/stages.json");
    expect(stagesPath("stage", "?token=a&report=1", 17)).toBe("/live/stage/stages.json?after=17&token=a");
    expect(reportPath("stage", "?token=a&report=1")).toBe("/live/stage/stages?token=a");
    expect(access("?token=%26x%3D")).toBe("token=%26x%3D");
  });
});
