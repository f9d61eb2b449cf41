import { describe, expect, it } from "vitest";
import { pageName, rootOf } from "./root";

describe("the folder of the server", () => {
  it("is the one above the script's", () => {
    expect(rootOf("http://h:8080/assets/app.js")).toBe("/");
    expect(rootOf("https://h/tv/assets/app.js?x")).toBe("/tv/");
    expect(rootOf("https://h/a/watch/assets/app.js")).toBe("/a/watch/");
    expect(rootOf("file:///src/root.ts")).toBe("/");
  });

  it("is what a page's name stands behind", () => {
    expect(pageName("watch", "/watch/hall", "/")).toBe("hall");
    expect(pageName("watch", "/tv/watch/a%20b/", "/tv/")).toBe("a b");
    expect(pageName("stream", "/watch/stream/hall", "/watch/")).toBe("hall");
    expect(pageName("watch", "/watch/tv/", "/watch/tv/")).toBeNull();
    expect(pageName("watch", "/watch/hall", "/tv/")).toBeNull();
    expect(pageName("stream", "/watch/hall", "/")).toBeNull();
    expect(pageName("watch", "/watch/%zz", "/")).toBe("%zz");
    expect(pageName("event", "/tv/event/finals", "/tv/")).toBe("finals");
    expect(pageName("crew", "/event/finals", "/")).toBeNull();
  });
});
