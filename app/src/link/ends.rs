//! Opens the ends of channels, and reports errors before the link starts.

use super::channel::{Channel, ChannelEnd, Framing};
use super::input::Input;
use super::output::Output;
use crate::failure;
use anyhow::{Context, Result};
use bytes::Bytes;
use glassline_call::direct::Telemetry;
use glassline_call::link::Local;
use glassline_call::link::serial_line::Line;
use glassline_call::link::session::{self, Continuity};
use glassline_io::resolve;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// `EIO`.
const HUNG_UP: i32 = 5;

/// An input that is open, or one that its own thread opens, because opening may block for long.
pub(crate) enum Prepared {
    Open(Input),
    /// A byte stream with its framing, and the size of the largest message.
    Later(ChannelEnd, Framing, usize),
}

impl Prepared {
    fn read(&mut self) -> std::io::Result<Option<Bytes>> {
        if let Prepared::Later(end, framing, max_size) = self {
            *self = Prepared::Open(Input::open(end, *framing, *max_size)?);
        }
        match self {
            Prepared::Open(input) => input.next(),
            Prepared::Later(..) => Ok(None),
        }
    }
}

impl session::Input for Prepared {
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        match self.read() {
            // `EIO` from a pseudo-terminal means that its other side is closed: the input has ended.
            Err(error) if error.raw_os_error() == Some(HUNG_UP) => Ok(None),
            other => other,
        }
    }
}

/// The input and the output of one channel.
pub(crate) struct Ends {
    pub(super) channel: Channel,
    pub(super) input: Option<Prepared>,
    pub(super) output: Option<Output>,
    /// Where what comes goes too, where the channel has `klv`.
    pub(super) telemetry: Option<Telemetry>,
}

impl Ends {
    /// With what comes as telemetry of a stream, where the channel says so.
    pub(crate) fn with_telemetry(self, telemetry: &Telemetry) -> Ends {
        let telemetry = self.channel.has_klv().then(|| telemetry.clone());
        Ends { telemetry, ..self }
    }
}

/// Opens all ends. Standard input and standard output can each serve one channel.
pub(crate) fn open(channels: &[Channel]) -> Result<Vec<Ends>> {
    let mut ids = BTreeSet::new();
    for channel in channels {
        if !ids.insert(channel.id) {
            return Err(failure::usage(
                format!("channel {} is given twice", channel.id),
                "put all its options behind one --channel",
            ));
        }
    }
    let standard = |end: fn(&Channel) -> &Option<ChannelEnd>| {
        channels.iter().filter(|channel| *end(channel) == Some(ChannelEnd::Standard)).count()
    };
    for (name, count) in
        [("in=-", standard(|channel| &channel.input)), ("out=-", standard(|channel| &channel.output))]
    {
        if count > 1 {
            return Err(failure::usage(
                format!("{count} channels have {name}"),
                "one may; fd:N gives others a pipe of their own",
            ));
        }
    }
    channels.iter().map(open_channel).collect()
}

fn open_channel(channel: &Channel) -> Result<Ends> {
    let named = |what: &str, end: &ChannelEnd| format!("channel {}: {what} {}", channel.id, describe(end));
    let max_size = channel.options.max_message() as usize;
    let mut socket: Option<UdpSocket> = None;
    let mut line: Option<(&ChannelEnd, Arc<Line>)> = None;
    let mut input = None;
    if let Some(end) = &channel.input {
        let framing = channel.framing_of(end);
        let open = || named("cannot read", end);
        input = Some(match end {
            ChannelEnd::Udp(address) => {
                let bound = bind(address).with_context(open)?;
                tracing::info!(channel = channel.id, address = %bound.local_addr()?, "datagrams are taken");
                socket = Some(bound.try_clone()?);
                Prepared::Open(Input::datagrams(bound, max_size))
            }
            ChannelEnd::Serial(device, baud) => {
                let opened = open_line(device, *baud, open)?;
                line = Some((end, Arc::clone(&opened)));
                Prepared::Open(Input::serial(&opened, framing, max_size))
            }
            ChannelEnd::File(path) => {
                let meta = std::fs::metadata(path).map_err(|error| {
                    failure::usage(format!("{}: {error}", open()), "name a file, or make a FIFO with mkfifo")
                })?;
                if meta.file_type().is_fifo() {
                    Prepared::Later(end.clone(), framing, max_size)
                } else {
                    Prepared::Open(Input::open(end, framing, max_size).with_context(open)?)
                }
            }
            ChannelEnd::Standard => Prepared::Later(end.clone(), framing, max_size),
            ChannelEnd::Descriptor(_) => {
                Prepared::Open(Input::open(end, framing, max_size).with_context(open)?)
            }
        });
    }
    let mut output = None;
    if let Some(end) = &channel.output {
        let framing = channel.framing_of_output(end);
        let open = || named("cannot write", end);
        output = Some(match end {
            ChannelEnd::Udp(address) => {
                let to = one_address(address).with_context(open)?;
                // If the channel also receives datagrams, its socket sends them, so that answers come from the same
                // port.
                let same = socket
                    .filter(|socket| socket.local_addr().is_ok_and(|own| own.is_ipv4() == to.is_ipv4()));
                let socket = match same {
                    Some(socket) => socket,
                    None => UdpSocket::bind(any_port(to)).with_context(open)?,
                };
                Output::Datagrams { socket, to, complaint: None }
            }
            ChannelEnd::Serial(device, baud) => {
                let shared = line.filter(|(other, _)| *other == end).map(|(_, line)| line);
                let line = match shared {
                    Some(line) => line,
                    None => open_line(device, *baud, open)?,
                };
                Output::Serial { line, writer: None, framing }
            }
            ChannelEnd::File(path) => open_file(path, framing).with_context(open)?,
            ChannelEnd::Standard => Output::stream(std::io::stdout(), framing),
            ChannelEnd::Descriptor(number) => {
                let file = OpenOptions::new().write(true).open(format!("/dev/fd/{number}"));
                Output::stream(file.with_context(open)?, framing)
            }
        });
    }
    Ok(Ends { channel: channel.clone(), input, output, telemetry: None })
}

/// Opens a serial line; `named` describes its channel for errors.
fn open_line(device: &Path, baud: u32, named: impl Fn() -> String) -> Result<Arc<Line>> {
    Line::open(device, baud).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "is the device plugged in? `ls /dev/serial/by-id` shows those that are",
            ErrorKind::PermissionDenied => {
                "add this user to the device's group (Debian: `adduser USER dialout`)"
            }
            _ => "name a serial device that is free",
        };
        failure::failed(format!("{}: {error}", named()), advice)
    })
}

fn open_file(path: &Path, framing: Framing) -> std::io::Result<Output> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
        // Opening a FIFO waits for a reader, which may come much later.
        return Ok(Output::Fifo { path: path.to_owned(), writer: None, framing });
    }
    Ok(Output::stream(File::create(path)?, framing))
}

fn describe(end: &ChannelEnd) -> String {
    match end {
        ChannelEnd::Standard => "the standard stream".into(),
        ChannelEnd::Descriptor(number) => format!("fd:{number}"),
        ChannelEnd::File(path) => path.display().to_string(),
        ChannelEnd::Udp(address) => format!("udp:{address}"),
        ChannelEnd::Serial(device, baud) => format!("serial:{},{baud}", device.display()),
    }
}

fn bind(address: &str) -> Result<UdpSocket> {
    let address = one_address(address)?;
    UdpSocket::bind(address).map_err(|error| {
        failure::failed(
            format!("{address}: {error}"),
            "name an address of this machine and a port that is free",
        )
    })
}

fn any_port(to: SocketAddr) -> SocketAddr {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    any.parse().expect("an address")
}

/// How a gap in a channel's data is treated. Devices and datagrams send on without waiting for a reader, so a gap is
/// no error for them.
pub(super) fn continuity(channel: &Channel, end: Option<(&ChannelEnd, Framing)>) -> Continuity {
    let goes_by = channel.options.newest || channel.options.cancel_after.is_some();
    match end {
        None | Some((ChannelEnd::Udp(_) | ChannelEnd::Serial(..), _)) => Continuity::Live,
        Some(_) if goes_by => Continuity::Live,
        Some((_, Framing::Raw)) => Continuity::Stream,
        Some(_) => Continuity::Messages,
    }
}

/// The first address of `HOST:PORT`.
fn one_address(text: &str) -> Result<SocketAddr> {
    Ok(addresses(text)?[0])
}

/// A local address from which all of `to` can be reached.
pub(crate) fn local_towards(to: &[SocketAddr]) -> Local {
    let are_both = to.iter().any(SocketAddr::is_ipv4) && to.iter().any(SocketAddr::is_ipv6);
    let one = to.iter().find(|address| !are_both || address.is_ipv6());
    Local::towards(*one.unwrap_or(&SocketAddr::from(([0, 0, 0, 0], 0))))
}

/// Host name and port of `HOST:PORT`; `None` if the host is an IP address.
pub(super) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    if text.parse::<SocketAddr>().is_ok() {
        return None;
    }
    let (host, port) = text.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

/// All addresses of `HOST:PORT`, in the order in which the link tries them.
pub(crate) fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    let wrong = || {
        failure::usage(
            format!("{text:?} is no address"),
            "write HOST:PORT, as in 192.0.2.1:7000 or [::1]:7000",
        )
    };
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let (host, port) = host_and_port(text).ok_or_else(wrong)?;
    let found = resolve::resolve(host, port).map_err(|error| {
        failure::failed(
            format!("the name {host:?} has no address: {error}"),
            "check its spelling, or give a number",
        )
    })?;
    Ok(resolve::in_turns(&found))
}
