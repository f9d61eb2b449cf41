//! What the two ends tell each other inside the handshake, encrypted: a row of (number, length, value).

use super::packet::ConnectionId;
use super::varint::{self, Reader};
use crate::link::{Bonding, MAX_NAME, MAX_PATHS};

const MAX_DATAGRAM_SIZE: u64 = 1;
const WINDOW: u64 = 2;
const IDLE: u64 = 3;
const NAME: u64 = 4;
const CONNECTION: u64 = 5;
const RESET: u64 = 6;
const DICTIONARY: u64 = 9;
const INSTANCE: u64 = 7;
const PATH_ROLE: u64 = 8;
const BOOT: u64 = 10;
const REFUSAL: u64 = 11;
const PATHS: u64 = 12;
const FEATURES: u64 = 13;
/// In the value of [`FEATURES`]: messages may carry stamps.
const STAMPS: u64 = 1;
/// The same: messages of reliable channels may have parity.
const PARITY: u64 = 2;
/// In the value of [`PATH_ROLE`]: the lowest bit of the path's number.
const NUMBER: u64 = 1;
const BOTH: u64 = 2;
const SUM: u64 = 4;
const SPARE: u64 = 8;
/// The other bits of the path's number stand from here on.
const NUMBER_HIGH: u32 = 4;

/// The smallest datagram size that an end may name: every path carries it (RFC 9000 §14).
pub const MIN_DATAGRAM: u16 = 1200;

/// One end's parameters. What is not named keeps its default; what is not known is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The largest datagram that this end takes, bytes; 1200 to 65,535.
    pub max_datagram: u16,
    /// How many bytes of reliable messages on each channel this end keeps for its application.
    pub window_bytes: u64,
    /// After how long without a datagram this end gives the link up, milliseconds.
    pub idle_ms: u64,
    /// Tells peers with one key apart; at most [`MAX_NAME`] bytes.
    pub name: Vec<u8>,
    /// In an Accept: the ID that data packets to this end shall bear.
    pub connection: Option<ConnectionId>,
    /// In an Accept: what a Reset of this link will hold.
    pub reset: Option<[u8; 16]>,
    /// Which dictionary this end holds: [`crate::link::Dictionary::id`].
    pub dictionary: Option<u64>,
    /// Names this end's state of the link: paths of one link have the same. Random, and another one once that state is
    /// forgotten.
    pub instance: Option<u64>,
    /// In a Connect: which of the link's paths this is, below [`MAX_PATHS`].
    pub number: u8,
    /// In a Connect: what the link's paths are for.
    pub bonding: Bonding,
    /// In a Connect: this path carries messages only where the others do not.
    pub spare: bool,
    /// In an Accept, where the Connect asked for [`Bonding::Sum`]: how many paths this end takes. Ends that name none take two.
    pub paths: Option<u8>,
    /// In a Connect: names the boot of the machine that this end runs on.
    pub boot: Option<u64>,
    /// In an Accept: there will be no link, and why: [`REFUSED_NAME`].
    pub refusal: Option<u64>,
    /// This end takes messages that carry stamps ([`crate::link::Options::stamped`]).
    pub stamps: bool,
    /// This end takes parity on reliable channels, too ([`crate::link::Options::fec`]).
    pub parity: bool,
}

/// In [`Parameters::refusal`]: another peer of the same name or key, on a machine of another boot, answers.
pub const REFUSED_NAME: u64 = 1;

impl Parameters {
    /// Appends them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let integer = |number: u64, value: u64, out: &mut Vec<u8>| {
            varint::write(number, out);
            varint::write(varint::size(value) as u64, out);
            varint::write(value, out);
        };
        let bytes = |number: u64, value: &[u8], out: &mut Vec<u8>| {
            varint::write(number, out);
            varint::write(value.len() as u64, out);
            out.extend_from_slice(value);
        };
        integer(MAX_DATAGRAM_SIZE, u64::from(self.max_datagram), out);
        integer(WINDOW, self.window_bytes, out);
        integer(IDLE, self.idle_ms, out);
        bytes(NAME, &self.name[..self.name.len().min(MAX_NAME)], out);
        if let Some(connection) = self.connection {
            bytes(CONNECTION, &connection.0.to_be_bytes(), out);
        }
        if let Some(reset) = self.reset {
            bytes(RESET, &reset, out);
        }
        if let Some(instance) = self.instance {
            bytes(INSTANCE, &instance.to_be_bytes(), out);
        }
        let role = self.role();
        if role != 0 {
            integer(PATH_ROLE, role, out);
        }
        if let Some(dictionary) = self.dictionary {
            bytes(DICTIONARY, &dictionary.to_be_bytes(), out);
        }
        if let Some(boot) = self.boot {
            bytes(BOOT, &boot.to_be_bytes(), out);
        }
        if let Some(refusal) = self.refusal {
            integer(REFUSAL, refusal, out);
        }
        if let Some(paths) = self.paths {
            integer(PATHS, paths.into(), out);
        }
        let features = if self.stamps { STAMPS } else { 0 } | if self.parity { PARITY } else { 0 };
        if features != 0 {
            integer(FEATURES, features, out);
        }
    }

    /// The value of [`PATH_ROLE`].
    fn role(&self) -> u64 {
        let bonding = match self.bonding {
            Bonding::Failover => 0,
            Bonding::Both => BOTH,
            Bonding::Sum => SUM,
        };
        let number = u64::from(self.number);
        number & NUMBER | (number >> 1) << NUMBER_HIGH | bonding | if self.spare { SPARE } else { 0 }
    }

    /// Takes the value of [`PATH_ROLE`]; `None` where it names a path that no link has.
    fn set_role(&mut self, role: u64) -> Option<()> {
        let number = role & NUMBER | (role >> NUMBER_HIGH) << 1;
        self.number = u8::try_from(number).ok().filter(|number| usize::from(*number) < MAX_PATHS)?;
        self.bonding = match role & (BOTH | SUM) {
            0 => Bonding::Failover,
            BOTH => Bonding::Both,
            _ => Bonding::Sum,
        };
        self.spare = role & SPARE != 0;
        Some(())
    }

    /// Reads all of `bytes`; `None` if they are malformed or out of range.
    pub fn parse(bytes: &[u8]) -> Option<Parameters> {
        let mut found = Parameters {
            max_datagram: MIN_DATAGRAM,
            window_bytes: 0,
            idle_ms: 0,
            name: Vec::new(),
            connection: None,
            reset: None,
            dictionary: None,
            instance: None,
            number: 0,
            bonding: Bonding::Failover,
            spare: false,
            paths: None,
            boot: None,
            refusal: None,
            stamps: false,
            parity: false,
        };
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let number = reader.varint()?;
            let length = reader.varint()?;
            let value = reader.bytes(usize::try_from(length).ok()?)?;
            let integer = || Reader::new(value).varint();
            match number {
                MAX_DATAGRAM_SIZE => {
                    found.max_datagram =
                        u16::try_from(integer()?).ok().filter(|size| *size >= MIN_DATAGRAM)?;
                }
                WINDOW => found.window_bytes = integer()?,
                IDLE => found.idle_ms = integer()?,
                NAME if value.len() <= MAX_NAME => found.name = value.to_vec(),
                NAME => return None,
                CONNECTION => {
                    found.connection = Some(ConnectionId(u64::from_be_bytes(value.try_into().ok()?)));
                }
                RESET => found.reset = Some(value.try_into().ok()?),
                DICTIONARY => found.dictionary = Some(u64::from_be_bytes(value.try_into().ok()?)),
                INSTANCE => found.instance = Some(u64::from_be_bytes(value.try_into().ok()?)),
                BOOT => found.boot = Some(u64::from_be_bytes(value.try_into().ok()?)),
                REFUSAL => found.refusal = Some(integer()?),
                PATH_ROLE => found.set_role(integer()?)?,
                PATHS => found.paths = Some(u8::try_from(integer()?).unwrap_or(u8::MAX)),
                FEATURES => {
                    let features = integer()?;
                    (found.stamps, found.parity) = (features & STAMPS != 0, features & PARITY != 0);
                }
                _ => {}
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_read_as_they_were_written(
            max_datagram in 1200u16.., window_bytes in 0..=varint::MAX, idle_ms in 0..=varint::MAX,
            name in prop::collection::vec(any::<u8>(), 0..=MAX_NAME), connection in any::<Option<u64>>(),
            reset in any::<Option<[u8; 16]>>(), instance in any::<Option<u64>>(), number in 0..MAX_PATHS as u8,
            bonding in prop::sample::select(vec![Bonding::Failover, Bonding::Both, Bonding::Sum]),
            spare in any::<bool>(), paths in any::<Option<u8>>(), dictionary in any::<Option<u64>>(), boot in any::<Option<u64>>(),
            refusal in prop::option::of(0..=varint::MAX), stamps in any::<bool>(), parity in any::<bool>(),
            unknown in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let connection = connection.map(ConnectionId);
            let parameters = Parameters {
                max_datagram, window_bytes, idle_ms, name, connection, reset, instance, number, bonding, spare, paths, dictionary,
                boot, refusal, stamps, parity,
            };
            let mut bytes = Vec::new();
            varint::write(77, &mut bytes);
            varint::write(unknown.len() as u64, &mut bytes);
            bytes.extend(unknown);
            parameters.write(&mut bytes);
            prop_assert_eq!(Parameters::parse(&bytes), Some(parameters));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Parameters::parse(&bytes);
        }
    }
}
