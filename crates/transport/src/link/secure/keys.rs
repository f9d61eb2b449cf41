//! The keys of data packets: AES-128-GCM, a counter as nonce, replaced from time to time, and no packet taken twice.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::expand;
use super::noise::Key;
use crate::link::wire::packet::{DATA_HEADER, Packet, TAG, expand_number};

/// A direction's key of one phase.
struct Phase {
    secret: Key,
    key: LessSafeKey,
    iv: [u8; 12],
}

impl Phase {
    fn new(secret: Key) -> Phase {
        let key = Zeroizing::new(expand::<16>(&secret.0, "key", &[]));
        Phase {
            key: LessSafeKey::new(
                UnboundKey::new(&AES_128_GCM, &key[..]).expect("the length is that of the algorithm"),
            ),
            iv: expand(&secret.0, "iv", &[]),
            secret,
        }
    }

    fn next(&self) -> Phase {
        Phase::new(Key(expand(&self.secret.0, "next", &[])))
    }

    /// RFC 9001 §5.3: the number, padded to the left, on the IV.
    fn nonce(&self, number: u64) -> Nonce {
        let mut bytes = self.iv;
        for (byte, number) in bytes[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(bytes)
    }
}

/// Seals what leaves.
pub(crate) struct Sealer {
    phase: Phase,
    odd: bool,
    next: u64,
    /// The first number under the phase's key.
    first: u64,
}

impl Sealer {
    pub(crate) fn new(secret: Key) -> Sealer {
        Sealer { phase: Phase::new(secret), odd: false, next: 0, first: 0 }
    }

    /// The number that the next packet will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Which of two phases the next packet is sealed in.
    pub(crate) fn key_phase(&self) -> bool {
        self.odd
    }

    /// Seals the packet that begins at `start` of `out`, where its header stands already; gives its number, which no
    /// other packet ever has. Cost: the AES of its bytes, in place.
    pub(crate) fn seal(&mut self, start: usize, out: &mut Vec<u8>) -> u64 {
        let number = self.next;
        // Below 2⁶² in any lifetime.
        self.next = self.next.saturating_add(1);
        let (header, text) = out[start..].split_at_mut(DATA_HEADER);
        let nonce = self.phase.nonce(number);
        let tag = self.phase.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), text);
        out.extend_from_slice(tag.expect("a datagram is short").as_ref());
        number
    }

    /// Goes on with the next key if this one has sealed `limit` packets and the other end, by its acknowledgement up
    /// to `acked`, has seen it.
    pub(crate) fn update(&mut self, limit: u64, acked: Option<u64>) {
        if self.next.saturating_sub(self.first) >= limit && acked.is_some_and(|acked| acked >= self.first) {
            self.phase = self.phase.next();
            self.odd = !self.odd;
            self.first = self.next;
        }
    }
}

/// Why a data packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its number came before, or lies too far back to know.
    Replayed,
    /// It was not sealed with the link's keys.
    Forged,
}

/// Opens what arrives.
pub(crate) struct Opener {
    current: Phase,
    next: Phase,
    previous: Option<Phase>,
    odd: bool,
    /// The lowest number seen under the current key.
    first: u64,
    window: Window,
}

impl Opener {
    pub(crate) fn new(secret: Key) -> Opener {
        let current = Phase::new(secret);
        Opener {
            next: current.next(),
            current,
            previous: None,
            odd: false,
            first: 0,
            window: Window::default(),
        }
    }

    /// The largest number taken so far.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.window.largest
    }

    /// Whether `datagram` is a data packet under these keys. It is left as it is.
    pub(crate) fn would_open(&self, datagram: &[u8]) -> bool {
        let mut opener = Opener::new(self.current.secret.clone());
        opener.open(&mut datagram.to_vec()).is_ok()
    }

    /// Opens the data packet that `datagram` is, in place: its number and its frames.
    pub(crate) fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<(u64, &'a [u8]), Refused> {
        let Some(Packet::Data { key_phase, number, .. }) = Packet::parse(datagram) else {
            return Err(Refused::Forged);
        };
        let number = expand_number(number, self.window.largest);
        if !self.window.is_new(number) {
            return Err(Refused::Replayed);
        }
        let newer = key_phase != self.odd && number > self.first;
        let phase = match (key_phase == self.odd, newer, &self.previous) {
            (true, _, _) => &self.current,
            (false, true, _) => &self.next,
            (false, false, Some(previous)) => previous,
            (false, false, None) => return Err(Refused::Forged),
        };
        let (header, sealed) = datagram.split_at_mut(DATA_HEADER);
        let length = sealed.len().checked_sub(TAG).ok_or(Refused::Forged)?;
        let nonce = phase.nonce(number);
        phase.key.open_in_place(nonce, Aad::from(&*header), sealed).map_err(|_| Refused::Forged)?;
        self.window.insert(number);
        if newer {
            let after = self.next.next();
            self.previous =
                Some(std::mem::replace(&mut self.current, std::mem::replace(&mut self.next, after)));
            self.odd = key_phase;
            self.first = number;
        }
        Ok((number, &sealed[..length]))
    }
}

/// Which numbers came already (RFC 6479): a ring of bits behind the largest.
struct Window {
    largest: Option<u64>,
    bits: Box<[u64; Window::WORDS]>,
}

impl Default for Window {
    fn default() -> Window {
        Window { largest: None, bits: Box::new([0; Window::WORDS]) }
    }
}

impl Window {
    const WORDS: usize = 128;
    /// How far back a packet may come late.
    /// Words before the newest one.
    const EARLIER: u64 = Window::WORDS as u64 - 1;
    const REACH: u64 = Window::EARLIER * 64;

    /// Where the bits of a word of numbers stand: its low bits.
    const fn place(word: u64) -> usize {
        (word & Window::EARLIER) as usize
    }

    fn is_new(&self, number: u64) -> bool {
        let Some(largest) = self.largest else { return true };
        number > largest
            || largest.abs_diff(number) < Window::REACH
                && self.bits[Window::place(number / 64)] & 1 << (number % 64) == 0
    }

    fn insert(&mut self, number: u64) {
        match self.largest {
            Some(largest) if number <= largest => {}
            largest => {
                // Of the words up to the number's own those that are new, no more than there are.
                let last = number / 64;
                let from = largest.map_or(0, |largest| (largest / 64).saturating_add(1));
                for word in from.max(last.saturating_sub(Window::EARLIER))..=last {
                    self.bits[Window::place(word)] = 0;
                }
                self.largest = Some(number);
            }
        }
        self.bits[Window::place(number / 64)] |= 1 << (number % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::wire::packet::{ConnectionId, write_data_header};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn packet(sealer: &mut Sealer, text: &[u8]) -> Vec<u8> {
        let mut out = vec![0xEE; 3];
        write_data_header(ConnectionId(9), sealer.key_phase(), sealer.next_number(), &mut out);
        out.extend_from_slice(text);
        sealer.seal(3, &mut out);
        out.split_off(3)
    }

    #[test]
    fn a_packet_is_opened_once_and_only_unchanged() {
        let (mut sealer, mut opener) = (Sealer::new(Key([1; 32])), Opener::new(Key([1; 32])));
        let first = packet(&mut sealer, b"first");
        for bit in 8..first.len() * 8 {
            let mut changed = first.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if (8..72).contains(&bit) {
                // The connection ID leads to another link; here it is authenticated.
                assert_eq!(opener.open(&mut changed), Err(Refused::Forged));
            } else {
                assert!(opener.open(&mut changed).is_err());
            }
        }
        assert_eq!(opener.open(&mut first.clone()), Ok((0, &b"first"[..])));
        assert_eq!(opener.open(&mut first.clone()), Err(Refused::Replayed));
        assert_eq!(opener.largest(), Some(0));
    }

    #[test]
    fn keys_change_and_packets_of_the_old_one_may_still_come() {
        let (mut sealer, mut opener) = (Sealer::new(Key([1; 32])), Opener::new(Key([1; 32])));
        let mut late = Vec::new();
        for number in 0..100u64 {
            sealer.update(10, opener.largest());
            let mut bytes = packet(&mut sealer, &number.to_be_bytes());
            if number % 10 == 8 {
                late.push((number, bytes));
            } else {
                assert_eq!(opener.open(&mut bytes), Ok((number, &number.to_be_bytes()[..])));
            }
            if number % 10 == 5 && number > 10 {
                let (number, mut bytes) = late.remove(0);
                assert_eq!(
                    opener.open(&mut bytes),
                    Ok((number, &number.to_be_bytes()[..])),
                    "one phase late"
                );
            }
        }
        assert!(sealer.first >= 90, "keys were changed");
    }

    #[test]
    fn a_key_is_kept_until_the_other_end_has_seen_it() {
        let mut sealer = Sealer::new(Key([1; 32]));
        for _ in 0..30 {
            packet(&mut sealer, b"");
            sealer.update(10, None);
        }
        assert!(!sealer.key_phase());
        sealer.update(10, Some(3));
        assert!(sealer.key_phase());
        (0..30).for_each(|_| drop(packet(&mut sealer, b"")));
        sealer.update(10, Some(29));
        assert!(sealer.key_phase(), "29 was under the key before");
        sealer.update(10, Some(30));
        assert!(!sealer.key_phase());
    }

    proptest! {
        #[test]
        fn the_window_knows_what_came(numbers in prop::collection::vec(0u64..20_000, 1..300)) {
            let (mut window, mut seen) = (Window::default(), BTreeSet::new());
            for number in numbers {
                let largest = seen.last().copied().unwrap_or(0);
                if number + Window::REACH > largest {
                    prop_assert_eq!(window.is_new(number), !seen.contains(&number));
                } else {
                    prop_assert!(!window.is_new(number));
                }
                if window.is_new(number) {
                    window.insert(number);
                    seen.insert(number);
                }
            }
        }
    }
}
