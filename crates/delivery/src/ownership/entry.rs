//! Entries of the registry: what stands under a key, as JSON.
//!
//! ```text
//! node/NODE      {"v":1,"node":…,"incarnation":…,"address":…,"zone":…}     renewed while the node runs
//! stream/NAME    {"v":1,"node":…,"incarnation":…,"live":…}                 which node has the stream's publisher
//! carries/NODE   {"v":1,"node":…,"incarnation":…,"streams":{NAME:[epoch,hops],…}}  which streams the node pulls and may give on
//! ```
//! The epoch of an owner is the revision that its claim was written with: the registry counts revisions, so that no other claim has the
//! same one, whatever the claimant knew. Later entries of the same owner say it (`"epoch"`).
//! Fields that are not known are passed over, so that a later version may add some; an entry with another number of its form is not
//! read and never written over.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::http1::Url;
use crate::policy::StreamName;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// The form that is written, and the only one that is read.
pub(super) const FORM: u64 = 1;
/// The longest entry, in bytes.
pub const VALUE_MAX_BYTES: usize = 4096;
/// The longest address, zone or version in an entry, in bytes.
pub const TEXT_MAX_BYTES: usize = 256;

/// A node's name: 1 to 64 of `A–Z a–z 0–9 _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// `name`, if it is one.
    pub fn parse(name: &str) -> Option<NodeName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        ((1..=64).contains(&name.len()) && name.bytes().all(is_plain)).then(|| NodeName(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A run of a node's program, told from earlier and later ones by a random number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The node.
    pub node: NodeName,
    /// The random number.
    pub incarnation: u64,
}

/// What a key of the registry names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A node.
    Node(NodeName),
    /// A stream.
    Stream(StreamName),
    /// What a node pulls.
    Carries(NodeName),
}

impl Key {
    /// The key that `text` is; `None` of one that this program does not write.
    pub fn parse(text: &str) -> Option<Key> {
        if let Some(name) = text.strip_prefix("node/") {
            return NodeName::parse(name).map(Key::Node);
        }
        if let Some(name) = text.strip_prefix("carries/") {
            return NodeName::parse(name).map(Key::Carries);
        }
        // A dot separates the tokens of a subject, of which none may be empty.
        let name = text.strip_prefix("stream/").filter(|name| !name.contains('.'))?;
        StreamName::parse(&name.replace("=2E", ".")).map(Key::Stream)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Node(name) => write!(f, "node/{name}"),
            Key::Stream(name) => write!(f, "stream/{}", name.as_str().replace('.', "=2E")),
            Key::Carries(name) => write!(f, "carries/{name}"),
        }
    }
}

/// What a node says of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node, and which run of it.
    pub run: Run,
    /// Where other nodes reach it, as a URL.
    pub address: String,
    /// Where it is: nodes of one zone are near each other.
    pub zone: String,
    /// The program's version.
    pub version: String,
    /// Viewers that it has.
    pub viewers: u64,
    /// It is about to end: nothing begins there any more.
    pub is_leaving: bool,
    /// Where viewers reach it, as a URL without a key; empty where it does not say.
    pub public: String,
    /// It is emptied: what runs there goes on, and nothing begins there that may begin elsewhere.
    pub is_draining: bool,
}

/// Which node has a stream's publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The node, and which run of it.
    pub owner: Run,
    /// The revision of the owner's claim; `None` in the claim itself.
    pub claimed: Option<u64>,
    /// The publisher is there; otherwise the next one may be any node's.
    pub is_live: bool,
}

/// Why an entry is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// Another program, or a later version of this one, has written it.
    #[error(
        "the entry has the form {0}, which this version of glassline does not read; bring all nodes to one version"
    )]
    Form(u64),
    /// It is no entry.
    #[error("this is no entry of a glassline: another program writes into the bucket")]
    Foreign,
    /// It is longer than an entry may be.
    #[error("the entry is longer than {VALUE_MAX_BYTES} bytes")]
    TooLong,
}

#[derive(Serialize, Deserialize)]
struct NodeForm<'a> {
    v: u64,
    node: &'a str,
    incarnation: &'a str,
    address: std::borrow::Cow<'a, str>,
    #[serde(default)]
    zone: std::borrow::Cow<'a, str>,
    #[serde(default)]
    version: std::borrow::Cow<'a, str>,
    #[serde(default)]
    viewers: u64,
    #[serde(default)]
    leaving: bool,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    public: std::borrow::Cow<'a, str>,
    #[serde(default)]
    draining: bool,
}

#[derive(Serialize, Deserialize)]
struct StreamForm<'a> {
    v: u64,
    node: &'a str,
    incarnation: &'a str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    live: bool,
}

#[derive(Deserialize)]
struct FormNumber {
    v: u64,
}

pub(super) fn check_form(value: &[u8]) -> Result<(), EntryError> {
    if value.len() > VALUE_MAX_BYTES {
        return Err(EntryError::TooLong);
    }
    match serde_json::from_slice::<FormNumber>(value) {
        Ok(FormNumber { v: FORM }) => Ok(()),
        Ok(FormNumber { v }) => Err(EntryError::Form(v)),
        Err(_) => Err(EntryError::Foreign),
    }
}

pub(super) fn run_of(node: &str, incarnation: &str) -> Result<Run, EntryError> {
    let node = NodeName::parse(node).ok_or(EntryError::Foreign)?;
    let digits = Some(incarnation)
        .filter(|text| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let incarnation =
        digits.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(EntryError::Foreign)?;
    Ok(Run { node, incarnation })
}

pub(super) fn written(form: &impl Serialize) -> Vec<u8> {
    // Numbers, texts and Booleans can always be written.
    serde_json::to_vec(form).unwrap_or_default()
}

impl fmt::Debug for NodeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A `Url` shows no key.
        let address = self.address.parse::<Url>().map_or_else(|_| "no URL".to_owned(), |url| url.to_string());
        f.debug_struct("NodeEntry")
            .field("run", &self.run)
            .field("address", &address)
            .field("zone", &self.zone)
            .field("version", &self.version)
            .field("viewers", &self.viewers)
            .field("is_leaving", &self.is_leaving)
            .finish()
    }
}

impl NodeEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// [`EntryError`].
    pub fn read(value: &[u8]) -> Result<NodeEntry, EntryError> {
        check_form(value)?;
        let form: NodeForm<'_> = serde_json::from_slice(value).map_err(|_| EntryError::Foreign)?;
        let texts = [&form.address, &form.zone, &form.version, &form.public];
        let is_plain = |text: &str| text.len() <= TEXT_MAX_BYTES && !text.chars().any(char::is_control);
        if !texts.into_iter().all(|text| is_plain(text)) {
            return Err(EntryError::Foreign);
        }
        Ok(NodeEntry {
            run: run_of(form.node, form.incarnation)?,
            address: form.address.into_owned(),
            zone: form.zone.into_owned(),
            version: form.version.into_owned(),
            viewers: form.viewers,
            is_leaving: form.leaving,
            public: form.public.into_owned(),
            is_draining: form.draining,
        })
    }

    /// The entry as it is written.
    pub fn write(&self) -> Vec<u8> {
        written(&NodeForm {
            v: FORM,
            node: self.run.node.as_str(),
            incarnation: &format!("{:016x}", self.run.incarnation),
            address: self.address.as_str().into(),
            zone: self.zone.as_str().into(),
            version: self.version.as_str().into(),
            viewers: self.viewers,
            leaving: self.is_leaving,
            public: self.public.as_str().into(),
            draining: self.is_draining,
        })
    }
}

impl StreamEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// [`EntryError`].
    pub fn read(value: &[u8]) -> Result<StreamEntry, EntryError> {
        check_form(value)?;
        let form: StreamForm<'_> = serde_json::from_slice(value).map_err(|_| EntryError::Foreign)?;
        let owner = run_of(form.node, form.incarnation)?;
        Ok(StreamEntry { owner, claimed: form.epoch, is_live: form.live })
    }

    /// The epoch of an entry that has this revision.
    pub fn epoch(&self, revision: u64) -> u64 {
        self.claimed.unwrap_or(revision)
    }

    /// The entry as it is written.
    pub fn write(&self) -> Vec<u8> {
        written(&StreamForm {
            v: FORM,
            node: self.owner.node.as_str(),
            incarnation: &format!("{:016x}", self.owner.incarnation),
            epoch: self.claimed,
            live: self.is_live,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node_entry() -> impl Strategy<Value = NodeEntry> {
        (
            "[A-Za-z0-9_-]{1,64}",
            any::<u64>(),
            "[ -~äöü]{0,80}",
            "[a-z\"\\\\]{0,20}",
            any::<(u64, bool, bool)>(),
        )
            .prop_map(|(node, incarnation, address, zone, (viewers, is_leaving, is_draining))| {
                NodeEntry {
                    run: Run { node: NodeName::parse(&node).unwrap(), incarnation },
                    public: address.clone(),
                    is_draining,
                    address,
                    zone,
                    version: "0.1.0".to_owned(),
                    viewers,
                    is_leaving,
                }
            })
    }

    proptest! {
        #[test]
        fn an_entry_is_read_as_it_was_written(entry in node_entry(), claimed: Option<u64>, is_live: bool) {
            prop_assert_eq!(NodeEntry::read(&entry.write()), Ok(entry.clone()));
            let stream = StreamEntry { owner: entry.run, claimed, is_live };
            prop_assert_eq!(StreamEntry::read(&stream.write()), Ok(stream));
        }

        #[test]
        fn bytes_of_others_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = NodeEntry::read(&bytes);
            let _ = StreamEntry::read(&bytes);
        }

        #[test]
        fn a_key_is_understood_as_what_it_was_written_for(name in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}") {
            let key = Key::Stream(StreamName::parse(&name).unwrap());
            let text = key.to_string();
            prop_assert!(!text.contains('.'));
            prop_assert_eq!(Key::parse(&text), Some(key));
        }
    }

    #[test]
    fn a_later_form_and_what_is_none_are_told_apart() {
        let entry = br#"{"v":2,"node":"a","owners":[1,2]}"#;
        assert_eq!(StreamEntry::read(entry), Err(EntryError::Form(2)));
        assert_eq!(NodeEntry::read(b"hello"), Err(EntryError::Foreign));
        assert_eq!(NodeEntry::read(&[b' '; 5000]), Err(EntryError::TooLong));
        let no_hex = br#"{"v":1,"node":"a","incarnation":"12","epoch":1,"live":true}"#;
        assert_eq!(StreamEntry::read(no_hex), Err(EntryError::Foreign));
        let later =
            br#"{"v":1,"node":"a","incarnation":"00000000000000ff","epoch":7,"live":true,"more":{"x":[]}}"#;
        assert_eq!(
            StreamEntry::read(later).map(|entry| (entry.epoch(9), entry.owner.incarnation)),
            Ok((7, 255))
        );
    }

    #[test]
    fn the_key_of_an_address_is_written_and_not_shown() {
        let run = Run { node: NodeName::parse("a").unwrap(), incarnation: 1 };
        let address = "http://node:hush@h:81".to_owned();
        let (zone, version) = (String::new(), String::new());
        let (public, viewers, is_leaving, is_draining) = (String::new(), 0, false, false);
        let entry = NodeEntry { run, address, public, zone, version, viewers, is_leaving, is_draining };
        assert_eq!(NodeEntry::read(&entry.write()).unwrap().address, "http://node:hush@h:81");
        let shown = format!("{entry:?}");
        assert!(shown.contains("http://h:81") && !shown.contains("hush"), "{shown}");
        let shown = format!("{:?}", NodeEntry { address: "hush".to_owned(), ..entry });
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn keys_of_others_are_none() {
        for text in [
            "stream/",
            "stream/a.b",
            "node/a.b",
            "stream/=2Ea",
            "stream/a/b",
            "streams/a",
            "node/",
            "lock",
            "carries/a.b",
        ] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }
}
