//! Makes a receiver's settings from a session description.

use super::receive;
use super::receive::FRAMES_LEAST;
use glassline_io::nic;
use glassline_io::process::available_memory;
use glassline_io::small_file::{self, Accept, SmallFileError};
use glassline_io::udp::Settings as From;
use glassline_io::udp::flow::FlowSettings;
use glassline_media::{FrameRate, Layout, Size};
use glassline_transport::raw_video;
use glassline_transport::rtp::source::SourceLock;
use glassline_transport::sdp::{self, Description, Flow, SdpError, Video};
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// How long the kernel's room for what was not read yet is to last at the stream's rate, at least.
const SOCKET_TIME: Duration = Duration::from_millis(50);
/// Room that a socket is asked for at most, whatever rate a description says: what lasts for that long at 86 Gbit/s.
const SOCKET_BYTES_MAX: usize = 512 << 20;
/// Frames take no more than one part in so many of the memory that is free.
const MEMORY_PARTS: u64 = 2;
/// What they take at most where the system does not tell how much is free.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;
/// The rate where a description says none.
const USUAL_RATE: u64 = 60;

/// Why a description cannot be followed. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read, or not within the bounds of such files.
    #[error(transparent)]
    Read(#[from] SmallFileError),
    /// It is no session description that we take.
    #[error("{name}: {error}")]
    Description {
        /// Its path.
        name: String,
        /// Why.
        error: SdpError,
    },
    /// It has no uncompressed video.
    #[error("the description has no uncompressed video{}", but(.skipped))]
    NoVideo {
        /// What else it has.
        skipped: Vec<String>,
    },
    /// Its frames are too large for this machine.
    #[error(
        "frames of {size} take {frame_bytes} bytes each, and {FRAMES_LEAST} of them are more than the {most_bytes} bytes that \
         frames may take here, half of the memory that is free"
    )]
    Memory {
        /// Of the frames.
        size: Size,
        /// Bytes of one.
        frame_bytes: u64,
        /// What all may take.
        most_bytes: u64,
    },
}

fn but(what: &[String]) -> String {
    if what.is_empty() { String::new() } else { format!(", but {}", what.join(", ")) }
}

/// How much memory frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// So many.
    Frames(usize),
    /// As many as come in so much time.
    Time(Duration),
}

/// What a description does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface of each path; of the last one for further paths. Empty: the routing table chooses.
    pub interfaces: Vec<String>,
    /// Room in the kernel for what was not read yet, in bytes; `None`: 38 MiB, or what lasts for 50 ms.
    pub socket_bytes: Option<usize>,
    /// For how long a call looks into the device's ring itself ([`FlowSettings::busy_poll`]).
    pub busy_poll: Option<Duration>,
    /// The processor that the thread is to stay on.
    pub processor: Option<usize>,
    /// Whether pictures are in pgroups or in planes.
    pub layout: Layout,
    /// Frames that there is memory for; fewer where [`Options::memory_bytes`] has no room for them.
    pub pool: PoolSize,
    /// Bytes that frames may take at most; `None`: half of the memory that is free.
    pub memory_bytes: Option<u64>,
    /// By how much one path may be later than the other.
    pub skew: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            interfaces: Vec::new(),
            socket_bytes: None,
            busy_poll: None,
            processor: None,
            layout: Layout::Pgroups,
            pool: PoolSize::Frames(8),
            memory_bytes: None,
            skew: Duration::from_millis(50),
        }
    }
}

/// Reads and parses a description; a pipe will do as well as a file. What is wrong with it and does no harm is logged.
///
/// # Errors
/// [`Error::Read`], [`Error::Description`].
pub fn read(path: &Path) -> Result<Description, Error> {
    let bytes = small_file::read(path, Accept::AnyFile)?;
    let name = || path.display().to_string();
    let description =
        Description::parse_bytes(&bytes).map_err(|error| Error::Description { name: name(), error })?;
    for notice in &description.notices {
        tracing::warn!("{}: {notice}", name());
    }
    Ok(description)
}

/// The uncompressed video of a description.
///
/// # Errors
/// [`Error::NoVideo`].
pub fn video(description: &Description) -> Result<(&Flow, &Video), Error> {
    description.video().ok_or_else(|| Error::NoVideo { skipped: description.skipped.clone() })
}

/// What a receiver of a description's video is told.
///
/// # Errors
/// [`Error::NoVideo`]; [`Error::Memory`] where not even the fewest frames that a receiver works with have room.
pub fn settings(description: &Description, options: &Options) -> Result<receive::Settings, Error> {
    let (flow, video) = video(description)?;
    let frames = frames(video, options)?;
    Ok(receive::Settings { frames, ..video_settings(flow, video, options) })
}

/// Frames that there is memory for.
fn frames(video: &Video, options: &Options) -> Result<usize, Error> {
    let (pixels, size) = (video.format.pixels(), video.format.size());
    let pixels = match options.layout {
        Layout::Pgroups => pixels,
        Layout::Planar => pixels.to_planar(),
    };
    let frame_bytes = pixels.packed_bytes(size) as u64;
    let free = || available_memory().map_or(MEMORY_BYTES_UNKNOWN, |bytes| bytes / MEMORY_PARTS);
    let most_bytes = options.memory_bytes.unwrap_or_else(free);
    let most = usize::try_from(most_bytes / frame_bytes.max(1)).unwrap_or(usize::MAX);
    if most < FRAMES_LEAST {
        return Err(Error::Memory { size, frame_bytes, most_bytes });
    }
    Ok(match options.pool {
        PoolSize::Frames(frames) => frames.min(most),
        PoolSize::Time(time) => {
            let frames = (u128::from(frames_a_second(video)) * time.as_millis()).div_ceil(1000);
            usize::try_from(frames).unwrap_or(usize::MAX).min(most)
        }
    })
}

fn frames_a_second(video: &Video) -> u64 {
    let whole = |rate: FrameRate| u64::from(rate.numerator()).div_ceil(u64::from(rate.denominator()));
    video.rate.map_or(USUAL_RATE, whole)
}

/// Which senders' packets of a flow are taken: those of the senders that the description names, or of the first that sends.
pub fn lock(flow: &Flow) -> SourceLock {
    let paths = flow.paths.iter().enumerate();
    paths.fold(SourceLock::new(), |lock, (index, path)| lock.with_allowed(index, path.sources.clone()))
}

/// The same for one path by itself.
pub fn path_lock(path: &sdp::Path) -> SourceLock {
    SourceLock::new().with_allowed(0, path.sources.clone())
}

/// The settings of a receiver of video that keeps no frames, or the fewest.
pub fn video_settings(flow: &Flow, video: &Video, options: &Options) -> receive::Settings {
    let bytes_a_second = u128::from(frames_a_second(video)) * video.format.frame_bytes() as u128;
    let lasting = usize::try_from(bytes_a_second * SOCKET_TIME.as_millis() / 1000).unwrap_or(usize::MAX);
    let socket_bytes = lasting.clamp(FlowSettings::BUFFER_BYTES, SOCKET_BYTES_MAX);
    receive::Settings {
        stream: raw_video::Settings {
            format: video.format,
            payload_type: flow.payload_type,
            paths: flow.paths.len(),
            skew: options.skew,
        },
        paths: paths(flow, options, socket_bytes),
        lock: lock(flow),
        direct: direct_offset(flow),
        colour: video.colour,
        fields: video.field_order(),
        layout: options.layout,
        frames: FRAMES_LEAST,
        processor: options.processor,
    }
}

/// The sockets of a flow's paths, with room for `buffer_bytes` where the options say nothing.
pub fn paths(flow: &Flow, options: &Options, buffer_bytes: usize) -> Vec<FlowSettings> {
    let path = |(index, path): (usize, &sdp::Path)| {
        let interface = options.interfaces.get(index).or(options.interfaces.last()).cloned();
        let sender = path.sources.first().copied();
        let mut flow = FlowSettings::of(From { address: path.to, interface, sender });
        flow.buffer_bytes = options.socket_bytes.unwrap_or(buffer_bytes);
        flow.busy_poll = options.busy_poll;
        flow
    };
    flow.paths.iter().enumerate().map(path).collect()
}

/// What is added to the media clock of a flow with time stamps of a clock that this machine has ([`Flow::direct_offset`]).
pub fn direct_offset(flow: &Flow) -> Option<u32> {
    let names = nic::interfaces().unwrap_or_default();
    let ours: Vec<_> = names.iter().filter_map(|name| nic::ethernet_address(name).ok().flatten()).collect();
    flow.direct_offset(&ours)
}

/// Where a flow is received, for people.
pub fn addresses(flow: &Flow) -> String {
    path_addresses(flow).join(" and ")
}

/// The same, by path.
pub fn path_addresses(flow: &Flow) -> Vec<String> {
    flow.paths.iter().map(|path| path.to.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Time;
    use glassline_transport::rtp::source::{Origin, Standing};

    const TEXT: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=Camera\r\nt=0 0\r\na=group:DUP one two\r\n\
        m=video 5004 RTP/AVP 112\r\nc=IN IP4 239.1.1.1/32\r\na=source-filter: incl IN IP4 239.1.1.1 192.0.2.1\r\n\
        a=rtpmap:112 raw/90000\r\na=fmtp:112 sampling=YCbCr-4:2:2; width=1920; height=1080; exactframerate=50; depth=10; \
        colorimetry=BT709; PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPN\r\na=ts-refclk:ptp=IEEE1588-2008:traceable\r\n\
        a=mediaclk:direct=7\r\na=mid:one\r\n\
        m=video 5006 RTP/AVP 112\r\nc=IN IP4 239.1.2.1/32\r\na=rtpmap:112 raw/90000\r\n\
        a=fmtp:112 sampling=YCbCr-4:2:2; width=1920; height=1080; exactframerate=50; depth=10; colorimetry=BT709; \
        PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPN\r\na=ts-refclk:ptp=IEEE1588-2008:traceable\r\na=mediaclk:direct=7\r\na=mid:two\r\n";

    #[test]
    fn a_description_says_what_to_receive() {
        let description = Description::parse(TEXT).unwrap();
        let pool = PoolSize::Time(Duration::from_secs(2));
        let memory_bytes = Some(1 << 40);
        let interfaces = vec!["a".into(), "b".into()];
        let options = Options { interfaces, pool, memory_bytes, ..Options::default() };
        let found = settings(&description, &options).unwrap();
        assert_eq!((found.stream.paths, found.stream.payload_type, found.frames), (2, 112, 100));
        assert_eq!(found.direct, Some(7));
        let [one, two] = &found.paths[..] else { panic!("two paths") };
        assert_eq!(
            (one.from.address, two.from.address),
            ("239.1.1.1:5004".parse().unwrap(), "239.1.2.1:5006".parse().unwrap())
        );
        assert_eq!((one.from.sender, two.from.sender), ("192.0.2.1".parse().ok(), None));
        assert_eq!((one.from.interface.as_deref(), two.from.interface.as_deref()), (Some("a"), Some("b")));
        let little = Options { memory_bytes: Some(26 << 20), ..options };
        assert_eq!(settings(&description, &little).unwrap().frames, 5);
        let lock = |from: &str| found.lock.weigh(Origin::of(from.parse().ok()), 7, Time::ZERO);
        assert_eq!((lock("192.0.2.1:5004"), lock("192.0.2.2:5004")), (Standing::Known, Standing::Stranger));
    }

    #[test]
    fn frames_that_have_no_room_are_refused_before_memory_is_taken_for_them() {
        let text = TEXT.replace("width=1920; height=1080", "width=16384; height=16384");
        let description = Description::parse(&text).unwrap();
        let one = 16_384 * 16_384 * 5 / 2;
        for pool in [PoolSize::Frames(24), PoolSize::Time(Duration::from_secs(3_600))] {
            let options = Options { pool, memory_bytes: Some(4 * one - 1), ..Options::default() };
            let error = settings(&description, &options).unwrap_err().to_string();
            assert!(error.contains("16384x16384") && error.contains("671088640 bytes each"), "{error}");
            let options = Options { memory_bytes: Some(4 * one), ..options };
            let found = settings(&description, &options).unwrap();
            assert_eq!((found.frames, found.paths[0].buffer_bytes), (4, SOCKET_BYTES_MAX));
        }
    }

    #[test]
    fn what_is_no_description_is_named() {
        let error = read(Path::new("/no/such.sdp")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /no/such.sdp: "), "{error}");
        let sound = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=x\r\nt=0 0\r\nc=IN IP4 192.0.2.1\r\nm=audio 5004 RTP/AVP 0\r\n";
        if let Ok(description) = Description::parse(sound) {
            assert!(settings(&description, &Options::default()).is_err());
        }
    }

    #[test]
    fn the_last_interface_is_that_of_all_further_paths() {
        let description = Description::parse(TEXT).unwrap();
        let (flow, _) = video(&description).unwrap();
        let interfaces = |names: &[&str]| {
            let interfaces = names.iter().map(|name| (*name).to_owned()).collect();
            let options = Options { interfaces, ..Options::default() };
            let found = paths(flow, &options, 1).into_iter().map(|path| path.from.interface);
            found.collect::<Vec<_>>()
        };
        assert_eq!(interfaces(&[]), [None, None]);
        assert_eq!(interfaces(&["a"]), [Some("a".to_owned()), Some("a".to_owned())]);
        assert_eq!(interfaces(&["a", "b", "c"]), [Some("a".to_owned()), Some("b".to_owned())]);
    }

    #[test]
    fn a_socket_has_the_room_that_is_asked_for_or_what_lasts_for_fifty_milliseconds() {
        let description = Description::parse(TEXT).unwrap();
        let (flow, video) = video(&description).unwrap();
        let room = |options: &Options| video_settings(flow, video, options).paths[1].buffer_bytes;
        assert_eq!(
            room(&Options::default()),
            FlowSettings::BUFFER_BYTES,
            "1080p50 needs less than the least"
        );
        assert_eq!(room(&Options { socket_bytes: Some(4_096), ..Options::default() }), 4_096);
        let text = TEXT.replace("width=1920; height=1080", "width=3840; height=2160");
        let description = Description::parse(&text).unwrap();
        let (flow, video) = super::video(&description).unwrap();
        let lasting = 3_840 * 2_160 * 5 / 2 * 50 / 20;
        assert_eq!(video_settings(flow, video, &Options::default()).paths[0].buffer_bytes, lasting);
    }

    #[test]
    fn a_time_is_rounded_up_to_whole_frames_of_the_described_rate_or_of_the_usual_one() {
        let frames = |text: &str, millis: u64| {
            let pool = PoolSize::Time(Duration::from_millis(millis));
            let options = Options { pool, memory_bytes: Some(1 << 40), ..Options::default() };
            settings(&Description::parse(text).unwrap(), &options).unwrap().frames
        };
        assert_eq!((frames(TEXT, 1_000), frames(TEXT, 1_001)), (50, 51));
        let fraction = TEXT.replace("exactframerate=50", "exactframerate=30000/1001");
        assert_eq!(frames(&fraction, 1_000), 30);
    }

    #[test]
    fn where_a_flow_is_received_is_told_path_by_path() {
        let description = Description::parse(TEXT).unwrap();
        let (flow, _) = video(&description).unwrap();
        assert_eq!(path_addresses(flow), ["239.1.1.1:5004", "239.1.2.1:5006"]);
        assert_eq!(addresses(flow), "239.1.1.1:5004 and 239.1.2.1:5006");
    }

    #[test]
    fn a_path_takes_the_sources_that_it_names_and_another_one_whatever_sends_first() {
        let description = Description::parse(TEXT).unwrap();
        let (flow, _) = video(&description).unwrap();
        let weigh = |path: usize, from: &str| {
            path_lock(&flow.paths[path]).weigh(Origin::of(from.parse().ok()), 7, Time::ZERO)
        };
        assert_eq!(weigh(0, "192.0.2.9:5004"), Standing::Stranger);
        assert_ne!(weigh(0, "192.0.2.1:5004"), Standing::Stranger);
        assert_ne!(weigh(1, "192.0.2.9:5004"), Standing::Stranger);
    }

    #[test]
    fn a_description_without_video_says_what_it_has() {
        let text = |skipped: &[&str]| {
            let skipped = skipped.iter().map(|what| (*what).to_owned()).collect();
            Error::NoVideo { skipped }.to_string()
        };
        assert_eq!(text(&[]), "the description has no uncompressed video");
        assert_eq!(text(&["a", "b"]), "the description has no uncompressed video, but a, b");
    }
}
