// The page of a browser that sends or receives over WebRTC. `peer.rs` calls what `lab` offers.
"use strict";

const lab = {
  /** What each picture of the watched track said: [UTC in ms, its own time stamp in µs, width, height, cells, cells]. */
  looks: [],
  /** Whole luma planes of some of them: { look, width, height, luma }. */
  kept: [],
  /** Pictures that could not be looked at, and why the last one could not. */
  unread: 0,
  problem: "",
};

/** UTC in milliseconds by the monotonic clock, which all pages of a machine share. */
const now = () => performance.timeOrigin + performance.now();

const hex = (values) => values.map((value) => value.toString(16).padStart(2, "0")).join("");

/**
 * The mean luma of the centre half of each cell of a barcode, as hexadecimal digits. `code` is { x, y, columns, rows, cell } in
 * samples of a picture of `size`; the frame may be smaller or larger than that.
 */
async function cells(frame, code, size) {
  const { x: left, y: top, width, height } = frame.visibleRect;
  const [across, down] = [width / size.width, height / size.height];
  const even = (value) => 2 * Math.floor(value / 2);
  const [x, y] = [even(code.x * across), even(code.y * down)];
  const right = Math.min(2 * Math.ceil(((code.x + code.columns * code.cell) * across) / 2), even(width));
  const bottom = Math.min(2 * Math.ceil(((code.y + code.rows * code.cell) * down) / 2), even(height));
  const rect = { x: left + x, y: top + y, width: right - x, height: bottom - y };
  const samples = new Uint8Array(frame.allocationSize({ rect }));
  const [luma] = await frame.copyTo(samples, { rect });
  const means = [];
  for (let row = 0; row < code.rows; row++) {
    for (let column = 0; column < code.columns; column++) {
      const at = (start, part, scale, less) => Math.round((start + part * code.cell) * scale) - less;
      const [x0, x1] = [at(code.x, column + 0.25, across, x), at(code.x, column + 0.75, across, x)];
      const [y0, y1] = [at(code.y, row + 0.25, down, y), at(code.y, row + 0.75, down, y)];
      let [sum, count] = [0, 0];
      for (let line = y0; line < Math.max(y1, y0 + 1); line++) {
        for (let sample = x0; sample < Math.max(x1, x0 + 1); sample++, count++) {
          sum += samples[luma.offset + line * luma.stride + sample];
        }
      }
      means.push(Math.round(sum / count));
    }
  }
  return hex(means);
}

/** The luma plane of a frame. */
async function plane(frame) {
  const { width, height } = frame.visibleRect;
  const samples = new Uint8Array(frame.allocationSize());
  const [{ offset, stride }] = await frame.copyTo(samples);
  if (stride === width) return { width, height, luma: samples.subarray(offset, offset + width * height) };
  const luma = new Uint8Array(width * height);
  for (let line = 0; line < height; line++) {
    luma.set(samples.subarray(offset + line * stride, offset + line * stride + width), line * width);
  }
  return { width, height, luma };
}

/** Looks at each picture of a track as it comes, and keeps every `every`-th whole (0: none). */
async function watch(track, { codes, size, every }) {
  const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 30 }).readable.getReader();
  for (;;) {
    const { value: frame, done } = await reader.read();
    if (done) return;
    const at = now();
    try {
      const { width, height } = frame.visibleRect;
      const read = [];
      for (const code of codes) read.push(await cells(frame, code, size));
      if (every > 0 && lab.looks.length % every === 0) lab.kept.push({ look: lab.looks.length, ...(await plane(frame)) });
      lab.looks.push([at, frame.timestamp, width, height, ...read]);
    } catch (error) {
      lab.unread += 1;
      lab.problem = String(error);
    }
    frame.close();
  }
}

/** The description once it knows `address`; no other address stays in it. Whether there will be more is not waited for. */
async function described(connection, address) {
  const lines = () => connection.localDescription.sdp.split("\r\n");
  const fits = (line) => line.startsWith("a=candidate:") && line.includes(` ${address} `) && line.includes(" udp ");
  await new Promise((done) => {
    const look = () => lines().some(fits) && done();
    connection.onicecandidate = look;
    look();
  });
  return lines().filter((line) => fits(line) || !line.startsWith("a=candidate:")).join("\r\n");
}

/** Opens the camera and begins to look at what it gives. Both sides do: a page that may not use a camera is told no addresses. */
lab.open = async ({ codes, size, rate }, isSender) => {
  const video = { width: size.width, height: size.height, frameRate: rate };
  const stream = await navigator.mediaDevices.getUserMedia({ video });
  [lab.camera] = stream.getVideoTracks();
  if (!isSender) return lab.camera.stop();
  void watch(lab.camera, { codes, size, every: 0 });
};

/** The sender's offer. */
lab.offer = async ({ mime, mode, maxBitrate, address }) => {
  lab.connection = new RTCPeerConnection();
  const encoding = mode ? { maxBitrate, scalabilityMode: mode } : { maxBitrate };
  const transceiver = lab.connection.addTransceiver(lab.camera, { direction: "sendonly", sendEncodings: [encoding] });
  const known = RTCRtpSender.getCapabilities("video").codecs;
  const codecs = known.filter((codec) => codec.mimeType === mime);
  if (codecs.length === 0) throw new Error(`this browser has no ${mime}`);
  transceiver.setCodecPreferences([...codecs, ...known.filter((codec) => codec.mimeType === "video/rtx")]);
  await lab.connection.setLocalDescription(await lab.connection.createOffer());
  return described(lab.connection, address);
};

/** The receiver's answer; looks at what comes. */
lab.answer = async ({ offer, address, ...look }) => {
  lab.connection = new RTCPeerConnection();
  lab.connection.ontrack = ({ track }) => void watch(track, look);
  await lab.connection.setRemoteDescription({ type: "offer", sdp: offer });
  await lab.connection.setLocalDescription(await lab.connection.createAnswer());
  return described(lab.connection, address);
};

lab.accept = (answer) => lab.connection.setRemoteDescription({ type: "answer", sdp: answer });

/** How far it is. */
lab.state = () => ({ connection: lab.connection?.connectionState ?? "", looks: lab.looks.length, problem: lab.problem });

/** No further pictures leave. What the connection has to say is asked before: much of it only who has a camera is told. */
lab.stop = async () => {
  lab.stats = [...(await lab.connection.getStats()).values()];
  lab.camera.stop();
};

/** What came of the watched track, and what the connection says of itself. */
lab.result = async () => {
  const stats = lab.stats ?? [...(await lab.connection.getStats()).values()];
  const [codecs, flows] = [stats.filter((one) => one.type === "codec"), stats.filter((one) => /^(in|out)bound-rtp$/.test(one.type))];
  return { looks: lab.looks, unread: lab.unread, problem: lab.problem, kept: lab.kept.length, codecs, flows };
};

/** One of the kept planes, its samples in base64. */
lab.plane = async (index) => {
  const { look, width, height, luma } = lab.kept[index];
  lab.kept[index] = null;
  const reader = new FileReader();
  await new Promise((done) => {
    reader.onload = done;
    reader.readAsDataURL(new Blob([luma]));
  });
  return { look, width, height, luma: reader.result.slice(reader.result.indexOf(",") + 1) };
};
