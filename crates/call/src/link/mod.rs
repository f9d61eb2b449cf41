//! The link, running: `transport::link` joined with sockets, and a handle that blocks.
//!
//! An [`Endpoint`] is one thread: it waits for datagrams, for its core's next deadline, and for what the handles hand over. A
//! [`Link`] is one peer; any thread may send and receive on it. Both are handles on the same core behind one lock, which no
//! thread holds while it sends or receives datagrams:
//!
//! ```text
//! Link::send ─► core (its queue is the bound) ─► thread: poll_transmit ─► io::udp::Port, up to 44 datagrams a call
//! Link::receive ◄─ core (its window is the bound) ◄─ thread: handle_datagram ◄─ io::udp::Port
//! ```
//! A [`Session`] makes links anew after they were lost and connects their channels to inputs and outputs.
//!
//! A message costs no system call of its own: the thread is woken when it sleeps, a waiting receiver when what it waits
//! for has come; [`Link::receive_all`] takes what is there, up to 4 MiB, with the lock taken once.
//!
//! ```
//! use glassline_call::link::{Endpoint, Local};
//! use glassline_transport::link::{Credentials, Key, Options, Settings};
//!
//! # fn main() -> std::io::Result<()> {
//! let settings = Settings::new(Credentials::Shared(Key([7; 32])));
//! let any = Local::at("127.0.0.1:0".parse().unwrap());
//! let ground = Endpoint::listen(settings.clone(), &[any.clone()])?;
//! let air = Endpoint::open(settings, &[any])?;
//!
//! let up = air.connect(ground.local_addresses()[0]).unwrap();
//! up.open(0, Options::default()).unwrap();
//! up.send(0, &b"hello"[..]).unwrap();
//!
//! let down = ground.accept().unwrap();
//! assert_eq!(down.receive(0).unwrap(), "hello");
//! # Ok(())
//! # }
//! ```

mod bound_socket;
mod core;
mod endpoint;
mod handle;
pub mod serial_line;
pub mod session;
mod thread;

pub use endpoint::Endpoint;
pub use glassline_io::udp::Local;
pub use handle::{ChannelStatistics, Channels, Link};
pub use session::Session;

#[cfg(test)]
mod tests;
