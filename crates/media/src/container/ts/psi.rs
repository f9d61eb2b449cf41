//! Program specific information: PAT and PMT (13818-1 §2.4.4), read and written.
//!
//! ```text
//! section: table_id │ 1 0 rr length:12 │ id:16 │ rr version:5 current:1 │ number │ last │ … │ CRC-32
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::Error;
use super::packet::{NULL_PID, PACKET_BYTES, SYNC_BYTE};
use crate::access_unit::Codec;
use crate::bitstream::aac_config::HeAac;
use serde::{Deserialize, Serialize};

/// The PID of the program association table.
pub const PAT_PID: u16 = 0;
/// Bytes of the longest section of PAT and PMT (13818-1 §2.4.4.4).
pub const SECTION_MAX_BYTES: usize = 1024;

const TABLE_PAT: u8 = 0;
const TABLE_PMT: u8 = 2;
const CRC: crc::Crc<u32, crc::Table<1>> = crc::Crc::<u32, crc::Table<1>>::new(&crc::CRC_32_MPEG_2);

/// The program association table: which programs there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pat {
    /// Names the multiplex within a network; free here.
    pub transport_stream_id: u16,
    /// Counts changes, modulo 32.
    pub version: u8,
    /// Valid now, not only announced.
    pub current: bool,
    /// Program number (0 is the network's table, not a program) and the PID of its PMT.
    pub programs: Vec<(u16, u16)>,
}

/// A program map table: which streams a program has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmt {
    /// The program's number in the PAT.
    pub program_number: u16,
    /// Counts changes, modulo 32.
    pub version: u8,
    /// Valid now, not only announced.
    pub current: bool,
    /// The PID that carries the program's clock; 0x1fff for none.
    pub pcr_pid: u16,
    /// The streams, in the table's order.
    pub streams: Vec<ElementaryStream>,
}

/// One stream of a program, as its PMT announces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementaryStream {
    /// Where its packets are.
    pub pid: u16,
    /// The number of its format (13818-1 table 2-34).
    pub stream_type: u8,
    /// Its format, where it is one that we know.
    pub codec: Option<Codec>,
    /// ISO 639-2 code of its language, three ASCII letters.
    pub language: Option<[u8; 3]>,
    /// Channels of an Opus stream (1 and 2 coded as such; other configurations by their number of channels).
    pub opus_channels: Option<u8>,
    /// That AAC is HE-AAC, where a descriptor says so, or its configuration in LATM.
    #[serde(default)]
    pub he_aac: Option<HeAac>,
    /// Its descriptors, as they stand in the table.
    pub descriptors: Vec<u8>,
}

/// What a stream of data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DataKind {
    /// KLV packets.
    Klv {
        /// Each belongs to a picture, by its time stamp; otherwise they count when they come.
        synchronous: bool,
    },
    /// Cues of SCTE 35.
    Splice,
}

/// A program: its tables, joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its number in the PAT.
    pub number: u16,
    /// The PID of its PMT.
    pub pmt_pid: u16,
    /// The PID that carries its clock; 0x1fff for none.
    pub pcr_pid: u16,
    /// The PMT's version.
    pub version: u8,
    /// Its streams.
    pub streams: Vec<ElementaryStream>,
}

impl Program {
    /// The program that `pmt`, found on `pmt_pid`, describes. A stream on the tables' own PIDs is left out.
    pub fn new(pmt_pid: u16, pmt: Pmt) -> Program {
        let Pmt { program_number: number, version, pcr_pid, mut streams, .. } = pmt;
        streams.retain(|stream| ![PAT_PID, pmt_pid, NULL_PID].contains(&stream.pid));
        Program { number, pmt_pid, pcr_pid, version, streams }
    }

    /// The first video stream.
    pub fn video(&self) -> Option<&ElementaryStream> {
        self.streams.iter().find(|stream| stream.is_video())
    }

    /// The first audio stream.
    pub fn audio(&self) -> Option<&ElementaryStream> {
        self.streams.iter().find(|stream| stream.is_audio())
    }
}

const KLV: &str = "KLV metadata";
const CUES: &str = "SCTE 35 cues";
const TELETEXT: &str = "teletext";
const DVB_SUBTITLES: &str = "DVB subtitles";

/// AAC in LATM with LOAS (13818-1 table 2-34).
pub(super) const STREAM_TYPE_LATM: u8 = 0x11;

/// Metadata in PES packets (13818-1 table 2-34).
const STREAM_TYPE_METADATA: u8 = 0x15;

/// The descriptor of MPEG-4 audio: profile and level (13818-1 §2.6.38).
pub(super) const MPEG4_AUDIO_DESCRIPTOR: u8 = 0x1c;

impl ElementaryStream {
    /// The stream of this type and descriptors; codec, language and channels are read from them.
    pub fn new(pid: u16, stream_type: u8, descriptors: Vec<u8>) -> ElementaryStream {
        let mut registration = None;
        let mut language = None;
        let mut opus_channels = None;
        let mut dvb = None;
        let mut he_aac = None;
        for (tag, body) in descriptors_of(&descriptors) {
            match (tag, body) {
                (0x05, &[a, b, c, d, ..]) => registration = Some([a, b, c, d]),
                (0x0a, &[a, b, c, ..]) => language = Some([a, b, c]),
                (0x7f, &[0x80, config, ..]) => opus_channels = Some(opus_channel_count(config)),
                // MPEG-4 audio (13818-1 §2.6.38), and AAC as DVB has it (EN 300 468, annex H).
                (MPEG4_AUDIO_DESCRIPTOR | 0x7c, &[profile, ..]) => {
                    he_aac = he_aac.or(HeAac::of_profile(profile));
                }
                (0x6a, _) => dvb = Some(Codec::Ac3),
                (0x7a, _) => dvb = Some(Codec::EAc3),
                _ => {}
            }
        }
        let codec = match (stream_type, registration.as_ref()) {
            (0x02, _) => Some(Codec::Mpeg2Video),
            (0x03 | 0x04, _) => Some(Codec::MpegAudio),
            (0x0f | STREAM_TYPE_LATM, _) => Some(Codec::Aac),
            (0x1b, _) => Some(Codec::H264),
            (0x24, _) | (0x06, Some(b"HEVC")) => Some(Codec::H265),
            (0x06, Some(b"AV01")) => Some(Codec::Av1),
            (0x81, _) | (0x06, Some(b"AC-3")) => Some(Codec::Ac3),
            (0x87, _) | (0x06, Some(b"EAC3")) => Some(Codec::EAc3),
            (0x06, Some(b"Opus")) => Some(Codec::Opus),
            (0x06, Some(b"BSSD")) => Some(Codec::S302m),
            (0x06, _) => dvb,
            _ => None,
        };
        if codec != Some(Codec::Opus) {
            opus_channels = None;
        }
        let he_aac = he_aac.filter(|_| codec == Some(Codec::Aac));
        ElementaryStream { pid, stream_type, codec, language, opus_channels, he_aac, descriptors }
    }

    /// What it is, for people: its codec, or what type and descriptors say of formats that are carried and not looked into
    /// (13818-1 table 2-34; ETSI EN 300 468, table 12; SMPTE ST 2038, RP 217; ATSC A/53-3). `None` where they do not say.
    pub fn format_name(&self) -> Option<&'static str> {
        if let Some(codec) = self.codec {
            return Some(codec.name());
        }
        let told = descriptors_of(&self.descriptors).find_map(|(tag, body)| match (tag, body) {
            (0x05, [b'A', b'V', b'1', b'G', ..]) => Some("AV1 in GStreamer's own mapping"),
            (0x05, [b'D', b'T', b'S', b'1' | b'2' | b'3', ..]) | (0x7b, _) => Some("DTS"),
            (0x05, [b'K', b'L', b'V', b'A', ..]) => Some(KLV),
            (0x26, body) if body.windows(4).any(|four| four == b"KLVA") => Some(KLV),
            (0x05, [b'V', b'A', b'N', b'C', ..]) => Some("ancillary data (ST 2038)"),
            (0x05, [b'C', b'U', b'E', b'I', ..]) => Some(CUES),
            (0x05 | 0x26, body) if body.windows(4).any(|four| four == b"ID3 ") => Some("ID3 metadata"),
            (0x46 | 0x56, _) => Some(TELETEXT),
            (0x59, _) => Some(DVB_SUBTITLES),
            _ => None,
        });
        told.or(match self.stream_type {
            0x01 => Some("MPEG-1 video"),
            0x10 => Some("MPEG-4 video"),
            0x1c => Some("MPEG-4 sound without LATM"),
            0x20 => Some("H.264 MVC"),
            0x21 => Some("JPEG 2000"),
            0x32 => Some("JPEG XS"),
            0x33 => Some("H.266"),
            0x42 => Some("AVS video"),
            0x82 | 0x85 => Some("DTS"),
            0x83 => Some("TrueHD"),
            0x86 if self.is_audio() => Some("DTS-HD"),
            0x86 => Some(CUES),
            0xea => Some("VC-1"),
            _ => None,
        })
    }

    /// Whether these are subtitles of a stream of their own.
    pub fn is_subtitles(&self) -> bool {
        matches!(self.format_name(), Some(TELETEXT | DVB_SUBTITLES))
    }

    /// What of data it is, if that is looked into: KLV in PES packets, cues of SCTE 35 in sections.
    pub fn data_kind(&self) -> Option<DataKind> {
        match (self.stream_type, self.format_name()?) {
            (STREAM_TYPE_METADATA, KLV) => Some(DataKind::Klv { synchronous: true }),
            (0x06, KLV) => Some(DataKind::Klv { synchronous: false }),
            (0x05 | 0x86, CUES) => Some(DataKind::Splice),
            _ => None,
        }
    }

    /// Whether this is video, of a known codec or another.
    pub fn is_video(&self) -> bool {
        self.codec
            .map_or(matches!(self.stream_type, 0x01 | 0x10 | 0x20 | 0x21 | 0x33 | 0x42 | 0xea), |codec| {
                codec.is_video()
            })
    }

    /// Whether this is audio, of a known codec or another.
    pub fn is_audio(&self) -> bool {
        let registers = |format: &[u8]| {
            descriptors_of(&self.descriptors).any(|(tag, body)| tag == 0x05 && body.starts_with(format))
        };
        // Of Blu-ray discs 0x86 is DTS-HD, of ATSC it is SCTE 35.
        let is_other = match self.stream_type {
            0x11 | 0x1c | 0x82..=0x85 | 0x87 => true,
            0x86 => registers(b"HDMV"),
            _ => false,
        };
        self.codec.map_or(is_other, |codec| !codec.is_video()) || registers(b"BSSD")
    }
}

/// `channel_config_code` of the Opus extension descriptor: 0 is dual mono, 1 to 8 count channels.
fn opus_channel_count(config: u8) -> u8 {
    match config {
        0 => 2,
        1..=8 => config,
        0x82..=0x88 => config & 0x0f,
        _ => 2,
    }
}

/// Iterates over tag and body of descriptors; one that is cut off ends it.
pub fn descriptors_of(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[tag, length], rest) = bytes.split_first_chunk()?;
        let (body, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some((tag, body))
    })
}

/// Checks a section's frame and gives id, version, current flag, body.
fn parse_section<'a>(
    bytes: &'a [u8],
    table: u8,
    what: &'static str,
) -> Result<(u16, u8, bool, &'a [u8]), Error> {
    let truncated = |expected| Error::Truncated { what, found: bytes.len(), expected };
    let &[table_id, high, low, ..] = bytes else { return Err(truncated(3)) };
    if table_id != table || high & 0x80 == 0 {
        let (found, expected) = (u32::from(table_id) << 8 | u32::from(high), u32::from(table) << 8 | 0x80);
        return Err(Error::Unexpected { what: "table id and syntax", found, expected });
    }
    let end = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
    if end < 12 || bytes.len() < end {
        return Err(truncated(end.max(12)));
    }
    let covered = check_crc(&bytes[..end], what)?;
    let id = u16::from_be_bytes([bytes[3], bytes[4]]);
    Ok((id, bytes[5] >> 1 & 0x1f, bytes[5] & 1 != 0, &covered[8..]))
}

/// The checksum at the end of a whole section holds; gives what it covers.
pub(super) fn check_crc<'a>(section: &'a [u8], what: &'static str) -> Result<&'a [u8], Error> {
    let truncated = Error::Truncated { what, found: section.len(), expected: 7 };
    let (covered, stated) = section.split_last_chunk().ok_or(truncated)?;
    let (found, expected) = (u32::from_be_bytes(*stated), CRC.checksum(covered));
    if found == expected { Ok(covered) } else { Err(Error::Crc { found, expected }) }
}

/// The checksum of a section's bytes.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    CRC.checksum(bytes)
}

/// Frames `body` as section 0 of 0 and appends it.
fn write_section(table: u8, id: u16, version: u8, current: bool, body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let body = &body[..body.len().min(SECTION_MAX_BYTES - 12)];
    let length = u16::try_from(body.len()).unwrap_or(0).saturating_add(9);
    let [high, low] = (0xb000 | length).to_be_bytes();
    let [id_high, id_low] = id.to_be_bytes();
    let version = 0xc0 | (version & 0x1f) << 1 | u8::from(current);
    out.extend_from_slice(&[table, high, low, id_high, id_low, version, 0, 0]);
    out.extend_from_slice(body);
    let crc = CRC.checksum(&out[start..]);
    out.extend_from_slice(&crc.to_be_bytes());
}

fn pid_at(bytes: &[u8; 2]) -> u16 {
    u16::from_be_bytes(*bytes) & 0x1fff
}

impl Pat {
    /// Parses a whole section.
    ///
    /// # Errors
    /// Where it is another table, cut off, or its checksum is wrong.
    pub fn parse(section: &[u8]) -> Result<Pat, Error> {
        let (transport_stream_id, version, current, body) = parse_section(section, TABLE_PAT, "PAT")?;
        let programs = body.as_chunks::<4>().0.iter();
        let programs = programs.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), pid_at(&[c, d]))).collect();
        Ok(Pat { transport_stream_id, version, current, programs })
    }

    /// Appends the section. At most 253 programs fit; more are left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(self.programs.len().saturating_mul(4));
        for (number, pid) in self.programs.iter().take(253) {
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&(0xe000 | pid & 0x1fff).to_be_bytes());
        }
        write_section(TABLE_PAT, self.transport_stream_id, self.version, self.current, &body, out);
    }
}

impl Pmt {
    /// Parses a whole section. Streams behind one that is cut off are left out.
    ///
    /// # Errors
    /// Where it is another table, cut off, or its checksum is wrong.
    pub fn parse(section: &[u8]) -> Result<Pmt, Error> {
        let (program_number, version, current, body) = parse_section(section, TABLE_PMT, "PMT")?;
        let truncated = Error::Truncated { what: "PMT", found: section.len(), expected: 16 };
        let (&[a, b, c, d], rest) = body.split_first_chunk().ok_or(truncated)?;
        let info = usize::from(u16::from_be_bytes([c & 0x0f, d]));
        let mut rest = rest.get(info..).ok_or(truncated)?;
        let mut streams = Vec::new();
        while let Some((&[stream_type, p, q, l, m], tail)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes([l & 0x0f, m]));
            let Some((descriptors, tail)) = tail.split_at_checked(length) else { break };
            streams.push(ElementaryStream::new(pid_at(&[p, q]), stream_type, descriptors.to_vec()));
            rest = tail;
        }
        Ok(Pmt { program_number, version, current, pcr_pid: pid_at(&[a, b]), streams })
    }

    /// Appends the section. Streams that do not fit 1,024 bytes are left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = (0xe000 | self.pcr_pid & 0x1fff).to_be_bytes().to_vec();
        body.extend_from_slice(&[0xf0, 0]);
        for stream in &self.streams {
            let all = body.len().saturating_add(5).saturating_add(stream.descriptors.len());
            let Some(length) =
                u16::try_from(stream.descriptors.len()).ok().filter(|_| all <= SECTION_MAX_BYTES - 12)
            else {
                break;
            };
            body.push(stream.stream_type);
            body.extend_from_slice(&(0xe000 | stream.pid & 0x1fff).to_be_bytes());
            body.extend_from_slice(&(0xf000 | length).to_be_bytes());
            body.extend_from_slice(&stream.descriptors);
        }
        write_section(TABLE_PMT, self.program_number, self.version, self.current, &body, out);
    }
}

/// Appends the packets of one section on `pid`, padded with 0xff; `continuity` is the next counter and is moved
/// on.
pub fn write_packets(pid: u16, section: &[u8], continuity: &mut u8, out: &mut Vec<u8>) {
    let mut rest = section;
    let mut first = true;
    while first || !rest.is_empty() {
        let start = out.len();
        let [high, low] = (pid & NULL_PID | if first { 0x4000 } else { 0 }).to_be_bytes();
        out.extend_from_slice(&[SYNC_BYTE, high, low, 0x10 | *continuity & 0x0f]);
        if first {
            out.push(0);
        }
        let end = start.saturating_add(PACKET_BYTES);
        let take = rest.len().min(end.saturating_sub(out.len()));
        out.extend_from_slice(&rest[..take]);
        out.resize(end, 0xff);
        rest = &rest[take..];
        *continuity = continuity.wrapping_add(1) & 0x0f;
        first = false;
    }
}

/// Puts the sections of one PID together from the payloads of its packets. Holds at most one section.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SectionReader {
    /// The begun section; empty between sections.
    section: Vec<u8>,
    /// A section is being collected; otherwise bytes are dropped until the next one begins.
    active: bool,
    /// Sections of more bytes are dropped.
    #[serde(default = "table_max_bytes")]
    max_bytes: usize,
}

fn table_max_bytes() -> usize {
    SECTION_MAX_BYTES
}

impl Default for SectionReader {
    fn default() -> SectionReader {
        SectionReader::new()
    }
}

impl SectionReader {
    /// A reader that waits for the beginning of a section of PAT or PMT.
    pub fn new() -> SectionReader {
        SectionReader::of_at_most(SECTION_MAX_BYTES)
    }

    /// The same for sections of up to `max_bytes`; 4,096 are the most that a section's length can tell.
    pub fn of_at_most(max_bytes: usize) -> SectionReader {
        SectionReader { section: Vec::new(), active: false, max_bytes }
    }

    /// Drops a begun section, as after loss. Returns whether there was one.
    pub fn reset(&mut self) -> bool {
        let has_begun = self.has_begun();
        self.section.clear();
        self.active = false;
        has_begun
    }

    /// Whether a section has begun and is not whole.
    pub fn has_begun(&self) -> bool {
        self.active && !self.section.is_empty()
    }

    /// Takes the payload of the PID's next packet and calls `whole` with each section that it completes; the
    /// second argument says whether the section also began in this packet. Returns how many sections were dropped: such as are too
    /// long, end before their length says, or begin nowhere in the packet that says that one does.
    pub fn push(&mut self, payload: &[u8], unit_start: bool, whole: &mut dyn FnMut(&[u8], bool)) -> u64 {
        let mut dropped = 0;
        if !unit_start {
            self.collect(payload, false, whole, &mut dropped);
            return dropped;
        }
        let parts =
            payload.split_first().and_then(|(&pointer, rest)| rest.split_at_checked(usize::from(pointer)));
        let Some((tail, mut heads)) = parts else {
            self.reset();
            return 1;
        };
        self.collect(tail, false, whole, &mut dropped);
        dropped = dropped.saturating_add(self.reset().into());
        while heads.first().is_some_and(|&table| table != 0xff) {
            self.active = true;
            heads = self.collect(heads, true, whole, &mut dropped);
        }
        dropped
    }

    /// Adds to the begun section; returns what lies behind its end.
    fn collect<'a>(
        &mut self,
        mut bytes: &'a [u8],
        here: bool,
        whole: &mut dyn FnMut(&[u8], bool),
        dropped: &mut u64,
    ) -> &'a [u8] {
        if !self.active {
            return &[];
        }
        while !bytes.is_empty() {
            let wanted = match *self.section {
                [_, high, low, ..] => 3 + usize::from(u16::from_be_bytes([high & 0x0f, low])),
                _ => 3,
            };
            if wanted > self.max_bytes {
                *dropped = dropped.saturating_add(self.reset().into());
                return &[];
            }
            let take = bytes.len().min(wanted.saturating_sub(self.section.len()));
            self.section.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if let [_, high, low, ..] = *self.section
                && self.section.len() == 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]))
            {
                whole(&self.section, here);
                self.reset();
                return bytes;
            }
        }
        bytes
    }
}

#[cfg(test)]
#[path = "psi_tests.rs"]
mod tests;
