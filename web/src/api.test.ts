import { describe, expect, it } from "vitest";
import { access, livePath } from "./api";

describe("a stream's address", () => {
  it("takes along what lets the viewer in, and nothing else", () => {
    expect(livePath("stage", "")).toBe("/live/stage.ts");
    expect(livePath("stage", "?engine=mse&popout=1")).toBe("/live/stage.ts");
    expect(livePath("stage", "?expires=1000&engine=mse&token=a-b_c")).toBe("/live/stage.ts?expires=1000&token=a-b_c");
    expect(access("?token=%26x%3D")).toBe("token=%26x%3D");
  });
});
