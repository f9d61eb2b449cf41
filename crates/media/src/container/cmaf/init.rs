//! The initialisation: `ftyp` and a `moov` without samples (ISO/IEC 14496-12 §8.2, §8.8).

use super::boxes::{Fields, full, plain};
use super::sample_entry::write_sample_entry;
use super::track::{Media, Track};
use std::ops::Range;

/// What kind of thing the boxes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    /// A fragmented file, of any number of tracks.
    File,
    /// A CMAF header (ISO/IEC 23000-19 §7.3.1), of one track.
    Cmaf,
}

/// Ticks a second of the movie's own durations.
pub(super) const MOVIE_TIMESCALE: u32 = 90_000;

/// Bytes of a `mehd` box, and of the `free` one that keeps its place.
const DURATION_BOX_BYTES: usize = 20;

/// Appends the initialisation of `tracks`. Returns where in `out` the box lies for which [`duration_box`] makes the
/// replacement when the duration is known; an empty range for [`Brand::Cmaf`], which is live and never says it.
pub fn write_init(brand: Brand, tracks: &[Track], out: &mut Vec<u8>) -> Range<usize> {
    let brands: [&[u8; 4]; 3] = match brand {
        Brand::File => [b"iso6", b"isom", b"mp41"],
        Brand::Cmaf => [b"cmfc", b"iso6", b"mp41"],
    };
    plain(out, b"ftyp", |out| {
        out.extend_from_slice(brands[0]);
        out.u32(0);
        brands.iter().for_each(|brand| out.extend_from_slice(*brand));
    });
    let mut duration = 0..0;
    plain(out, b"moov", |out| {
        write_movie_header(tracks, out);
        for track in tracks {
            write_track(track, out);
        }
        plain(out, b"mvex", |out| {
            if brand == Brand::File {
                // How long it all lasts is known at the end (`mehd`).
                duration = out.len()..out.len() + DURATION_BOX_BYTES;
                plain(out, b"free", |out| out.zeros(DURATION_BOX_BYTES - 8));
            }
            for track in tracks {
                full(out, b"trex", 0, 0, |out| {
                    out.u32(track.id);
                    out.u32(1);
                    out.zeros(12);
                });
            }
        });
    });
    duration
}

/// The box that says how long the movie lasts (`mehd`), in ticks of 90 kHz; as long as the room that
/// [`write_init`] has kept for it.
pub fn duration_box(ticks: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DURATION_BOX_BYTES);
    full(&mut bytes, b"mehd", 1, 0, |out| out.u64(ticks));
    bytes
}

/// No turning, no scaling.
pub(super) fn write_matrix(out: &mut Vec<u8>) {
    for value in [0x0001_0000, 0, 0, 0, 0x0001_0000, 0, 0, 0, 0x4000_0000] {
        out.u32(value);
    }
}

/// A number that no track has. Where a track has the largest number there is, that number: it says that a writer has to
/// look for a free one (14496-12 §8.2.2.3).
fn next_track_id(tracks: &[Track]) -> u32 {
    tracks.iter().map(|track| track.id).max().unwrap_or(0).saturating_add(1)
}

fn write_movie_header(tracks: &[Track], out: &mut Vec<u8>) {
    full(out, b"mvhd", 0, 0, |out| {
        out.zeros(8);
        out.u32(MOVIE_TIMESCALE);
        out.u32(0);
        out.u32(0x0001_0000);
        out.u16(0x0100);
        out.zeros(10);
        write_matrix(out);
        out.zeros(24);
        out.u32(next_track_id(tracks));
    });
}

fn write_track(track: &Track, out: &mut Vec<u8>) {
    plain(out, b"trak", |out| {
        write_track_header(track, out);
        plain(out, b"mdia", |out| {
            full(out, b"mdhd", 0, 0, |out| {
                out.zeros(8);
                out.u32(track.media.timescale());
                out.u32(0);
                // "und", three letters of 5 bits.
                out.u16(0x55c4);
                out.u16(0);
            });
            let is_video = track.media.is_video();
            full(out, b"hdlr", 0, 0, |out| {
                out.u32(0);
                out.extend_from_slice(if is_video { b"vide" } else { b"soun" });
                out.zeros(12);
                out.extend_from_slice(if is_video { b"video\0" } else { b"sound\0" });
            });
            plain(out, b"minf", |out| {
                if is_video {
                    full(out, b"vmhd", 0, 1, |out| out.zeros(8));
                } else {
                    full(out, b"smhd", 0, 0, |out| out.zeros(4));
                }
                plain(out, b"dinf", |out| {
                    full(out, b"dref", 0, 0, |out| {
                        out.u32(1);
                        // The media is in this file.
                        full(out, b"url ", 0, 1, |_| {});
                    });
                });
                write_sample_table(&track.media, out);
            });
        });
    });
}

fn write_track_header(track: &Track, out: &mut Vec<u8>) {
    // Enabled, in the movie.
    full(out, b"tkhd", 0, 3, |out| {
        out.zeros(8);
        out.u32(track.id);
        out.zeros(8);
        out.zeros(8);
        out.u16(0);
        // Tracks of sound are alternatives to each other, not to pictures.
        out.u16(if track.media.is_video() { 0 } else { 1 });
        out.u16(if track.media.is_video() { 0 } else { 0x0100 });
        out.u16(0);
        write_matrix(out);
        let (width, height) = shown_size(&track.media);
        out.u32(width << 16);
        out.u32(height << 16);
    });
}

/// Width and height as they are shown, in square pixels.
fn shown_size(media: &Media) -> (u32, u32) {
    let Some(pictures) = media.pictures() else { return (0, 0) };
    let (horizontal, vertical) = pictures.sample_aspect.unwrap_or((1, 1));
    let width = u64::from(pictures.width_px) * u64::from(horizontal) / u64::from(vertical.max(1));
    (width.min(u16::MAX.into()) as u32, pictures.height_px)
}

/// The table of samples, of which there are none here (14496-12 §8.5).
fn write_sample_table(media: &Media, out: &mut Vec<u8>) {
    plain(out, b"stbl", |out| {
        full(out, b"stsd", 0, 0, |out| {
            out.u32(1);
            write_sample_entry(media, out);
        });
        full(out, b"stts", 0, 0, |out| out.u32(0));
        full(out, b"stsc", 0, 0, |out| out.u32(0));
        full(out, b"stsz", 0, 0, |out| out.zeros(8));
        full(out, b"stco", 0, 0, |out| out.u32(0));
    });
}
