//! Video4Linux2: webcams, and HDMI and SDI cards with drivers in the kernel.
//!
//! Four of the driver's buffers are mapped; it fills one while another is read. A picture's time is the driver's own
//! stamp where that is on the monotonic clock, which nearly all are.

mod coded;

pub use coded::CodedV4l2;

use super::{Capture, CaptureError, DeviceRequest, Format, Frame, raw};
use crate::clock::Clock;
use glassline_media::pixels::{FieldOrder, PackedFormat};
use glassline_media::{Colour, FrameRate, Size, Time};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::time::Timespec;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Buffers that the driver fills in turn.
const BUFFERS: u32 = 4;
/// Formats that a device may list: some list each twice; none lists that many.
const MAX_FORMATS: u32 = 64;

/// The layouts, in the order in which they are wanted, with their four-character codes.
const LAYOUTS: [(PackedFormat, [u8; 4]); 4] = [
    (PackedFormat::Nv12, *b"NV12"),
    (PackedFormat::Yuyv, *b"YUYV"),
    (PackedFormat::Uyvy, *b"UYVY"),
    (PackedFormat::Nv16, *b"NV16"),
];

/// A device that is capturing. Dropping it ends that.
#[derive(Debug)]
pub struct V4l2 {
    format: Format,
    stream: Stream,
}

impl V4l2 {
    /// Opens `path` (`/dev/video0`), sets it up as `request` says and starts it.
    ///
    /// # Errors
    /// [`CaptureError`] where the device cannot be opened or gives something else than was wished.
    pub fn open(path: &Path, request: &DeviceRequest, clock: Clock) -> Result<V4l2, CaptureError> {
        let device = open_capture(path)?;
        let layout = choose_layout(&device, request.layout)?;
        let set = set_format(&device, code_of(layout), request.size)?;
        let rate = set_rate(&device, request.rate)?.ok_or(CaptureError::UnknownRate)?;
        let size = Size::new(set.width, set.height)
            .map_err(|_| failed("use its size", io::Error::other(format!("{}x{}", set.width, set.height))))?;
        let format = Format {
            size,
            rate,
            layout,
            stride_bytes: (set.bytes_per_line as usize).max(layout.line_bytes(size)),
            fields: fields(set.field),
            colour: colour(&set),
        };
        let mut stream = Stream::new(device, clock);
        stream.start().map_err(|error| failed("start it", error))?;
        Ok(V4l2 { format, stream })
    }
}

impl Capture for V4l2 {
    fn format(&self) -> Format {
        self.format
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        self.stream.next(timeout)
    }
}

/// The buffers that a device fills in turn, raw pictures or coded ones.
#[derive(Debug)]
struct Stream {
    /// Shared with what sets the device's controls meanwhile.
    device: Arc<OwnedFd>,
    buffers: Vec<Mapped>,
    /// The buffer that is lent to the caller.
    lent: Option<u32>,
    clock: Clock,
}

impl Stream {
    fn new(device: OwnedFd, clock: Clock) -> Stream {
        Stream { device: Arc::new(device), buffers: Vec::new(), lent: None, clock }
    }

    /// Maps the driver's buffers, hands all of them over and starts.
    fn start(&mut self) -> io::Result<()> {
        let mut request = raw::RequestBuffers::default();
        (request.count, request.kind, request.memory) = (BUFFERS, raw::VIDEO_CAPTURE, raw::MAPPED);
        raw::REQUEST_BUFFERS.of(self.device.as_fd(), &mut request)?;
        for index in 0..request.count {
            let mut buffer = numbered(index);
            raw::QUERY_BUFFER.of(self.device.as_fd(), &mut buffer)?;
            self.buffers.push(Mapped::new(&self.device, buffer.offset(), buffer.length as usize)?);
            raw::QUEUE_BUFFER.of(self.device.as_fd(), &mut numbered(index))?;
        }
        raw::STREAM_ON.of(self.device.as_fd(), &mut (raw::VIDEO_CAPTURE as i32))
    }

    /// The next filled buffer, if there is one.
    fn dequeue(&self) -> io::Result<Option<raw::Buffer>> {
        let mut buffer = numbered(0);
        match raw::DEQUEUE_BUFFER.of(self.device.as_fd(), &mut buffer) {
            Ok(()) => Ok(Some(buffer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next picture, as [`Capture::next`] says.
    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        if let Some(index) = self.lent.take() {
            raw::QUEUE_BUFFER.of(self.device.as_fd(), &mut numbered(index))?;
        }
        let until = self.clock.now() + timeout;
        loop {
            let Some(buffer) = self.dequeue()? else {
                let wait = until.since(self.clock.now());
                if wait.is_zero() {
                    return Ok(None);
                }
                wait_readable(&self.device, wait)?;
                continue;
            };
            let mapped = self.buffers.get(buffer.index as usize);
            let length = buffer.bytes_used as usize;
            // A damaged picture shows as a gap in the sequence.
            let Some(bytes) = mapped.filter(|_| buffer.flags & raw::DAMAGED == 0) else {
                raw::QUEUE_BUFFER.of(self.device.as_fd(), &mut numbered(buffer.index))?;
                continue;
            };
            self.lent = Some(buffer.index);
            let captured = stamp(&buffer).unwrap_or_else(|| self.clock.now());
            let bytes = bytes.bytes();
            let bytes = &bytes[..length.min(bytes.len())];
            return Ok(Some(Frame { bytes, captured, sequence: buffer.sequence }));
        }
    }
}

/// Opens a device that captures and streams.
fn open_capture(path: &Path) -> Result<OwnedFd, CaptureError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| failed("open it", io::Error::from(error)))?;
    let mut capability = raw::Capability::default();
    match raw::QUERY_CAPABILITY.of(device.as_fd(), &mut capability) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => return Err(CaptureError::Kind),
        other => other.map_err(|error| failed("ask what it can do", error))?,
    }
    let can = match capability.capabilities {
        all if all & raw::HAS_DEVICE_CAPABILITIES != 0 => capability.device_capabilities,
        all => all,
    };
    let needed = raw::CAN_CAPTURE | raw::CAN_STREAM;
    if can & needed != needed {
        return Err(CaptureError::Kind);
    }
    Ok(device)
}

fn failed(action: &'static str, error: io::Error) -> CaptureError {
    CaptureError::System { action, error }
}

fn numbered(index: u32) -> raw::Buffer {
    raw::Buffer { index, kind: raw::VIDEO_CAPTURE, memory: raw::MAPPED, ..raw::Buffer::default() }
}

/// The driver's stamp, if it is on the monotonic clock.
fn stamp(buffer: &raw::Buffer) -> Option<Time> {
    if buffer.flags & raw::STAMP_MASK != raw::STAMP_MONOTONIC {
        return None;
    }
    let (seconds, micros) = (u64::try_from(buffer.seconds).ok()?, u64::try_from(buffer.microseconds).ok()?);
    Some(Time::from_nanos(seconds.checked_mul(1_000_000_000)?.checked_add(micros.checked_mul(1000)?)?))
}

fn wait_readable(device: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The four-character codes of what a device gives.
fn offered_formats(device: &OwnedFd) -> Vec<[u8; 4]> {
    let mut offered = Vec::new();
    for index in 0..MAX_FORMATS {
        let mut description =
            raw::FormatDescription { index, kind: raw::VIDEO_CAPTURE, ..raw::FormatDescription::default() };
        if raw::ENUMERATE_FORMATS.of(device.as_fd(), &mut description).is_err() {
            break;
        }
        offered.push(description.pixel_format.to_le_bytes());
    }
    offered
}

/// Four-character codes as they are printed.
fn names_of(codes: &[[u8; 4]]) -> String {
    let names: Vec<_> = codes.iter().map(|code| code.escape_ascii().to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn code_of(layout: PackedFormat) -> [u8; 4] {
    LAYOUTS.iter().find(|(known, _)| *known == layout).map_or([0; 4], |(_, code)| *code)
}

fn choose_layout(device: &OwnedFd, request: Option<PackedFormat>) -> Result<PackedFormat, CaptureError> {
    let offered = offered_formats(device);
    let mut wanted = LAYOUTS.iter().filter(|(layout, _)| request.is_none_or(|request| request == *layout));
    match wanted.find(|(_, code)| offered.contains(code)) {
        Some((layout, _)) => Ok(*layout),
        None => {
            let wished = request.map_or_else(String::new, |request| format!(" as asked for ({request:?})"));
            Err(CaptureError::Layout { found: names_of(&offered), wished })
        }
    }
}

fn set_format(device: &OwnedFd, code: [u8; 4], request: Option<Size>) -> Result<raw::Format, CaptureError> {
    let mut format = raw::Format { kind: raw::VIDEO_CAPTURE, ..raw::Format::default() };
    raw::FORMAT.of(device.as_fd(), &mut format).map_err(|error| failed("ask for its format", error))?;
    if let Some(size) = request {
        (format.width, format.height) = (size.width, size.height);
    }
    format.pixel_format = u32::from_le_bytes(code);
    // The driver chooses these anew for the layout and size.
    (format.field, format.bytes_per_line, format.image_bytes) = (0, 0, 0);
    raw::SET_FORMAT.of(device.as_fd(), &mut format).map_err(|error| failed("set its format", error))?;
    let found = format!("{}x{}", format.width, format.height);
    match request {
        Some(wished) if found != wished.to_string() => Err(CaptureError::Size { found, wished }),
        _ if format.pixel_format.to_le_bytes() != code => {
            let found = format.pixel_format.to_le_bytes().escape_ascii().to_string();
            Err(CaptureError::Layout { found, wished: " at that size".to_owned() })
        }
        _ => Ok(format),
    }
}

/// Sets the rate, where one is wished, and says which holds; `None` where neither the driver nor the request names one. A
/// driver that knows none is believed the request.
fn set_rate(device: &OwnedFd, request: Option<FrameRate>) -> Result<Option<FrameRate>, CaptureError> {
    let mut parameters =
        raw::StreamParameters { kind: raw::VIDEO_CAPTURE, ..raw::StreamParameters::default() };
    let knows = raw::PARAMETERS.of(device.as_fd(), &mut parameters).is_ok();
    if let Some(rate) = request.filter(|_| knows && parameters.capability & raw::HAS_RATE != 0) {
        (parameters.numerator, parameters.denominator) = (rate.denominator(), rate.numerator());
        raw::SET_PARAMETERS
            .of(device.as_fd(), &mut parameters)
            .map_err(|error| failed("set its rate", error))?;
    }
    let found = FrameRate::new(parameters.denominator, parameters.numerator).filter(|_| knows);
    match (found, request) {
        (Some(found), Some(wished)) if !same_rate(found, wished) => Err(CaptureError::Rate { found, wished }),
        (_, Some(wished)) => Ok(Some(wished)),
        (found, None) => Ok(found),
    }
}

/// Whether two rates are as near as drivers that count in 100 ns can say.
fn same_rate(one: FrameRate, other: FrameRate) -> bool {
    (one.as_f64() / other.as_f64() - 1.0).abs() < 1e-4
}

fn fields(field: u32) -> Option<FieldOrder> {
    match field {
        // Of plain "interlaced" the line standard decides; what is sold today is top first.
        raw::INTERLACED | raw::INTERLACED_TOP_FIRST => Some(FieldOrder::TopFirst),
        raw::INTERLACED_BOTTOM_FIRST => Some(FieldOrder::BottomFirst),
        _ => None,
    }
}

fn colour(format: &raw::Format) -> Colour {
    // Drivers of old kernels do not fill these in.
    let [encoding, quantization, transfer] = match format.private {
        raw::EXTENDED => [format.encoding, format.quantization, format.transfer],
        _ => [0; 3],
    };
    // Zero is the usual one of the colour space (videodev2.h, V4L2_MAP_…_DEFAULT). Matrices of a space that are the same by
    // two names have the one that goes with its primaries.
    let (primaries, usual_transfer, usual_matrix) = match format.colour_space {
        raw::SMPTE170M => (6, 6, 6),
        raw::SMPTE240M => (7, 7, 7),
        raw::REC709 => (1, 1, 1),
        raw::SYSTEM_M => (4, 6, 6),
        raw::SYSTEM_BG => (5, 6, 5),
        raw::JPEG | raw::SRGB => (1, 13, 6),
        raw::OPRGB => (2, 2, 6),
        raw::BT2020 => (9, 14, 9),
        raw::DCI_P3 => (11, 17, 1),
        _ => (2, 2, 2),
    };
    let transfer = match transfer {
        0 => usual_transfer,
        // BT.709's curve is one of three names.
        1 if matches!(usual_transfer, 6 | 14) => usual_transfer,
        1 => 1,
        2 => 13,
        4 => 7,
        5 => 8,
        6 => 17,
        7 => 16,
        _ => 2,
    };
    let matrix = match encoding {
        0 => usual_matrix,
        1 | 3 if usual_matrix == 5 => 5,
        1 | 3 => 6,
        2 | 4 => 1,
        6 => 9,
        7 => 10,
        8 => 7,
        _ => 2,
    };
    let full_range = match quantization {
        0 => format.colour_space == raw::JPEG,
        quantization => quantization == raw::FULL_RANGE,
    };
    Colour { primaries, transfer, matrix, full_range }
}

/// A buffer of the driver's in our memory.
#[derive(Debug)]
struct Mapped {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone and any thread may read it.
#[allow(unsafe_code)]
unsafe impl Send for Mapped {}

impl Mapped {
    fn new(device: &OwnedFd, offset: u64, length: usize) -> io::Result<Mapped> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        if length == 0 {
            return Err(io::Error::other("a buffer of no bytes"));
        }
        // SAFETY: the kernel chooses a place that is free; nothing else knows it.
        #[allow(unsafe_code)]
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, device, offset)? };
        Ok(Mapped { start: start.cast(), length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes are mapped for reading until this value goes. The driver writes into them only
        // while it has the buffer: a caller has the bytes between dequeuing and queuing it, which takes `&mut`.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.start, self.length)
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` at this place and length, and no borrow of it is left.
        #[allow(unsafe_code)]
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> String {
        V4l2::open(Path::new(path), &DeviceRequest::default(), Clock::new()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_capture_device_is_refused() {
        assert!(refused("/dev/no-such-device").contains("open"), "{}", refused("/dev/no-such-device"));
        assert!(refused("/dev/null").contains("no capture device"), "{}", refused("/dev/null"));
    }

    #[test]
    fn rates_as_drivers_round_them_are_the_same() {
        let rate = |numerator, denominator| FrameRate::new(numerator, denominator).unwrap();
        assert!(same_rate(rate(60_000, 1001), rate(10_000_000, 166_833)));
        assert!(!same_rate(rate(60, 1), rate(60_000, 1001)));
    }

    #[test]
    fn colour_is_what_the_driver_says_or_what_its_colour_space_usually_is() {
        let found = |colour_space, private, [encoding, quantization, transfer]: [u32; 3]| {
            let given =
                raw::Format { colour_space, private, encoding, quantization, transfer, ..Default::default() };
            let Colour { primaries, transfer, matrix, full_range } = colour(&given);
            ([primaries, transfer, matrix], full_range)
        };
        for (colour_space, points, full) in [
            (0, [2, 2, 2], false),
            (raw::SMPTE170M, [6, 6, 6], false),
            (raw::REC709, [1, 1, 1], false),
            (raw::SYSTEM_BG, [5, 6, 5], false),
            (raw::SRGB, [1, 13, 6], false),
            (raw::JPEG, [1, 13, 6], true),
            (raw::BT2020, [9, 14, 9], false),
        ] {
            assert_eq!(found(colour_space, raw::EXTENDED, [0; 3]), (points, full), "{colour_space}");
        }
        // A webcam: sRGB, but for BT.709's matrix and all code values; HDMI with PQ.
        assert_eq!(found(raw::SRGB, raw::EXTENDED, [2, 1, 0]), ([1, 13, 1], true));
        assert_eq!(found(raw::BT2020, raw::EXTENDED, [6, 2, 7]), ([9, 16, 9], false));
        assert_eq!(found(raw::BT2020, raw::EXTENDED, [6, 2, 1]), ([9, 14, 9], false));
        assert_eq!(found(raw::REC709, 0, [1, 1, 7]), ([1, 1, 1], false), "not filled in");
    }

    #[test]
    fn only_monotonic_stamps_are_capture_times() {
        let mut buffer = raw::Buffer { seconds: 5, microseconds: 7, ..numbered(0) };
        assert_eq!(stamp(&buffer), None);
        buffer.flags = raw::STAMP_MONOTONIC;
        assert_eq!(stamp(&buffer), Some(Time::from_nanos(5_000_007_000)));
        buffer.seconds = -1;
        assert_eq!(stamp(&buffer), None);
    }
}
