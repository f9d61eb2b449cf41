//! Access units in, transport packets out, at once.
//!
//! One program: PMT on PID 0x1000, video on 0x100, audio on 0x101, further sounds behind it. The clock (PCR) stands in the first packet of
//! each video unit, or of each audio unit where there is no video.
//!
//! # Pictures by the slice
//! [`Muxer::begin`], [`Muxer::slice`] and [`Muxer::end`] write a video unit while its encoder is still at it. Its PES packet has
//! no length then, since the header leaves before the length is known, and by the standard it ends only where the next begins: a
//! picture later. So it ends with [`h264::END_OF_UNIT`], five bytes of filler data that every decoder skips, in one piece at the
//! very end of a transport packet: a receiver that knows them need not wait for the next picture. Units that [`Muxer::write`]
//! writes have the same end, and a length where it fits (64 KiB): the end of a PES packet is no end of a picture, since others
//! cut theirs into several.
//!
//! # The two clocks
//! A PCR says when its byte *arrives*, a DTS when the unit is *decoded*. A unit's `dts` here is its capture time, so
//! the PCR is `dts` and the stamps on the wire are later by a fixed [`MuxSettings::decode_delay`]. Were they equal,
//! a picture's last packets would arrive after its time to be decoded by any player that keeps to the clock, and it
//! would drop it or rebuffer. Players that show what comes (ours, `-fflags nobuffer`) do not wait for the delay.
//!
//! With a [constant rate](super::constant_rate) the PCR is the packet's place in the stream instead, which follows the
//! capture times within a packet's time, and behind large pictures.

mod added;
mod sounds;

use super::Error;
use super::constant_rate::ConstantRate;
use super::packet::{NULL_PID, Pcr};
use super::packetize::{Field, OpenPes, clock_packet, packetize};
use super::pes::{self, write_header};
use super::psi::{self, ElementaryStream, PAT_PID, Pat, Pmt};
use super::shaper::{Part, Shaper};
use super::tstd::Sizes;
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::h264::{self, NalType, Sps};
use crate::bitstream::{self, av1, opus};
use crate::stamps::Stage;
use crate::time::{Ticks, Time};
use serde::{Deserialize, Serialize};

/// The PID of the program map table.
pub const PMT_PID: u16 = 0x1000;
/// The PID of the video.
pub const VIDEO_PID: u16 = 0x100;
/// The PID of the audio.
pub const AUDIO_PID: u16 = 0x101;

/// A clock that runs back further than this was set anew; less is jitter between streams.
const BACKWARD_JUMP: i64 = 90_000;
/// Where tables are to come more often than this (10 ms) no gap is filled up.
const FILL_MIN: Ticks = Ticks(900);
/// The clock is written into gaps of at most so many ticks (ten seconds).
const FILL_MAX: i64 = 900_000;

/// The numbers of a program and of the PIDs that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramNumbers {
    /// The program's, as PAT and PMT state it; at least 1.
    pub program: u16,
    /// The PID of its map. This one and the next two are three numbers of 0x20 to 0x1ffe.
    pub map_pid: u16,
    /// The PID of its video.
    pub video_pid: u16,
    /// The PID of its audio.
    pub audio_pid: u16,
}

impl ProgramNumbers {
    /// Whether a program can have these.
    pub fn are_valid(&self) -> bool {
        let pids = [self.map_pid, self.video_pid, self.audio_pid];
        let differ = pids[0] != pids[1] && pids[1] != pids[2] && pids[2] != pids[0];
        self.program > 0 && differ && pids.iter().all(|pid| (0x20..NULL_PID).contains(pid))
    }
}

impl Default for ProgramNumbers {
    fn default() -> ProgramNumbers {
        ProgramNumbers { program: 1, map_pid: PMT_PID, video_pid: VIDEO_PID, audio_pid: AUDIO_PID }
    }
}

/// What the program consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuxSettings {
    /// The video's codec, if there is video.
    pub video: Option<Codec>,
    /// The audio's format, if there is audio.
    pub audio: Option<AudioFormat>,
    /// How much later than their capture the stamps on the wire are; default 50 ms (4,500 ticks).
    pub decode_delay: Ticks,
    /// How much stream time may pass between two pairs of PAT and PMT; default 100 ms (9,000 ticks).
    pub table_interval: Ticks,
    /// The rate that null packets fill it up to; default none: the stream has the packets that it needs.
    pub constant_rate: Option<ConstantRate>,
    /// The version of the program map, modulo 32: another one where this program follows a different one on the same wire;
    /// default 0.
    pub table_version: u8,
    /// What program and PIDs are numbered, where [`ProgramNumbers::are_valid`]; default program 1 on the PIDs of this module.
    pub numbers: ProgramNumbers,
}

impl Default for MuxSettings {
    fn default() -> MuxSettings {
        let (decode_delay, table_interval) = (Ticks(4_500), Ticks(9_000));
        MuxSettings {
            video: None,
            audio: None,
            decode_delay,
            table_interval,
            constant_rate: None,
            table_version: 0,
            numbers: ProgramNumbers::default(),
        }
    }
}

/// A program's sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFormat {
    /// How it is coded. AAC units are ADTS frames.
    pub codec: Codec,
    /// Channels, 1 to 8; of S302M 2, 4, 6 or 8.
    pub channels: u8,
    /// ISO 639-2 code of its language.
    pub language: Option<[u8; 3]>,
    /// The profile of HE-AAC to state in the PMT; `None`: it states none.
    pub he_aac: Option<HeAac>,
}

/// What is known of a video unit before it is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHead {
    /// When to present it.
    pub pts: Ticks,
    /// When to decode it.
    pub dts: Ticks,
    /// Whether decoding can start here.
    pub random_access: bool,
    /// When it was captured, if known. Where `dts` is this time's tick the stream's clock says it to 27 MHz, so that
    /// it is off by less than 20 ns at any frame rate; else it says `dts`.
    pub captured: Option<Time>,
}

/// One stream of the program.
#[derive(Clone, Debug)]
struct Stream {
    pid: u16,
    codec: Codec,
    stream_id: u8,
    continuity: u8,
}

/// Turns access units into transport packets. Holds nothing back: all of a unit's packets are written by the call
/// that brings it (or its end), and audio never waits for video or the other way round. Only at a constant rate
/// audio waits, for its place before its time to be decoded.
#[derive(Clone, Debug)]
pub struct Muxer {
    video: Option<Stream>,
    audio: Option<Stream>,
    /// Further sounds.
    further: Vec<Stream>,
    settings: MuxSettings,
    map_pid: u16,
    program: Pmt,
    pat: Vec<u8>,
    pmt: Vec<u8>,
    pat_continuity: u8,
    pmt_continuity: u8,
    /// Stream time: the latest DTS of any unit, or the last timer.
    now: Option<Ticks>,
    tables_at: Option<Ticks>,
    /// Stream time of the last clock.
    clock_at: Option<Ticks>,
    last_interval: Ticks,
    /// 27 MHz, not wrapped.
    last_pcr: Option<i128>,
    head: Vec<u8>,
    open: Option<Open>,
    /// The last unit or tables began a new clock.
    jumped: bool,
    shaper: Option<Box<Shaper>>,
    /// What the shaper is given.
    made: Vec<u8>,
}

/// A video unit that has begun.
#[derive(Clone, Debug)]
struct Open {
    pes: OpenPes,
    /// Some of its bytes have come.
    has_bytes: bool,
}

impl Muxer {
    /// A muxer for one program.
    ///
    /// # Errors
    /// [`Error::Codec`] for sound in the video's place or the other way round, [`Error::Channels`],
    /// [`Error::NoStream`], [`Error::ConstantRate`].
    pub fn new(settings: MuxSettings) -> Result<Muxer, Error> {
        let mut streams = Vec::new();
        let mut video = None;
        let ProgramNumbers { program: program_number, map_pid, video_pid, audio_pid } =
            Some(settings.numbers).filter(ProgramNumbers::are_valid).unwrap_or_default();
        if let Some(codec) = settings.video {
            let (stream_type, stream_id) = match codec {
                Codec::H264 => (0x1b, pes::STREAM_ID_VIDEO),
                Codec::H265 => (0x24, pes::STREAM_ID_VIDEO),
                Codec::Mpeg2Video => (0x02, pes::STREAM_ID_VIDEO),
                Codec::Av1 => (0x06, pes::STREAM_ID_PRIVATE),
                found => return Err(Error::Codec { what: "video", found, expected: "a video codec" }),
            };
            let registration = if codec == Codec::Av1 { av1::REGISTRATION.to_vec() } else { Vec::new() };
            streams.push(ElementaryStream::new(video_pid, stream_type, registration));
            video = Some(Stream { pid: video_pid, codec, stream_id, continuity: 0 });
        }
        let mut audio = None;
        if let Some(format) = settings.audio {
            let (stream_type, stream_id, descriptors) = audio_stream(format)?;
            streams.push(ElementaryStream::new(audio_pid, stream_type, descriptors));
            audio = Some(Stream { pid: audio_pid, codec: format.codec, stream_id, continuity: 0 });
        }
        let pcr_pid = streams.first().ok_or(Error::NoStream)?.pid;
        if settings.constant_rate.is_some() && video.is_none() {
            return Err(Error::ConstantRate);
        }
        let shaper = settings.constant_rate.map(|rate| {
            let sound_leak = settings.audio.map_or(0, audio_leak_bps);
            Box::new(Shaper::new(rate, pcr_pid, audio_pid, sound_leak, settings.decode_delay))
        });
        let mut pat = Vec::new();
        Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(program_number, map_pid)] }
            .write(&mut pat);
        let version = settings.table_version % 32;
        let program = Pmt { program_number, version, current: true, pcr_pid, streams };
        let mut pmt = Vec::new();
        program.write(&mut pmt);
        Ok(Muxer {
            video,
            audio,
            further: Vec::new(),
            settings,
            map_pid,
            program,
            pat,
            pmt,
            pat_continuity: 0,
            pmt_continuity: 0,
            now: None,
            tables_at: None,
            clock_at: None,
            last_interval: Ticks(0),
            last_pcr: None,
            head: Vec::new(),
            open: None,
            jumped: false,
            shaper,
            made: Vec::new(),
        })
    }

    /// Appends all packets of `unit`, tables in front where they are due: before each key frame, and where they
    /// would be more than the table interval old when the next unit is expected.
    ///
    /// # Errors
    /// [`Error::Codec`] for a unit of a stream that the program does not have; nothing is written then.
    pub fn write(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        let is_video = unit.codec.is_video();
        self.check(unit.codec)?;
        let UnitHead { pts, dts, .. } = UnitHead::of(unit);
        let prefix = unit_prefix(unit);
        let mark = if unit.codec == Codec::H264 { &h264::END_OF_UNIT[..] } else { &[] };
        let payload_bytes = prefix.len() + unit.data.len() + mark.len();
        if unit.codec == Codec::H264 && !pes::fits_length(pts, dts, payload_bytes) {
            self.begin(&UnitHead::of(unit), out)?;
            self.slice(&unit.data, out);
            self.end(out);
            return Ok(());
        }
        let head = UnitHead::of(unit);
        let at = fine(dts, head.captured);
        if is_video {
            self.end(out);
            self.learn_sizes(&unit.data);
        }
        if unit.codec == Codec::Av1 && unit.random_access {
            self.describe_av1(&unit.data);
        }
        let part = if is_video { Part::Picture(at) } else { Part::Sound(at) };
        self.shaped(part, out, |muxer, out| {
            let field = muxer.start_unit(is_video, &head, out);
            let delay = muxer.settings.decode_delay;
            let stream = if is_video { &mut muxer.video } else { &mut muxer.audio };
            let Some(stream) = stream else { return };
            muxer.head.clear();
            write_header(stream.stream_id, pts + delay, dts + delay, payload_bytes, &mut muxer.head);
            muxer.head.extend_from_slice(&prefix);
            packetize(stream.pid, &mut stream.continuity, field, [&muxer.head, &unit.data, mark], out);
        });
        if is_video {
            self.shaped(Part::PictureEnd, out, |_, _| {});
        }
        Ok(())
    }

    /// Begins an H.264 unit, and appends tables where they are due. The unit's bytes come by [`Muxer::slice`]. One that is still
    /// open is ended first.
    ///
    /// # Errors
    /// [`Error::Codec`] where the program's video is not H.264; nothing is written then.
    pub fn begin(&mut self, unit: &UnitHead, out: &mut Vec<u8>) -> Result<(), Error> {
        self.check(Codec::H264)?;
        self.end(out);
        self.shaped(Part::Picture(fine(unit.dts, unit.captured)), out, |muxer, out| {
            let field = muxer.start_unit(true, unit, out);
            let delay = muxer.settings.decode_delay;
            muxer.head.clear();
            let head = &mut muxer.head;
            pes::write_open_header(pes::STREAM_ID_VIDEO, unit.pts + delay, unit.dts + delay, head);
            muxer.open = Some(Open { pes: OpenPes::new(field, head), has_bytes: false });
        });
        Ok(())
    }

    /// Takes the next NAL units of the open unit, start codes included, and appends the packets that they fill. Less
    /// than a packet may wait for what follows: filling it up would cost more than all that it would save. Without an
    /// open unit nothing is written.
    pub fn slice(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.open.as_ref().is_some_and(|open| !open.has_bytes) {
            self.learn_sizes(bytes);
        }
        self.shaped(Part::More, out, |muxer, out| {
            let (Some(open), Some(stream)) = (&mut muxer.open, &mut muxer.video) else { return };
            if !open.has_bytes && !h264::begins_with_delimiter(bytes) {
                open.pes.push(stream.pid, &mut stream.continuity, &h264::ACCESS_UNIT_DELIMITER, out);
            }
            open.has_bytes = true;
            open.pes.push(stream.pid, &mut stream.continuity, bytes, out);
        });
    }

    /// Ends the open unit, if there is one, and appends its last packets; at a constant rate null packets up to the end
    /// of the picture's time, too.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        self.shaped(Part::PictureEnd, out, |muxer, out| {
            if let Some(stream) = &mut muxer.video {
                open.pes.finish(stream.pid, &mut stream.continuity, out);
            }
        });
    }

    /// The stream is over: ends the open unit, and at a constant rate appends the sound that waits for its place.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(out);
        if let Some(shaper) = &mut self.shaper {
            shaper.finish(out);
        }
    }

    /// Makes packets; at a constant rate they are given their places.
    fn shaped(&mut self, part: Part, out: &mut Vec<u8>, make: impl FnOnce(&mut Muxer, &mut Vec<u8>)) {
        let Some(mut shaper) = self.shaper.take() else { return make(self, out) };
        let mut made = std::mem::take(&mut self.made);
        self.jumped = false;
        make(self, &mut made);
        shaper.lay(part, &made, self.jumped, out);
        made.clear();
        (self.made, self.shaper) = (made, Some(shaper));
    }

    /// The tables say of AV1 what its sequence header does; their version is another one where that has changed since they were
    /// written.
    fn describe_av1(&mut self, unit: &[u8]) {
        let Some(descriptors) = av1::Head::of(unit).parse_sequence().map(|header| header.descriptors())
        else {
            return;
        };
        // Only a program with video gets here, and its video stands first.
        let Some(stream) = self.program.streams.first_mut() else {
            return;
        };
        if stream.descriptors == descriptors {
            return;
        }
        stream.descriptors = descriptors;
        if self.tables_at.is_some() {
            self.program.version = (self.program.version + 1) % 32;
        }
        self.pmt.clear();
        self.program.write(&mut self.pmt);
    }

    /// At a constant rate it counts how fast the video may come.
    fn learn_sizes(&mut self, unit: &[u8]) {
        let is_h264 = self.video.as_ref().is_some_and(|video| video.codec == Codec::H264);
        let Some(shaper) = self.shaper.as_mut().filter(|_| is_h264) else { return };
        let (mut head, _) = bitstream::head(Codec::H264, unit);
        let set = head.find(|nal| nal.kind() == NalType::Sps);
        let sizes = set.and_then(|set| Sizes::of_h264(&Sps::parse(set.payload()).ok()?));
        if let Some(sizes) = sizes {
            shaper.video_leaks((sizes.transport_rate * 8.0) as u64);
        }
    }

    fn check(&self, codec: Codec) -> Result<(), Error> {
        let stream = if codec.is_video() { &self.video } else { &self.audio };
        if stream.as_ref().map(|stream| stream.codec) == Some(codec) {
            Ok(())
        } else {
            let expected = "a stream of the program";
            Err(Error::Codec { what: "access unit", found: codec, expected })
        }
    }

    /// Moves stream time on and appends tables where they are due; returns what the unit's first packet says.
    fn start_unit(&mut self, is_video: bool, unit: &UnitHead, out: &mut Vec<u8>) -> Field {
        let carries_clock = is_video || self.video.is_none();
        let jump = self.advance(unit.dts);
        if is_video && unit.random_access || jump || self.tables_due() {
            self.append_tables(out);
        }
        let pcr = carries_clock.then(|| self.next_pcr(fine(unit.dts, unit.captured), jump));
        if carries_clock {
            self.clock_at = Some(unit.dts);
        }
        Field {
            discontinuity: jump && carries_clock,
            random_access: carries_clock && unit.random_access,
            pcr,
        }
    }

    /// The stream time at which [`Muxer::write_tables`] wants to be called if no unit comes before; `None` before
    /// the first unit. Only sources with fewer than ten units a second ever reach it, and those that leave pictures out: sound brings
    /// tables beside video, but no clock.
    pub fn poll_timeout(&self) -> Option<Ticks> {
        let tables_at = self.tables_at?;
        Some(
            self.clock_at.map_or(tables_at, |clock_at| clock_at.min(tables_at))
                + self.settings.table_interval,
        )
    }

    /// Appends PAT, PMT and a packet with the clock alone, whatever is due; at a constant rate null packets before.
    ///
    /// `now` is stream time on the scale of the units' DTS, behind which no later unit's DTS lies: the capture
    /// clock less what units take from capture to here.
    pub fn write_tables(&mut self, now: Ticks, out: &mut Vec<u8>) {
        self.shaped(Part::Tables(fine(now, None)), out, |muxer, out| {
            let jump = muxer.advance(now);
            muxer.append_tables(out);
            let clock = muxer.next_pcr(fine(now, None), jump);
            muxer.clock_at = Some(now);
            if let Some(stream) = muxer.video.as_ref().or(muxer.audio.as_ref()) {
                let continuity = stream.continuity.wrapping_sub(1) & 0x0f;
                out.extend_from_slice(&clock_packet(stream.pid, continuity, clock, jump));
            }
        });
    }

    /// Appends tables and the clock for the time without pictures before the next one, at `dts`, where [`Muxer::write_tables`] was
    /// not called in time: of a file with few pictures a second, or a machine that stood still. Gaps of more than ten seconds are
    /// left. To be called right before that picture.
    pub fn fill_up(&mut self, dts: Ticks, out: &mut Vec<u8>) {
        self.end(out);
        // At a constant rate the clock comes on its own.
        if self.shaper.is_some() || self.settings.table_interval < FILL_MIN {
            return;
        }
        let is_fillable = |at: Ticks| (1..=FILL_MAX).contains(&(dts - at).0);
        // Where the next picture would have been: between two clocks the bytes of the one before lie evenly, and all of them came
        // before that picture's decoding time.
        if let Some(at) = self.now.map(|now| now + self.last_interval)
            && self.last_interval > Ticks(0)
            && self.poll_timeout().is_some_and(is_fillable)
            && is_fillable(at)
        {
            self.write_tables(at, out);
        }
        while let Some(at) = self.poll_timeout().filter(|&at| is_fillable(at)) {
            self.write_tables(at, out);
        }
    }

    /// Moves stream time on; true if the clock was set anew.
    fn advance(&mut self, dts: Ticks) -> bool {
        let before = self.now.unwrap_or(dts);
        let jump = dts.0 < before.0.saturating_sub(BACKWARD_JUMP);
        if jump {
            self.last_interval = Ticks(0);
            self.now = Some(dts);
        } else {
            self.last_interval = Ticks((dts.0 - before.0).clamp(0, self.settings.table_interval.0.max(0)));
            self.now = Some(before.max(dts));
        }
        self.jumped = jump;
        jump
    }

    fn tables_due(&self) -> bool {
        match (self.tables_at, self.now) {
            (Some(at), Some(now)) => (now + self.last_interval - at).0 > self.settings.table_interval.0,
            _ => true,
        }
    }

    fn append_tables(&mut self, out: &mut Vec<u8>) {
        psi::write_packets(PAT_PID, &self.pat, &mut self.pat_continuity, out);
        psi::write_packets(self.map_pid, &self.pmt, &mut self.pmt_continuity, out);
        self.tables_at = self.now;
    }

    /// The clock at `now`, 27 MHz; it never runs back except where a jump is announced.
    fn next_pcr(&mut self, now: i128, jump: bool) -> Pcr {
        let clock = match self.last_pcr {
            Some(last) if !jump => last.max(now),
            _ => now,
        };
        self.last_pcr = Some(clock);
        Pcr::new(clock.rem_euclid(i128::from(Pcr::WRAP)) as u64)
    }
}

/// Stream time in 27 MHz: that of the capture where `dts` is its tick.
fn fine(dts: Ticks, captured: Option<Time>) -> i128 {
    match captured.filter(|captured| Ticks::from_time(*captured) == dts) {
        Some(captured) => (i128::from(captured.as_nanos()) * 27 + 500) / 1000,
        None => i128::from(dts.0) * 300,
    }
}

impl UnitHead {
    /// What is known before a unit's bytes.
    fn of(unit: &AccessUnit) -> UnitHead {
        let captured = unit.stamps.at(Stage::Captured);
        UnitHead { pts: unit.pts, dts: unit.dts, random_access: unit.random_access, captured }
    }
}

/// Stream type, stream id and descriptors of a program's sound.
fn audio_stream(format: AudioFormat) -> Result<(u8, u8, Vec<u8>), Error> {
    if !(1..=8).contains(&format.channels) {
        return Err(Error::Channels { found: format.channels });
    }
    let mut descriptors = Vec::new();
    let (stream_type, stream_id) = match format.codec {
        Codec::Opus => {
            descriptors.extend_from_slice(b"\x05\x04Opus\x7f\x02\x80");
            descriptors.push(format.channels);
            (0x06, pes::STREAM_ID_PRIVATE)
        }
        Codec::Aac => {
            if let Some(he_aac) = format.he_aac {
                let profile = he_aac.profile(format.channels);
                descriptors.extend_from_slice(&[psi::MPEG4_AUDIO_DESCRIPTOR, 1, profile]);
            }
            (0x0f, pes::STREAM_ID_AUDIO)
        }
        Codec::MpegAudio => (0x03, pes::STREAM_ID_AUDIO),
        Codec::Ac3 => {
            descriptors.extend_from_slice(b"\x05\x04AC-3");
            (0x81, pes::STREAM_ID_PRIVATE)
        }
        Codec::EAc3 => {
            descriptors.extend_from_slice(b"\x05\x04EAC3");
            (0x87, pes::STREAM_ID_PRIVATE)
        }
        Codec::S302m => {
            if !format.channels.is_multiple_of(2) {
                return Err(Error::Channels { found: format.channels });
            }
            descriptors.extend_from_slice(b"\x05\x04BSSD");
            (0x06, pes::STREAM_ID_PRIVATE)
        }
        found => return Err(Error::Codec { what: "audio", found, expected: "an audio codec" }),
    };
    if let Some([a, b, c]) = format.language {
        descriptors.extend_from_slice(&[0x0a, 4, a, b, c, 0]);
    }
    Ok((stream_type, stream_id, descriptors))
}

/// What leaves the transport buffer of a program's sound, bits a second: of audio by 13818-1 §2.4.2.3, and the same of what
/// it does not know, but 1.2 times what they may have of samples as they are.
const fn audio_leak_bps(format: AudioFormat) -> u64 {
    match format.codec {
        Codec::S302m => format.channels as u64 * 48_000 * 28 * 6 / 5 + 2_000_000,
        _ if format.channels > 2 => 5_529_600,
        _ => 2_000_000,
    }
}

/// What the container demands in front of a unit's own bytes.
fn unit_prefix(unit: &AccessUnit) -> Vec<u8> {
    let mut prefix = Vec::new();
    match unit.codec {
        Codec::H264 if !h264::begins_with_delimiter(&unit.data) => {
            prefix.extend_from_slice(&h264::ACCESS_UNIT_DELIMITER);
        }
        Codec::Av1 if !unit.data.starts_with(&av1::TEMPORAL_DELIMITER) => {
            prefix.extend_from_slice(&av1::TEMPORAL_DELIMITER);
        }
        Codec::Opus => opus::write_control_header(unit.data.len(), &mut prefix),
        _ => {}
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamps;
    use crate::container::ts::packet::packets;
    use crate::container::ts::{ContinuityChecker, Demuxer, Event, Packet, Scanner};
    use bytes::Bytes;

    fn unit(codec: Codec, dts: i64, bytes: usize, random_access: bool) -> AccessUnit {
        let data = Bytes::from(vec![0x55; bytes]);
        AccessUnit { codec, data, pts: Ticks(dts), dts: Ticks(dts), random_access, stamps: Stamps::default() }
    }

    fn muxer(video: Option<Codec>, audio: Option<Codec>) -> Muxer {
        let audio = audio.map(|codec| AudioFormat { codec, channels: 2, language: None, he_aac: None });
        Muxer::new(MuxSettings { video, audio, ..MuxSettings::default() }).unwrap()
    }

    #[test]
    fn tables_stand_before_key_frames_and_never_further_apart_than_100_ms() {
        for step in [1500, 3600, 4000, 7000] {
            let mut muxer = muxer(Some(Codec::H264), None);
            let mut out = Vec::new();
            let mut last_tables = 0;
            for frame in 0..50 {
                out.clear();
                muxer.write(&unit(Codec::H264, frame * step, 700, frame % 25 == 0), &mut out).unwrap();
                let first = Packet::parse(packets(&out).next().unwrap()).unwrap();
                if first.pid == PAT_PID {
                    last_tables = frame;
                }
                assert!(frame % 25 != 0 || first.pid == PAT_PID);
                assert!((frame - last_tables) * step <= 9000);
            }
        }
    }

    #[test]
    fn the_clock_stands_with_each_video_unit_and_leads_the_stamps() {
        let mut muxer = muxer(Some(Codec::H264), Some(Codec::Opus));
        let (mut scanner, mut out) = (Scanner::new(), Vec::new());
        for frame in 0..10 {
            muxer.write(&unit(Codec::H264, frame * 3600, 5000, frame == 0), &mut out).unwrap();
            muxer.write(&unit(Codec::Opus, frame * 3600 - 900, 200, true), &mut out).unwrap();
        }
        let scans: Vec<_> = packets(&out).map(|packet| scanner.scan(packet)).collect();
        let clocks: Vec<u64> = scans.iter().filter_map(|scan| scan.pcr).map(Pcr::base).collect();
        assert_eq!(clocks, (0..10).map(|frame| frame * 3600).collect::<Vec<_>>());
        assert_eq!(scans.iter().filter(|scan| scan.entry.is_some()).count(), 1);
        assert_eq!(scanner.continuity_errors(), 0);
        assert_eq!(scanner.program().unwrap().pcr_pid, VIDEO_PID);
    }

    #[test]
    fn a_slow_source_is_filled_by_the_timer() {
        let mut muxer = muxer(Some(Codec::H264), None);
        let mut out = Vec::new();
        assert_eq!(muxer.poll_timeout(), None);
        muxer.write(&unit(Codec::H264, 1000, 100, true), &mut out).unwrap();
        assert_eq!(muxer.poll_timeout(), Some(Ticks(10_000)));
        muxer.write_tables(Ticks(10_000), &mut out);
        muxer.write(&unit(Codec::H264, 15_000, 100, false), &mut out).unwrap();
        assert_eq!(muxer.poll_timeout(), Some(Ticks(15_000 + 9000)));
        let mut checker = ContinuityChecker::new();
        let parsed: Vec<_> = packets(&out).map(|bytes| Packet::parse(bytes).unwrap()).collect();
        for packet in &parsed {
            checker.check(packet);
        }
        assert_eq!(checker.errors(), 0);
        let clocks: Vec<u64> = parsed.iter().filter_map(Packet::pcr).map(Pcr::base).collect();
        assert_eq!(clocks, [1000, 10_000, 15_000]);
    }

    #[test]
    fn a_gap_that_nobody_filled_is_filled_before_the_next_picture() {
        for (gap, filled) in
            [(3_600, 0), (19_700, 2), (90_000, 9), (89_999, 9), (FILL_MAX + 10_000, 0), (10 * FILL_MAX, 0)]
        {
            let mut muxer = muxer(Some(Codec::H264), None);
            let mut out = Vec::new();
            muxer.write(&unit(Codec::H264, 1000, 100, true), &mut out).unwrap();
            muxer.fill_up(Ticks(1000 + gap), &mut out);
            muxer.write(&unit(Codec::H264, 1000 + gap, 100, false), &mut out).unwrap();
            let mut checker = ContinuityChecker::new();
            let parsed: Vec<_> = packets(&out).map(|bytes| Packet::parse(bytes).unwrap()).collect();
            parsed.iter().for_each(|packet| _ = checker.check(packet));
            assert_eq!(checker.errors(), 0, "{gap}");
            let clocks: Vec<u64> = parsed.iter().filter_map(Packet::pcr).map(Pcr::base).collect();
            assert!(clocks.is_sorted(), "{clocks:?}");
            if gap <= FILL_MAX {
                assert_eq!(clocks.len(), 2 + filled, "{gap}: {clocks:?}");
                assert!(clocks.windows(2).all(|pair| pair[1] - pair[0] <= 9000), "{gap}: {clocks:?}");
            } else {
                assert_eq!(clocks.len(), 2, "{gap}: too long to be filled");
            }
        }
    }

    #[test]
    fn the_clock_stands_where_the_picture_would_have_that_did_not_come() {
        let mut muxer = muxer(Some(Codec::H264), None);
        let mut out = Vec::new();
        for dts in [1000, 2800, 4600, 30_000] {
            muxer.fill_up(Ticks(dts), &mut out);
            muxer.write(&unit(Codec::H264, dts, 100, dts == 1000), &mut out).unwrap();
        }
        let parsed = packets(&out).map(|bytes| Packet::parse(bytes).unwrap());
        let clocks: Vec<u64> = parsed.filter_map(|packet| packet.pcr()).map(Pcr::base).collect();
        assert_eq!(clocks, [1000, 2800, 4600, 6400, 15_400, 24_400, 30_000]);
    }

    #[test]
    fn the_clock_goes_on_beside_sound_while_pictures_are_left_out() {
        let mut muxer = muxer(Some(Codec::H264), Some(Codec::Aac));
        let mut out = Vec::new();
        for number in 0..40 {
            let dts = 1000 + number * 1920;
            muxer.write(&unit(Codec::Aac, dts, 100, true), &mut out).unwrap();
            if !(3..=30).contains(&number) {
                muxer.fill_up(Ticks(dts), &mut out);
                muxer.write(&unit(Codec::H264, dts, 100, number == 0), &mut out).unwrap();
            }
        }
        let parsed = packets(&out).map(|bytes| Packet::parse(bytes).unwrap());
        let clocks: Vec<u64> = parsed.filter_map(|packet| packet.pcr()).map(Pcr::base).collect();
        assert!(clocks.windows(2).all(|pair| (1..=9000).contains(&(pair[1] - pair[0]))), "{clocks:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_is_announced() {
        let mut muxer = muxer(None, Some(Codec::Aac));
        let mut out = Vec::new();
        muxer.write(&unit(Codec::Aac, 1_000_000, 100, true), &mut out).unwrap();
        out.clear();
        muxer.write(&unit(Codec::Aac, 0, 100, true), &mut out).unwrap();
        let last = Packet::parse(packets(&out).last().unwrap()).unwrap();
        assert!(last.discontinuity());
        assert_eq!(last.pcr(), Some(Pcr::new(0)));
    }

    #[test]
    fn lpcm_is_announced_and_comes_back() {
        let audio = Some(AudioFormat { codec: Codec::S302m, channels: 6, language: None, he_aac: None });
        let mut muxer = Muxer::new(MuxSettings { audio, ..MuxSettings::default() }).unwrap();
        let mut out = Vec::new();
        let units: Vec<_> = (1..4).map(|number| unit(Codec::S302m, number * 90, 354, true)).collect();
        for unit in &units {
            muxer.write(unit, &mut out).unwrap();
        }
        let mut demuxer = Demuxer::new();
        demuxer.push(&out);
        demuxer.finish();
        let mut found = Vec::new();
        while let Some(event) = demuxer.poll() {
            match event {
                Event::AccessUnit { unit, .. } => found.push(unit),
                Event::Program(program) => {
                    let stream = program.audio().unwrap();
                    assert_eq!((stream.stream_type, &stream.descriptors[..]), (0x06, &b"\x05\x04BSSD"[..]));
                }
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
        let delay = MuxSettings::default().decode_delay;
        assert_eq!(found.len(), 3);
        for (unit, found) in units.iter().zip(&found) {
            assert_eq!((found.codec, &found.data, found.pts), (Codec::S302m, &unit.data, unit.pts + delay));
        }
    }

    #[test]
    fn he_aac_is_said_in_the_program_map() {
        for (parametric_stereo, rate_max_hz, channels) in
            [(false, 48_000, 2), (true, 48_000, 2), (false, 96_000, 6)]
        {
            let he_aac = Some(HeAac { parametric_stereo, rate_max_hz });
            let audio = Some(AudioFormat { codec: Codec::Aac, channels, language: Some(*b"deu"), he_aac });
            let mut muxer = Muxer::new(MuxSettings { audio, ..MuxSettings::default() }).unwrap();
            let (mut out, mut demuxer) = (Vec::new(), Demuxer::new());
            muxer.write(&unit(Codec::Aac, 0, 100, true), &mut out).unwrap();
            demuxer.push(&out);
            let stream = demuxer.program().unwrap().audio().unwrap();
            assert_eq!((stream.stream_type, stream.language, stream.he_aac), (0x0f, Some(*b"deu"), he_aac));
        }
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        let new = |video, codec, channels| {
            let audio = Some(AudioFormat { codec, channels, language: None, he_aac: None });
            Muxer::new(MuxSettings { video, audio, ..MuxSettings::default() }).err()
        };
        assert!(matches!(new(Some(Codec::Aac), Codec::Aac, 2), Some(Error::Codec { what: "video", .. })));
        assert!(matches!(new(None, Codec::H264, 2), Some(Error::Codec { what: "audio", .. })));
        assert_eq!(new(None, Codec::Opus, 9), Some(Error::Channels { found: 9 }));
        assert_eq!(new(None, Codec::S302m, 3), Some(Error::Channels { found: 3 }));
        assert_eq!(Muxer::new(MuxSettings::default()).err(), Some(Error::NoStream));
        let refused = muxer(Some(Codec::H264), None).write(&unit(Codec::Opus, 0, 3, true), &mut Vec::new());
        assert!(matches!(refused, Err(Error::Codec { what: "access unit", .. })));
    }
}
