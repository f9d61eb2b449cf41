//! Why a store did not do what it was asked for, in words.

use glassline_media::printable;
use object_store::Error;
use object_store::client::HttpError;
use std::fmt;
use std::io;

/// Bytes of a store's own words that are told.
const TOLD_MAX_BYTES: usize = 200;

/// Codes of S3 that say that the credentials are not taken, or not for this region.
const DENIED: [&str; 7] = [
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "AuthorizationHeaderMalformed",
];

/// What kind of failure it is, for callers that act by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreErrorKind {
    /// There is no such object.
    NotFound,
    /// There is no such bucket, or no such folder.
    NoStore,
    /// The credentials are wrong, allow it not, or cannot be read; or a folder may not be written to.
    Denied,
    /// The store cannot be reached, or did not answer in time.
    Unreachable,
    /// The store asks for fewer requests (429, 503 `SlowDown`) or has a fault of its own (5xx).
    Busy,
    /// There is no room left.
    Full,
    /// The request is one that no store takes: a name, a setting.
    BadRequest,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// The word for it in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::NotFound => "not_found",
            StoreErrorKind::NoStore => "no_store",
            StoreErrorKind::Denied => "denied",
            StoreErrorKind::Unreachable => "unreachable",
            StoreErrorKind::Busy => "busy",
            StoreErrorKind::Full => "full",
            StoreErrorKind::BadRequest => "bad_request",
            StoreErrorKind::Other => "other",
        }
    }

    /// Its place among all of them.
    pub const fn index(self) -> usize {
        match self {
            StoreErrorKind::NotFound => 0,
            StoreErrorKind::NoStore => 1,
            StoreErrorKind::Denied => 2,
            StoreErrorKind::Unreachable => 3,
            StoreErrorKind::Busy => 4,
            StoreErrorKind::Full => 5,
            StoreErrorKind::BadRequest => 6,
            StoreErrorKind::Other => 7,
        }
    }

    /// All of them.
    pub const ALL: [StoreErrorKind; 8] = [
        StoreErrorKind::NotFound,
        StoreErrorKind::NoStore,
        StoreErrorKind::Denied,
        StoreErrorKind::Unreachable,
        StoreErrorKind::Busy,
        StoreErrorKind::Full,
        StoreErrorKind::BadRequest,
        StoreErrorKind::Other,
    ];
}

/// A failure of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    words: String,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, words: impl Into<String>) -> StoreError {
        StoreError { kind, words: words.into() }
    }

    pub(crate) fn no_answer() -> StoreError {
        StoreError::new(StoreErrorKind::Unreachable, "the store did not answer in time")
    }

    pub(crate) fn not_configured() -> StoreError {
        StoreError::new(StoreErrorKind::NoStore, "no store is configured")
    }

    pub(crate) fn thread_ended() -> StoreError {
        StoreError::new(StoreErrorKind::Other, "the store's thread has ended")
    }

    /// What kind it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What `error` of the operating system comes to.
    pub(super) fn of_file(error: &io::Error, path: &str) -> StoreError {
        let (kind, advice) = match kind_of_file(error) {
            Some(StoreErrorKind::Full) => (StoreErrorKind::Full, "the store has no room left"),
            Some(kind) => (kind, "the store's folder may not be written to; look at its owner and mode"),
            None => (StoreErrorKind::Other, "the store failed"),
        };
        StoreError::new(kind, format!("{advice} ({path}: {error})"))
    }

    /// What `error` comes to, which a request for the object `path` ended with.
    pub(super) fn of(error: &Error, path: &str) -> StoreError {
        let words = words_of(error);
        let kind = kind_of(error, &words);
        let advice = match kind {
            StoreErrorKind::NotFound => return StoreError::new(kind, format!("there is no object '{path}'")),
            StoreErrorKind::NoStore => {
                "there is no such bucket or folder; create it, or correct [record] store"
            }
            StoreErrorKind::Denied => {
                "the store refuses the credentials, or they do not allow this; look at access_key_file and secret_key_file, or at the folder's owner"
            }
            StoreErrorKind::Unreachable => "the store cannot be reached, or does not answer in time",
            StoreErrorKind::Busy => "the store is busy, or has a fault of its own",
            StoreErrorKind::Full => "the store has no room left",
            StoreErrorKind::BadRequest => "the store does not take this request",
            StoreErrorKind::Other => "the store failed",
        };
        StoreError::new(kind, format!("{advice} ({words})"))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for StoreError {}

/// The errors below `error`, itself first.
fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// What the store itself says: the code and message of S3's XML, or the last error of the chain.
fn words_of(error: &Error) -> String {
    let text = error.to_string();
    let between = |open: &str, close: &str| {
        let begin = text.find(open)? + open.len();
        let length = text.get(begin..)?.find(close)?;
        text.get(begin..begin + length).map(str::to_owned)
    };
    let told = match (between("<Code>", "</Code>"), between("<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => chain(error).last().map_or(text.clone(), ToString::to_string),
    };
    let mut told = printable::line(&told).into_owned();
    if told.len() > TOLD_MAX_BYTES {
        let end = (0..=TOLD_MAX_BYTES).rev().find(|&end| told.is_char_boundary(end)).unwrap_or(0);
        told.truncate(end);
        told.push('…');
    }
    told
}

fn kind_of_file(error: &io::Error) -> Option<StoreErrorKind> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(StoreErrorKind::Full),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(StoreErrorKind::Denied),
        _ => None,
    }
}

fn kind_of(error: &Error, words: &str) -> StoreErrorKind {
    let found = chain(error).find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return kind_of_file(error);
        }
        // What answers there is no server of HTTP, or broke off: as far as objects go, the same.
        cause.downcast_ref::<HttpError>().map(|_| StoreErrorKind::Unreachable)
    });
    if let Some(kind) = found {
        return kind;
    }
    match error {
        _ if words.starts_with("NoSuchBucket") => StoreErrorKind::NoStore,
        _ if DENIED.iter().any(|code| words.starts_with(code)) => StoreErrorKind::Denied,
        _ if ["status code: 401", "status code: 403"].iter().any(|code| error.to_string().contains(code)) => {
            StoreErrorKind::Denied
        }
        Error::NotFound { .. } => StoreErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreErrorKind::Denied,
        Error::InvalidPath { .. } | Error::NotSupported { .. } | Error::UnknownConfigurationKey { .. } => {
            StoreErrorKind::BadRequest
        }
        // A store that has too much to do says so with 503 or 429; one that a proxy does not reach shows as 502 or 504.
        _ => {
            let text = error.to_string();
            let is_busy = [
                "SlowDown",
                // A request that took too long, or too many of them.
                "RequestTimeout",
                "IncompleteBody",
                "BadDigest",
                "OperationAborted",
                "status code: 407",
                "status code: 408",
                "status code: 409",
                "status code: 421",
                "status code: 425",
                "status code: 429",
                "InternalError",
                "status 5",
                "status code: 5",
                " 429 ",
                " 500 ",
                " 502 ",
                " 503 ",
                " 504 ",
            ];
            if is_busy.iter().any(|sign| text.contains(sign)) {
                StoreErrorKind::Busy
            } else if text.contains("status code: 4") || text.contains("status 4") || text.contains(" 400 ") {
                StoreErrorKind::BadRequest
            } else {
                StoreErrorKind::Other
            }
        }
    }
}
