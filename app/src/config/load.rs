//! From a file's text to a [`Config`], with errors that name the line.
//!
//! [`de`] finds what is wrong and where (an offset); here that is put into the words of someone who edits the file: the line,
//! the key with its section, the nearest key that exists.

use super::de::{self, Problem, ReadError};
use super::error::Location;
use super::{Config, ConfigError, Secret, validate, wording};
use glassline_io::secret_file::{self, SecretFileError};
use glassline_io::small_file::{Accept, Bounds, SmallFile};
use std::path::Path;
use toml::de::{DeTable, DeValue};

impl Config {
    /// Reads the file at `path`, and the key files that it may name; all are to be what `accept` says.
    pub(crate) fn load(path: &Path, accept: Accept) -> Result<Config, ConfigError> {
        let file = SmallFile::open(path, accept, Bounds::default())?;
        let is_private = secret_file::check(&file, path);
        let mut config = Config::parse(&file.read_text()?, path)?;
        if config.holds_keys()
            && let Err(exposed) = is_private
        {
            tracing::warn!("{exposed}; or have its keys in files of their own (key_file)");
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let Config { publish, viewer, stream, encode, log, tls, upstream, .. } = &mut config;
        for file in tls.certificates.iter_mut().flat_map(|files| [&mut files.chain, &mut files.key]) {
            *file = folder.join(&*file);
        }
        for ca in stream.values_mut().filter_map(|stream| stream.ca.as_mut()) {
            *ca = folder.join(&*ca);
        }
        upstream.disk = upstream.disk.take().map(|directory| folder.join(directory));
        upstream.ca = upstream.ca.take().map(|ca| folder.join(ca));
        for section in encode.values_mut() {
            section.input = section.input.take().map(|input| crate::encode::input_in(folder, &input));
            section.audio_in = section.audio_in.take().map(|input| crate::encode::sound_in(folder, &input));
        }
        log.access = log.access.take().map(|file| folder.join(file));
        let general = [
            ("publish key", &publish.key_file, &mut publish.key),
            ("viewer key", &viewer.key_file, &mut viewer.key),
        ];
        let own = stream.values_mut().flat_map(|stream| {
            [
                ("publish key", &stream.publish_key_file, &mut stream.publish_key),
                ("viewer key", &stream.viewer_key_file, &mut stream.viewer_key),
            ]
        });
        for (what, file, key) in general.into_iter().chain(own) {
            if let Some(file) = file {
                *key = Some(read_key(&folder.join(file), what, accept)?);
            }
        }
        for doubt in config.doubts() {
            tracing::warn!("{}: {doubt}", path.display());
        }
        Ok(config)
    }

    /// What may well be meant otherwise, though it is a configuration; to be asked when key files are read.
    pub(super) fn doubts(&self) -> Vec<&'static str> {
        let Config { publish, viewer, .. } = self;
        let mut doubts = Vec::new();
        if publish.key.is_some() && publish.key == viewer.key {
            doubts.push(
                "[publish] and [viewer] have the same key: whoever signs viewers' addresses may publish, too; give each its own",
            );
        }
        if publish.key.is_some() && publish.open {
            doubts.push("[publish] open = true changes nothing beside a key, which every publisher needs; remove one of them");
        }
        doubts
    }

    /// Whether a key stands in the text itself; to be asked before key files are read.
    pub(super) fn holds_keys(&self) -> bool {
        let Config { publish, viewer, stream, upstream, .. } = self;
        let own = stream.values().flat_map(|stream| [&stream.publish_key, &stream.viewer_key]);
        own.chain([&publish.key, &viewer.key]).any(Option::is_some)
            || upstream.all_servers().any(|server| server.authorization().is_some())
    }

    /// Reads a configuration's text; `path` is only named in errors. A key file is not read.
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
            let place = place(offset_of(&table, &problem.key));
            ConfigError::Invalid { place, problem: problem.to_string() }
        })?;
        Ok(config)
    }
}

/// The key in a file that holds nothing else, that others may not read, and that is what `accept` says.
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

/// The line, from 1, on which the byte at `offset` stands.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Puts an error into words.
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
        // Of a section that is not known the path goes on into it.
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

/// The known key that `key` was probably meant to be, if one is near enough to be worth naming.
fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(key, name), *name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= (key.chars().count() / 3).max(1)).then_some(name)
}

/// The path of the innermost key that stands, or whose value stands, at `offset`.
fn path_at(table: &DeTable<'_>, offset: usize) -> Vec<String> {
    // A section's value spans its header only, so what is inside is looked at first.
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

/// Where the key with the dotted path `key` stands.
fn offset_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    // Names of streams may have dots of their own.
    table.iter().find_map(|(name, value)| match key.strip_prefix(name.get_ref().as_ref())? {
        "" => Some(name.span().start),
        rest => match (rest.strip_prefix('.')?, value.get_ref()) {
            (rest, DeValue::Table(inner)) => offset_of(inner, rest),
            _ => Some(name.span().start),
        },
    })
}
