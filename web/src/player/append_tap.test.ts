import { beforeAll, describe, expect, it, vi } from "vitest";
import { StageLedger } from "../stages/ledger";
import { AppendTap, type Attached } from "./append_tap";
import { CaptureLine } from "./capture_line";

class FakeBuffer {
  timestampOffset = 0;
  appended = 0;
  appendBuffer(data: Uint8Array): void {
    this.appended += data.byteLength;
  }
}
class FakeSource {
  addSourceBuffer(type: string): FakeBuffer {
    if (type !== "video/mp4") throw new Error("NotSupportedError");
    return new FakeBuffer();
  }
}
/** Inherits from the other one, as browsers have it. */
class FakeManaged extends FakeSource {}

let made = 0;
beforeAll(() => {
  vi.stubGlobal("SourceBuffer", FakeBuffer);
  vi.stubGlobal("MediaSource", FakeSource);
  vi.stubGlobal("ManagedMediaSource", FakeManaged);
  URL.createObjectURL = () => `blob:${(made += 1)}`;
});

const element = (): { -readonly [K in keyof Attached]: Attached[K] } => ({ src: "", currentSrc: "", srcObject: null });
const tapOf = (video: Attached): AppendTap => new AppendTap(video, new CaptureLine(), new CaptureLine(), new StageLedger());

/** What a library does. */
function attach(video: ReturnType<typeof element>, how: "src" | "source" | "object" = "src", source: FakeSource = new FakeSource()): FakeBuffer {
  if (how === "object") video.srcObject = source;
  else {
    const address = URL.createObjectURL(source as unknown as MediaSource);
    if (how === "src") video.src = address;
    video.currentSrc = address;
  }
  return source.addSourceBuffer("video/mp4");
}

const bytes = (length: number): Uint8Array => new Uint8Array(length);

describe("taps of what libraries append", () => {
  it("take what is their own video's, several at a time", () => {
    const videos = [element(), element()];
    const taps = videos.map(tapOf);
    const buffers = videos.map((video) => attach(video));
    buffers[0]!.appendBuffer(bytes(100));
    buffers[1]!.appendBuffer(bytes(30));
    buffers[1]!.appendBuffer(bytes(4));
    expect(taps.map((tap) => tap.bytes)).toEqual([100, 34]);
    expect(buffers.map(({ appended }) => appended)).toEqual([100, 34]);
    for (const tap of taps) tap.close();
  });

  it("go on when another one closes, in whatever order", () => {
    const videos = [element(), element(), element()];
    const taps = videos.map(tapOf);
    const buffers = videos.map((video) => attach(video));
    for (const closed of [0, 2, 1]) {
      taps[closed]!.close();
      for (const buffer of buffers) buffer.appendBuffer(bytes(10));
    }
    expect(taps.map((tap) => tap.bytes)).toEqual([0, 20, 10]);
    expect(buffers.map(({ appended }) => appended)).toEqual([30, 30, 30]);
  });

  it("follow their video to the next media source, and leave the one before", () => {
    const video = element();
    const tap = tapOf(video);
    const before = attach(video);
    const after = attach(video);
    before.appendBuffer(bytes(5));
    after.appendBuffer(bytes(7));
    expect(tap.bytes).toBe(7);
    tap.close();
  });

  it("know a media source by an element inside of the video, as an object, and as a managed one", () => {
    for (const how of ["source", "object"] as const) {
      for (const source of [new FakeSource(), new FakeManaged()]) {
        const [video, other] = [element(), element()];
        const [tap, stranger] = [tapOf(video), tapOf(other)];
        attach(other);
        attach(video, how, source).appendBuffer(bytes(9));
        expect([tap.bytes, stranger.bytes]).toEqual([9, 0]);
        tap.close();
        stranger.close();
      }
    }
  });

  it("change the browser's methods once, and pass on what they throw", () => {
    const before = [FakeBuffer.prototype.appendBuffer, FakeSource.prototype.addSourceBuffer, URL.createObjectURL];
    const tap = tapOf(element());
    tap.close();
    expect([FakeBuffer.prototype.appendBuffer, FakeSource.prototype.addSourceBuffer, URL.createObjectURL]).toEqual(before);
    expect(Object.hasOwn(FakeManaged.prototype, "addSourceBuffer")).toBe(false);
    expect(() => new FakeSource().addSourceBuffer("video/odd")).toThrow("NotSupportedError");
  });
});
