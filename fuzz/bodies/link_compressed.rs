//! Channels of a link that compress: messages of an honest peer, and what a hostile one says are compressed messages.
//!
//! The first byte chooses how it is compressed, the second one the largest message of the channel. Behind them come
//! messages, each behind two bytes: the two highest bits choose what it is, the others are its length.

use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::link::fuzzing::{Compressed, Linked};
use glassline_transport::link::wire::frame::{Data, Frame};
use glassline_transport::link::{Compression, Credentials, Dictionary, Options, Path, Settings};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// What both ends know of the messages.
const KNOWN: &[u8] =
    b"{\"battery_v\":15.8,\"current_a\":12.1,\"link_percent\":98,\"satellites\":14,\"fix\":\"3d\"}\n\
    {\"roll\":0.01,\"pitch\":-0.02,\"yaw\":1.57,\"altitude_m\":48.8,\"speed_mps\":12.0,\"armed\":true}\n";
static DICTIONARY: LazyLock<Arc<Dictionary>> =
    LazyLock::new(|| Arc::new(Dictionary::new(KNOWN).expect("any bytes do")));

/// Messages as long as this are tried by a sample first, and are few: they take time.
const LONG_BYTES: usize = 66_000;
const LONG_MESSAGES: usize = 2;
const CHANNEL: u8 = 5;
/// A part of a message that fits into a packet.
const PART_BYTES: usize = 1000;

/// Has the messages packed and unpacked. Panics where one comes out as another, where it grows, where more comes out
/// than the channel allows, and where what came before has an influence on what is unpacked.
pub fn run(data: &[u8]) {
    let [choice, limit, data @ ..] = data else { return };
    let (how, dictionary) = match choice % 3 {
        0 => (Compression::Deflate, None),
        1 => (Compression::Zstd, None),
        _ => (Compression::Zstd, Some(Arc::clone(&DICTIONARY))),
    };
    let mut used = Compressed::new(how, dictionary.clone());
    let limit = 1 << (limit % 18);
    let mut far = Far::new(how, dictionary.clone(), limit);
    let (mut rest, mut long) = (data, 0);
    while let [high, low, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([high & 0x3F, *low])).min(behind.len());
        let (bytes, behind) = behind.split_at(length);
        rest = behind;
        let packed = match high >> 6 {
            0 => Some(Bytes::copy_from_slice(bytes)),
            3 if long < LONG_MESSAGES && !bytes.is_empty() => {
                long += 1;
                let message: Bytes = bytes.iter().copied().cycle().take(LONG_BYTES + length).collect();
                check_packed(&mut used, &message)
            }
            _ => check_packed(&mut used, &Bytes::copy_from_slice(bytes)),
        };
        let Some(packed) = packed else { continue };
        let message = used.unpack(&packed, limit);
        let fresh = Compressed::new(how, dictionary.clone()).unpack(&packed, limit);
        assert_eq!(message, fresh, "what came before has an influence");
        assert!(message.as_ref().is_none_or(|message| message.len() <= limit as usize));
        far.handle_packed(&packed, message);
    }
}

/// Packs a message; what comes is smaller, is the message again, and nothing else is.
fn check_packed(used: &mut Compressed, message: &Bytes) -> Option<Bytes> {
    let packed = used.pack(message)?;
    let size = message.len();
    assert!(packed.len() <= size - size / 16, "{} of {size}", packed.len());
    assert_eq!(used.unpack(&packed, size as u32).as_ref(), Some(message));
    assert_eq!(used.unpack(&packed, size as u32 - 1), None, "more than the limit");
    assert_eq!(used.unpack(&[&packed[..], &[0]].concat(), size as u32), None, "something behind it");
    assert_eq!(used.unpack(&packed[..packed.len() - 1], size as u32), None, "cut short");
    Some(packed)
}

/// A link's receiving end.
struct Far {
    linked: Linked,
    now: Time,
    path: Path,
    limit: u32,
    next: u64,
    out: Vec<u8>,
}

impl Far {
    fn new(compression: Compression, dictionary: Option<Arc<Dictionary>>, limit: u32) -> Far {
        let path = Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 };
        let settings = Settings { listen: true, dictionary, ..Settings::new(Credentials::Insecure) };
        let now = Time::from_millis(20);
        let mut far =
            Far { linked: Linked::new(settings, now, path), now, path, limit, next: 0, out: Vec::new() };
        let options = Options { max_size: limit, compression, ..Options::default() };
        far.handle(Frame::Open { channel: CHANNEL, options });
        far
    }

    fn handle(&mut self, frame: Frame<'_>) {
        let mut frames = Vec::new();
        frame.write(&mut frames);
        self.now += Duration::from_millis(1);
        self.linked.link().handle_unsealed(self.now, self.path, &frames);
        while self.linked.poll_transmit(self.now, &mut self.out).is_some() {}
    }

    /// Sends what claims to be a compressed message; `message` is what comes out of it.
    fn handle_packed(&mut self, packed: &[u8], message: Option<Bytes>) {
        if self.linked.link().is_over() || packed.is_empty() || packed.len() > self.limit as usize {
            return;
        }
        for (index, bytes) in packed.chunks(PART_BYTES).enumerate() {
            let offset = (index * PART_BYTES) as u32;
            let (message, total) = (self.next, packed.len() as u32);
            self.handle(Frame::Packed(Data { channel: CHANNEL, message, total, offset, bytes }));
        }
        self.next += 1;
        let received = self.linked.link().receive(CHANNEL);
        if self.linked.link().is_over() {
            assert!(message.is_none() && received.is_none(), "a good message ends no link");
        } else {
            assert_eq!(received, message, "the channel gives what was packed");
        }
        assert!(self.linked.link().held_bytes().1 <= u64::from(self.limit) + (1 << 20));
    }
}
