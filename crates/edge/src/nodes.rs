//! Servers that are known only when something is asked of them: the other nodes of a cluster. Each is a group of its own, behind the
//! groups that are configured, and keeps its number as long as the edge lives.

use glassline_delivery::http1::Url;
use std::sync::{Mutex, PoisonError};

/// Servers that are known at most: a registry that names ever new ones must not take all memory.
const NODES_MAX: usize = 4096;

/// The servers so far, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    urls: Mutex<Vec<Url>>,
}

impl Nodes {
    /// The number of this server; `None` where there is no room for another one.
    pub(super) fn number(&self, url: &Url) -> Option<usize> {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = urls.iter().position(|known| known == url) {
            return Some(number);
        }
        if urls.len() >= NODES_MAX {
            return None;
        }
        urls.push(url.clone());
        Some(urls.len() - 1)
    }

    /// Those from this number on.
    pub(super) fn after(&self, known: usize) -> Vec<Url> {
        let urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        urls.get(known..).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_number_and_there_is_an_end_to_them() {
        let nodes = Nodes::default();
        let url = |number: usize| format!("http://10.0.0.1:{number}").parse::<Url>().unwrap();
        assert_eq!(
            (nodes.number(&url(1)), nodes.number(&url(2)), nodes.number(&url(1))),
            (Some(0), Some(1), Some(0))
        );
        assert_eq!(nodes.after(1), [url(2)]);
        assert!((3..=NODES_MAX).all(|number| nodes.number(&url(number)).is_some()));
        assert_eq!((nodes.number(&url(60_000)), nodes.number(&url(2))), (None, Some(1)));
        assert!(nodes.after(NODES_MAX).is_empty());
    }
}
