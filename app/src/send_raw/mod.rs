//! `glassline send-raw`: arguments, wiring and words of [`glassline_studio::raw::send`].

mod report;
mod words;

use crate::choice::choice;
use crate::encode::input_words;
use crate::failure;
use crate::output;
use crate::sound_source::SoundSource;
use crate::stop::{Second, StopSignals};
use crate::tracks::TrackArgs;
use anyhow::{Context, Result};
use glassline_delivery::output::{Destination, Framing, PACKETS_MAX};
use glassline_io::clock::Clock;
use glassline_io::nic;
use glassline_io::resolve::resolve;
use glassline_io::udp::Route;
use glassline_media::quantity::{self, Bitrate, ByteSize};
use glassline_media::{Chroma, PixelFormat};
use glassline_studio::capture::{Input, Length};
use glassline_studio::raw::send::{
    AncillarySettings, ClockSource, PathSettings, Rate, RawSender, Settings, Shape, SoundSettings,
    TimeCodeFrom,
};
use glassline_transport::raw_video::{Packing, Scan};
use report::{Live, Report};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Send uncompressed video over RTP (RFC 4175, SMPTE ST 2110-20), evenly spaced as in ST 2110-21, with audio (ST
/// 2110-30), time code and captions (ST 2110-40)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
#[command(mut_arg("audio_in", |arg| arg.conflicts_with_all(["rate", "as_fast_as_possible"])))]
pub(crate) struct Args {
    /// What to send: test:WIDTHxHEIGHT@RATE (moving pattern and clock), FILE.y4m, - (y4m on standard input),
    /// v4l2:DEVICE[?size=WxH&rate=R&format=F] (a capture device), or a file that FFmpeg can read (file:PATH if its
    /// name looks like something else)
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Destination: a machine or a multicast group; options: ?ttl=N&interface=NAME&source=ADDRESS&dscp=N
    #[arg(value_name = "rtp://HOST:PORT")]
    to: To,
    /// A second path for the same packets, so that packets lost on one path arrive over the other (SMPTE ST 2022-7)
    #[arg(long, value_name = "rtp://HOST:PORT")]
    also: Option<To>,
    /// Components and bits of the samples [default: those of the pictures; 422-10 for the test pattern, 4:2:0 and
    /// luma]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// How frames are sent: progressive, interlaced (two fields of different times), or psf (a progressive frame in
    /// two segments) [default: as the pictures are]
    #[arg(long, value_name = "SCAN", value_parser = choice::<Scan>())]
    scan: Option<Scan>,
    /// Largest UDP payload in bytes: RTP headers and samples. For jumbo frames use 8952
    #[arg(long, value_name = "BYTES", default_value_t = Settings::DATAGRAM_BYTES as u16, value_parser = clap::value_parser!(u16).range(64..=65_507))]
    payload: u16,
    /// How samples are divided among packets: gpm (general packing mode: lines divided evenly) or bpm (block packing
    /// mode: multiples of 180 bytes, across the ends of lines)
    #[arg(long, value_name = "MODE", value_parser = choice::<Packing>(), default_value_t)]
    packing: Packing,
    /// RTP payload type of the video
    #[arg(long, value_name = "N", default_value_t = Settings::PAYLOAD_TYPE, value_parser = clap::value_parser!(u8).range(96..=127))]
    payload_type: u8,
    /// Write the session description to this file; receivers need it. - for standard output
    #[arg(long, value_name = "FILE")]
    sdp: Option<PathBuf>,
    /// What the session description says about the wall clock, from which frames get their time stamps: local (not
    /// shared with other machines), ntp (it follows servers that are traceable to UTC), or ptp (it follows SMPTE ST
    /// 2059-2, for example by phc2sys)
    #[arg(long, value_name = "WHAT", value_parser = choice::<ClockSource>(), default_value_t)]
    clock: ClockSource,
    /// How a frame's packets are spread over time: narrow (over the time of the active lines), linear (over the whole
    /// frame time), or burst (messages of 64 kB, for measurements)
    #[arg(long, value_name = "SHAPE", value_parser = choice::<Shape>(), default_value_t)]
    schedule: Shape,
    /// Largest number of packets in a burst [default: as many as fall into each 60 µs, or 15 µs with --spin or launch
    /// times, within the limits of ST 2110-21]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    burst: Option<u8>,
    /// Wait for each burst by polling the clock: exact to microseconds, but it takes a whole processor
    #[arg(long)]
    spin: bool,
    /// Bind the sending thread to this processor
    #[arg(long, value_name = "N")]
    processor: Option<usize>,
    /// Send by this program's clock even if the interface's queue supports launch times (fq, etf)
    #[arg(long)]
    no_launch_times: bool,
    /// DSCP of the packets, by which routers can prioritise them; ST 2110 uses 34 (AF41). An address may name another: ?dscp=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Option<u8>,
    /// Send as many frames per second as make this bit rate, as in 5G, whatever the input's frame rate; pictures are
    /// read as fast as that takes
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Bitrate>,
    /// Send as many frames per second as possible, without a schedule
    #[arg(long, conflicts_with_all = ["rate", "spin", "burst"])]
    as_fast_as_possible: bool,
    /// Start a file again at its end; a file that fits into --memory is read once
    #[arg(long = "loop")]
    looped: bool,
    #[command(flatten)]
    track: TrackArgs,
    /// Where audio goes; give it twice for two paths [default: two ports above the video, on the same paths. The test
    /// pattern's tone is sent only with this option]
    #[arg(long, value_name = "rtp://HOST:PORT", conflicts_with_all = ["rate", "as_fast_as_possible"])]
    sound_to: Vec<To>,
    #[command(flatten)]
    sound_source: SoundSource,
    /// Send no audio
    #[arg(long, conflicts_with_all = ["sound_to", "audio_in"])]
    no_sound: bool,
    /// The time code beside the video: clock (the time of day, in UTC), or the time code of the first frame,
    /// HH:MM:SS:FF, from which frames are counted [default: the file's own, if it has one]
    #[arg(long, value_name = "CODE", value_parser = parse_time_code)]
    time_code: Option<TimeCodeFrom>,
    /// Where ancillary data goes, that is the time code and a file's closed captions (CEA-608, CEA-708); give it
    /// twice for two paths [default: four ports above the video, on the same paths]
    #[arg(long, value_name = "rtp://HOST:PORT")]
    ancillary_to: Vec<To>,
    /// Send no ancillary data: neither time code nor captions
    #[arg(long, conflicts_with_all = ["time_code", "ancillary_to"])]
    no_ancillary: bool,
    /// Memory for the frames of a file with --loop
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: ByteSize,
    /// Stop after this many frames
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much of the input
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// Print the report as JSON, on standard output
    #[arg(long)]
    json: bool,
}

/// So many ports above the pictures' sound goes where nothing is said: the one between is RTCP's by custom (RFC 3550 §11).
const SOUND_ABOVE: u16 = 2;
/// The same of ancillary data.
const ANCILLARY_ABOVE: u16 = 4;

const EXAMPLES: &str = "\
Examples:
  glassline send-raw test:1920x1080@60000/1001 'rtp://239.1.2.3:5004?interface=eth0' --sdp test.sdp
  glassline send-raw film.y4m rtp://192.0.2.7:5004 --loop --sdp film.sdp --format 422-10
  glassline send-raw test:1280x720@50 rtp://127.0.0.1:5004 --sdp test.sdp --format 422-8
                                     to watch it: ffplay -protocol_whitelist file,udp,rtp test.sdp
  glassline send-raw test:1920x1080@50 'rtp://239.1.2.3:5004?interface=eth0' --also 'rtp://239.1.3.3:5004?interface=eth1'
                                     the same packets over two networks
  glassline send-raw test:1920x1080@50 'rtp://239.1.2.3:5004?interface=eth0' --spin --processor 3
                                     most even, with a processor of its own
  glassline send-raw film.mov 'rtp://239.1.2.3:5004?interface=eth0' --sdp film.sdp
                                     its audio goes to port 5006, its time code and captions, if it has any, to 5008
  glassline send-raw film.y4m rtp://239.1.2.3:5004 --audio-in film.wav --sound-to rtp://239.1.2.4:5004 --time-code 10:00:00:00
                                     audio from another file, to a group of its own
  glassline send-raw clip.y4m rtp://127.0.0.1:5004 --loop --schedule burst --as-fast-as-possible --limit 10000 --json
                                     measure how much this machine can send
  ffmpeg -f decklink -i 'DeckLink Mini Recorder' -f yuv4mpegpipe -strict -1 - | glassline send-raw - rtp://192.0.2.7:5004

Launch times are used if the interface's queueing discipline supports them: tc qdisc replace dev eth0 root fq.
The report says how late bursts left and which class of ST 2110-21 that is: it is measured, not promised.";

/// A path, by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct To(Destination);

impl FromStr for To {
    type Err = String;
    fn from_str(text: &str) -> Result<To, String> {
        let read = Destination::parse_unresolved(text).map_err(|error| error.to_string())?;
        match read {
            Destination { framing: Framing::Bare, .. } => {
                Err("video goes by RTP: write rtp://HOST:PORT".to_owned())
            }
            Destination { packets, .. } if packets != PACKETS_MAX => {
                Err("packets=N is for transport streams; --payload says how large packets are".to_owned())
            }
            read => Ok(To(read)),
        }
    }
}

impl To {
    /// The same, so many ports above; `None` where there is none.
    fn above(&self, ports: u16) -> Option<To> {
        let mut above = self.clone();
        above.0.address.set_port(self.0.address.port().checked_add(ports)?);
        Some(above)
    }

    /// As the command line names it; where it names a group without an interface, that is told.
    fn route(&self) -> Result<PathSettings> {
        let found = self.resolved()?;
        let Route { address, interface, source, .. } = &found.route;
        if address.ip().is_multicast() && interface.is_none() && source.is_none() {
            tell_interface(address.ip());
        }
        Ok(found)
    }

    fn resolved(&self) -> Result<PathSettings> {
        let Destination { mut address, name, ttl, interface, source, marks, .. } = self.0.clone();
        if let Some(name) = &name {
            let found = resolve(name, address.port()).map_err(|error| {
                failure::failed(format_args!("cannot find {name}: {error}"), "check the host's name")
            })?;
            let fits = |found: &&std::net::SocketAddr| {
                source.is_none_or(|source| source.is_ipv4() == found.is_ipv4())
            };
            address = *found.iter().find(fits).unwrap_or(&found[0]);
        }
        Ok(PathSettings {
            route: Route { address, interface, source, ttl, dscp: marks.dscp, flow_label: marks.flow_label },
        })
    }
}

/// Logs the interface for a group if none was chosen, since a gigabit per second disturbs the wrong network.
fn tell_interface(group: IpAddr) {
    match nic::interface_of(group) {
        Ok(Some(interface)) => tracing::warn!(
            "{group} goes out by {interface}, which the routing table chooses; ?interface=NAME behind the address chooses another"
        ),
        Ok(None) => tracing::warn!("no route leads to {group}; name an interface: ?interface=NAME"),
        Err(error) => tracing::debug!(%error, "the interfaces cannot be listed"),
    }
}

fn parse_time_code(text: &str) -> Result<TimeCodeFrom, String> {
    if text == "clock" {
        return Ok(TimeCodeFrom::Clock);
    }
    let start = text.parse().map(TimeCodeFrom::Start);
    start.map_err(|error| format!("{error}, or clock"))
}

/// A payload type that is not the pictures'.
fn beside(pictures: u8, usual: u8) -> u8 {
    if pictures == usual { Settings::PAYLOAD_TYPE } else { usual }
}

/// Components and bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// 4:2:2 of 8 bits
    #[value(name = "422-8")]
    Yuv422x8,
    /// 4:2:2 of 10 bits: what broadcasters use
    #[value(name = "422-10")]
    Yuv422x10,
    /// 4:2:2 of 12 bits
    #[value(name = "422-12")]
    Yuv422x12,
    /// 4:2:0 of 8 bits
    #[value(name = "420-8")]
    Yuv420x8,
    /// 4:4:4 of 8 bits
    #[value(name = "444-8")]
    Yuv444x8,
    /// 4:4:4 of 10 bits
    #[value(name = "444-10")]
    Yuv444x10,
    /// RGB of 8 bits
    #[value(name = "rgb-8")]
    Rgb8,
    /// RGB of 10 bits
    #[value(name = "rgb-10")]
    Rgb10,
}

impl From<Format> for PixelFormat {
    fn from(format: Format) -> PixelFormat {
        let (chroma, depth_bits) = match format {
            Format::Yuv422x8 => (Chroma::Yuv422, 8),
            Format::Yuv422x10 => (Chroma::Yuv422, 10),
            Format::Yuv422x12 => (Chroma::Yuv422, 12),
            Format::Yuv420x8 => (Chroma::Yuv420, 8),
            Format::Yuv444x8 => (Chroma::Yuv444, 8),
            Format::Yuv444x10 => (Chroma::Yuv444, 10),
            Format::Rgb8 => (Chroma::Rgb, 8),
            Format::Rgb10 => (Chroma::Rgb, 10),
        };
        PixelFormat::planar(chroma, depth_bits)
    }
}

fn parse_rate(text: &str) -> Result<Bitrate, String> {
    text.parse().map_err(|error| {
        let hint = "frames a second are those of the input, as in test:1280x720@25";
        if text.parse::<f64>().is_ok() { format!("{error}; {hint}") } else { format!("{error}") }
    })
}

impl Args {
    fn settings(&self) -> Result<Settings> {
        let paths = [Some(&self.to), self.also.as_ref()].into_iter().flatten().map(To::route);
        Ok(Settings {
            pixels: self.format.map(PixelFormat::from),
            scan: self.scan,
            packing: self.packing,
            datagram_bytes: usize::from(self.payload),
            payload_type: self.payload_type,
            dscp: self.dscp,
            shape: self.schedule,
            burst_packets: self.burst.map(usize::from),
            spins: self.spin,
            launches: !self.no_launch_times,
            processor: self.processor,
            rate: match self.rate {
                _ if self.as_fast_as_possible => Rate::Unlimited,
                Some(rate) => Rate::Bits(rate),
                None => Rate::Source,
            },
            looped: self.looped,
            memory_bytes: usize::try_from(self.memory.bytes()).unwrap_or(usize::MAX),
            length: Length { pictures: self.limit, time: self.duration },
            clock: self.clock,
            sound: self.sound()?,
            ancillary: self.ancillary()?,
            ..Settings::to(paths.collect::<Result<Vec<_>>>()?)
        })
    }

    fn sound(&self) -> Result<Option<SoundSettings>> {
        if self.no_sound {
            return Ok(None);
        }
        let is_film =
            matches!(self.input, Input::Decoded(_)) && self.rate.is_none() && !self.as_fast_as_possible;
        let wanted = is_film || self.sound_source.audio_in.is_some();
        let Some(paths) = self.beside(&self.sound_to, SOUND_ABOVE, wanted)? else { return Ok(None) };
        Ok(Some(SoundSettings {
            paths,
            payload_type: beside(self.payload_type, Settings::SOUND_PAYLOAD_TYPE),
            input: self.sound_source.audio_in.clone(),
            raw: self.sound_source.audio_format,
            tone: !self.sound_to.is_empty(),
        }))
    }

    fn ancillary(&self) -> Result<Option<AncillarySettings>> {
        if self.no_ancillary {
            return Ok(None);
        }
        let wanted = matches!(self.input, Input::Decoded(_)) || self.time_code.is_some();
        let Some(paths) = self.beside(&self.ancillary_to, ANCILLARY_ABOVE, wanted)? else { return Ok(None) };
        // A destination for ancillary data means that it is wanted.
        let otherwise = match self.input {
            Input::Decoded(_) => TimeCodeFrom::Source,
            _ if self.ancillary_to.is_empty() => TimeCodeFrom::Source,
            _ => TimeCodeFrom::Clock,
        };
        Ok(Some(AncillarySettings {
            paths,
            payload_type: beside(self.payload_type, Settings::ANCILLARY_PAYLOAD_TYPE),
            time_code: self.time_code.unwrap_or(otherwise),
        }))
    }

    /// The paths of what goes beside the pictures: those that are named, else so many ports above theirs; `None` where these have
    /// no such port, and it is not `wanted`.
    fn beside(&self, named: &[To], ports: u16, wanted: bool) -> Result<Option<Vec<PathSettings>>> {
        if !named.is_empty() {
            if named.len() == 1 && self.also.is_some() {
                tracing::info!("what goes to {} takes one path, and the pictures two", named[0].0.address);
            }
            return named.iter().map(To::route).collect::<Result<_>>().map(Some);
        }
        let paths = [Some(&self.to), self.also.as_ref()].into_iter().flatten();
        let above: Option<Vec<To>> = paths.map(|to| to.above(ports)).collect();
        match above {
            Some(above) => above.iter().map(To::resolved).collect::<Result<_>>().map(Some),
            None if wanted => {
                let message = format!("there is no port {ports} above for what goes beside the pictures");
                let advice = "choose another port, name one (--sound-to, --ancillary-to), or leave it out (--no-sound, --no-ancillary)";
                Err(failure::usage(message, advice))
            }
            None => Ok(None),
        }
    }

    /// The description, where it was asked for.
    fn write_sdp(&self, sender: &RawSender) -> Result<()> {
        let Some(path) = &self.sdp else { return Ok(()) };
        let text = sender.description("glassline send-raw").to_string();
        if path.as_os_str() == "-" {
            return output::print(&text);
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Sends until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.json && args.sdp.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        let message = "--json prints to standard output, which carries the session description";
        return Err(failure::usage(message, "name a file for --sdp"));
    }
    let signals = StopSignals::catch()?;
    let settings = args.settings()?;
    let sender = RawSender::open(&args.track.of(args.input.clone())?, settings, Clock::new())
        .map_err(words::explain)?;
    let (stopper, monitor) = (sender.stopper(), sender.monitor());
    signals.call(Second::EndsProcess, move |_| stopper.stop())?;
    args.write_sdp(&sender)?;
    let report = Report::of(&sender);
    tracing::info!("{}", report.begin());
    let live = Live::start(monitor.clone())?;
    let sent = sender.run();
    live.end();
    let statistics = monitor.statistics();
    if args.json {
        output::print(&report.json(&statistics)?)?;
    } else {
        output::print_aside(&report.text(&statistics))?;
    }
    sent.map_err(words::explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_url_of_rtp() {
        let to = |text: &str| text.parse::<To>();
        let route =
            to("rtp://239.1.2.3:5004?ttl=8&interface=eth0&source=192.0.2.1").unwrap().route().unwrap().route;
        assert_eq!((route.address.to_string().as_str(), route.ttl), ("239.1.2.3:5004", Some(8)));
        assert_eq!((route.interface.as_deref(), route.source), (Some("eth0"), "192.0.2.1".parse().ok()));
        let named = to("rtp://localhost:5004").unwrap().route().unwrap();
        assert!(named.route.address.ip().is_loopback());
        for (text, complaint) in [
            ("udp://239.1.2.3:5004", "rtp://"),
            ("rtp://239.1.2.3", "a port"),
            ("rtp://239.1.2.3:5004?packets=3", "--payload"),
            ("239.1.2.3:5004", "rtp://"),
        ] {
            let error = to(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
