//! Reference frames: three planes that are made once and then only shared.

use glassline_media::{Picture, PixelFormat, Plane, Size, Time};
use std::sync::{Arc, OnceLock};
use twox_hash::xxhash3_128;

/// Bytes behind the last line of each plane, so that a kernel may read (never use) a little more than it needs.
pub(crate) const TAIL_BYTES: usize = 64;

/// The size of a stream's pictures, and how their planes lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Macroblocks a row.
    pub(crate) columns: usize,
    /// Rows of macroblocks.
    pub(crate) rows: usize,
    /// Bytes from a line of luma to the next.
    pub(crate) y_stride: usize,
    /// Bytes from a line of chroma to the next.
    pub(crate) uv_stride: usize,
}

impl Geometry {
    pub(crate) fn new(width: u16, height: u16) -> Geometry {
        let (columns, rows) = (usize::from(width).div_ceil(16), usize::from(height).div_ceil(16));
        let stride = |bytes: usize| bytes.next_multiple_of(Plane::STRIDE_ALIGN);
        Geometry {
            width,
            height,
            columns,
            rows,
            y_stride: stride(columns * 16),
            uv_stride: stride(columns * 8),
        }
    }

    /// Picture size in samples.
    pub(crate) fn size(&self) -> Size {
        Size { width: u32::from(self.width), height: u32::from(self.height) }
    }

    /// Bytes a line, lines and stride of a plane, as far as whole macroblocks reach.
    pub(crate) fn plane(&self, index: usize) -> (usize, usize, usize) {
        if index == 0 {
            (self.columns * 16, self.rows * 16, self.y_stride)
        } else {
            (self.columns * 8, self.rows * 8, self.uv_stride)
        }
    }

    pub(crate) fn plane_bytes(&self, index: usize) -> usize {
        let (_, lines, stride) = self.plane(index);
        stride * lines + TAIL_BYTES
    }
}

/// A decoded picture that others may be predicted from, as far as whole macroblocks reach. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) planes: [Arc<[u8]>; 3],
    /// See [`hash`], once someone has asked for it.
    hash: Arc<OnceLock<u128>>,
}

impl Frame {
    /// The bytes of a plane.
    pub(crate) fn plane(&self, index: usize) -> &[u8] {
        &self.planes[index]
    }

    /// The frame's name, see [`hash`]. All clones of the frame share it. It is computed when it is first asked for:
    /// most frames are dropped before that.
    pub(crate) fn hash(&self, geometry: &Geometry) -> u128 {
        *self.hash.get_or_init(|| hash(geometry, [0, 1, 2].map(|index| self.plane(index))))
    }

    /// Whether both are the same piece of memory.
    pub(crate) fn same(&self, other: &Frame) -> bool {
        self.planes.iter().zip(&other.planes).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The picture that it shows, sharing its planes.
    pub(crate) fn picture(&self, geometry: &Geometry) -> Picture {
        let format = PixelFormat::I420;
        let size = geometry.size();
        let plane = |index: usize| {
            let (_, _, stride) = geometry.plane(index);
            Plane::shared(self.planes[index].clone(), stride, format.plane_size(size, index))
        };
        Picture::of_planes(format, size, vec![plane(0), plane(1), plane(2)], Time::ZERO)
    }
}

/// The planes of a frame in the making.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) planes: [Arc<[u8]>; 3],
}

impl Unfinished {
    /// The planes to write to.
    pub(crate) fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        self.planes.each_mut().map(|plane| {
            // `Workspace::frame` makes an `Unfinished` only of planes that have no other reference.
            Arc::get_mut(plane).unwrap_or_default()
        })
    }

    /// The finished frame; its planes are not written to any more.
    pub(crate) fn finish(self) -> Frame {
        Frame { planes: self.planes, hash: Arc::default() }
    }
}
/// The hash of a frame's planes.
///
/// A line's hash is XXH3-128 of its bytes, as far as whole macroblocks reach; a plane's is XXH3-128 of its lines'
/// hashes, 16 bytes little endian each, from the top; a frame's is XXH3-128 of its three planes' hashes.
pub(crate) fn hash(geometry: &Geometry, planes: [&[u8]; 3]) -> u128 {
    let hash = xxhash3_128::Hasher::oneshot;
    let mut lines_hashes = Vec::with_capacity(geometry.plane(0).1 * 16);
    let mut hashes = [[0; 16]; 3];
    for (index, (plane, out)) in planes.into_iter().zip(&mut hashes).enumerate() {
        let (width, lines, stride) = geometry.plane(index);
        lines_hashes.clear();
        for line in plane.chunks(stride).take(lines) {
            lines_hashes.extend_from_slice(&hash(&line[..width]).to_le_bytes());
        }
        *out = hash(&lines_hashes).to_le_bytes();
    }
    hash(hashes.as_flattened())
}
