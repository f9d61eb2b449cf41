//! Publishes a file, reads the stream as access units and as bytes, and packages it as fragmented MP4: all in this
//! process, without HTTP and without sockets.
//!
//! ```text
//! cargo run -p glassline-streams --example streams film.ts folder      writes folder/video.mp4, folder/audio.mp4
//!
//! publisher ─► stream "film" ─┬─► Subscription::into_units ─► counts the units
//!                             └─► Subscription::read ─► packager ─► a file for each rendition
//! ```
//! Each reader has a thread of its own, which sleeps until it is woken.

use glassline_delivery::packager::{self, Demultiplexer, Event, Packager};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_media::Utc;
use glassline_streams::{Entering, FreeNames, NoThreads, Read, Streams, Subscription, Unit};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Wakes a thread that waits for it.
#[derive(Default)]
struct Bell {
    rings: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl Bell {
    fn wait(&self) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = self.changed.wait_while(rings, |rings| !*rings);
        *heard.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// Ten seconds of a stream are kept, and readers see what is pushed at once.
const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(10), bytes: 64 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [film, folder] = &arguments[..] else {
        return Err("streams FILM.ts FOLDER: a film of MPEG-TS, and a folder for what is made of it".into());
    };
    let mut film = File::open(film)?;
    let plan = FreeNames { settings: SETTINGS, max_streams: 1 };
    let streams = Arc::new(Streams::new(Arc::new(plan), Arc::new(NoThreads), Clock::new()));
    let name = StreamName::parse("film").ok_or("a name")?;
    let mut publisher = streams.publish(&name, Mux::MpegTs)?;

    let all = Entering::Prebuffered(Some(Prebuffer::Bytes(u64::MAX)));
    let subscribe = || {
        let bell = Arc::new(Bell::default());
        let subscription = streams.subscribe(&name, all, Waker::from(Arc::clone(&bell)));
        subscription.map(|subscription| (subscription, bell)).ok_or("the stream is over")
    };
    let ((units, units_bell), (bytes, bytes_bell)) = (subscribe()?, subscribe()?);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let units = scope.spawn(move || count_units(units, &units_bell));
        let packaged = scope.spawn(move || package(bytes, &bytes_bell, Path::new(folder)));
        let mut buffer = vec![0; 64 << 10];
        loop {
            match film.read(&mut buffer)? {
                0 => break,
                count => publisher.push(&buffer[..count])?,
            }
            // At a camera's pace: readers that fall behind would be moved forward.
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(publisher);
        // Without this, readers would wait for another publisher of the name.
        streams.end_abandoned(Duration::ZERO);
        let panicked = |_| io::Error::other("a reader panicked");
        let counts = units.join().map_err(panicked)??;
        if counts.is_empty() {
            return Err("the film has no access unit that decoding could begin at; is it MPEG-TS?".into());
        }
        for (pid, (count, bytes)) in counts {
            println!("PID {pid}: {count} access units, {bytes} bytes");
        }
        for (file, bytes) in packaged.join().map_err(panicked)?? {
            println!("{file}: {bytes} bytes");
        }
        Ok(())
    })?;
    Ok(())
}

/// The number of access units of each elementary stream, and their bytes.
fn count_units(subscription: Subscription, bell: &Bell) -> io::Result<BTreeMap<u16, (u64, usize)>> {
    let mut units = subscription.into_units().ok_or_else(|| io::Error::other("it is no MPEG-TS"))?;
    let mut counts = BTreeMap::<u16, (u64, usize)>::new();
    loop {
        match units.poll()? {
            Unit::Unit { pid, unit } => {
                let (count, bytes) = counts.entry(pid).or_default();
                *count += 1;
                *bytes += unit.data.len();
            }
            Unit::Program(program) => println!("{} elementary streams", program.streams.len()),
            Unit::FellBehind => println!("units are left out: it fell behind"),
            Unit::Pending => bell.wait(),
            Unit::Ended => return Ok(counts),
        }
    }
}

/// Writes a file for each rendition. Returns the files with their lengths.
fn package(mut subscription: Subscription, bell: &Bell, folder: &Path) -> io::Result<BTreeMap<String, u64>> {
    std::fs::create_dir_all(folder)?;
    let mut demux = Demultiplexer::new(Mux::MpegTs);
    let mut packager = Packager::new(packager::Settings::default());
    let mut files = BTreeMap::<String, File>::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let at = subscription.offset();
        match subscription.read(&mut buffer)? {
            Read::Entered { prelude, .. } => demux.push(&prelude, None),
            Read::Bytes(count) => demux.push(&buffer[..count], Some(at)),
            Read::FellBehind => {
                demux.begin(Mux::MpegTs);
                packager.discontinuity(utc(), demux.reached());
            }
            Read::Pending => bell.wait(),
            Read::Ended => {
                demux.finish();
                hand_over(&mut demux, &mut packager);
                packager.finish(utc(), demux.reached());
                write(&mut packager, folder, &mut files)?;
                let lengths = files.into_iter().map(|(name, file)| Ok((name, file.metadata()?.len())));
                return lengths.collect();
            }
        }
        hand_over(&mut demux, &mut packager);
        write(&mut packager, folder, &mut files)?;
    }
}

/// Packages what was found in the bytes.
fn hand_over(demux: &mut Demultiplexer, packager: &mut Packager) {
    while let Some(input) = demux.poll() {
        packager.handle_input(input, utc(), demux.reached());
    }
}

fn write(packager: &mut Packager, folder: &Path, files: &mut BTreeMap<String, File>) -> io::Result<()> {
    while let Some(event) = packager.poll() {
        let (Event::Init { rendition, bytes, .. } | Event::Chunk { rendition, bytes, .. }) = event else {
            continue;
        };
        let name = format!("{rendition}.mp4");
        let file = match files.entry(name) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let file = File::create(folder.join(new.key()))?;
                new.insert(file)
            }
        };
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn utc() -> Utc {
    glassline_io::clock::Clock::new().utc()
}
