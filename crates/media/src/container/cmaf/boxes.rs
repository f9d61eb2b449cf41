//! Boxes (ISO/IEC 14496-12 §4.2): a length, four letters, a content.
//!
//! ```text
//! size:32 │ type:32 │ [version:8 flags:24 in a full box] │ content, boxes perhaps
//! ```

/// Appends a box; `fill` writes its content.
///
/// # Panics
/// Where the content has 4 GiB or more, which no caller here makes.
pub(super) fn plain(out: &mut Vec<u8>, kind: &[u8; 4], fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    fill(out);
    let bytes = u32::try_from(out.len() - start).expect("a box of less than 4 GiB");
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

/// Appends a box with version and flags before its content.
pub(super) fn full(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    version: u8,
    flags: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    plain(out, kind, |out| {
        out.extend_from_slice(&(u32::from(version) << 24 | flags & 0x00ff_ffff).to_be_bytes());
        fill(out);
    });
}

/// Big-endian numbers at the end of a box's content.
pub(super) trait Fields {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn zeros(&mut self, bytes: usize);
}

impl Fields for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn zeros(&mut self, bytes: usize) {
        self.resize(self.len() + bytes, 0);
    }
}

/// Walks over the boxes of `bytes`, for tests: type and content of each.
#[cfg(test)]
pub(super) fn walk(mut bytes: &[u8]) -> Vec<([u8; 4], &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let size = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        found.push((bytes[4..8].try_into().unwrap(), &bytes[8..size]));
        bytes = &bytes[size..];
    }
    found
}

/// The content of the box at `path` inside `bytes`, for tests.
#[cfg(test)]
pub(super) fn find<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(bytes, |bytes, kind| {
        walk(bytes).into_iter().find(|(found, _)| found == *kind).map(|(_, content)| content)
    })
}
