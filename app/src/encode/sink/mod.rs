//! Where TS packets go: files, datagrams, a server. Each sink gets the packets of one access unit at a time and has
//! handed them on when it returns.

mod http;
mod udp;

use super::output::Output;
use super::pipeline::{Demand, Packets};
use super::queue::Queue;
use crate::{failure, output as stdout};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Takes packets. An error ends the command.
trait Sink: Send {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand>;
    /// The stream has ended well.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// All outputs of the command.
pub(super) struct Sinks(Vec<Box<dyn Sink>>);

impl Sinks {
    /// Opens every output of the pipeline that `queue` feeds. Where its source is not live, a server is waited for
    /// instead of leaving pictures out.
    pub(super) fn open(outputs: &[Output], key: Option<&str>, queue: &Arc<Queue>) -> Result<Sinks> {
        let open = |output: &Output| -> Result<Box<dyn Sink>> {
            Ok(match output {
                Output::Null => Box::new(Null),
                Output::Stdout => Box::new(Stdout),
                Output::Udp(address) => Box::new(udp::Udp::open(address)?),
                Output::Http { address, target } => Box::new(http::Http::open(address, target, key, queue)),
                Output::File(path) => {
                    let file = File::create(path).map_err(|error| {
                        let message = format_args!("cannot write {output}: {error}");
                        failure::failed(message, "choose another name or folder")
                    })?;
                    Box::new(TsFile { name: output.to_string(), file })
                }
            })
        };
        outputs.iter().map(open).collect::<Result<_>>().map(Sinks)
    }

    /// Gives the packets to every output.
    pub(super) fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut demand = Demand::Nothing;
        for sink in &mut self.0 {
            if sink.write(packets)? == Demand::KeyFrame {
                demand = Demand::KeyFrame;
            }
        }
        Ok(demand)
    }

    /// Ends every output well.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|sink| sink.finish())
    }
}

/// Reads the key that publishers show: the file's first line.
pub(super) fn read_key(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        failure::usage(format_args!("key file {}: {error}", path.display()), "check --publish-key-file")
    })?;
    let key = text.lines().next().unwrap_or("").trim();
    // What RFC 6750 §2.1 lets a bearer token be made of.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format_args!("key file {}: its first line is no key", path.display());
        return Err(failure::usage(message, "put the key there, in printable ASCII without spaces"));
    }
    Ok(key.to_owned())
}

struct Null;

impl Sink for Null {
    fn write(&mut self, _: &Packets<'_>) -> Result<Demand> {
        Ok(Demand::Nothing)
    }
}

struct Stdout;

impl Sink for Stdout {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut out = std::io::stdout().lock();
        match out.write_all(packets.bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(Demand::Nothing),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(stdout::ReaderGone.into()),
            Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
        }
    }
}

struct TsFile {
    name: String,
    file: File,
}

impl Sink for TsFile {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.file.write_all(packets.bytes).with_context(|| format!("cannot write {}", self.name))?;
        Ok(Demand::Nothing)
    }
}
