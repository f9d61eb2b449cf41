//! Messages made smaller, each on its own: what is lost or skipped takes no other with it.
//!
//! A packed message is its size as a varint, then one raw DEFLATE stream (RFC 1951) or one Zstandard frame (RFC 8878).
//! [`Packer`] sits at a channel's sending end and gives up for a while on what does not shrink; [`Unpacker`] at the
//! receiving end never makes more than the channel's largest message.

use bytes::Bytes;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use std::sync::Arc;
use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::link::Compression;
use crate::link::wire::varint::{self, Reader};

/// How hard zstd tries; 3 is its own default.
const ZSTD_LEVEL: i32 = 3;
/// Of a larger message a sample is tried before the whole.
const SAMPLE_FROM: usize = 64 << 10;
/// Each of the [`SAMPLES`] parts of the sample, bytes.
const SAMPLE: usize = 4 << 10;
const SAMPLES: usize = 3;
/// The most messages that are not tried after one that did not shrink.
const LONGEST_REST: u32 = 63;
/// The most bytes that are not tried, so that a sender of few large messages soon tries again.
const LONGEST_REST_BYTES: usize = 4 << 20;
/// Smaller messages are not tried.
const LEAST: usize = 32;

/// What both ends know beforehand of the messages on their channels: some typical ones, one after the other, or a
/// dictionary made by `zstd --train`. Small messages shrink little without. It is used on channels with
/// [`Compression::Zstd`] if both ends hold the same; otherwise it is as if there were none.
pub struct Dictionary {
    id: u64,
    compressing: CDict<'static>,
    decompressing: DDict<'static>,
}

impl Dictionary {
    /// Takes a dictionary of at most some 100 kB; more gives little. `None` for one that is malformed, as far as it
    /// claims to be made by `zstd --train`. Cost: milliseconds; share it between endpoints.
    pub fn new(bytes: &[u8]) -> Option<Dictionary> {
        let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
        Some(Dictionary {
            id: u64::from_be_bytes(hash.as_ref()[..8].try_into().ok()?),
            compressing: CDict::try_create(bytes, ZSTD_LEVEL)?,
            decompressing: DDict::try_create(bytes)?,
        })
    }

    /// The first 8 bytes of its SHA-256, by which the ends find out whether they hold the same.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({:016x})", self.id)
    }
}

/// A channel's sending end of compression.
pub(crate) struct Packer {
    how: Compression,
    deflate: Option<Box<Compress>>,
    zstd: Option<CCtx<'static>>,
    /// How long the last rest was, messages.
    rest: u32,
    /// Messages and bytes that still pass untried.
    messages: u32,
    bytes: usize,
}

impl Packer {
    pub(crate) fn new(how: Compression) -> Packer {
        Packer { how, deflate: None, zstd: None, rest: 0, messages: 0, bytes: 0 }
    }

    /// The packed message, if it is worth it: at least a sixteenth smaller.
    pub(crate) fn pack(&mut self, message: &Bytes, dictionary: Option<&Dictionary>) -> Option<Bytes> {
        if self.how == Compression::None || message.len() < LEAST {
            return None;
        }
        if self.messages > 0 {
            self.messages = self.messages.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(message.len());
            if self.bytes == 0 {
                self.messages = 0;
            }
            return None;
        }
        let hopeful = message.len() < SAMPLE_FROM || self.sample_shrinks(message, dictionary);
        let mut out = Vec::new();
        let packed = hopeful && {
            let limit = worthwhile(message.len());
            varint::write(message.len() as u64, &mut out);
            self.compress(message, dictionary, limit, &mut out)
        };
        if packed {
            self.rest = 0;
            return Some(Bytes::from(out));
        }
        self.rest = self.rest.saturating_mul(2).saturating_add(1).min(LONGEST_REST);
        (self.messages, self.bytes) = (self.rest, LONGEST_REST_BYTES);
        None
    }

    fn sample_shrinks(&mut self, message: &[u8], dictionary: Option<&Dictionary>) -> bool {
        let step = message.len().saturating_sub(SAMPLE) / (SAMPLES - 1);
        let sample: Vec<u8> =
            (0..SAMPLES).flat_map(|part| &message[step.saturating_mul(part)..][..SAMPLE]).copied().collect();
        self.compress(&sample, dictionary, worthwhile(sample.len()), &mut Vec::new())
    }

    /// Appends the compressed `bytes`; `false` if `out` would become longer than `limit`.
    fn compress(
        &mut self,
        bytes: &[u8],
        dictionary: Option<&Dictionary>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let head = out.len();
        let Some(room) = limit.checked_sub(head) else { return false };
        let mut body = Vec::with_capacity(room);
        let done = match self.how {
            Compression::None => false,
            Compression::Deflate => {
                let deflate = self
                    .deflate
                    .get_or_insert_with(|| Box::new(Compress::new(flate2::Compression::fast(), false)));
                deflate.reset();
                let status = deflate.compress_vec(bytes, &mut body, FlushCompress::Finish);
                status.is_ok_and(|status| status == Status::StreamEnd)
            }
            Compression::Zstd => {
                let zstd = self.zstd.get_or_insert_with(CCtx::create);
                let result = match dictionary {
                    Some(dictionary) => zstd.compress_using_cdict(&mut body, bytes, &dictionary.compressing),
                    None => zstd.compress(&mut body, bytes, ZSTD_LEVEL),
                };
                result.is_ok()
            }
        };
        if done && body.len() <= room {
            out.extend_from_slice(&body);
            return true;
        }
        false
    }
}

/// The most bytes that are worth being sent in place of `size`.
fn worthwhile(size: usize) -> usize {
    size.saturating_sub(size / 16)
}

/// A channel's receiving end of compression.
pub(crate) struct Unpacker {
    how: Compression,
    dictionary: Option<Arc<Dictionary>>,
    deflate: Option<Box<Decompress>>,
    zstd: Option<DCtx<'static>>,
}

impl Unpacker {
    pub(crate) fn new(how: Compression, dictionary: Option<Arc<Dictionary>>) -> Unpacker {
        Unpacker { how, dictionary, deflate: None, zstd: None }
    }

    /// The message; `None` if it is not what a [`Packer`] makes, or has more than `limit` bytes.
    pub(crate) fn unpack(&mut self, packed: &[u8], limit: u32) -> Option<Bytes> {
        let mut reader = Reader::new(packed);
        let size = reader.length_up_to(limit as usize)?;
        let body = reader.take_rest();
        // One byte more shows whether there is more.
        let mut out = Vec::with_capacity(size.saturating_add(1));
        let done = match self.how {
            Compression::None => false,
            Compression::Deflate => {
                let deflate = self.deflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
                deflate.reset(false);
                let status = deflate.decompress_vec(body, &mut out, FlushDecompress::Finish);
                status.is_ok_and(|status| status == Status::StreamEnd)
                    && deflate.total_in() == body.len() as u64
            }
            Compression::Zstd => {
                let zstd = self.zstd.get_or_insert_with(DCtx::create);
                let result = match &self.dictionary {
                    Some(dictionary) => {
                        zstd.decompress_using_ddict(&mut out, body, &dictionary.decompressing)
                    }
                    None => zstd.decompress(&mut out, body),
                };
                result.is_ok()
            }
        };
        (done && out.len() == size).then(|| Bytes::from(out))
    }
}

#[cfg(test)]
#[path = "compression_tests.rs"]
mod tests;
