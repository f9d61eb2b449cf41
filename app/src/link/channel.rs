//! `--channel ID:OPTIONS`: what a channel trades, and what is at its ends.

use glassline_call::direct::TelemetryFormat;
use glassline_call::link::session::CONTROL;
use glassline_media::quantity;
use glassline_transport::link::{Compression, Fec, Options};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How many nearest names are looked at for a word that is not known.
const NEAR: f64 = 0.75;

/// A channel as it stands on the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Channel {
    pub(super) id: u8,
    pub(super) options: Options,
    pub(super) framing: Option<Framing>,
    /// What comes is written as lines of JSON.
    pub(super) json: bool,
    /// What comes goes into the stream that is made of the pictures.
    pub(super) klv: Option<TelemetryFormat>,
    pub(super) input: Option<ChannelEnd>,
    pub(super) output: Option<ChannelEnd>,
}

/// How messages stand in a row of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each behind its length: four bytes, big-endian.
    Length,
    /// Each is a line.
    Lines,
    /// None: bytes as they come are messages, and messages are put together again.
    Raw,
}

/// Where messages come from or go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChannelEnd {
    /// Standard input or output.
    Standard,
    /// A descriptor that this program was started with.
    Descriptor(u32),
    /// A file or a FIFO.
    File(PathBuf),
    /// Datagrams to or from `HOST:PORT`.
    Udp(String),
    /// A serial line.
    Serial(PathBuf, u32),
}

impl FromStr for ChannelEnd {
    type Err = String;
    fn from_str(text: &str) -> Result<ChannelEnd, String> {
        if text == "-" {
            return Ok(ChannelEnd::Standard);
        }
        if let Some(number) = text.strip_prefix("fd:") {
            let number = number.parse().map_err(|_| format!("{text:?}: fd: wants a number, as in fd:3"))?;
            return Ok(ChannelEnd::Descriptor(number));
        }
        if let Some(address) = text.strip_prefix("udp:") {
            let address = address.strip_prefix("//").unwrap_or(address);
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            return match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
                Some(_) => Ok(ChannelEnd::Udp(address.to_owned())),
                None => Err(format!("{text:?}: udp: wants HOST:PORT, as in udp:127.0.0.1:14550")),
            };
        }
        if let Some(line) = text.strip_prefix("serial:") {
            let (device, baud) = line.rsplit_once(',').unwrap_or((line, ""));
            return match baud.parse() {
                Ok(baud) if baud > 0 && !device.is_empty() => Ok(ChannelEnd::Serial(device.into(), baud)),
                _ => Err(format!("{text:?}: serial: wants DEV,BAUD, as in serial:/dev/ttyACM0,57600")),
            };
        }
        if text.is_empty() {
            return Err("a path is missing; write for example in=FILE, in=-, in=udp:127.0.0.1:14550".into());
        }
        Ok(ChannelEnd::File(text.into()))
    }
}

/// The names of the options with a value, and of those without.
const VALUED: [&str; 11] = [
    "priority",
    "weight",
    "cancel_after",
    "max_receive_time",
    "max_size",
    "queue",
    "compress",
    "fec",
    "klv",
    "in",
    "out",
];
const PLAIN: [&str; 11] = [
    "reliable",
    "unreliable",
    "ordered",
    "unordered",
    "newest",
    "cancel_begun",
    "stamped",
    "lines",
    "raw",
    "framed",
    "json",
];

impl FromStr for Channel {
    type Err = String;
    fn from_str(text: &str) -> Result<Channel, String> {
        let (id, list) = text.split_once(':').unwrap_or((text, ""));
        let id = id.parse::<u8>().ok().filter(|id| *id < CONTROL).ok_or_else(|| {
            format!(
                "{id:?} is no channel; write ID:OPTIONS with a number from 0 to {}, as in 1:reliable,in=-",
                CONTROL - 1
            )
        })?;
        let mut channel = Channel {
            id,
            options: Options::default(),
            framing: None,
            json: false,
            klv: None,
            input: None,
            output: None,
        };
        for option in split(list) {
            channel.apply(&option)?;
        }
        channel.options.check(id).map_err(|error| error.to_string())?;
        if channel.json && channel.output.is_none() {
            return Err(
                "json says how messages are written, and there is no out=; add for example out=FILE".into()
            );
        }
        Ok(channel)
    }
}

/// The options of a list, parted by commas. The number behind a serial line's device belongs to it.
fn split(list: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let is_baud = part.bytes().all(|byte| byte.is_ascii_digit());
        let line = options.last_mut().filter(|last| {
            is_baud
                && (last.starts_with("in=serial:") || last.starts_with("out=serial:"))
                && !last.contains(',')
        });
        match line {
            Some(line) => {
                line.push(',');
                line.push_str(part);
            }
            None => options.push(part.to_owned()),
        }
    }
    options
}

impl Channel {
    /// Whether what comes goes into the stream that is made of the pictures.
    pub(crate) fn has_klv(&self) -> bool {
        self.klv.is_some()
    }

    /// Its number on the link.
    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    fn apply(&mut self, option: &str) -> Result<(), String> {
        let options = &mut self.options;
        match option.split_once('=') {
            None => match option {
                "reliable" => options.reliable = true,
                "unreliable" => options.reliable = false,
                "ordered" => options.ordered = true,
                "unordered" => options.ordered = false,
                "newest" => options.newest = true,
                "cancel_begun" => (options.newest, options.cancel_begun) = (true, true),
                "stamped" => options.stamped = true,
                "json" => self.json = true,
                "lines" => self.framing = Some(Framing::Lines),
                "raw" => self.framing = Some(Framing::Raw),
                "framed" => self.framing = Some(Framing::Length),
                _ => return Err(unknown(option)),
            },
            Some((name, value)) => match name {
                "priority" => options.priority = number(name, value, 0, u8::MAX.into())? as u8,
                "weight" => options.weight = number(name, value, 1, u16::MAX.into())? as u16,
                "queue" => options.queue = number(name, value, 1, u32::MAX.into())? as u32,
                "max_size" => options.max_size = size(value)?,
                "cancel_after" => options.cancel_after = Some(time(name, value)?),
                "max_receive_time" => options.max_receive_time = Some(time(name, value)?),
                "compress" => options.compression = compression(value)?,
                "fec" => options.fec = fec(value)?,
                "klv" => self.klv = Some(klv(value)?),
                "in" => self.input = Some(value.parse()?),
                "out" => self.output = Some(value.parse()?),
                _ => return Err(unknown(option)),
            },
        }
        Ok(())
    }

    /// How messages stand in what is written here.
    pub(super) fn framing_of_output(&self, end: &ChannelEnd) -> Framing {
        if self.json { Framing::Lines } else { self.framing_of(end) }
    }

    /// How messages stand in what is read here, and, unless it is JSON, in what is written: bytes of a serial line have no frames.
    pub(super) fn framing_of(&self, end: &ChannelEnd) -> Framing {
        let usual = if matches!(end, ChannelEnd::Serial(..)) { Framing::Raw } else { Framing::Length };
        self.framing.unwrap_or(usual)
    }
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name}={value}: a number from {least} to {most} is wanted"))
}

fn time(name: &str, value: &str) -> Result<Duration, String> {
    quantity::parse_duration(value).map_err(|error| format!("{name}: {error}"))
}

fn compression(value: &str) -> Result<Compression, String> {
    match value {
        "none" => Ok(Compression::None),
        "zstd" => Ok(Compression::Zstd),
        "deflate" => Ok(Compression::Deflate),
        _ => Err(format!("compress={value}: none, zstd or deflate is wanted")),
    }
}

/// What the messages are that go into a stream as KLV.
fn klv(value: &str) -> Result<TelemetryFormat, String> {
    match value {
        "mavlink" => Ok(TelemetryFormat::Mavlink),
        "st0601" => Ok(TelemetryFormat::St0601),
        _ => Err(format!(
            "klv={value}: mavlink (messages of an autopilot) or st0601 (sets of MISB ST 0601) is wanted"
        )),
    }
}

/// `none`, `25%` (while packets are lost) or `always:25%`.
pub(crate) fn fec(value: &str) -> Result<Fec, String> {
    if value == "none" {
        return Ok(Fec::Never);
    }
    let (always, share) = value.strip_prefix("always:").map_or((false, value), |share| (true, share));
    let percent = share.strip_suffix('%').and_then(|digits| digits.parse::<u8>().ok());
    match percent.filter(|percent| (1..=100).contains(percent)) {
        Some(percent) if always => Ok(Fec::Always(percent)),
        Some(percent) => Ok(Fec::WhenLossy(percent)),
        None => Err(format!(
            "fec={value}: none, a share of parity from 1% to 100% while packets are lost, or always:SHARE is wanted, \
             as in fec=25%"
        )),
    }
}

/// A message's size: `1200B`, `64k`, `16M`; multiples of 1024.
fn size(value: &str) -> Result<u32, String> {
    let split = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let worth = match unit {
        "B" => Some(1),
        "k" | "K" | "KiB" => Some(1 << 10),
        "M" | "MiB" => Some(1 << 20),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(worth).and_then(|(count, worth)| count.checked_mul(worth));
    let limit = glassline_transport::link::MAX_MESSAGE as u64;
    match bytes.filter(|bytes| (1..=limit).contains(bytes)) {
        Some(bytes) => Ok(bytes as u32),
        None => Err(format!("max_size={value}: a size up to 16M is wanted, as in 1200B, 64k or 16M")),
    }
}

fn unknown(option: &str) -> String {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let known = VALUED.iter().chain(&PLAIN);
    let likeness = |known: &&&str| strsim::jaro_winkler(known, name);
    let nearest = known.max_by(|one, two| likeness(one).total_cmp(&likeness(two)));
    match nearest {
        Some(nearest) if VALUED.contains(&name) || PLAIN.contains(&name) => {
            let wanted = if VALUED.contains(nearest) { "a value behind =" } else { "no value" };
            format!("the option {name:?} wants {wanted}")
        }
        Some(nearest) if strsim::jaro_winkler(nearest, name) > NEAR => {
            format!("the option {name:?} is not known; is {nearest:?} meant? --help lists them")
        }
        _ => format!("the option {name:?} is not known; --help lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Channel {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn options_are_what_they_say() {
        let video = parse(
            "3:unreliable,unordered,priority=4,weight=7,cancel_after=200ms,newest,max_receive_time=50ms,max_size=1M,\
             queue=9,compress=zstd,fec=25%,in=-,out=/tmp/a b",
        );
        let expected = Options {
            reliable: false,
            ordered: false,
            priority: 4,
            weight: 7,
            cancel_after: Some(Duration::from_millis(200)),
            newest: true,
            max_receive_time: Some(Duration::from_millis(50)),
            max_size: 1 << 20,
            queue: 9,
            compression: Compression::Zstd,
            fec: Fec::WhenLossy(25),
            ..Options::default()
        };
        assert_eq!((video.id, video.options), (3, expected));
        assert_eq!(video.input, Some(ChannelEnd::Standard));
        assert_eq!(video.output, Some(ChannelEnd::File("/tmp/a b".into())));
        assert_eq!(parse("0").options, Options::default());
        let klv = parse("0:klv=mavlink,out=udp:127.0.0.1:14550");
        assert!(klv.klv == Some(TelemetryFormat::Mavlink) && klv.output.is_some() && klv.has_klv());
        assert_eq!(parse("0:klv=st0601").klv, Some(TelemetryFormat::St0601));
        assert!(!parse("0:out=-").has_klv());
        assert!(parse("1:cancel_begun").options.newest);
        assert!(parse("1:stamped").options.stamped);
        assert_eq!(parse("1:compress=deflate").options.compression, Compression::Deflate);
        assert_eq!(parse("1:compress=none,fec=none").options, Options::default());
        assert_eq!(parse("1:unreliable,fec=always:100%").options.fec, Fec::Always(100));
        let reliable = parse("1:reliable,fec=25%").options;
        assert_eq!((reliable.reliable, reliable.fec), (true, Fec::WhenLossy(25)));
    }

    #[test]
    fn ends() {
        let serial = parse("1:in=serial:/dev/ttyS0,57600,out=serial:/dev/ttyS0,115200,lines");
        assert_eq!(serial.input, Some(ChannelEnd::Serial("/dev/ttyS0".into(), 57_600)));
        assert_eq!(serial.output, Some(ChannelEnd::Serial("/dev/ttyS0".into(), 115_200)));
        assert_eq!(serial.framing_of(&ChannelEnd::Standard), Framing::Lines);
        let end = |text: &str| text.parse::<ChannelEnd>();
        assert_eq!(end("udp:[::1]:5000"), Ok(ChannelEnd::Udp("[::1]:5000".into())));
        assert_eq!(end("udp://h:5"), Ok(ChannelEnd::Udp("h:5".into())));
        assert_eq!(end("fd:7"), Ok(ChannelEnd::Descriptor(7)));
        assert_eq!(parse("1:").framing_of(&ChannelEnd::Serial("x".into(), 1)), Framing::Raw);
        assert_eq!(parse("1:").framing_of(&ChannelEnd::Standard), Framing::Length);
        let json = parse("1:json,in=-,out=x");
        let framings =
            (json.framing_of(&ChannelEnd::Standard), json.framing_of_output(&ChannelEnd::Standard));
        assert_eq!(framings, (Framing::Length, Framing::Lines));
        for bad in ["fd:x", "udp:5000", "udp:h:99999", "serial:/dev/x", "serial:,5", "serial:/dev/x,0", ""] {
            assert!(end(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, complaint) in [
            ("63:reliable", "from 0 to 62"),
            ("video:reliable", "ID:OPTIONS"),
            ("1:relaible", "\"reliable\" meant"),
            ("1:weight=0", "from 1 to 65535"),
            ("1:priority", "wants a value"),
            ("1:newest=5", "wants no value"),
            ("1:cancel_after=200", "has no unit"),
            ("1:max_size=17M", "up to 16M"),
            ("1:max_size=5", "1200B, 64k"),
            ("1:queue=0", "from 1"),
            ("1:compress=gzip", "zstd or deflate"),
            ("1:klv=nmea", "mavlink (messages of an autopilot) or st0601"),
            ("1:klv", "wants a value"),
            ("1:unreliable,fec=0%", "from 1% to 100%"),
            ("1:unreliable,fec=25", "fec=25%"),
            ("1:xyzzy", "--help lists them"),
            ("1:stamped=1", "wants no value"),
            ("1:lines,json,in=-", "there is no out="),
            ("1:57600", "not known"),
        ] {
            let error = text.parse::<Channel>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
