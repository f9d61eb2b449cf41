//! The pictures of all streams of a server, as JPEG.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jpeg {
    /// The file, at most 32 KiB.
    pub bytes: Arc<[u8]>,
    /// Sixteen hexadecimal digits by which it is told from others.
    pub id: String,
}

impl Jpeg {
    pub(crate) fn new(bytes: Arc<[u8]>) -> Jpeg {
        // Of what is in it, so that a restart does not give another picture the word of this one.
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        Jpeg { id: format!("{:016x}", hasher.finish()), bytes }
    }
}

/// What is kept of them.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    newest: BTreeMap<String, Jpeg>,
}

impl Pictures {
    /// The newest picture of `stream`.
    pub(crate) fn newest(&self, stream: &str) -> Option<&Jpeg> {
        self.newest.get(stream)
    }

    /// `stream` has another newest picture, or none.
    pub(crate) fn set_newest(&mut self, stream: &str, picture: Option<Jpeg>) {
        match picture {
            Some(picture) => drop(self.newest.insert(stream.to_owned(), picture)),
            None => drop(self.newest.remove(stream)),
        }
    }
}
