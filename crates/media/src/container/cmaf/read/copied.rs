//! What is copied of a CMAF header into a file: the sample entry as it is.

use super::body::{Body, Head};
use super::error::{FourCc, ReadError};

/// The longest sample entry: those with all parameter sets have some hundreds of bytes.
const ENTRY_MAX_BYTES: usize = 64 << 10;

/// A track's description.
pub(in crate::container::cmaf) struct SampleEntries<'a> {
    pub(in crate::container::cmaf) is_video: bool,
    pub(in crate::container::cmaf) timescale: u32,
    /// As `tkhd` has it, pixels times 2¹⁶.
    pub(in crate::container::cmaf) shown_size: (u32, u32),
    /// The first sample entry, a whole box.
    pub(in crate::container::cmaf) entry: &'a [u8],
}

/// Reads the first track of a header, which is there as a whole.
pub(in crate::container::cmaf) fn read_sample_entries(header: &[u8]) -> Result<SampleEntries<'_>, ReadError> {
    let around = FourCc(*b"file");
    let content_bytes = header.len() as u64;
    let file = Body::new(Head { kind: around, at: 0, bytes: 0, content_bytes }, header);
    let trak = file.need(b"moov")?.need(b"trak")?;
    let shown_size = shown_size(trak.need(b"tkhd")?)?;
    let mdia = trak.need(b"mdia")?;
    let mut mdhd = mdia.need(b"mdhd")?;
    let (version, _) = mdhd.version_and_flags()?;
    mdhd.take(if version == 0 { 8 } else { 16 }, "times of creation and change")?;
    let timescale = mdhd.u32("timescale")?;
    if timescale == 0 {
        return Err(mdhd.unexpected("timescale", 0, "at least 1"));
    }
    let mut hdlr = mdia.need(b"hdlr")?;
    hdlr.take(8, "version, flags and pre_defined")?;
    let handler = hdlr.take(4, "handler_type")?;
    let is_video = handler == b"vide";
    if !is_video && handler != b"soun" {
        let found = handler.iter().fold(0, |found, letter| found << 8 | u64::from(*letter));
        return Err(hdlr.unexpected("handler_type", found, "vide or soun"));
    }
    let mut stsd = mdia.need(b"minf")?.need(b"stbl")?.need(b"stsd")?;
    stsd.take(8, "version, flags and entry_count")?;
    let all = stsd.rest();
    let missing = ReadError::Missing { kind: stsd.kind, expected: FourCc(*b"avc1"), at: stsd.at };
    stsd.next_box()?.ok_or(missing)?;
    let length = all.len().saturating_sub(stsd.rest().len());
    let entry = all.get(..length).filter(|entry| entry.len() <= ENTRY_MAX_BYTES);
    let entry = entry.ok_or(stsd.unexpected("a sample entry's length", length as u64, "at most 64 KiB"))?;
    Ok(SampleEntries { is_video, timescale, shown_size, entry })
}

/// The last two fields of a `tkhd`.
fn shown_size(mut tkhd: Body<'_>) -> Result<(u32, u32), ReadError> {
    let (version, _) = tkhd.version_and_flags()?;
    tkhd.take(if version == 0 { 20 } else { 32 }, "times, number and duration")?;
    tkhd.take(16, "layer, group, volume")?;
    tkhd.take(36, "matrix")?;
    Ok((tkhd.u32("width")?, tkhd.u32("height")?))
}
