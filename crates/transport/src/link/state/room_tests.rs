use super::*;
use crate::link::channel::MESSAGE_COST;
use crate::link::fuzzing::Linked;
use crate::link::wire::frame::{Data, Frame};
use crate::link::{Compression, Credentials, Options, Path};
use bytes::Bytes;

const PATH: Path = Path {
    remote: std::net::SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 7000)),
    via: 0,
};

fn linked(settings: Settings) -> Linked {
    Linked::new(settings, Time::ZERO, PATH)
}

fn handle(linked: &mut Linked, frames: &[Frame<'_>]) -> bool {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    linked.link().handle_unsealed(Time::ZERO, PATH, &bytes)
}

/// 16 MiB of zeros, as a peer packs them by hand: the size, then a stream that gives them.
fn bomb(compression: Compression) -> Vec<u8> {
    use crate::link::channel::compression::Packer;
    let zeros = Bytes::from(vec![0; 16 << 20]);
    Packer::new(compression).pack(&zeros, None).unwrap().to_vec()
}

fn packed<'a>(message: u64, bytes: &'a [u8], total: &[u8], offset: usize) -> Frame<'a> {
    Frame::Packed(Data { channel: 0, message, total: total.len() as u32, offset: offset as u32, bytes })
}

#[test]
fn what_a_peer_has_packed_takes_what_it_carried_until_it_is_taken() {
    for compression in [Compression::Deflate, Compression::Zstd] {
        let bomb = bomb(compression);
        assert!(bomb.len() < 100_000, "{compression:?}: {}", bomb.len());
        let mut far = linked(Settings::new(Credentials::Insecure));
        let options = Options { compression, ..Options::default() }.on_the_wire();
        assert!(handle(&mut far, &[Frame::Open { channel: 0, options }]));
        // They would have 1.6 GB.
        for message in 0..100 {
            for (part, bytes) in bomb.chunks(1200).enumerate() {
                assert!(handle(&mut far, &[packed(message, bytes, &bomb, 1200 * part)]));
            }
        }
        let cost = bomb.len() as u64 + MESSAGE_COST;
        assert_eq!(far.link().held_bytes().1, 100 * cost);
        assert!(far.link().memory() <= 100 * cost + (2 << 20), "{}", far.link().memory());
        assert_eq!(far.link().receive(0).unwrap(), vec![0; 16 << 20]);
        // The peer restarts again and again: what it has left stays packed.
        for taken in 1..5 {
            let link = far.link();
            link.restart();
            assert_eq!(link.memory(), (100 - taken) * cost);
            assert_eq!(link.receive(0).unwrap(), vec![0; 16 << 20]);
        }
    }
}

#[test]
fn what_earlier_sessions_left_is_bounded_with_all_that_messages_take() {
    let settings = Settings { window_bytes: 100_000, ..Settings::new(Credentials::Insecure) };
    let mut far = linked(settings);
    for _ in 0..50 {
        far.link().restart();
        let options = Options { max_size: 1000, ..Options::default() }.on_the_wire();
        assert!(handle(&mut far, &[Frame::Open { channel: 0, options }]));
        for message in 0..700 {
            let data = Data { channel: 0, message, total: 0, offset: 0, bytes: b"" };
            assert!(handle(&mut far, &[Frame::Data(data)]));
        }
        assert!(far.link().memory() <= 200_000, "{}", far.link().memory());
    }
    let left = std::iter::from_fn(|| far.link().receive(0)).count() as u64;
    assert!((1000..=2 * 100_000 / MESSAGE_COST).contains(&left), "{left}");
    assert_eq!(far.link().memory(), 0);
}
