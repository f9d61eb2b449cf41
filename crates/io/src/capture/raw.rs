//! The parts of `linux/videodev2.h` that are used, for 64-bit machines; a test compares sizes and numbers with the
//! header's. Everything here is integers, of which every bit pattern is a value.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// A structure of the kernel's interface.
///
/// # Safety
/// The type is `repr(C)`, of integers alone, and has just the layout and size of the structure that the request
/// [`Self::REQUEST`](Request::REQUEST) reads and writes.
#[allow(unsafe_code)]
pub(super) unsafe trait Layout {}

macro_rules! layouts {
    ($($type:ty),*) => {
        // SAFETY: `repr(C)`, integers alone; the sizes are compared with the header's below.
        $(#[allow(unsafe_code)] unsafe impl Layout for $type {})*
    };
}
layouts!(Capability, FormatDescription, Format, RequestBuffers, Buffer, StreamParameters, QueryControl, i32);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capability {
    pub(super) driver: [u8; 16],
    pub(super) card: [u8; 32],
    pub(super) bus: [u8; 32],
    pub(super) version: u32,
    pub(super) capabilities: u32,
    pub(super) device_capabilities: u32,
    pub(super) reserved: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FormatDescription {
    pub(super) index: u32,
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) description: [u8; 32],
    pub(super) pixel_format: u32,
    pub(super) bus_code: u32,
    pub(super) reserved: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Format {
    pub(super) kind: u32,
    pub(super) padding: u32,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixel_format: u32,
    pub(super) field: u32,
    pub(super) bytes_per_line: u32,
    pub(super) image_bytes: u32,
    pub(super) colour_space: u32,
    pub(super) private: u32,
    pub(super) flags: u32,
    pub(super) encoding: u32,
    pub(super) quantization: u32,
    pub(super) transfer: u32,
    pub(super) rest: [u64; 19],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestBuffers {
    pub(super) count: u32,
    pub(super) kind: u32,
    pub(super) memory: u32,
    pub(super) capabilities: u32,
    pub(super) flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buffer {
    pub(super) index: u32,
    pub(super) kind: u32,
    pub(super) bytes_used: u32,
    pub(super) flags: u32,
    pub(super) field: u32,
    pub(super) padding: u32,
    pub(super) seconds: i64,
    pub(super) microseconds: i64,
    pub(super) timecode: [u32; 4],
    pub(super) sequence: u32,
    pub(super) memory: u32,
    /// A union; of mapped memory the offset, in its first four bytes.
    pub(super) place: [u32; 2],
    pub(super) length: u32,
    pub(super) reserved: [u32; 3],
}

impl Buffer {
    /// The offset at which to map the buffer.
    pub(super) fn offset(&self) -> u64 {
        self.place[0].into()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamParameters {
    pub(super) kind: u32,
    pub(super) capability: u32,
    pub(super) mode: u32,
    /// Seconds a picture, as a fraction.
    pub(super) numerator: u32,
    pub(super) denominator: u32,
    pub(super) rest: [[u32; 23]; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueryControl {
    pub(super) id: u32,
    pub(super) kind: u32,
    pub(super) name: [u8; 32],
    pub(super) minimum: i32,
    pub(super) maximum: i32,
    pub(super) step: i32,
    pub(super) default: i32,
    pub(super) flags: u32,
    pub(super) reserved: [u32; 2],
}

/// `v4l2_ext_control`: one value. The kernel packs it; every field stands on a multiple of four bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ExtControl {
    id: u32,
    /// Of what a pointer points at; zero for integers.
    size: u32,
    reserved: u32,
    /// A union of eight bytes; of an integer its first four.
    value: i32,
    rest: u32,
}

/// `v4l2_ext_controls`: the head of a list of values.
#[repr(C)]
#[derive(Debug)]
struct ExtControls {
    /// Zero: the values that hold now.
    which: u32,
    count: u32,
    error_index: u32,
    request: i32,
    reserved: u32,
    controls: *mut ExtControl,
}

/// Reads or sets one integer control of an open device (`VIDIOC_G_EXT_CTRLS`, `VIDIOC_S_EXT_CTRLS`): the value that holds,
/// which a driver may have moved into its range.
///
/// # Errors
/// The kernel's answer.
#[allow(unsafe_code)]
fn control(device: BorrowedFd<'_>, request: libc::Ioctl, id: u32, value: i32) -> io::Result<i32> {
    let mut control = ExtControl { id, value, ..ExtControl::default() };
    let mut list = ExtControls {
        which: 0,
        count: 1,
        error_index: 0,
        request: 0,
        reserved: 0,
        controls: &raw mut control,
    };
    loop {
        // SAFETY: both requests read and write one `v4l2_ext_controls` and the `count` structures that it points at, here
        // `control`. Both live until the end of this function, and nothing refers to `control` during the call. With
        // a `size` of zero the kernel takes the value as an integer and follows no further pointer.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut list) };
        if done >= 0 {
            return Ok(control.value);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The value of an integer control.
///
/// # Errors
/// The kernel's answer.
pub(super) fn control_value(device: BorrowedFd<'_>, id: u32) -> io::Result<i32> {
    control(device, READ_CONTROLS, id, 0)
}

/// Sets an integer control; says what the driver has made of the value.
///
/// # Errors
/// The kernel's answer.
pub(super) fn set_control(device: BorrowedFd<'_>, id: u32, value: i32) -> io::Result<i32> {
    control(device, SET_CONTROLS, id, value)
}

/// A request of `ioctl`, and what it takes.
pub(super) struct Request<T> {
    number: libc::Ioctl,
    takes: std::marker::PhantomData<fn(&mut T)>,
}

impl<T: Layout> Request<T> {
    const fn new(direction: u64, number: u64) -> Request<T> {
        Request { number: request_number::<T>(direction, number), takes: std::marker::PhantomData }
    }

    /// Makes the request of an open device, again where a signal came in between.
    #[allow(unsafe_code)]
    pub(super) fn of(&self, device: BorrowedFd<'_>, argument: &mut T) -> io::Result<()> {
        loop {
            // SAFETY: the request's number says how many bytes the kernel reads and writes at the pointer: those of
            // a `T`, which `argument` borrows for as long as the call takes and of which any bits are a value.
            let done = unsafe { libc::ioctl(device.as_raw_fd(), self.number, std::ptr::from_mut(argument)) };
            if done >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// `_IOC(direction, 'V', number, sizeof(T))`, directions 1 write, 2 read.
const fn request_number<T>(direction: u64, number: u64) -> libc::Ioctl {
    (direction << 30 | (size_of::<T>() as u64) << 16 | (b'V' as u64) << 8 | number) as libc::Ioctl
}

const WRITE: u64 = 1;
const READ: u64 = 2;

pub(super) const QUERY_CAPABILITY: Request<Capability> = Request::new(READ, 0);
pub(super) const ENUMERATE_FORMATS: Request<FormatDescription> = Request::new(READ | WRITE, 2);
pub(super) const FORMAT: Request<Format> = Request::new(READ | WRITE, 4);
pub(super) const SET_FORMAT: Request<Format> = Request::new(READ | WRITE, 5);
pub(super) const REQUEST_BUFFERS: Request<RequestBuffers> = Request::new(READ | WRITE, 8);
pub(super) const QUERY_BUFFER: Request<Buffer> = Request::new(READ | WRITE, 9);
pub(super) const QUEUE_BUFFER: Request<Buffer> = Request::new(READ | WRITE, 15);
pub(super) const DEQUEUE_BUFFER: Request<Buffer> = Request::new(READ | WRITE, 17);
pub(super) const STREAM_ON: Request<i32> = Request::new(WRITE, 18);
pub(super) const PARAMETERS: Request<StreamParameters> = Request::new(READ | WRITE, 21);
pub(super) const SET_PARAMETERS: Request<StreamParameters> = Request::new(READ | WRITE, 22);
pub(super) const QUERY_CONTROL: Request<QueryControl> = Request::new(READ | WRITE, 36);
const READ_CONTROLS: libc::Ioctl = request_number::<ExtControls>(READ | WRITE, 71);
const SET_CONTROLS: libc::Ioctl = request_number::<ExtControls>(READ | WRITE, 72);

/// `V4L2_BUF_TYPE_VIDEO_CAPTURE`.
pub(super) const VIDEO_CAPTURE: u32 = 1;
/// `V4L2_MEMORY_MMAP`.
pub(super) const MAPPED: u32 = 1;
/// `V4L2_CAP_VIDEO_CAPTURE`, `V4L2_CAP_STREAMING`, `V4L2_CAP_DEVICE_CAPS`.
pub(super) const CAN_CAPTURE: u32 = 1;
pub(super) const CAN_STREAM: u32 = 0x0400_0000;
pub(super) const HAS_DEVICE_CAPABILITIES: u32 = 0x8000_0000;
/// `V4L2_CAP_TIMEPERFRAME`.
pub(super) const HAS_RATE: u32 = 0x1000;
/// `V4L2_BUF_FLAG_ERROR`.
pub(super) const DAMAGED: u32 = 0x40;
/// `V4L2_BUF_FLAG_TIMESTAMP_MASK`, `V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC`.
pub(super) const STAMP_MASK: u32 = 0xe000;
pub(super) const STAMP_MONOTONIC: u32 = 0x2000;
/// `V4L2_FIELD_INTERLACED`, `…_TB`, `…_BT`.
pub(super) const INTERLACED: u32 = 4;
pub(super) const INTERLACED_TOP_FIRST: u32 = 8;
pub(super) const INTERLACED_BOTTOM_FIRST: u32 = 9;
/// `V4L2_PIX_FMT_PRIV_MAGIC`: the fields behind it mean something.
pub(super) const EXTENDED: u32 = 0xfeed_cafe;
/// `V4L2_COLORSPACE_…`, and `V4L2_QUANTIZATION_FULL_RANGE`.
pub(super) const SMPTE170M: u32 = 1;
pub(super) const SMPTE240M: u32 = 2;
pub(super) const REC709: u32 = 3;
pub(super) const SYSTEM_M: u32 = 5;
pub(super) const SYSTEM_BG: u32 = 6;
pub(super) const JPEG: u32 = 7;
pub(super) const SRGB: u32 = 8;
pub(super) const OPRGB: u32 = 9;
pub(super) const BT2020: u32 = 10;
pub(super) const DCI_P3: u32 = 12;
pub(super) const FULL_RANGE: u32 = 1;
/// `V4L2_CID_MPEG_VIDEO_…`: of the class of codecs.
pub(super) const BITRATE_MODE: u32 = CODEC_CONTROLS + 206;
pub(super) const BITRATE: u32 = CODEC_CONTROLS + 207;
pub(super) const FORCE_KEY_FRAME: u32 = CODEC_CONTROLS + 229;
pub(super) const H264_I_PERIOD: u32 = CODEC_CONTROLS + 358;
/// `V4L2_CID_CODEC_BASE`.
const CODEC_CONTROLS: u32 = 0x0099_0900;
/// `V4L2_CTRL_FLAG_DISABLED`, `V4L2_CTRL_FLAG_READ_ONLY`.
pub(super) const CONTROL_DISABLED: u32 = 1;
pub(super) const CONTROL_READ_ONLY: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// What a C program says that includes `linux/videodev2.h`, on x86-64.
    #[test]
    fn layouts_and_numbers_are_the_header_s() {
        let sizes = [
            (size_of::<Capability>(), 104),
            (size_of::<FormatDescription>(), 64),
            (size_of::<Format>(), 208),
            (size_of::<RequestBuffers>(), 20),
            (size_of::<Buffer>(), 88),
            (size_of::<StreamParameters>(), 204),
            (size_of::<QueryControl>(), 68),
            (size_of::<ExtControl>(), 20),
            (size_of::<ExtControls>(), 32),
            (offset_of!(QueryControl, minimum), 40),
            (offset_of!(QueryControl, flags), 56),
            (offset_of!(ExtControl, value), 12),
            (offset_of!(ExtControls, controls), 24),
            (offset_of!(Capability, capabilities), 84),
            (offset_of!(FormatDescription, pixel_format), 44),
            (offset_of!(Format, width), 8),
            (offset_of!(Format, image_bytes), 8 + 20),
            (offset_of!(Format, colour_space), 8 + 24),
            (offset_of!(Format, quantization), 8 + 40),
            (offset_of!(Buffer, seconds), 24),
            (offset_of!(Buffer, sequence), 56),
            (offset_of!(Buffer, place), 64),
            (offset_of!(Buffer, length), 72),
            (offset_of!(StreamParameters, numerator), 4 + 8),
        ];
        assert!(sizes.iter().all(|(found, expected)| found == expected), "{sizes:?}");
        let numbers = [
            (QUERY_CAPABILITY.number, 0x8068_5600u32),
            (ENUMERATE_FORMATS.number, 0xc040_5602),
            (FORMAT.number, 0xc0d0_5604),
            (SET_FORMAT.number, 0xc0d0_5605),
            (REQUEST_BUFFERS.number, 0xc014_5608),
            (QUERY_BUFFER.number, 0xc058_5609),
            (QUEUE_BUFFER.number, 0xc058_560f),
            (DEQUEUE_BUFFER.number, 0xc058_5611),
            (STREAM_ON.number, 0x4004_5612),
            (PARAMETERS.number, 0xc0cc_5615),
            (SET_PARAMETERS.number, 0xc0cc_5616),
            (QUERY_CONTROL.number, 0xc044_5624),
            (READ_CONTROLS, 0xc020_5647),
            (SET_CONTROLS, 0xc020_5648),
        ];
        for (found, expected) in numbers {
            assert_eq!(found as u32, expected);
        }
        let controls = [BITRATE_MODE, BITRATE, FORCE_KEY_FRAME, H264_I_PERIOD];
        assert_eq!(controls, [0x0099_09ce, 0x0099_09cf, 0x0099_09e5, 0x0099_0a66]);
    }
}
