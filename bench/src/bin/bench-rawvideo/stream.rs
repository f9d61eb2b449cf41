//! A stream: what its frames are, how they are cut into packets, and its session description.

use anyhow::{Context, Result, ensure};
use glassline_media::{Chroma, FrameRate, PixelFormat, Size};
use glassline_transport::raw_video::{Format, Packetizer, PacketizerSettings, Packing, Scan};
use glassline_transport::sdp::{Description, Flow, Media, Path, Video};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::str::FromStr;

/// RTP's payload type.
pub(crate) const PAYLOAD_TYPE: u8 = 96;
/// Packets that leave as one message at most.
pub(crate) const BURST_PACKETS: usize = 48;
/// Bytes of such a message at most, which fit an IP packet.
const BURST_BYTES: usize = 65_000;
/// What descriptions say, whatever the rate: nobody goes by it.
const DESCRIBED_RATE: u32 = 60;

/// Frames of 4:2:2, progressive, and how they are cut. Written as `1920x1080-10-1220-gpm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u8,
    /// Bytes of a UDP payload at most.
    pub(crate) datagram_bytes: usize,
    pub(crate) packing: Packing,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packing = if self.packing == Packing::Block { "bpm" } else { "gpm" };
        let Stream { width, height, depth, datagram_bytes, .. } = self;
        write!(f, "{width}x{height}-{depth}-{datagram_bytes}-{packing}")
    }
}

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Stream, String> {
        let parse = || {
            let mut parts = text.split('-');
            let (width, height) = parts.next()?.split_once('x')?;
            let [depth, datagram_bytes, packing] = [parts.next()?, parts.next()?, parts.next()?];
            Some(Stream {
                width: width.parse().ok()?,
                height: height.parse().ok()?,
                depth: depth.parse().ok()?,
                datagram_bytes: datagram_bytes.parse().ok()?,
                packing: if packing == "bpm" { Packing::Block } else { Packing::General },
            })
        };
        parse().ok_or_else(|| format!("{text:?} is no stream, as 1920x1080-10-1220-gpm is one"))
    }
}

/// A packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Its header, without numbers and time.
    pub(crate) head: Vec<u8>,
    /// Where its samples are in the frame, in order; what is in one piece there is one range.
    pub(crate) places: Vec<Range<usize>>,
    /// Bytes of all of it.
    pub(crate) bytes: usize,
}

impl Stream {
    pub(crate) const fn new(depth: u8, datagram_bytes: usize, packing: Packing) -> Stream {
        Stream { width: 1920, height: 1080, depth, datagram_bytes, packing }
    }

    /// 2160p of 10 bits, in datagrams of 1,220 bytes.
    pub(crate) const fn uhd() -> Stream {
        Stream { width: 3840, height: 2160, ..Stream::new(10, 1220, Packing::General) }
    }

    pub(crate) fn format(&self) -> Result<Format> {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, self.depth).context("there is no such depth")?;
        let size = Size::new(self.width, self.height).context("there is no such size")?;
        Ok(Format::new(pixels, size, Scan::Progressive)?)
    }

    /// Bytes of a frame's samples.
    pub(crate) fn frame_bytes(&self) -> Result<usize> {
        Ok(self.format()?.frame_bytes())
    }

    /// A frame's packets, in order.
    pub(crate) fn packets(&self) -> Result<Vec<Packet>> {
        let settings = PacketizerSettings {
            format: self.format()?,
            payload_type: PAYLOAD_TYPE,
            ssrc: 0x6c67_7261,
            first_sequence: 0,
            datagram_bytes: self.datagram_bytes,
            packing: self.packing,
        };
        let mut packetizer = Packetizer::new(settings).context("no sample fits such a datagram")?;
        let packets: Vec<Packet> = packetizer
            .frame([0, 0])
            .map(|packet| Packet {
                head: packet.head.to_vec(),
                places: joined(packet.samples),
                bytes: packet.bytes,
            })
            .collect();
        ensure!(!packets.is_empty(), "a frame without packets");
        Ok(packets)
    }

    /// Its session description, with one path or two.
    pub(crate) fn describe(&self, to: &[SocketAddr]) -> Result<String> {
        let rate = FrameRate::new(DESCRIBED_RATE, 1).context("no rate")?;
        let video = Video {
            packing: self.packing,
            max_datagram_bytes: u32::try_from(self.datagram_bytes + 8).ok(),
            ..Video::new(self.format()?, rate)
        };
        let path = |to: &SocketAddr| Path { to: *to, sources: Vec::new(), ttl: None };
        let flow = Flow {
            media: Media::Video(video),
            payload_type: PAYLOAD_TYPE,
            paths: to.iter().map(path).collect(),
            reference_clock: None,
            media_clock: None,
        };
        let description = Description {
            name: "bench".to_owned(),
            session_id: 1,
            version: 1,
            origin: to.first().map_or(IpAddr::from([0, 0, 0, 0]), SocketAddr::ip),
            flows: vec![flow],
            skipped: Vec::new(),
            notices: Vec::new(),
        };
        Ok(description.to_string())
    }

    /// How it is called in tables: `1080p 8 bit, 1,300 B`, with the sizes that most datagrams have.
    pub(crate) fn name(&self) -> Result<String> {
        let packets = self.packets()?;
        let mut sizes: Vec<usize> = packets.iter().map(|packet| packet.bytes).collect();
        // The last packet of a frame may be a shorter one.
        sizes.pop();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let packing = if self.packing == Packing::Block { " (block packing)" } else { "" };
        let Stream { height, depth, .. } = self;
        Ok(format!("{height}p {depth} bit, {} B{packing}", sizes.join("/")))
    }
}

/// Ranges that follow one another as one.
fn joined(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range.clone()),
        }
    }
    out
}

/// How many packets from the first of `packets` on leave as one message: of one size, but for a shorter one at its end.
pub(crate) fn message_packets(packets: &[Packet], most: usize) -> usize {
    let Some(first) = packets.first() else { return 0 };
    let (mut count, mut bytes) = (0, 0);
    for packet in packets.iter().take(most) {
        if packet.bytes > first.bytes || bytes + packet.bytes > BURST_BYTES {
            break;
        }
        (count, bytes) = (count + 1, bytes + packet.bytes);
        if packet.bytes < first.bytes {
            break;
        }
    }
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_studio::raw::described;

    #[test]
    fn a_stream_is_read_as_it_is_written() {
        for stream in
            [Stream::new(8, 1300, Packing::General), Stream::new(10, 1450, Packing::Block), Stream::uhd()]
        {
            assert_eq!(stream.to_string().parse(), Ok(stream));
        }
        assert!("1920x1080-10".parse::<Stream>().is_err());
    }

    #[test]
    fn packets_are_of_the_sizes_that_the_names_tell() {
        let name = |depth, bytes, packing| Stream::new(depth, bytes, packing).name().unwrap();
        assert_eq!(name(8, 1300, Packing::General), "1080p 8 bit, 1300 B");
        assert_eq!(name(10, 1220, Packing::General), "1080p 10 bit, 1220 B");
        assert_eq!(name(8, 1450, Packing::Block), "1080p 8 bit, 1280/1286 B (block packing)");
        let packets = Stream::new(8, 8900, Packing::General).packets().unwrap();
        assert_eq!(packets.len(), 540);
        assert_eq!(
            (packets[1].places.len(), &packets[1].places[0]),
            (1, &(7680..15360)),
            "two lines in one piece"
        );
    }

    #[test]
    fn messages_are_of_one_size_but_for_their_end() {
        let packet = |bytes| Packet { head: Vec::new(), places: Vec::new(), bytes };
        let packets = [1280, 1280, 1280, 1286, 1280, 1280].map(packet);
        assert_eq!(message_packets(&packets, 48), 3);
        assert_eq!(message_packets(&packets[3..], 48), 2);
        assert_eq!(message_packets(&packets, 1), 1);
        let long: Vec<Packet> = std::iter::repeat_with(|| packet(8900)).take(20).collect();
        assert_eq!(message_packets(&long, 48), 7);
        assert_eq!(message_packets(&[], 48), 0);
    }

    #[test]
    fn receivers_understand_the_description() {
        let to = ["127.0.0.1:5004", "127.0.0.1:5006"].map(|address| address.parse().unwrap());
        let text = Stream::uhd().describe(&to).unwrap();
        let description = Description::parse(&text).unwrap();
        let settings = described::settings(&description, &described::Options::default()).unwrap();
        assert_eq!((settings.paths.len(), settings.stream.payload_type), (2, PAYLOAD_TYPE));
        assert_eq!(settings.stream.format, Stream::uhd().format().unwrap());
    }
}
