//! Why a configuration is refused.

use glassline_io::secret_file::SecretFileError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where in a configuration something stands: printed as `FILE:LINE`, or as `FILE` where no line is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The file as it was named.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: Option<usize>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// Why a configuration is refused. Ends the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file, or a file that it names, cannot be read.
    #[error("cannot read {}: {error}; check the path and that this user may read it", .file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// A file that holds a key is one that others may read, or holds none.
    #[error(transparent)]
    Secret(SecretFileError),
    /// A key or section that does not exist.
    #[error("{place}: unknown {what}; {advice}")]
    UnknownKey { place: Location, what: String, advice: String },
    /// A value of the wrong kind or out of its range, or a text that is no TOML.
    #[error("{place}: {problem}")]
    Invalid { place: Location, problem: String },
}
