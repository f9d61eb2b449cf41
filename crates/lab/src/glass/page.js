// Looks at what a page shows: installed in front of its own scripts. `page.rs` calls what `glasslineLab` offers.
"use strict";

(() => {
  if (window !== window.top) return;
  // What was drawn with WebGL is gone once it is shown, unless it was asked to stay.
  const { getContext } = HTMLCanvasElement.prototype;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return getContext.call(this, kind, /^(experimental-)?webgl/.test(kind) ? { ...options, preserveDrawingBuffer: true } : options);
  };

  /** What each picture that was new said: [when, cells, cells]; without a barcode [when]. */
  let looks = [];
  let layouts = [];
  /** Where the barcode was read last: { element, layout }. */
  let place = null;
  let last = "";
  let problem = "";
  /** When the frames of the page began of late, as the browser counts them. */
  let frames = [];
  const drawing = new OffscreenCanvas(16, 16).getContext("2d", { willReadFrequently: true });

  /** UTC in milliseconds by the monotonic clock. */
  const now = () => performance.timeOrigin + performance.now();
  const hex = (values) => values.map((value) => value.toString(16).padStart(2, "0")).join("");

  /** CRC-16/CCITT-FALSE of the first 8 of 10 bytes is the last two. */
  const holds = (cells) => {
    const [low, high] = [Math.min(...cells), Math.max(...cells)];
    if (high - low < 32) return false;
    let check = 0xffff;
    for (const cell of cells.slice(0, 64)) {
      const bit = 2 * cell > low + high ? 1 : 0;
      check = ((check << 1) ^ ((((check >> 15) ^ bit) & 1) * 0x1021)) & 0xffff;
    }
    return check === cells.slice(64).reduce((bits, cell) => (bits << 1) | (2 * cell > low + high ? 1 : 0), 0);
  };

  const sizeOf = (element) =>
    element instanceof HTMLVideoElement ? [element.videoWidth, element.videoHeight] : [element.width, element.height];

  /** The mean of the centre half of each cell of a code, which lies in a picture of `size` that `source` has at its own. */
  const cells = (source, [width, height], { x, y, cell, size }) => {
    const [across, down] = [width / size.width, height / size.height];
    const [left, top] = [Math.floor(x * across), Math.floor(y * down)];
    const [wide, high] = [Math.ceil(20 * cell * across), Math.ceil(4 * cell * down)];
    const { canvas } = drawing;
    if (canvas.width < wide) canvas.width = wide;
    if (canvas.height < high) canvas.height = high;
    drawing.drawImage(source, left, top, wide, high, 0, 0, wide, high);
    const { data } = drawing.getImageData(0, 0, wide, high);
    const means = [];
    for (let index = 0; index < 80; index++) {
      const [column, row] = [index % 20, Math.floor(index / 20)];
      const at = (start, part, scale, less) => Math.round((start + part * cell) * scale) - less;
      const [x0, x1] = [at(x, column + 0.25, across, left), at(x, column + 0.75, across, left)];
      const [y0, y1] = [at(y, row + 0.25, down, top), at(y, row + 0.75, down, top)];
      let [sum, count] = [0, 0];
      for (let line = y0; line < Math.max(y1, y0 + 1); line++) {
        for (let sample = x0; sample < Math.max(x1, x0 + 1); sample++, count++) {
          sum += data[4 * (line * wide + sample) + 1];
        }
      }
      means.push(Math.round(sum / count));
    }
    return means;
  };

  const shown = () =>
    [...document.querySelectorAll("video, canvas")].filter((element) => {
      const [width, height] = sizeOf(element);
      const there = element.getBoundingClientRect();
      return width >= 160 && height >= 64 && there.width > 0 && there.height > 0 && !(element.readyState < 2);
    });

  /** One picture of an element: a video may go on while it is looked at. */
  const still = (element) => {
    try {
      if (element instanceof HTMLVideoElement) return new VideoFrame(element);
    } catch (error) {
      problem = String(error);
    }
    return element;
  };

  /** Both codes of an element, where one of them holds. */
  const read = (element, layout) => {
    const source = still(element);
    try {
      const codes = layout.map((code) => cells(source, sizeOf(element), code));
      return codes.some(holds) ? codes : null;
    } catch (error) {
      problem = String(error);
      return null;
    } finally {
      if (source !== element) source.close();
    }
  };

  const find = () => {
    for (const element of shown()) {
      const [width, height] = sizeOf(element);
      const fits = (layout) => Math.abs(width * layout[0].size.height - height * layout[0].size.width) <= width + height;
      // The picture's own size first.
      const exact = (layout) => (layout[0].size.width === width ? 0 : 1);
      for (const layout of layouts.filter(fits).sort((one, other) => exact(one) - exact(other))) {
        const codes = read(element, layout);
        if (codes) {
          place = { element, layout };
          return codes;
        }
      }
    }
    return null;
  };

  /** From one refresh to the next. */
  const refreshMs = () => {
    const distances = frames.slice(1).map((at, i) => at - frames[i]);
    return Math.min(50, ...distances.filter((distance) => distance > 2));
  };

  /** `frameMs`: the frame of the page that begins, before its own scripts draw. What a canvas has was drawn before, and is on the screen now; what a video has the browser has just taken, and shows with the next refresh. */
  const look = (frameMs) => {
    requestAnimationFrame(look);
    frames = [...frames.slice(-8), frameMs];
    if (layouts.length === 0) return;
    const isThere = place && place.element.isConnected;
    const codes = (isThere && read(place.element, place.layout)) || find();
    const ahead = place?.element instanceof HTMLVideoElement ? refreshMs() : 0;
    const at = performance.timeOrigin + frameMs + ahead;
    if (!codes) {
      if (place) looks.push([at]);
      return;
    }
    const said = codes.map(hex);
    // The cells of a picture that stays may not differ; those of the next one do, since it has another number.
    if (said.join() !== last) looks.push([at, ...said]);
    last = said.join();
  };
  requestAnimationFrame(look);

  window.glasslineLab = {
    now,
    /** Begins to look for barcodes that lie like one of these. */
    start: (wanted) => {
      layouts = wanted;
    },
    /** What came since the last call. */
    take: () => {
      const taken = looks;
      looks = [];
      return taken;
    },
    /** What there is to be seen, in words. */
    state: () => {
      const words = [...document.querySelectorAll("video, canvas")].map((element) => {
        const kind = element.tagName.toLowerCase();
        const [width, height] = sizeOf(element);
        return `${kind} ${width}x${height}${element.readyState < 2 ? ", without a picture" : ""}${element.paused ? ", paused" : ""}`;
      });
      return { seen: words.slice(0, 8), problem };
    },
  };
})();
