//! The closed captions in a film's pictures: cc_data of CEA-608 and CEA-708 (A/53 part 4) in SEI messages of H.264 and H.265, in
//! user data of MPEG-2, in metadata of AV1.
//!
//! FFmpeg's decoders find it in all of these, put it into display order, and its source `movie` gives it out beside the pictures
//! (`subcc`). ffprobe prints both as text, a packet each, the pictures shrunk to a few bytes:
//!
//! ```text
//!   [PACKET]
//!   codec_type=subtitle
//!   pts_time=1.500100
//!   data=
//!   00000000: fcc2 b0fa 0000                           ......
//!   [/PACKET]
//! ```
//! So captions cost decoding the pictures once more. They are read by a child of their own: one that fails, or is slow, leaves
//! pictures and sound as they are.

use super::ffmpeg::{Decoder, FfmpegInput};
use super::{Error, Result};
use glassline_media::FrameRate;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::time::Duration;

/// FFmpeg's names of the formats that may carry captions in their pictures.
const CODECS: [&str; 6] = ["h264", "hevc", "mpeg1video", "mpeg2video", "av1", "vvc"];
/// So much of a film is searched for captions, and so many bytes of it at most.
const SEARCHED: &str = "60";
const SEARCHED_BYTES: u64 = 256 << 20;
/// What captions begin with, and where in it is a byte that few others in a film are like: ITU-T T.35's codes of ATSC and A/53's
/// identifier, the same behind the start code of user data, and the user data of DVDs.
const SIGNS: [(&[u8], usize); 3] =
    [(b"\xB5\0\x31GA94\x03", 0), (b"\0\0\x01\xB2GA94\x03", 3), (b"\0\0\x01\xB2CC\x01\xF8", 3)];
const SIGN_BYTES_MAX: usize = 9;
/// Jumps of a film's clock that are none of its pictures: back by more than this, or in some formats ahead by more than that
/// (FFmpeg's `dts_delta_threshold`).
const BACK_S: f64 = 0.1;
const AHEAD_S: f64 = 10.0;
/// Lines are shorter; the rest of one that is not is no data.
const LINE_BYTES_MAX: u64 = 512;
/// cc_data of a picture at most: 31 triplets in each of a few messages.
const CC_DATA_BYTES_MAX: usize = 1024;

/// What ffprobe tells of a picture or of its captions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptionItem {
    /// A picture was decoded that is shown so long after the film's first one.
    Picture(Duration),
    /// The captions of a picture that is shown then: triplets of cc_data, in the order of the film.
    Captions(Duration, Vec<[u8; 3]>),
}

/// A film's captions, which are being read: items in display order, until the film or ffprobe ends.
pub(crate) struct CaptionReader {
    lines: BufReader<Decoder>,
    name: String,
    parser: Parser,
}

impl CaptionReader {
    /// Begins at the beginning of the film; `rate` is the rate of its pictures.
    ///
    /// # Errors
    /// ffprobe is not there, or cannot be started.
    pub(crate) fn open(file: &FfmpegInput, rate: FrameRate) -> Result<CaptionReader> {
        let decoder = file.start(command(file))?;
        let parser = Parser::new(file.first(), file.has_jumps(), rate);
        Ok(CaptionReader { lines: BufReader::new(decoder), name: file.name(), parser })
    }
}

impl Iterator for CaptionReader {
    type Item = Result<CaptionItem>;
    fn next(&mut self) -> Option<Result<CaptionItem>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(Error::read(&self.name)(error))),
            }
            if let Some(item) = self.parser.take(line.trim_ascii_end()) {
                return Some(Ok(item));
            }
        }
    }
}

impl FfmpegInput {
    /// Whether there are closed captions in the pictures of its first minute. Its packets are searched, not decoded: about as
    /// fast as the file is read. What cannot be read has none.
    #[must_use]
    pub fn has_captions(&self) -> bool {
        if !self.codec().is_some_and(|codec| CODECS.contains(&codec)) {
            return false;
        }
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i"]).arg(self.url());
        command.args(["-map", self.video(), "-c", "copy", "-t", SEARCHED, "-f", "data", "pipe:1"]);
        self.start(command).is_ok_and(|decoder| is_signed(decoder.take(SEARCHED_BYTES)))
    }
}

/// Whether one of [`SIGNS`] is in it.
fn is_signed(mut bytes: impl Read) -> bool {
    let mut buffer = vec![0; 1 << 16];
    let mut kept = 0;
    loop {
        let filled = match bytes.read(&mut buffer[kept..]) {
            Ok(0) | Err(_) => return false,
            Ok(count) => kept + count,
        };
        if (0..filled).any(|at| begins_sign(&buffer[..filled], at)) {
            return true;
        }
        kept = filled.min(SIGN_BYTES_MAX - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

/// Whether the rare byte of a sign is there, and the sign around it.
fn begins_sign(bytes: &[u8], at: usize) -> bool {
    let is_sign = |(sign, rare): &(&[u8], usize)| {
        sign[*rare] == bytes[at]
            && at.checked_sub(*rare).is_some_and(|start| bytes[start..].starts_with(sign))
    };
    SIGNS.iter().any(is_sign)
}

fn command(file: &FfmpegInput) -> Command {
    // FFmpeg's `movie` names a track without the number of the input.
    let track = file.video().strip_prefix("0:").unwrap_or("V:0");
    let mut graph = OsString::from("movie=filename=");
    graph.push(escaped(&file.url()));
    graph.push(":streams=");
    graph.push(escaped(OsStr::new(track)));
    graph.push(",crop=2:2:0:0[out0+subcc]");
    let mut command = Command::new("ffprobe");
    // The graph tells all there is to know before the first picture, so that none is waited for.
    command.args(["-v", "error", "-fpsprobesize", "0", "-analyzeduration", "1", "-probesize", "32"]);
    command.args(["-show_entries", "packet=codec_type,pts_time,data", "-show_data", "-of", "default"]);
    command.args(["-f", "lavfi", "-i"]).arg(graph);
    command
}

/// A value in a graph of filters: a graph's text is unescaped once for the graph and once more for the filter's options.
fn escaped(value: &OsStr) -> OsString {
    let once = |bytes: &[u8]| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"/._-".contains(&byte);
        let escape = |byte: &u8| [Some(b'\\').filter(|_| !is_plain(*byte)), Some(*byte)];
        bytes.iter().flat_map(escape).flatten().collect::<Vec<_>>()
    };
    OsString::from_vec(once(&once(value.as_bytes())))
}

/// Makes items of lines. Pure.
#[derive(Debug)]
struct Parser {
    /// The film's first picture by its own clock, in seconds; where it has none, pictures are counted.
    first: Option<f64>,
    /// Whether its clock may jump ahead without a pause of the pictures.
    has_jumps: bool,
    rate: FrameRate,
    pictures: u64,
    /// When the last picture is shown.
    last: Option<f64>,
    /// What its clock's jumps come to.
    offset: f64,
    packet: Packet,
}

/// A packet as far as it was read.
#[derive(Debug, Default)]
struct Packet {
    is_captions: bool,
    pts: Option<f64>,
    data: Vec<u8>,
}

impl Parser {
    fn new(first: Option<f64>, has_jumps: bool, rate: FrameRate) -> Parser {
        let packet = Packet::default();
        Parser { first, has_jumps, rate, pictures: 0, last: None, offset: 0.0, packet }
    }

    fn take(&mut self, line: &[u8]) -> Option<CaptionItem> {
        if let Some(value) = line.strip_prefix(b"codec_type=") {
            self.packet.is_captions = value == b"subtitle";
        } else if let Some(value) = line.strip_prefix(b"pts_time=") {
            self.packet.pts = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        } else if line == b"[/PACKET]" {
            return Some(self.item());
        } else if self.packet.data.len() < CC_DATA_BYTES_MAX {
            self.packet.data.extend(dumped(line));
        }
        None
    }

    /// When a picture is shown by the film's clock. Where that jumps, the picture is the next one, as FFmpeg decodes pictures.
    fn follow(&mut self, time: f64) -> f64 {
        let shown = time + self.offset;
        let jumps = |last: &f64| shown - last < -BACK_S || self.has_jumps && shown - last > AHEAD_S;
        let shown = match self.last.filter(jumps) {
            Some(last) => {
                let next = last + self.rate.time_of(1).as_secs_f64();
                self.offset += next - shown;
                next
            }
            None => shown,
        };
        self.last = Some(shown);
        shown
    }

    /// What the packet is that has ended.
    fn item(&mut self) -> CaptionItem {
        let Packet { is_captions, pts, data } = std::mem::take(&mut self.packet);
        self.pictures += u64::from(!is_captions);
        let by_clock = pts.zip(self.first).map(|(pts, first)| pts - first).filter(|time| time.abs() < 1e9);
        let by_clock = by_clock.map(|time| if is_captions { time + self.offset } else { self.follow(time) });
        let by_count = || self.rate.time_of(self.pictures.saturating_sub(1));
        let time = by_clock.map_or_else(by_count, |time| Duration::from_secs_f64(time.max(0.0)));
        if is_captions {
            CaptionItem::Captions(time, data.as_chunks().0.to_vec())
        } else {
            CaptionItem::Picture(time)
        }
    }
}

/// The bytes of a line of a dump: eight digits of the offset, a colon, and up to 16 bytes, two and two, in 40 columns. Of
/// another line there are none.
fn dumped(line: &[u8]) -> Vec<u8> {
    let is_dump =
        line.len() > 10 && line[..8].iter().all(u8::is_ascii_hexdigit) && line[8..].starts_with(b": ");
    if !is_dump {
        return Vec::new();
    }
    let digits = line[10..line.len().min(50)].iter().filter(|byte| **byte != b' ');
    let digits: Vec<u8> =
        digits.filter_map(|digit| char::from(*digit).to_digit(16)).map(|digit| digit as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser(first: Option<f64>) -> Parser {
        Parser::new(first, true, FrameRate::new(25, 1).unwrap())
    }

    fn items(parser: &mut Parser, text: &str) -> Vec<CaptionItem> {
        text.lines().filter_map(|line| parser.take(line.as_bytes())).collect()
    }

    fn millis(item: &CaptionItem) -> u64 {
        let (CaptionItem::Picture(time) | CaptionItem::Captions(time, _)) = item;
        (time.as_secs_f64() * 1e3).round() as u64
    }

    const TEXT: &str = "[PACKET]\ncodec_type=video\npts_time=1.480000\ndata=\n\
                        00000000: 5551 5151 4ef3                           UQQQN.\n\n[/PACKET]\n\
                        [PACKET]\ncodec_type=subtitle\npts_time=1.480000\ndata=\n\
                        00000000: fcc1 b0fd 8080 fe41 42fa 0000 fa00 00fa  .......AB.......\n\
                        00000010: 0000                                     ab\n\n[/PACKET]\n\
                        [PACKET]\ncodec_type=video\npts_time=1.520000\ndata=\n\n[/PACKET]\n";

    #[test]
    fn captions_have_the_times_of_their_pictures() {
        let found = items(&mut parser(Some(1.4)), TEXT);
        let triplets = [[0xFC, 0xC1, 0xB0], [0xFD, 0x80, 0x80], [0xFE, 0x41, 0x42]];
        let CaptionItem::Captions(_, data) = &found[1] else { panic!("{found:?}") };
        assert_eq!((&data[..3], data.len()), (&triplets[..], 6));
        assert!(data[3..].iter().all(|triplet| *triplet == [0xFA, 0, 0]));
        assert_eq!(found.iter().map(millis).collect::<Vec<_>>(), [80, 80, 120]);
        // Without a clock the pictures are counted.
        let counted = items(&mut parser(None), &TEXT.replace("1.4", "N/A 1.4"));
        assert_eq!(counted.iter().map(millis).collect::<Vec<_>>(), [0, 0, 40]);
    }

    #[test]
    fn a_clock_that_jumps_moves_no_picture() {
        let shown = |has_jumps, times: &[&str]| {
            let text: String =
                times.iter().map(|time| format!("codec_type=video\npts_time={time}\n[/PACKET]\n")).collect();
            let mut parser = Parser { has_jumps, ..parser(Some(1.0)) };
            items(&mut parser, &text).iter().map(millis).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(true, &["1.00", "1.20", "1.00", "1.04"]),
            [0, 200, 240, 280],
            "a recording behind another one"
        );
        assert_eq!(shown(true, &["1.00", "1.04", "5000.00", "5000.04"]), [0, 40, 80, 120]);
        assert_eq!(shown(false, &["1.00", "1.04", "21.00", "21.04"]), [0, 40, 20_000, 20_040], "a pause");
        assert_eq!(shown(true, &["1.00", "0.98", "3.00"]), [0, 0, 2_000]);
    }

    #[test]
    fn lines_that_are_no_data_have_none() {
        for line in ["", "00000000", "00000000:", "0000000g: ff", "data=", "00000000: ", "äää0000: ff"] {
            assert_eq!(dumped(line.as_bytes()), [0; 0], "{line}");
        }
        assert_eq!(dumped(b"00000010: ff"), [0xFF]);
        let mut parser = parser(Some(0.0));
        let endless = "00000000: ffff ffff ffff ffff ffff ffff ffff ffff\n".repeat(1000);
        let text =
            format!("codec_type=subtitle\npts_time=-nan\n{endless}[/PACKET]\npts_time=1e300\n[/PACKET]\n");
        let found = items(&mut parser, &text);
        let CaptionItem::Captions(time, data) = &found[0] else { panic!("{found:?}") };
        assert_eq!((time.as_nanos(), data.len()), (0, CC_DATA_BYTES_MAX / 3));
    }

    #[test]
    fn signs_are_found_over_the_ends_of_reads() {
        for (sign, _) in SIGNS {
            for before in [0, (1 << 16) - 5, (1 << 16) - 1, 200_000] {
                let film = [vec![7; before], sign.to_vec(), vec![7; 9]].concat();
                assert!(is_signed(&film[..]), "{sign:?} behind {before} bytes");
                assert!(!is_signed(&film[..before + sign.len() - 1]), "{sign:?} cut");
            }
        }
    }

    #[test]
    fn names_are_escaped_twice() {
        assert_eq!(escaped(OsStr::new("file:/a b's.ts")), *r"file\\\:/a\\\ b\\\'s.ts");
    }
    #[test]
    fn a_line_of_a_dump_gives_its_bytes_and_none_of_the_text_behind_them() {
        let line = b"00000000: fcc1 b0fd 8080 fe41 42fa 0000 fa00 00fa  abcdef0123456789";
        let bytes = [0xFC, 0xC1, 0xB0, 0xFD, 0x80, 0x80, 0xFE, 0x41, 0x42, 0xFA, 0, 0, 0xFA, 0, 0, 0xFA];
        assert_eq!(dumped(line), bytes);
        assert_eq!(dumped(b"00000010: ffe"), [0xFF], "half a byte is none");
    }

    #[test]
    fn triplets_that_are_cut_off_are_left_out() {
        let text = "codec_type=subtitle\npts_time=0.0\n00000000: fcc1 b0fd 80\n[/PACKET]\n";
        let found = items(&mut parser(Some(0.0)), text);
        assert_eq!(found, [CaptionItem::Captions(Duration::ZERO, vec![[0xFC, 0xC1, 0xB0]])]);
    }

    #[test]
    fn a_sign_that_lacks_its_last_byte_is_none() {
        for (sign, _) in SIGNS {
            let other = [&sign[..sign.len() - 1], &[0xEE]].concat();
            assert!(!is_signed(&other[..]), "{sign:?}");
        }
        assert!(!is_signed(&b""[..]));
    }
}
