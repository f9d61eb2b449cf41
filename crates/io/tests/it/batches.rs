//! Many sends by one call: each socket gets its own bytes, and a full or lost one is told from the others.

use glassline_io::batch::{BATCH_SENDS, Batch, Outcome, Send};
use glassline_io::spool::{Backing, Piece, Reader, Settings, Spool};
use glassline_io::tcp::{Connection, Listener};
use glassline_test_support::skip;
use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsFd;

const LINK: u64 = 2 << 20;

fn batch(test: &str) -> Option<Batch> {
    let missing = |error: &std::io::Error| {
        // A kernel without it, one that forbids it, and one that gives this user no memory to lock.
        let absent = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::ENOMEM];
        assert!(error.raw_os_error().is_some_and(|number| absent.contains(&number)), "{error}");
        skip(test, &format!("no io_uring: {error}"));
    };
    Batch::new().inspect_err(missing).ok()
}

fn pairs(count: usize) -> Vec<(Connection, TcpStream)> {
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let pair = |_| {
        let client = TcpStream::connect(listener.local_address().unwrap()).unwrap();
        loop {
            if let Some((server, _)) = listener.accept().unwrap() {
                break (server, client);
            }
        }
    };
    (0..count).map(pair).collect()
}

fn spool_with(bytes: &[u8]) -> Spool {
    let mut spool = Spool::new(Settings { backing: Backing::Memory, link_bytes: LINK, record_bytes: 1 });
    spool.append(bytes).unwrap();
    spool.publish();
    spool
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| ((index * 31) >> 3) as u8).collect()
}

fn piece(spool: &Spool, from: u64, to: u64) -> Piece {
    Reader::new(spool.chain(), from).piece(to).unwrap()
}

#[test]
fn each_socket_gets_its_own_bytes() {
    let Some(mut batch) = batch("each_socket_gets_its_own_bytes") else { return };
    let bytes = pattern(3 * LINK as usize);
    let spool = spool_with(&bytes);
    let pairs = pairs(BATCH_SENDS);
    let mut outcomes = Vec::new();
    for round in 0..3 {
        // Each its own place and length, over all links.
        let place = |index: usize| {
            let from = ((index * 47_111 + round * 997) % (2 * LINK as usize)) as u64;
            (from, from + 1 + (index as u64 * 211) % 20_000)
        };
        let pieces: Vec<_> =
            (0..pairs.len()).map(|index| piece(&spool, place(index).0, place(index).1)).collect();
        let sends: Vec<_> = pairs
            .iter()
            .zip(&pieces)
            .map(|((socket, _), piece)| Send { socket: socket.as_fd(), piece })
            .collect();
        batch.send(&sends, &mut outcomes).unwrap();
        for (index, outcome) in outcomes.iter().enumerate() {
            let Outcome::Bytes(sent) = outcome else { panic!("{index}: {outcome:?}") };
            assert_eq!(*sent, pieces[index].len(), "{index}");
            let mut read = vec![0; *sent];
            (&pairs[index].1).read_exact(&mut read).unwrap();
            let from = place(index).0 as usize;
            assert!(read == bytes[from..from + sent], "socket {index} got other bytes");
        }
    }
}

#[test]
fn a_full_or_lost_socket_is_told_from_the_others() {
    let Some(mut batch) = batch("a_full_or_lost_socket_is_told_from_the_others") else { return };
    let bytes = pattern(LINK as usize);
    let spool = spool_with(&bytes);
    let whole = piece(&spool, 0, LINK);
    let mut three = pairs(3);
    three[1].0.end().unwrap();
    let mut outcomes = Vec::new();
    let mut queued = 0;
    loop {
        let sends: Vec<_> =
            three.iter().map(|(socket, _)| Send { socket: socket.as_fd(), piece: &whole }).collect();
        batch.send(&sends[..2], &mut outcomes).unwrap();
        assert!(matches!(outcomes[1], Outcome::Failed(_)), "{:?}", outcomes[1]);
        match outcomes[0] {
            Outcome::Bytes(sent) => queued += sent,
            Outcome::Blocked => break,
            ref other => panic!("{other:?}"),
        }
    }
    // The third was left alone, and the first has what was queued: nothing more and nothing else.
    batch.send(&[Send { socket: three[2].0.as_fd(), piece: &piece(&spool, 7, 19) }], &mut outcomes).unwrap();
    let mut twelve = [0; 12];
    three[2].1.read_exact(&mut twelve).unwrap();
    assert_eq!(twelve, bytes[7..19]);
    let mut first = vec![0; queued];
    three[0].1.read_exact(&mut first).unwrap();
    let taken = queued.min(LINK as usize / 8);
    assert!(taken > 0 && first[..taken] == bytes[..taken]);
}

#[test]
fn a_piece_outlives_its_link_and_ends_with_it() {
    let bytes = pattern(2 * LINK as usize);
    let mut spool = spool_with(&bytes);
    let piece = piece(&spool, LINK - 100, 2 * LINK);
    assert_eq!(piece.len(), 100, "a piece ends where its link does");
    spool.drop_before(LINK);
    let Some(mut batch) = batch("a_piece_outlives_its_link_and_ends_with_it") else { return };
    let mut one = pairs(1);
    let mut outcomes = Vec::new();
    batch.send(&[Send { socket: one[0].0.as_fd(), piece: &piece }], &mut outcomes).unwrap();
    let mut read = [0; 100];
    one[0].1.read_exact(&mut read).unwrap();
    assert_eq!(read, bytes[LINK as usize - 100..LINK as usize]);
    assert!(Reader::new(spool.chain(), 0).piece(10).is_none(), "a dropped link gives no pieces");
}
