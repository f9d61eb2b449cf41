//! What is asked of a sender.

use crate::capture::{AudioIn, Length, RawFormat};
use glassline_io::udp::Route;
use glassline_media::quantity::Bitrate;
use glassline_media::{PixelFormat, choice};
use glassline_transport::ancillary::TimeCode;
use glassline_transport::raw_video::{Packing, Scan};

/// How video is sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Components and depth; without them those of the pictures, or 4:2:2 of 10 bits where these are 4:2:0 or luma.
    pub pixels: Option<PixelFormat>,
    /// How frames are sent; without it as the pictures are: of fields interlaced, else progressive.
    pub scan: Option<Scan>,
    /// How samples are divided among packets.
    pub packing: Packing,
    /// A datagram's bytes at most: RTP's headers and samples.
    pub datagram_bytes: usize,
    /// RTP's payload type, 7 bits.
    pub payload_type: u8,
    /// One path, or two that carry the same packets (ST 2022-7).
    pub paths: Vec<PathSettings>,
    /// The class that routers are asked to treat packets as (DSCP), of the paths that name none themselves.
    pub dscp: Option<u8>,
    /// How a frame's packets are spread over its time.
    pub shape: Shape,
    /// Packets of a burst; without it as many as the schedule and the waiting allow.
    pub burst_packets: Option<usize>,
    /// Whether the sending thread waits for each burst by looking at the clock over and over, which takes a whole processor
    /// and makes bursts punctual to the microsecond.
    pub spins: bool,
    /// Whether launch times may be used, where the interface's queueing discipline heeds them.
    pub launches: bool,
    /// The processor that the sending thread is bound to.
    pub processor: Option<usize>,
    /// How many frames a second.
    pub rate: Rate,
    /// Whether a file is sent over and over.
    pub looped: bool,
    /// Up to so many bytes a file that is sent over and over is packed once, and sent from memory.
    pub memory_bytes: usize,
    /// When to stop by oneself.
    pub length: Length,
    /// What the session description says of the clock.
    pub clock: ClockSource,
    /// The sound of the source, or another one, beside the pictures; without it none. Of pictures at a rate that is not their
    /// own there is none.
    pub sound: Option<SoundSettings>,
    /// Ancillary data beside the pictures, where there is some; without it none.
    pub ancillary: Option<AncillarySettings>,
}

/// How sound is sent (ST 2110-30): 24 bits, 48 kHz, a packet each millisecond.
#[derive(Clone, Debug)]
pub struct SoundSettings {
    /// One path, or two that carry the same packets.
    pub paths: Vec<PathSettings>,
    /// RTP's payload type, 7 bits.
    pub payload_type: u8,
    /// Where it comes from; without it the input's own.
    pub input: Option<AudioIn>,
    /// Whether the test pattern's tone is sound of its own.
    pub tone: bool,
    /// What raw samples are like, and what is asked of a device.
    pub raw: Option<RawFormat>,
}

/// How ancillary data is sent (ST 2110-40): for each frame a time code (ST 12-2), and the captions of a film
/// (ST 334-1, ST 334-2).
#[derive(Clone, Debug)]
pub struct AncillarySettings {
    /// One path, or two that carry the same packets.
    pub paths: Vec<PathSettings>,
    /// RTP's payload type, 7 bits.
    pub payload_type: u8,
    /// Which time code.
    pub time_code: TimeCodeFrom,
}

/// Which time code frames have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeCodeFrom {
    /// That of the file, if it says one.
    #[default]
    Source,
    /// The time of day of their capture, in UTC.
    Clock,
    /// The first one has this, and each frame is counted; those of more than 30 frames a second share numbers.
    Start(TimeCode),
}

impl Settings {
    /// UDP payloads of ST 2110-10 §6.3 (1,460 bytes with UDP's header) that Ethernet's packets have room for.
    pub const DATAGRAM_BYTES: usize = 1452;
    /// The first dynamic payload type (RFC 3551 §6).
    pub const PAYLOAD_TYPE: u8 = 96;
    /// Of the sound, and of the ancillary data.
    pub const SOUND_PAYLOAD_TYPE: u8 = 97;
    /// See [`Settings::SOUND_PAYLOAD_TYPE`].
    pub const ANCILLARY_PAYLOAD_TYPE: u8 = 100;
    /// A gibibyte: three seconds of 1080p60 in 4:2:2 of 10 bits.
    pub const MEMORY_BYTES: usize = 1 << 30;

    /// To these paths, everything else as it is where nothing is said.
    #[must_use]
    pub fn to(paths: Vec<PathSettings>) -> Settings {
        Settings {
            pixels: None,
            scan: None,
            packing: Packing::General,
            datagram_bytes: Self::DATAGRAM_BYTES,
            payload_type: Self::PAYLOAD_TYPE,
            paths,
            dscp: None,
            shape: Shape::Narrow,
            burst_packets: None,
            spins: false,
            launches: true,
            processor: None,
            rate: Rate::Source,
            looped: false,
            memory_bytes: Self::MEMORY_BYTES,
            length: Length::default(),
            clock: ClockSource::Local,
            sound: None,
            ancillary: None,
        }
    }
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSettings {
    /// Address or group, interface, source, TTL.
    pub route: Route,
}

choice! {
    /// How a frame's packets are spread over its time (ST 2110-21 §6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Shape {
        /// Evenly over the time of the active lines: the gapped schedule.
        Narrow = "narrow" as default,
        /// Evenly over the whole frame time.
        Linear = "linear",
        /// As linear, in messages of 64 kB: for measurements.
        Burst = "burst",
    }
}

/// How many frames a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As many as the source gives.
    #[default]
    Source,
    /// As many as make this rate, UDP payloads counted; whatever the source says.
    Bits(Bitrate),
    /// As many as leave.
    Unlimited,
}

choice! {
    /// What the machine's wall clock follows, which only its administrator knows. The session description says it
    /// (`ts-refclk`: `localmac`, `ntp=/traceable/`, `ptp=IEEE1588-2008:traceable`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ClockSource {
        /// Nothing that is shared with other machines.
        Local = "local" as default,
        /// NTP servers that are traceable to UTC.
        Ntp = "ntp",
        /// PTP of SMPTE ST 2059-2, as phc2sys brings it to the wall clock.
        Ptp = "ptp",
    }
}
