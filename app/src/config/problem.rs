//! What is wrong with a value, and under which key.

use std::borrow::Cow;
use std::fmt;

/// The rule for stream names.
pub(super) const NAME_RULE: &str = "1 to 64 letters, digits, '.', '_' or '-', not beginning with a dot";

/// A value that is out of range or otherwise wrong, and its key.
#[derive(Debug)]
pub(super) struct Problem {
    /// The dotted path of the key.
    pub(super) key: Cow<'static, str>,
    problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// The value of `key` has this problem.
pub(super) fn problem(key: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Result<(), Problem> {
    Err(Problem { key: key.into(), problem: problem.into() })
}

pub(super) fn out_of(
    key: impl Into<Cow<'static, str>>,
    found: impl fmt::Display,
    least: impl fmt::Display,
    most: impl fmt::Display,
) -> Result<(), Problem> {
    problem(key, format!("{found} is out of range; from {least} to {most}"))
}
