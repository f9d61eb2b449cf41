//! The slates of streams, from what is configured: files are read and checked with the configuration, and coded when they are needed.

use crate::config::{Config, SlateKind};
use crate::{encode, failure};
use anyhow::{Result, anyhow};
use glassline_delivery::policy::StreamName;
use glassline_delivery::slate::{FILE_MAX_BYTES, Format, Reel, WAITING_MAX_BYTES};
use glassline_doors::slate::{FORMATS_MAX, Picture, Slate};
use glassline_io::small_file::{Accept, Bounds, SmallFile};
use glassline_media::picture;
use glassline_studio::slate::{PICTURE_MAX_BYTES, READING_MAX_BYTES, REEL_MAX_BYTES, code, read_png};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a publisher may be silent, where nothing else is configured: longer than what a lost packet takes to be sent again, and
/// shorter than what players buffer.
const SILENCE: Duration = Duration::from_secs(2);
/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A file, read.
struct SlateFile {
    identity: String,
    content: Content,
}

enum Content {
    Still(picture::Picture),
    Repeated(Reel),
}

impl Picture for SlateFile {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn has_one_format(&self) -> bool {
        matches!(self.content, Content::Repeated(_))
    }

    fn code(&self, format: Format) -> Result<Reel, String> {
        match &self.content {
            Content::Still(picture) => code(picture, format).map_err(|error| error.to_string()),
            Content::Repeated(reel) => Ok(reel.clone()),
        }
    }
}

/// All slates that `config` asks for. A file that several streams show is read once.
///
/// # Errors
/// Which file cannot be shown, and why.
pub(super) fn read(config: &Config) -> Result<Vec<Slate>> {
    let mut files: BTreeMap<&Path, Arc<dyn Picture>> = BTreeMap::new();
    let mut slates = Vec::new();
    for (name, stream) in &config.stream {
        let (Some(file), Some(stream_name)) = (&stream.slate, StreamName::parse(name)) else { continue };
        let picture = match files.get(file.as_path()) {
            Some(picture) => Arc::clone(picture),
            None => {
                let picture = read_file(file).map_err(|error| {
                    failure::usage(
                        format!("stream.{name}.slate: {}: {error}", file.display()),
                        "name a PNG picture (.png), or a transport stream (.ts) that begins with a key frame; the name counts \
                         from the configuration file's folder",
                    )
                })?;
                files.insert(file, Arc::clone(&picture));
                picture
            }
        };
        let silence = stream.slate_after.unwrap_or(SILENCE);
        slates.push(Slate { stream: stream_name, picture, silence });
    }
    Ok(slates)
}

/// The most memory that the slates of `config` take, beside their streams.
pub(super) fn memory_bytes(config: &Config) -> u64 {
    let files: BTreeSet<&Path> =
        config.stream.values().filter_map(|stream| stream.slate.as_deref()).collect();
    let streams = config.stream.values().filter(|stream| stream.slate.is_some()).count() as u64;
    // One file is read at a time.
    let reading = if files.is_empty() { 0 } else { FILE_MAX_BYTES as u64 + READING_MAX_BYTES };
    let kept = |file: &&Path| match SlateKind::of(file) {
        Some(SlateKind::Png) => PICTURE_MAX_BYTES + FORMATS_MAX as u64 * REEL_MAX_BYTES,
        _ => FILE_MAX_BYTES as u64,
    };
    let kept: u64 = files.iter().map(kept).sum();
    // Beside the formats that are kept, each stream may show one of its own.
    reading + kept + streams * (REEL_MAX_BYTES + WAITING_MAX_BYTES)
}

fn read_file(file: &Path) -> Result<Arc<dyn Picture>> {
    let kind = SlateKind::of(file).ok_or_else(|| anyhow!("neither .png nor .ts"))?;
    if kind == SlateKind::Png {
        encode::require()?;
    }
    let bounds = Bounds { max_bytes: FILE_MAX_BYTES as u64, timeout: READ_TIMEOUT };
    let bytes = SmallFile::open(file, Accept::RegularFile, bounds)?.read()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let identity = format!("{} ({:016x})", file.display(), hasher.finish());
    let content = match kind {
        SlateKind::Png => Content::Still(read_png(&bytes)?),
        SlateKind::TransportStream => Content::Repeated(Reel::of_transport_stream(&bytes)?),
    };
    Ok(Arc::new(SlateFile { identity, content }))
}
