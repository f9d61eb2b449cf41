//! QUIC: quinn's protocol machine in the same loop as ours, without quinn's async runtime. AES-128-GCM.
//!
//! Reliable messages go over one stream, each behind its length, small ones many in one write; unreliable ones are
//! datagrams. A picture is cut into datagrams here, and only the newest one waits: QUIC's own queue of datagrams is kept
//! at a few packets.

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, SendDatagramError, ServerConfig, StreamEvent, StreamId,
    TransportConfig, VarInt, WriteError,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, DATAGRAM, Flushed, Lane, Load, Socket, TRANSMITS};
use crate::delay::DelayConfig;
use crate::pieces::{Cutter, Joiner};
use crate::rows::{Row, frame};

/// How QUIC finds its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Cubic,
    Bbr,
    /// By the queue's delay ([`crate::delay`]).
    Delay,
}

/// A message of this size is handed over as it is, smaller ones are put into one buffer.
const LARGE: usize = 1 << 16;
/// Bytes of small messages that wait.
const SMALL_ROOM: usize = 1 << 18;
/// Bytes of large ones.
const LARGE_ROOM: usize = 32 << 20;
/// The largest part of a picture: quinn fills packets with datagrams first, and what is left of one must have room for a
/// small message, or those would starve.
const VIDEO_PART: usize = DATAGRAM - 400;
/// QUIC's own queue of a picture's datagrams: little, since what is in it cannot be replaced.
const VIDEO_ROOM: usize = 4 * DATAGRAM;

pub(crate) struct Quic {
    socket: Socket,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    load: Load,
    /// The stream that we send on, and whether its end was said and has arrived.
    sending: Option<StreamId>,
    finishing: bool,
    finished: bool,
    receiving: Option<StreamId>,
    batch: BytesMut,
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    row: Row,
    received: VecDeque<Bytes>,
    cutter: Cutter,
    joiner: Joiner,
    shown: VecDeque<Bytes>,
    unsent: Vec<u8>,
    unsent_to: Option<(SocketAddr, usize)>,
    up: bool,
    closed: bool,
}

fn transport(load: Load, control: Control) -> TransportConfig {
    let mut config = TransportConfig::default();
    let window = VarInt::from_u32(64 << 20);
    config.stream_receive_window(window).receive_window(window).send_window(64 << 20);
    config.initial_mtu(DATAGRAM as u16).mtu_discovery_config(None);
    config.datagram_receive_buffer_size(Some(8 << 20));
    let room = if load == Load::Video { VIDEO_ROOM } else { 1 << 20 };
    config.datagram_send_buffer_size(room);
    if load != Load::Video {
        // As ours: fewer acknowledgements where there are many packets.
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(10)).max_ack_delay(Some(Duration::from_millis(1)));
        config.ack_frequency_config(Some(acks));
    }
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control {
        Control::Cubic => Arc::new(CubicConfig::default()),
        Control::Bbr => Arc::new(BbrConfig::default()),
        Control::Delay => Arc::new(DelayConfig),
    };
    config.congestion_controller_factory(factory);
    config
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let cipher_suites = vec![rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    Arc::new(rustls::crypto::CryptoProvider { cipher_suites, ..rustls::crypto::ring::default_provider() })
}

fn server(load: Load, control: Control) -> Result<ServerConfig> {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).context("a certificate")?;
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private.into())?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport(load, control)));
    Ok(config)
}

fn client(load: Load, control: Control) -> Result<ClientConfig> {
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider())))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport(load, control)));
    Ok(config)
}

impl Quic {
    pub(crate) fn listen(address: SocketAddr, load: Load, control: Control) -> Result<Quic> {
        let config = Some(Arc::new(server(load, control)?));
        Ok(Quic::new(Socket::bind(address)?, config, load))
    }

    pub(crate) fn connect(address: SocketAddr, load: Load, control: Control) -> Result<Quic> {
        let mut quic = Quic::new(Socket::toward(address)?, None, load);
        let config = client(load, control)?;
        quic.connection = Some(quic.endpoint.connect(Instant::now(), config, address, "localhost")?);
        Ok(quic)
    }

    fn new(socket: Socket, config: Option<Arc<ServerConfig>>, load: Load) -> Quic {
        Quic {
            socket,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), config, false, None),
            connection: None,
            load,
            sending: None,
            finishing: false,
            finished: false,
            receiving: None,
            batch: BytesMut::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            row: Row::default(),
            received: VecDeque::new(),
            cutter: Cutter::default(),
            joiner: Joiner::default(),
            shown: VecDeque::new(),
            unsent: Vec::with_capacity(1 << 16),
            unsent_to: None,
            up: false,
            closed: false,
        }
    }

    fn receive_datagrams(&mut self) -> Result<bool> {
        let Quic { socket, endpoint, connection, .. } = self;
        let mut answer = Vec::new();
        let mut failure = None;
        let more = socket.receive(|from, bytes, size| {
            let now = Instant::now();
            let mut row = BytesMut::from(&*bytes);
            while !row.is_empty() {
                let datagram = row.split_to(size.min(row.len()));
                match endpoint.handle(now, from, None, None, datagram, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = connection {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                        match endpoint.accept(incoming, now, &mut answer, None) {
                            Ok(accepted) => *connection = Some(accepted),
                            Err(error) => failure = Some(error.cause),
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
                    // Only strangers get such an answer; nobody is one here.
                    Some(DatagramEvent::Response(_)) | None => {}
                }
            }
        })?;
        failure.map_or(Ok(more), |error| Err(error).context("QUIC's handshake"))
    }

    /// Timers, events, streams; `true` if messages may have come.
    fn work(&mut self, now: Instant) -> Result<bool> {
        let Some((handle, connection)) = &mut self.connection else { return Ok(false) };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let (mut readable, mut datagrams) = (false, false);
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.up = true,
                Event::ConnectionLost { .. } => self.closed = true,
                Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Readable { .. }) => readable = true,
                Event::Stream(StreamEvent::Finished { .. }) => self.finished = true,
                Event::DatagramReceived => datagrams = true,
                _ => {}
            }
        }
        if readable {
            self.read()?;
        }
        if datagrams && self.load == Load::Video {
            let Some((_, connection)) = &mut self.connection else { return Ok(false) };
            while let Some(part) = connection.datagrams().recv() {
                self.shown.extend(self.joiner.push(part));
            }
        }
        Ok(readable || datagrams)
    }

    fn read(&mut self) -> Result<()> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        if self.receiving.is_none() {
            self.receiving = connection.streams().accept(Dir::Uni);
        }
        let Some(id) = self.receiving else { return Ok(()) };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.row.push(chunk.bytes, &mut self.received),
                Ok(None) | Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => bail!("QUIC's stream was reset"),
            }
        }
        // Whatever it says of windows leaves with the next packets.
        let _ = chunks.finalize();
        Ok(())
    }

    /// Hands what waits to QUIC.
    fn write(&mut self) -> Result<()> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        if !self.up {
            return Ok(());
        }
        let mut datagrams = connection.datagrams();
        while let Some(size) = datagrams.max_size()
            && datagrams.send_buffer_space() >= size
            && let Some(part) = self.cutter.next(size.min(VIDEO_PART))
        {
            match datagrams.send(part, false) {
                Ok(()) => {}
                Err(error) => return Err(error).context("QUIC's datagrams"),
            }
        }
        if !self.batch.is_empty() {
            self.pending_bytes += self.batch.len();
            self.pending.push_back(self.batch.split().freeze());
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        let id = match self.sending {
            Some(id) => id,
            None => connection.streams().open(Dir::Uni).context("no stream")?,
        };
        self.sending = Some(id);
        let mut stream = connection.send_stream(id);
        while let Some(front) = self.pending.front_mut() {
            match stream.write_chunks(std::slice::from_mut(front)) {
                Ok(written) => {
                    self.pending_bytes -= written.bytes;
                    if front.is_empty() {
                        self.pending.pop_front();
                    }
                }
                Err(WriteError::Blocked) => break,
                Err(error) => return Err(error).context("QUIC's stream"),
            }
        }
        Ok(())
    }

    /// Sends what may leave.
    fn flush(&mut self, now: Instant) -> Result<Flushed> {
        for _ in 0..TRANSMITS {
            if self.unsent_to.is_none() {
                let segments = self.socket.max_segments();
                let Some((_, connection)) = &mut self.connection else { return Ok(Flushed::All) };
                self.unsent.clear();
                let Some(transmit) = connection.poll_transmit(now, segments, &mut self.unsent) else {
                    return Ok(Flushed::All);
                };
                self.unsent_to = Some((transmit.destination, transmit.segment_size.unwrap_or(transmit.size)));
            }
            if let Some((to, segment)) = self.unsent_to {
                if !self.socket.send(to, &self.unsent, segment)? {
                    return Ok(Flushed::Full);
                }
                self.unsent_to = None;
            }
        }
        Ok(Flushed::Some)
    }
}

impl Carrier for Quic {
    fn drive(&mut self, wait: Duration) -> Result<()> {
        let more = self.receive_datagrams()?;
        let now = Instant::now();
        let readable = self.work(now)? || more;
        self.write()?;
        let mut flushed = self.flush(now)?;
        // What has left made room for more of a picture.
        if flushed == Flushed::All && self.cutter.has_more() {
            self.write()?;
            flushed = self.flush(now)?;
        }
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let left = due.map_or(wait, |due| due.saturating_duration_since(Instant::now()).min(wait));
        if readable || left.is_zero() || flushed == Flushed::Some {
            return Ok(());
        }
        self.socket.wait(flushed == Flushed::Full, left)
    }

    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool> {
        if !self.up {
            return Ok(false);
        }
        let Some((_, connection)) = &mut self.connection else { return Ok(false) };
        match (lane, self.load) {
            (Lane::Unreliable, Load::Video) => self.cutter.replace(message.clone()),
            (Lane::Unreliable, _) => match connection.datagrams().send(message.clone(), false) {
                Ok(()) => {}
                Err(SendDatagramError::Blocked(_)) => return Ok(false),
                Err(error) => return Err(error).context("QUIC's datagrams"),
            },
            (Lane::Reliable, _) if message.len() >= LARGE => {
                if self.pending_bytes > LARGE_ROOM {
                    return Ok(false);
                }
                self.pending.push_back(Bytes::copy_from_slice(&frame(message.len())));
                self.pending.push_back(message.clone());
                self.pending_bytes += message.len() + frame(0).len();
            }
            (Lane::Reliable, _) => {
                if self.pending_bytes + self.batch.len() > SMALL_ROOM {
                    return Ok(false);
                }
                self.batch.extend_from_slice(&frame(message.len()));
                self.batch.extend_from_slice(message.chunk());
            }
        }
        Ok(true)
    }

    fn receive(&mut self, lane: Lane) -> Option<Bytes> {
        match (lane, self.load) {
            (Lane::Reliable, _) => self.received.pop_front(),
            (Lane::Unreliable, Load::Video) => self.shown.pop_front(),
            (Lane::Unreliable, _) => self.connection.as_mut()?.1.datagrams().recv(),
        }
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn is_idle(&mut self) -> bool {
        if !self.pending.is_empty() || !self.batch.is_empty() {
            return false;
        }
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.sending) else { return true };
        if !self.finishing {
            self.finishing = true;
            // Only what has ended already cannot end.
            let _ = connection.send_stream(id).finish();
        }
        self.finished
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self) -> Result<()> {
        let now = Instant::now();
        if let Some((_, connection)) = &mut self.connection {
            connection.close(now, VarInt::from_u32(0), Bytes::new());
        }
        self.flush(now).map(drop)
    }
}

/// Takes any certificate: both ends are ours.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
