//! Where the streams are that are not here: other servers of the same cluster.

use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{Level, NodeName};
use glassline_delivery::policy::StreamName;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Where a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// At no server that is known.
    Unknown,
    /// Its publisher is at this server.
    Here,
    /// It is at another server.
    At {
        /// Servers that have it, in the order in which they are asked; at least one.
        servers: Vec<Url>,
        /// Tells the stream from an earlier one of the same name: the objects of both have the same names.
        epoch: u64,
    },
    /// It is at a server that cannot be reached now.
    Away {
        /// When it may be asked for again.
        retry_after: Duration,
    },
}

/// A server of the cluster that has a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What it is called.
    pub node: NodeName,
    /// Where it is asked.
    pub url: Url,
    /// How many servers the stream has passed before it: 0 where its publisher is there.
    pub hops: u8,
}

/// Why a name may not be published under, though no publisher here has it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NameRefusal(pub String);

/// Knows where streams are. No call may block for longer than a lock is held: workers ask for each request.
pub trait Directory: fmt::Debug + Send + Sync {
    /// Where the stream `name` is.
    fn find(&self, name: &StreamName) -> Whereabouts;

    /// Where the versions of the capture `group` are; the server of the best of them where they are at several.
    fn find_version(&self, group: &StreamName) -> Whereabouts;

    /// Whether it knows of all streams that there are: a directory that has just begun does not.
    fn is_complete(&self) -> bool;

    /// The servers from which the stream `name` may be pulled, in the order in which they are asked: one that pulls it already and is
    /// nearer than the one that has its publisher goes before that one. Empty where that is told by [`Directory::find`] alone. `level` is
    /// how far this server is from the publisher's so far, and `from` the server from which the stream comes: it is preferred.
    fn holders(&self, _name: &StreamName, _level: Level, _from: Option<&NodeName>) -> Vec<Holder> {
        Vec::new()
    }

    /// Whether the server may be pulled from, where another one has the stream, too: it is alive, and not emptied.
    fn may_carry(&self, _node: &NodeName) -> bool {
        true
    }

    /// The server from which the stream `name` had better be pulled than from the server `from`, so that the servers of a zone have it from
    /// another zone once; `None` where all is well.
    fn gateway(&self, _name: &StreamName, _from: &NodeName) -> Option<NodeName> {
        None
    }

    /// Where a viewer of the stream `name` is sent while this server is emptied: the public address of another one that can serve it.
    fn refuge(&self, _name: &StreamName) -> Option<Url> {
        None
    }

    /// Whether a publisher here may have `name`, as far as is known now; with `takes_over` also where another server has one.
    ///
    /// # Errors
    /// Why not, in words for people.
    fn may_publish(&self, name: &StreamName, takes_over: bool) -> Result<(), NameRefusal>;

    /// A publisher has come, or one has gone, or what is pulled from other servers has changed.
    fn publishers_changed(&self);
}

/// Streams that the configuration places at other servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticDirectory {
    names: BTreeMap<StreamName, Url>,
    /// What names begin with, and the server; the longest first.
    prefixes: Vec<(String, Url)>,
}

impl StaticDirectory {
    /// Of patterns: a stream's name, or what names begin with and a `*` behind that.
    ///
    /// # Errors
    /// A pattern that is neither.
    pub fn new(patterns: impl IntoIterator<Item = (String, Url)>) -> Result<StaticDirectory, String> {
        let mut directory = StaticDirectory::default();
        for (pattern, url) in patterns {
            match pattern.strip_suffix('*') {
                Some(prefix) if prefix.is_empty() || StreamName::parse(prefix).is_some() => {
                    directory.prefixes.push((prefix.to_owned(), url));
                }
                _ => match StreamName::parse(&pattern) {
                    Some(name) => drop(directory.names.insert(name, url)),
                    None => return Err(pattern),
                },
            }
        }
        directory.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(directory)
    }

    /// Whether it places no stream.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.prefixes.is_empty()
    }

    /// The server that has the stream `name`.
    pub fn server(&self, name: &StreamName) -> Option<&Url> {
        let of_prefix = || self.prefixes.iter().find(|(prefix, _)| name.as_str().starts_with(prefix));
        self.names.get(name).or_else(|| of_prefix().map(|(_, url)| url))
    }

    /// All patterns with their servers, by name and then the longest prefix first.
    pub fn entries(&self) -> impl Iterator<Item = (String, &Url)> {
        let names = self.names.iter().map(|(name, url)| (name.to_string(), url));
        names.chain(self.prefixes.iter().map(|(prefix, url)| (format!("{prefix}*"), url)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_before_a_prefix_and_the_longest_prefix_before_others() {
        let entry = |pattern: &str, port: u16| {
            (pattern.to_owned(), format!("http://10.0.0.1:{port}").parse::<Url>().unwrap())
        };
        let patterns = [entry("*", 1), entry("sport-*", 2), entry("sport-a*", 3), entry("sport-ab", 4)];
        let directory = StaticDirectory::new(patterns).unwrap();
        let port = |name: &str| directory.server(&StreamName::parse(name).unwrap()).map(Url::port);
        assert_eq!(["x", "sport-x", "sport-ax", "sport-ab"].map(port), [1, 2, 3, 4].map(Some));
        let some = StaticDirectory::new([entry("a", 1)]).unwrap();
        assert!(some.server(&StreamName::parse("ab").unwrap()).is_none() && !some.is_empty());
        for wrong in ["", "a/b", "a*b", "**", ".*"] {
            assert_eq!(StaticDirectory::new([entry(wrong, 1)]), Err(wrong.to_owned()));
        }
    }
}
