//! All outputs of a stream: opened, written to, and what is known of each.

use super::datagrams::DatagramOutput;
use super::file::TsFile;
use super::network::Network;
use super::push::PushOutput;
use super::recorded::Container::{Mp4, WebM};
use super::recorded::RecordedFile;
use super::status::{State, StatusHandle};
use super::threaded::ThreadedOutput;
use super::{Credentials, Demand, Error, Liveness, Output, Packets, Result, Target};
use glassline_io::containment::{Border, contain};
use glassline_transport::srt::Address;
use std::io::{self, Write};
use std::sync::Arc;

/// Opens an output to the peer at `HOST:PORT` of a `link://` target: links are made elsewhere.
pub type LinkOpener = Box<dyn FnMut(&str, Liveness, StatusHandle) -> Result<Box<dyn Output>, String> + Send>;

/// Opens an output to an address of SRT: connections by SRT are made elsewhere.
pub type SrtOpener = fn(Address, Liveness, StatusHandle) -> io::Result<Box<dyn Output>>;

/// Opens the outputs of one encoder; those that are sockets share a thread.
pub struct Opener {
    credentials: Credentials,
    liveness: Liveness,
    network: Option<Arc<Network>>,
    links: Option<LinkOpener>,
    srt: Option<SrtOpener>,
}

impl Opener {
    /// Where the source is not live, a slow output is waited for instead of leaving pictures out.
    #[must_use]
    pub fn new(credentials: Credentials, liveness: Liveness) -> Opener {
        Opener { credentials, liveness, network: None, links: None, srt: None }
    }

    /// With what opens the outputs of `link://` targets, which are refused otherwise.
    #[must_use]
    pub fn with_links(self, links: LinkOpener) -> Opener {
        Opener { links: Some(links), ..self }
    }

    /// With what opens the outputs of `srt://` targets, which are refused otherwise.
    #[must_use]
    pub fn with_srt(self, srt: SrtOpener) -> Opener {
        Opener { srt: Some(srt), ..self }
    }

    /// Opens all outputs of a rendition. Files are overwritten; servers are connected to meanwhile.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub fn open(&mut self, targets: &[Target]) -> Result<Outputs> {
        let mut entries = Vec::new();
        for target in targets {
            let status = StatusHandle::new(&target.to_string());
            let output = Some(self.open_one(target, &status)?);
            entries.push(Entry { status, output });
        }
        Ok(Outputs { entries, failure: None, _network: self.network.clone() })
    }

    fn open_one(&mut self, target: &Target, status: &StatusHandle) -> Result<Box<dyn Output>> {
        let (live, status) = (&self.liveness, status.clone());
        let file: Box<dyn Output> = match target {
            Target::Null => return Ok(Box::new(Null(status))),
            Target::Datagrams(url) => {
                let live = live.clone();
                return Ok(Box::new(DatagramOutput::open(url, live, status, &*self.network()?)?));
            }
            Target::Http(urls) => {
                let (live, credentials) = (live.clone(), self.credentials.clone());
                let network = self.network()?;
                return Ok(Box::new(PushOutput::open(urls, &credentials, live, status, &network)?));
            }
            Target::Link(peer) => {
                let failed = |why| Error::Link { name: target.to_string(), why };
                let links = self.links.as_mut().ok_or_else(|| failed("no links are made here".to_owned()))?;
                return links(peer, live.clone(), status).map_err(failed);
            }
            Target::Srt(url) => {
                let failed = |why: String| Error::Link { name: target.to_string(), why };
                let open = self.srt.ok_or_else(|| failed("SRT is not spoken here".to_owned()))?;
                let address = Address::parse(url).map_err(failed)?;
                return open(address, live.clone(), status).map_err(|error| failed(error.to_string()));
            }
            Target::Stdout => Box::new(Stdout(status.clone())),
            Target::File(path) if target.is_mp4() => {
                Box::new(RecordedFile::create(path, Mp4, status.clone())?)
            }
            Target::File(path) if target.is_webm() => {
                Box::new(RecordedFile::create(path, WebM, status.clone())?)
            }
            Target::File(path) => Box::new(TsFile::create(path, status.clone())?),
        };
        if !live.live {
            return Ok(file);
        }
        Ok(Box::new(ThreadedOutput::start(file, status)?))
    }

    fn network(&mut self) -> Result<Arc<Network>> {
        if let Some(network) = &self.network {
            return Ok(Arc::clone(network));
        }
        let network = Arc::new(Network::start()?);
        self.network = Some(Arc::clone(&network));
        Ok(network)
    }
}

struct Entry {
    status: StatusHandle,
    /// `None` once it has failed.
    output: Option<Box<dyn Output>>,
}

/// All outputs of a stream, as one. It fails when the last of them has failed.
pub struct Outputs {
    entries: Vec<Entry>,
    /// The first failure of an output that others have survived.
    failure: Option<Error>,
    /// Goes on as long as they do.
    _network: Option<Arc<Network>>,
}

impl Outputs {
    /// What tells how each does.
    #[must_use]
    pub fn statuses(&self) -> Vec<StatusHandle> {
        self.entries.iter().map(|entry| entry.status.clone()).collect()
    }

    fn each(&mut self, mut act: impl FnMut(&mut Box<dyn Output>) -> Result<()>) {
        let several = self.entries.iter().filter(|entry| entry.output.is_some()).count() > 1;
        for Entry { status, output } in &mut self.entries {
            let Some(output_in_use) = output.as_mut() else { continue };
            let acted = contain(Border::Output, || act(output_in_use))
                .unwrap_or_else(|panicked| Err(Error::Fault { name: status.name().to_owned(), panicked }));
            let Err(failure) = acted else { continue };
            *output = None;
            status.set(State::Failed);
            if several && matches!(failure, Error::ReaderGone) {
                tracing::info!("{}: its reader has gone; the other outputs go on", status.name());
            } else if several {
                tracing::error!("{}: {failure}; the other outputs go on", status.name());
            }
            // A reader that goes is no failure where others are left.
            if matches!(self.failure, None | Some(Error::ReaderGone)) {
                self.failure = Some(failure);
            }
        }
    }
}

impl Output for Outputs {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut demand = Demand::Nothing;
        self.each(|output| {
            if output.write(packets)? == Demand::KeyFrame {
                demand = Demand::KeyFrame;
            }
            Ok(())
        });
        match self.failure.take() {
            Some(failure) if self.entries.iter().all(|entry| entry.output.is_none()) => Err(failure),
            failure => {
                self.failure = failure;
                Ok(demand)
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.each(|output| output.finish());
        self.failure.take().map_or(Ok(()), Err)
    }
}

struct Null(StatusHandle);

impl Output for Null {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.0.sent(packets.bytes.len());
        Ok(Demand::Nothing)
    }
}

struct Stdout(StatusHandle);

impl Output for Stdout {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut out = io::stdout().lock();
        match out.write_all(packets.bytes).and_then(|()| out.flush()) {
            Ok(()) => {
                self.0.sent(packets.bytes.len());
                Ok(Demand::Nothing)
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Error::ReaderGone),
            Err(error) => Err(Error::write(self.0.name())(error)),
        }
    }
}

#[cfg(test)]
#[path = "outputs_tests.rs"]
mod tests;
