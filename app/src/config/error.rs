//! Why a configuration is refused.

use glassline_io::secret_file::SecretFileError;
use glassline_io::small_file::SmallFileError;
use std::fmt;
use std::path::PathBuf;

/// A place in a configuration: printed as `FILE:LINE`, or as `FILE` if the error is not about a single line.
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

/// What to do if the system cannot read a file; all other errors contain their own advice.
fn advice(error: &SmallFileError) -> &'static str {
    match error {
        SmallFileError::Unreadable { .. } => "; check the path and that this user may read it",
        _ => "",
    }
}

/// Why a configuration is refused. Ends the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file, or a file that it names, cannot be read.
    #[error("{}{}", .0, advice(.0))]
    File(SmallFileError),
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

impl From<SmallFileError> for ConfigError {
    fn from(error: SmallFileError) -> ConfigError {
        ConfigError::File(error)
    }
}
