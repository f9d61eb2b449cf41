//! What a caller asks for: the stream id, in each of its forms.
//!
//! ```text
//! #!::r=NAME,m=publish,s=KEY,u=…     access control of the reference (m=request, the default, reads)
//! publish:NAME[:KEY]  read:NAME[:KEY]     as MediaMTX has it
//! NAME                               reads
//! ```
//! Keys of access control that are not known are passed over, as the reference asks for.

use glassline_media::printable;

/// What a caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// To send the stream.
    Publish,
    /// To get it.
    Read,
}

/// What a stream id says.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamId {
    /// The stream, as it was written.
    pub name: String,
    /// What the caller wants to do with it.
    pub mode: StreamMode,
    /// What it shows to be let in.
    pub key: Option<String>,
    /// Whether it wants to replace another publisher.
    pub takes_over: bool,
    /// What the caller calls itself (`u`).
    pub user: Option<String>,
}

/// The key does not show.
impl std::fmt::Debug for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.as_ref().map(|_| "(secret)");
        let mut shown = f.debug_struct("StreamId");
        shown.field("name", &self.name).field("mode", &self.mode).field("key", &key).finish_non_exhaustive()
    }
}

impl StreamId {
    /// Reads a stream id.
    ///
    /// # Errors
    /// What is wrong with it, in words for people, without what may be a key.
    pub fn parse(bytes: &[u8]) -> Result<StreamId, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "the stream id is no text".to_owned())?;
        let id = match text.strip_prefix("#!::") {
            Some(list) => StreamId::of_list(list)?,
            None if text.starts_with("#!") => {
                return Err(
                    "the stream id is of a form that is not known; write #!::r=NAME,m=publish".to_owned()
                );
            }
            None => StreamId::of_words(text),
        };
        // Programs take the path of a URL for the stream, and some write it as it is in HTTP.
        let name = id.name.trim_start_matches('/');
        let name = name.strip_prefix("live/").unwrap_or(name);
        let name = name.strip_suffix(".ts").unwrap_or(name).to_owned();
        if name.is_empty() {
            return Err(
                "the stream id names no stream; write publish:NAME, read:NAME or #!::r=NAME,m=publish"
                    .to_owned(),
            );
        }
        Ok(StreamId { name, ..id })
    }

    fn of_list(list: &str) -> Result<StreamId, String> {
        let mut id = StreamId {
            name: String::new(),
            mode: StreamMode::Read,
            key: None,
            takes_over: false,
            user: None,
        };
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or("an item of the stream id has no value")?;
            match (name, value) {
                ("r", name) => id.name = name.to_owned(),
                ("m", "publish") => id.mode = StreamMode::Publish,
                ("m", "request") => id.mode = StreamMode::Read,
                ("m", mode) => {
                    let mode = printable::line(mode);
                    return Err(format!("m={mode} is not offered; m=publish and m=request are"));
                }
                ("s", key) => id.key = Some(key.to_owned()),
                ("u", user) => id.user = Some(user.to_owned()),
                ("takeover", value) => id.takes_over = matches!(value, "1" | "true"),
                _ => {}
            }
        }
        Ok(id)
    }

    fn of_words(text: &str) -> StreamId {
        let (words, query) = text.split_once('?').unwrap_or((text, ""));
        let (mode, rest) = match words.split_once(':') {
            Some(("publish", rest)) => (StreamMode::Publish, rest),
            Some(("read" | "request", rest)) => (StreamMode::Read, rest),
            _ => (StreamMode::Read, words),
        };
        let (name, key) = match rest.split_once(':') {
            Some((name, key)) => (name, Some(key)),
            None => (rest, None),
        };
        let parameter = |wanted: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).next()
        };
        let takes_over = parameter("takeover").is_some_and(|value| value == "1" || value == "true");
        let key = key.filter(|key| !key.is_empty()).map(str::to_owned).or_else(|| parameter("key"));
        StreamId { name: name.to_owned(), mode, key, takes_over, user: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> (String, StreamMode, Option<String>) {
        let StreamId { name, mode, key, .. } = StreamId::parse(text.as_bytes()).unwrap();
        (name, mode, key)
    }

    fn id(name: &str, mode: StreamMode, key: Option<&str>) -> (String, StreamMode, Option<String>) {
        (name.to_owned(), mode, key.map(str::to_owned))
    }

    #[test]
    fn each_form_names_the_stream_and_what_is_wanted() {
        use StreamMode::{Publish, Read};
        for (text, expected) in [
            ("publish:stage", id("stage", Publish, None)),
            ("publish:stage:a-key", id("stage", Publish, Some("a-key"))),
            ("publish:stage:a:b", id("stage", Publish, Some("a:b"))),
            ("publish:stage?key=a-key", id("stage", Publish, Some("a-key"))),
            ("read:stage", id("stage", Read, None)),
            ("read:stage:1790000000.AbC_-", id("stage", Read, Some("1790000000.AbC_-"))),
            ("stage", id("stage", Read, None)),
            ("live/stage", id("stage", Read, None)),
            ("publish:/live/stage.ts", id("stage", Publish, None)),
            ("#!::r=stage,m=publish", id("stage", Publish, None)),
            ("#!::m=publish,r=stage,s=a=b", id("stage", Publish, Some("a=b"))),
            ("#!::r=stage", id("stage", Read, None)),
            ("#!::r=stage,m=request,s=k,h=host,t=stream,x=1", id("stage", Read, Some("k"))),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert!(StreamId::parse(b"publish:a?takeover=1").unwrap().takes_over);
        assert!(StreamId::parse(b"#!::r=a,m=publish,takeover=1").unwrap().takes_over);
        assert!(!StreamId::parse(b"publish:a").unwrap().takes_over);
    }

    #[test]
    fn what_is_no_stream_id_is_refused_in_words() {
        for text in ["", "publish:", "#!::m=publish", "#!::r=a,m=bidirectional", "#!{r=a}", "#!::r"] {
            assert!(StreamId::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(StreamId::parse(&[0xff, 0xfe]).is_err());
        let shown = format!("{:?}", StreamId::parse(b"publish:a:the-key").unwrap());
        assert!(!shown.contains("the-key"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = StreamId::parse(&bytes);
        }
    }
}
