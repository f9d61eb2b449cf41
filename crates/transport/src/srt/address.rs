//! Addresses of SRT, as programs write them: `srt://HOST:PORT?streamid=…&latency=120&passphrase=…&pbkeylen=16&mode=caller`.

use super::{KeyBytes, LATENCY_MAX, Passphrase, Settings, StreamId, StreamMode};
use glassline_media::printable;
use std::fmt;
use std::time::Duration;

/// Which end calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// This one does.
    #[default]
    Caller,
    /// The other one does: it listens at the address.
    Listener,
}

/// An address. Neither the passphrase nor the stream id, which may hold a key, shows in `Debug` and `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an address; empty: any address of this machine, to listen at.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Which end calls.
    pub mode: Mode,
    /// What is asked of the listener.
    pub stream_id: String,
    /// How long what comes is held back at least.
    pub latency: Option<Duration>,
    /// The secret that both ends share.
    pub passphrase: Option<Passphrase>,
    /// The length of keys.
    pub key_bytes: KeyBytes,
}

/// With the stream that is asked for, and without what may be a key.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.authority())?;
        match StreamId::parse(self.stream_id.as_bytes()) {
            Ok(StreamId { name, mode, .. }) => {
                let mode = if mode == StreamMode::Publish { "publish" } else { "read" };
                write!(f, "?streamid={mode}:{}", printable::line(&name))
            }
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The scheme with what follows it.
pub const SCHEME: &str = "srt://";

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, in words for people, without secrets.
    pub fn parse(text: &str) -> Result<Address, String> {
        let rest = text.strip_prefix(SCHEME).ok_or("an address of SRT begins with srt://")?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('/') {
            return Err("an address of SRT has no path; what is asked for stands in ?streamid=".to_owned());
        }
        let (host, port) =
            authority.rsplit_once(':').ok_or("an address of SRT needs a port: srt://HOST:PORT")?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or("the port of an address of SRT is a number from 1 to 65535")?;
        let mode = if host.is_empty() { Mode::Listener } else { Mode::Caller };
        let mut address = Address {
            host: host.to_owned(),
            port,
            mode,
            stream_id: String::new(),
            latency: None,
            passphrase: None,
            key_bytes: KeyBytes::default(),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            address.set(name, &unescape(value))?;
        }
        if address.host.is_empty() && address.mode == Mode::Caller {
            return Err("an address of SRT that is called needs a host".to_owned());
        }
        Ok(address)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let shown = printable::line(value);
        match name {
            "streamid" | "srt_streamid" => self.stream_id = value.to_owned(),
            "latency" | "rcvlatency" => {
                let millis =
                    value.parse().map_err(|_| format!("latency={shown} is no number of milliseconds"))?;
                let latency = Duration::from_millis(millis);
                if latency > LATENCY_MAX {
                    return Err(format!("latency={shown} is more than {} ms", LATENCY_MAX.as_millis()));
                }
                self.latency = Some(latency);
            }
            "passphrase" => {
                self.passphrase = Some(Passphrase::new(value).map_err(|error| error.to_string())?);
            }
            "pbkeylen" => {
                let bytes = value.parse().ok().and_then(KeyBytes::of);
                self.key_bytes = bytes.ok_or(format!("pbkeylen={shown} is none of 16, 24, 32"))?;
            }
            "mode" => {
                self.mode = match value {
                    "caller" => Mode::Caller,
                    "listener" => Mode::Listener,
                    _ => {
                        return Err(format!(
                            "mode={shown} is not offered; mode=caller and mode=listener are"
                        ));
                    }
                };
            }
            // What other programs write beside: the only mode that there is, and sizes that are as they are.
            "transtype" if value == "live" => {}
            "pkt_size" | "payload_size" | "connect_timeout" | "linger" => {}
            _ => {
                // Behind a sign that a passphrase was not to have there may be the rest of it.
                let is_word =
                    name.len() <= 16 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                let name = if is_word { name } else { "something" };
                return Err(format!(
                    "{name} is no parameter of an address of SRT here; streamid, latency, passphrase, pbkeylen and mode are"
                ));
            }
        }
        Ok(())
    }

    /// How an end with this address wants its connection.
    pub fn settings(&self) -> Settings {
        Settings {
            latency: self.latency,
            // What is sent is held back there for as long: one number is said for both ends.
            peer_latency: self.latency,
            passphrase: self.passphrase.clone(),
            key_bytes: self.key_bytes,
        }
    }

    /// `HOST:PORT`, as names are looked up.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Percent-encoding undone; what is none stands for itself. A plus sign is one: stream ids have some.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let escaped = behind.first_chunk::<2>().filter(|_| *first == b'%');
        let value = escaped.and_then(|[high, low]| Some(hex(*high)? * 16 + hex(*low)?));
        match value {
            Some(value) => {
                bytes.push(value as u8);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_says_all_of_a_connection() {
        let text = "srt://relay.example:8890?streamid=%23!::r=stage,m=publish&latency=200&passphrase=0123456789&pbkeylen=32";
        let address = Address::parse(text).unwrap();
        assert_eq!(
            (address.host.as_str(), address.port, address.mode),
            ("relay.example", 8890, Mode::Caller)
        );
        assert_eq!(address.stream_id, "#!::r=stage,m=publish");
        assert_eq!(address.latency, Some(Duration::from_millis(200)));
        assert_eq!(address.key_bytes, KeyBytes::ThirtyTwo);
        assert_eq!(address.to_string(), "srt://relay.example:8890?streamid=publish:stage");
        assert!(!format!("{address:?}").contains("0123456789"));
        let v6 = Address::parse("srt://[2001:db8::1]:9/?mode=listener").unwrap();
        assert_eq!((v6.authority().as_str(), v6.mode), ("[2001:db8::1]:9", Mode::Listener));
        assert_eq!(Address::parse("srt://:9000").unwrap().mode, Mode::Listener);
    }

    #[test]
    fn what_is_no_address_is_refused_in_words_without_secrets() {
        for (text, word) in [
            ("udp://a:1", "srt://"),
            ("srt://a", "port"),
            ("srt://a:0", "port"),
            ("srt://a:1/live", "path"),
            ("srt://a:1?mode=rendezvous", "mode"),
            ("srt://a:1?latency=2s", "milliseconds"),
            ("srt://a:1?latency=99999999", "more than"),
            ("srt://a:1?pbkeylen=20", "pbkeylen"),
            ("srt://a:1?passphrase=short1", "10 to 79"),
            ("srt://a:1?oheadbw=25", "oheadbw"),
            ("srt://a:1?passphrase=0123456789&short1", "something"),
            ("srt://:1?mode=caller", "host"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("short1"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "srt://[ -~]{0,60}") {
            let _ = Address::parse(&text);
        }
    }
}
