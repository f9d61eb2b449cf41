//! Where recordings are kept, as the configuration and the command line write it: `file:DIR` or `s3://BUCKET/PREFIX`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a prefix; S3 takes names of 1024 bytes, and those below the prefix need some 200.
const PREFIX_MAX_BYTES: usize = 512;

/// Where recordings are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine, or one that it has mounted.
    Folder(PathBuf),
    /// A bucket of a server that speaks S3.
    S3 {
        /// Its name.
        bucket: String,
        /// What stands in front of all names in it, without a slash at either end; may be empty.
        prefix: String,
    },
}

/// A text that is no place for recordings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLocation {
    /// Another scheme, or none.
    #[error("a store is file:DIR or s3://BUCKET/PREFIX, not '{0}'")]
    Scheme(String),
    /// `file:` without a folder, or a relative one.
    #[error("file: is followed by the absolute path of a folder, as in file:/srv/recordings")]
    Folder,
    /// No bucket can have this name.
    #[error(
        "'{0}' is no name of a bucket: 3 to 63 of a-z, 0-9, '-' and '.', with a letter or digit at both ends"
    )]
    Bucket(String),
    /// Not what names of objects can begin with.
    #[error(
        "'{0}' is no prefix of names: parts of A-Z, a-z, 0-9, '-', '_', '.' and '=' between single slashes, at most 512 bytes"
    )]
    Prefix(String),
}

fn is_bucket(name: &str) -> bool {
    let at_end =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && at_end(bytes.first().copied())
        && at_end(bytes.last().copied())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte))
}

fn is_prefix(prefix: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain);
    prefix.is_empty() || (prefix.len() <= PREFIX_MAX_BYTES && prefix.split('/').all(is_part))
}

impl FromStr for Location {
    type Err = BadLocation;

    fn from_str(text: &str) -> Result<Location, BadLocation> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
            if !is_bucket(bucket) {
                return Err(BadLocation::Bucket(bucket.to_owned()));
            }
            if !is_prefix(prefix) {
                return Err(BadLocation::Prefix(prefix.to_owned()));
            }
            return Ok(Location::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        }
        let Some(path) = text.strip_prefix("file:") else {
            return Err(BadLocation::Scheme(text.to_owned()));
        };
        // `file:///srv` is how a URL writes it.
        let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
        if !Path::new(path).is_absolute() || path.contains('\0') {
            return Err(BadLocation::Folder);
        }
        Ok(Location::Folder(path.into()))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Folder(path) => write!(f, "file:{}", path.display()),
            Location::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Location::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_read_and_written_alike() {
        for text in ["file:/srv/recordings", "s3://glassline", "s3://a-b.c/live/2026", "s3://abc/x=1"] {
            assert_eq!(text.parse::<Location>().unwrap().to_string(), text);
        }
        assert_eq!("file:///srv/r".parse(), Ok(Location::Folder("/srv/r".into())));
        assert_eq!("s3://abc/".parse(), "s3://abc".parse::<Location>());
    }

    #[test]
    fn what_is_no_place_is_refused_in_words() {
        for text in [
            "",
            "recordings",
            "/srv/recordings",
            "https://abc/x",
            "file:recordings",
            "file:",
            "s3://AB",
            "s3://a",
            "s3://-ab",
            "s3:///x",
            "s3://abc/../x",
            "s3://abc//x",
            "s3://abc/a b",
            "s3://abc/%2e%2e",
        ] {
            let error = text.parse::<Location>().expect_err(text);
            assert!(error.to_string().len() > 30, "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_prefix_leads_out_of_its_bucket(text in "s3://[a-z]{3}/[a-z./]{0,12}") {
            if let Ok(Location::S3 { prefix, .. }) = text.parse() {
                prop_assert!(prefix.is_empty() || prefix.split('/').all(|part| !part.is_empty() && part != ".."));
            }
        }
    }
}
