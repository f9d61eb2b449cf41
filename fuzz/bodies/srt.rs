//! SRT and SRTLA from a hostile peer. The bytes are a row of datagrams, each behind a byte of kind and one of length: as they are,
//! addressed to a connection that exists, or by a line of a group that exists.

use glassline_media::Time;
use glassline_transport::srt::{
    Address, Caller, Handled, Listener, MAX_DATAGRAM, Passphrase, Settings, StreamId, Transmit,
};
use glassline_transport::srtla::Groups;
use std::net::SocketAddr;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(3);

/// Both ends of a connection without a network, and a group of lines.
struct Ends {
    now: Time,
    caller: Caller,
    listener: Listener,
    from: SocketAddr,
    socket: u32,
    groups: Groups,
    out: Vec<u8>,
}

impl Ends {
    fn new(is_encrypted: bool) -> Ends {
        let passphrase = is_encrypted.then(|| Passphrase::new("correct horse").expect("it is long enough"));
        let settings = Settings { passphrase, ..Settings::default() };
        let now = Time::from_millis(1000);
        let from: SocketAddr = "192.0.2.1:4000".parse().expect("an address");
        let mut listener = Listener::new(settings.clone(), 2, [2; 32], now);
        listener.set_socket_secret(b"a secret");
        let mut ends = Ends {
            now,
            caller: Caller::new(settings, "publish:a", from, [1; 32], now),
            listener,
            from,
            socket: 0,
            groups: Groups::new(200, [3; 32], now),
            out: Vec::new(),
        };
        while ends.caller.connection().is_none() {
            ends.exchange();
        }
        ends
    }

    /// What both ends have to say goes over.
    fn exchange(&mut self) {
        self.now += STEP;
        let mut out = std::mem::take(&mut self.out);
        self.caller.handle_timeout(self.now);
        while let Some(Transmit { segment_bytes }) = self.caller.poll_transmit(self.now, &mut out) {
            for datagram in out.chunks(segment_bytes) {
                assert!(datagram.len() <= MAX_DATAGRAM);
                if let Handled::Request(request) =
                    self.listener.handle_datagram(self.now, self.from, datagram)
                {
                    self.socket = self.listener.accept(self.now, *request).unwrap_or(self.socket);
                }
            }
        }
        while let Some((_, datagram)) = self.listener.poll_answer() {
            self.caller.handle_datagram(self.now, &datagram);
        }
        let (now, caller) = (self.now, &mut self.caller);
        if let Some((_, connection)) = self.listener.connection(self.socket) {
            connection.handle_timeout(now);
            connection.deliver(now, |payload, _| assert!(payload.len() <= MAX_DATAGRAM));
            let mut sent = 0;
            while let Some(Transmit { segment_bytes }) = connection.poll_transmit(now, &mut out) {
                out.chunks(segment_bytes).for_each(|datagram| caller.handle_datagram(now, datagram));
                sent += out.len();
                assert!(sent < 4 << 20, "what leaves at once is bounded");
            }
        }
        self.out = out;
    }
}

/// Takes the datagrams. Only panics, endless loops and broken bounds fail.
pub fn run(data: &[u8]) {
    let _ = StreamId::parse(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Address::parse(text);
    }
    let Some((first, mut rest)) = data.split_first() else { return };
    let mut ends = Ends::new(first & 1 == 1);
    while let [kind, length, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let mut datagram = bytes.to_vec();
        match kind % 8 {
            // For the connection that there is, with the head of a packet that it may be.
            0..=2 => {
                datagram.resize(datagram.len().max(16), 0);
                datagram[12..16].copy_from_slice(&ends.socket.to_be_bytes());
                ends.listener.handle_datagram(ends.now, ends.from, &datagram);
            }
            // For one that there may have been in another process.
            3 => {
                let from = SocketAddr::from(([192, 0, 2, 7], 1));
                ends.listener.handle_datagram(ends.now, from, &datagram);
                while let Some((to, answer)) = ends.listener.poll_answer() {
                    assert!(
                        to != from || answer.len() <= datagram.len(),
                        "no answer is longer than its question"
                    );
                    let is_reset = answer.starts_with(&[0x80, 5]);
                    ends.now += Duration::from_millis(100);
                    ends.listener.handle_datagram(ends.now, from, &answer);
                    assert!(
                        !is_reset || ends.listener.poll_answer().is_none(),
                        "an answer to an answer has no end"
                    );
                }
                if let Some((_, connection)) = ends.listener.connection(ends.socket) {
                    connection.contest(from, ends.now);
                }
            }
            4 => {
                if let Handled::Request(request) =
                    ends.listener.handle_datagram(ends.now, ends.from, &datagram)
                {
                    let _ = ends.listener.accept(ends.now, *request);
                }
            }
            5 => ends.caller.handle_datagram(ends.now, &datagram),
            6 => {
                let from = SocketAddr::from(([192, 0, 2, kind >> 3], 1));
                if matches!(datagram[..], [0x92, 0 | 1, ..]) {
                    datagram.resize(258, 7);
                }
                ends.groups.handle_datagram(ends.now, from, &datagram);
                while let Some((to, answer)) = ends.groups.poll_answer() {
                    // What was answered comes back as it is: so groups and lines are reached.
                    ends.groups.handle_datagram(ends.now, to, &answer);
                }
            }
            _ => {
                let now = ends.now;
                if let Some(connection) = ends.caller.connection() {
                    connection.send(now, &datagram);
                }
                ends.now += Duration::from_millis(u64::from(kind >> 3) * 20);
            }
        }
        assert!(ends.listener.peers() <= 2 && ends.groups.count() <= 200);
        ends.exchange();
    }
}
