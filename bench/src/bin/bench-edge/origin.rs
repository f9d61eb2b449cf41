//! The origin: on a thread of this process, or, as the floor, in a process of its own.

use crate::case::Case;
use anyhow::{Context, Result, bail};
use glassline_io::clock::Clock;
use glassline_io::tcp::Listener;
use glassline_lab::load::objects::{Bytes, Origin, Served, Shape, Timeline};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sizes of the objects that are there from the beginning.
pub(crate) const FIXED: [usize; 2] = [500_000, 1_000];

/// An origin that serves until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) timeline: Timeline,
    pub(crate) bytes: Bytes,
    pub(crate) served: Arc<Served>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// The pattern of all objects that the bench has.
pub(crate) fn bytes(shape: Shape) -> Bytes {
    Bytes::new(shape.chunk_bytes.max(FIXED[0]))
}

impl Running {
    /// Starts it on the processors of the calling thread.
    pub(crate) fn start(case: &Case) -> Result<Running> {
        let listener = Listener::bind_group((Ipv4Addr::LOCALHOST, 0).into(), 1)?.remove(0);
        let address = listener.local_address()?;
        let timeline = Timeline { began: Clock::new().now(), shape: case.shape };
        let bytes = bytes(case.shape);
        let mut origin = Origin::new(listener, timeline, bytes.clone(), &FIXED)?;
        let (served, stop) = (origin.served(), Arc::new(AtomicBool::new(false)));
        let stopping = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || origin.run(&stopping)));
        Ok(Running { address, timeline, bytes, served, stop, thread })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(error)) = self.thread.take().and_then(|thread| thread.join().ok()) {
            eprintln!("edge: the origin failed: {error:#}");
        }
    }
}

/// The command line of a process that serves the objects of `timeline` itself.
pub(crate) fn arguments(address: SocketAddr, timeline: Timeline) -> Vec<String> {
    let Shape { chunks, step, chunk_bytes } = timeline.shape;
    let numbers = [timeline.began.as_nanos(), u64::from(chunks), step.as_millis() as u64, chunk_bytes as u64];
    let mut words = vec!["--floor".to_owned(), address.to_string()];
    words.extend(numbers.map(|number| number.to_string()));
    words
}

/// Is such a process.
pub(crate) fn serve(words: &[String]) -> Result<()> {
    let [address, numbers @ ..] = words else { bail!("no address") };
    let numbers: Vec<u64> =
        numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>().context("the floor's numbers")?;
    let [began, chunks, step, chunk_bytes] = numbers[..] else { bail!("four numbers are wanted") };
    let chunks = u32::try_from(chunks).context("the floor's chunks")?;
    let shape = Shape { chunks, step: Duration::from_millis(step), chunk_bytes: chunk_bytes as usize };
    let timeline = Timeline { began: glassline_media::Time::from_nanos(began), shape };
    let listener = Listener::bind_group(address.parse().context("the floor's address")?, 1)?.remove(0);
    glassline_io::process::raise_descriptor_limit();
    Origin::new(listener, timeline, bytes(shape), &FIXED)?.run(&AtomicBool::new(false))
}
