//! From a file's text to a [`Config`], with errors that name the line.
//!
//! [`de`] finds what is wrong, and at which offset. This module turns that into a message for people: the line, the
//! key with its section, and the nearest key that exists.

use super::de::{self, Problem, ReadError};
use super::error::Location;
use super::{Config, ConfigError, Secret, StreamOutput, StreamSource, validate, wording};
use crate::key;
use crate::serve::links;
use glassline_delivery::pull::Source;
use glassline_delivery::webhook::WebhookSecret;
use glassline_io::secret_file::{self, SecretFileError};
use glassline_io::small_file::{Accept, Bounds, SmallFile};
use glassline_transport::srt::Passphrase;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// A file with a key that the configuration names, after it was read.
pub(crate) struct KeyRead {
    /// The configuration's key, as in `publish.key_file`.
    pub(crate) name: String,
    /// The file, relative to the working directory.
    pub(crate) file: PathBuf,
    /// Why it cannot be used.
    pub(crate) read: Result<(), ConfigError>,
}

impl Config {
    /// Reads the file at `path` and the key files that it names. A file is refused unless it is of a kind that
    /// `accept` allows.
    pub(crate) fn load(path: &Path, accept: Accept) -> Result<Config, ConfigError> {
        let mut config = Config::load_without_keys(path, accept)?;
        for key in config.read_keys(path, accept) {
            key.read?;
        }
        if let Err((section, wrong)) = links::check(&config) {
            let place = Location { file: path.into(), line: None };
            return Err(ConfigError::Invalid { place, problem: format!("{section}: {wrong}") });
        }
        for doubt in config.doubts() {
            tracing::warn!("{}: {doubt}", path.display());
        }
        Ok(config)
    }

    /// Reads the key files that the configuration at `path` names, each into its place; tells of each what came of it.
    pub(crate) fn read_keys(&mut self, path: &Path, accept: Accept) -> Vec<KeyRead> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut all = Vec::new();
        let Config { publish, viewer, stream, watch, srt, .. } = self;
        let mut own = |name: String, what, file: &Option<PathBuf>, key: &mut Option<Secret>| {
            let Some(file) = file else { return };
            let file = folder.join(file);
            let read = read_key(&file, what, accept).map(|read| *key = Some(read));
            all.push(KeyRead { name, file, read });
        };
        own("publish.key_file".to_owned(), "publish key", &publish.key_file, &mut publish.key);
        own("viewer.key_file".to_owned(), "viewer key", &viewer.key_file, &mut viewer.key);
        for (name, stream) in stream.iter_mut() {
            let key = |key: &str| format!("stream.{name}.{key}");
            let (publish_file, viewer_file) = (&stream.publish_key_file, &stream.viewer_key_file);
            own(key("publish_key_file"), "publish key", publish_file, &mut stream.publish_key);
            own(key("viewer_key_file"), "viewer key", viewer_file, &mut stream.viewer_key);
        }
        let mut of_link = |name: String, file: &Option<PathBuf>, key: &mut Option<key::Secret>| {
            let Some(file) = file else { return };
            let read = read_link_key(file, accept).map(|read| *key = Some(read));
            all.push(KeyRead { name, file: file.clone(), read });
        };
        for (name, stream) in stream.iter_mut() {
            of_link(format!("stream.{name}.link_key_file"), &stream.link_key_file, &mut stream.link_key);
            for output in &mut stream.outputs {
                if let StreamOutput::Link(link) = output {
                    of_link(format!("stream.{name}.outputs"), &link.key_file, &mut link.key);
                }
            }
        }
        if let Some(watch) = watch
            && let Some(file) = &watch.webhook_secret_file
        {
            let read = read_webhook_secret(file, accept).map(|secret| watch.webhook_secret = Some(secret));
            all.push(KeyRead { name: "watch.webhook_secret_file".to_owned(), file: file.clone(), read });
        }
        if let Some(srt) = srt
            && let Some(file) = &srt.passphrase_file
        {
            let read = read_passphrase(file, accept).map(|passphrase| srt.passphrase = Some(passphrase));
            all.push(KeyRead { name: "srt.passphrase_file".to_owned(), file: file.clone(), read });
        }
        all
    }

    /// The same without its key files, which the user may not be allowed to read.
    pub(crate) fn load_without_keys(path: &Path, accept: Accept) -> Result<Config, ConfigError> {
        let file = SmallFile::open(path, accept, Bounds::default())?;
        let is_private = secret_file::check(&file, path);
        let mut config = Config::parse(&file.read_text()?, path)?;
        if config.holds_keys()
            && let Err(exposed) = is_private
        {
            tracing::warn!("{exposed}; or put its keys into files of their own (key_file)");
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        config.cluster.join(folder);
        config.record.join(folder);
        let Config { stream, encode, log, tls, upstream, watch, srt, .. } = &mut config;
        for file in tls.certificates.iter_mut().flat_map(|files| [&mut files.chain, &mut files.key]) {
            *file = folder.join(&*file);
        }
        for ca in stream.values_mut().filter_map(|stream| stream.ca.as_mut()) {
            *ca = folder.join(&*ca);
        }
        for slate in stream.values_mut().filter_map(|stream| stream.slate.as_mut()) {
            *slate = folder.join(&*slate);
        }
        for stream in stream.values_mut() {
            stream.link_key_file = stream.link_key_file.take().map(|file| folder.join(file));
            if let Some(StreamSource::Pulled(Source::Sdp(file))) = &mut stream.source {
                file.path = folder.join(&file.path);
            }
            for output in &mut stream.outputs {
                match output {
                    StreamOutput::Link(link) => {
                        link.key_file = link.key_file.take().map(|file| folder.join(file));
                    }
                    StreamOutput::Datagrams(destination) => {
                        if let Some(tracks) = &mut destination.tracks {
                            tracks.file = folder.join(&tracks.file);
                        }
                    }
                    StreamOutput::Srt(_) => {}
                }
            }
        }
        if let Some(watch) = watch {
            for file in [&mut watch.webhook_secret_file, &mut watch.state_file] {
                *file = file.take().map(|file| folder.join(file));
            }
        }
        if let Some(srt) = srt {
            srt.passphrase_file = srt.passphrase_file.take().map(|file| folder.join(file));
        }
        upstream.disk = upstream.disk.take().map(|directory| folder.join(directory));
        upstream.ca = upstream.ca.take().map(|ca| folder.join(ca));
        for section in encode.values_mut() {
            *section = std::mem::take(section).in_folder(folder);
        }
        log.access = log.access.take().map(|file| folder.join(file));
        Ok(config)
    }

    /// Warnings about settings that are valid but probably a mistake. Call this after the key files have been read.
    pub(super) fn doubts(&self) -> Vec<Cow<'static, str>> {
        let Config { publish, viewer, .. } = self;
        let mut doubts = Vec::new();
        if publish.key.is_some() && publish.key == viewer.key {
            let words = "[publish] and [viewer] have the same key, so that a program that signs viewers' addresses can also publish; use two keys";
            doubts.push(words.into());
        }
        if publish.key.is_some() && publish.open {
            doubts.push("[publish] open = true changes nothing if there is a key, because then every publisher needs it; remove one of them".into());
        }
        let of_events = self.misspelt_events().into_iter().chain(self.closed_streams_of_events());
        doubts.extend(of_events.map(Cow::from));
        doubts.extend(self.opus_to_services().into_iter().map(Cow::from));
        doubts
    }

    /// The ports that have a section and no listener. Where the system chooses a listener's port, it may be any.
    pub(crate) fn unheard_ports(&self) -> impl Iterator<Item = &str> {
        let addresses = || [&self.listen, &self.tls.listen, &self.admin.listen].into_iter().flatten();
        let is_heard = move |number: &str| {
            addresses().any(|address| address.port() == 0 || address.port().to_string() == number)
        };
        self.viewer.port.keys().map(String::as_str).filter(move |number| !is_heard(number))
    }

    /// Whether the text of the file contains a key. Call this before the key files are read.
    pub(super) fn holds_keys(&self) -> bool {
        let Config { publish, viewer, stream, upstream, cluster, .. } = self;
        let own = stream.values().flat_map(|stream| [&stream.publish_key, &stream.viewer_key]);
        let has_stream_keys = stream.values().any(|stream| !stream.forward.is_empty());
        own.chain([&publish.key, &viewer.key]).any(Option::is_some)
            || has_stream_keys
            || cluster.nats.iter().chain(&cluster.address).any(|address| address.contains('@'))
            || upstream
                .all_servers()
                .chain(cluster.places.values())
                .any(|server| server.authorization().is_some())
    }

    /// Parses a configuration's text; `path` appears only in errors. Key files are not read.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let place =
            |offset: Option<usize>| Location { file: path.into(), line: offset.map(|at| line_of(text, at)) };
        let syntax = |error: toml::de::Error| {
            let at = error.span().map(|span| span.start);
            let (at, problem) = wording::of_syntax(text, error.message(), at);
            ConfigError::Invalid { place: place(at), problem }
        };
        let table = DeTable::parse(text).map_err(syntax)?.into_inner();
        let config: Config = de::from_table(table.clone()).map_err(|error| explain(&table, error, place))?;
        config.check().map_err(|problem| {
            // A key that is missing is missing in its section.
            let section = problem.key.rsplit_once('.').map(|(section, _)| section);
            let offset = offset_of(&table, &problem.key).or_else(|| offset_of(&table, section?));
            let place = place(offset);
            ConfigError::Invalid { place, problem: problem.to_string() }
        })?;
        Ok(config)
    }
}

/// Reads a key from a file that contains nothing else and that other users may not read. The file is refused unless
/// it is of a kind that `accept` allows.
pub(crate) fn read_key(file: &Path, what: &str, accept: Accept) -> Result<Secret, ConfigError> {
    let text = secret_file::read_text(file, accept).map_err(|error| match error {
        SecretFileError::File(error) => ConfigError::File(error),
        error => ConfigError::Secret(error),
    })?;
    let key = Secret::new(text.trim_end_matches(['\n', '\r']));
    match validate::key(&key) {
        Ok(()) => Ok(key),
        Err(problem) => Err(ConfigError::Invalid {
            place: Location { file: file.into(), line: Some(1) },
            problem: format!("the {what} {problem}"),
        }),
    }
}

/// Reads the key by which webhooks are signed, in the same way.
fn read_webhook_secret(file: &Path, accept: Accept) -> Result<WebhookSecret, ConfigError> {
    let text = secret_file::read_text(file, accept).map_err(|error| match error {
        SecretFileError::File(error) => ConfigError::File(error),
        error => ConfigError::Secret(error),
    })?;
    WebhookSecret::parse(text.trim()).map_err(|error| ConfigError::Invalid {
        place: Location { file: file.into(), line: Some(1) },
        problem: error.to_string(),
    })
}

/// Reads the passphrase of SRT, in the same way.
fn read_passphrase(file: &Path, accept: Accept) -> Result<Passphrase, ConfigError> {
    let text = secret_file::read_text(file, accept).map_err(|error| match error {
        SecretFileError::File(error) => ConfigError::File(error),
        error => ConfigError::Secret(error),
    })?;
    Passphrase::new(text.trim_end_matches(['\n', '\r'])).map_err(|error| ConfigError::Invalid {
        place: Location { file: file.into(), line: Some(1) },
        problem: error.to_string(),
    })
}

/// Reads the key of a link. The file is refused unless it is of a kind that `accept` allows, and no other users may read it.
fn read_link_key(file: &Path, accept: Accept) -> Result<key::Secret, ConfigError> {
    let text = secret_file::read_text(file, accept).map_err(|error| match error {
        SecretFileError::File(error) => ConfigError::File(error),
        error => ConfigError::Secret(error),
    })?;
    key::parse(&text).ok_or_else(|| ConfigError::Invalid {
        place: Location { file: file.into(), line: None },
        problem: "is no key of a link; glassline key new FILE makes one".into(),
    })
}

/// The line, counted from 1, that contains the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Turns an error into a message for people.
fn explain(table: &DeTable<'_>, error: ReadError, place: impl Fn(Option<usize>) -> Location) -> ConfigError {
    let path = error.at.map_or_else(Vec::new, |at| path_at(table, at));
    let place = place(error.at);
    match error.what {
        Problem::UnknownKey { key, known } => unknown(&key, known, &path, place),
        Problem::Other(problem) => {
            let problem = wording::of_value(&problem);
            let key = if path.is_empty() { String::new() } else { format!("{}: ", path.join(".")) };
            ConfigError::Invalid { place, problem: format!("{key}{problem}") }
        }
    }
}

fn unknown(key: &str, known: &[&str], path: &[String], place: Location) -> ConfigError {
    let what = match path.split_last() {
        // If a section is unknown, the path continues into it.
        Some((_, section)) if !section.is_empty() && section.last().is_some_and(|last| last != key) => {
            format!("key {key:?} in [{}]", section.join("."))
        }
        _ => format!("key or section {key:?}"),
    };
    let advice = match nearest(key, known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("known here: {}", known.join(", ")),
    };
    ConfigError::UnknownKey { place, what, advice }
}

/// The known key that `key` was probably meant as, if there is one that is similar enough.
pub(super) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(key, name), *name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= (key.chars().count() / 3).max(1)).then_some(name)
}

/// The path of the innermost key at `offset`; the offset may be in the key or in its value.
fn path_at(table: &DeTable<'_>, offset: usize) -> Vec<String> {
    // A section's value spans only its header, so the search looks into the section first.
    let inside = table.iter().find_map(|(key, value)| match value.get_ref() {
        DeValue::Table(inner) => {
            let path = path_at(inner, offset);
            (!path.is_empty()).then(|| [vec![key.get_ref().to_string()], path].concat())
        }
        _ => None,
    });
    inside.unwrap_or_else(|| {
        let hit =
            table.iter().find(|(key, value)| key.span().contains(&offset) || value.span().contains(&offset));
        hit.map(|(key, _)| vec![key.get_ref().to_string()]).unwrap_or_default()
    })
}

/// The offset of the key with the dotted path `key`.
fn offset_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    // Names of streams may contain dots.
    table.iter().find_map(|(name, value)| match key.strip_prefix(name.get_ref().as_ref())? {
        "" => Some(name.span().start),
        rest => match (rest.strip_prefix('.')?, value.get_ref()) {
            (rest, DeValue::Table(inner)) => offset_of(inner, rest),
            _ => Some(name.span().start),
        },
    })
}
