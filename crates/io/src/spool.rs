//! The spool: an endless file, kept as a chain of files in memory, from which sockets are fed by `sendfile`.
//!
//! A writer appends; any number of readers, on any thread, send from an ever growing offset. Bytes are never
//! overwritten and no hole is ever punched: the kernel's sockets hold references to the file's *pages*, so a
//! byte that changes after `sendfile` changes on the wire. Old data goes when a whole link of the chain is
//! closed; a link lives for as long as the spool or any reader or socket still needs it.
//!
//! ```text
//!            tail                                   head
//!             │                                      │
//!   ┌ dropped ┼───────┐ ┌───────────────┐ ┌──────────┼────┐
//!   │ link 0  ╵       │ │ link 1        │ │ link 2   ╵    │   link n covers offsets
//!   └─────────────────┘ └───────────────┘ └───────────────┘   [n·capacity, (n+1)·capacity)
//! ```

mod frozen;
pub mod large_pages;

pub use frozen::Frozen;

use crate::map::Map;
use crate::tcp::wait_is_none;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the bytes of a link are a multiple of: huge pages are as large.
const LINK_UNIT_BYTES: u64 = 2 << 20;

/// Where the links' pages come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Memory files, in pages of the size that the system gives shared memory; from the second link on in
    /// [large pages](large_pages), where the process has them.
    Memory,
    /// Unlinked files in this directory: a disk, or a tmpfs mounted with `huge=always`.
    Directory(PathBuf),
}

/// How a spool is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the pages come from.
    pub backing: Backing,
    /// Bytes of a link, a multiple of 2 MiB. A stream takes its backlog and up to one link more.
    pub link_bytes: u64,
    /// No record of this many bytes is split over two links, if only whole records are appended: 188 for
    /// MPEG-TS, 1 for bytes.
    pub record_bytes: u64,
}

impl Settings {
    /// A spool of MPEG-TS packets in memory.
    pub const MPEG_TS: Settings =
        Settings { backing: Backing::Memory, link_bytes: 4 << 20, record_bytes: 188 };

    /// Bytes of a link that are used.
    fn capacity(&self) -> u64 {
        self.link_bytes - self.link_bytes % self.record_bytes
    }
}

/// The writing end. There is one; dropping it leaves the readers what was written.
#[derive(Debug)]
pub struct Spool {
    settings: Settings,
    chain: Chain,
    head: u64,
    first_kept: u64,
    /// The link that was appended to last, so that appending to it takes no lock: only this end adds links.
    newest: Option<Arc<Link>>,
}

impl Spool {
    /// An empty spool. Takes no memory until bytes are appended.
    pub fn new(settings: Settings) -> Spool {
        let shared =
            Shared { capacity: settings.capacity(), links: Mutex::default(), head: AtomicU64::new(0) };
        Spool { settings, chain: Chain(Arc::new(shared)), head: 0, first_kept: 0, newest: None }
    }

    /// A spool as another process left it: `links` in order, the first of them `first`, with bytes up to `head`, all of
    /// which readers see. `settings` are as they were there.
    ///
    /// # Errors
    /// `InvalidData` where the links do not hold what is said, or `settings` make no spool.
    pub fn restore(settings: Settings, head: u64, first: u64, links: Vec<OwnedFd>) -> io::Result<Spool> {
        let Settings { link_bytes, record_bytes, .. } = settings;
        if link_bytes == 0
            || !link_bytes.is_multiple_of(LINK_UNIT_BYTES)
            || !(1..=link_bytes).contains(&record_bytes)
        {
            let words = format!("links of {link_bytes} bytes for records of {record_bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let mut spool = Spool::new(settings);
        let capacity = spool.chain.0.capacity;
        let end = (links.len() as u64).checked_add(first).and_then(|end| end.checked_mul(capacity));
        if end.is_none_or(|end| head > end || (head > 0 && links.is_empty())) {
            let words = format!("{} links from {first} on do not hold {head} bytes", links.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let link = |(index, file)| Arc::new(Link { index, file, map: OnceLock::new() });
        *spool.chain.0.lock() = (first..).zip(links).map(link).collect();
        (spool.head, spool.first_kept) = (head, first);
        spool.publish();
        Ok(spool)
    }

    /// How it was made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of the first link that is kept.
    pub fn first_link(&self) -> u64 {
        self.first_kept
    }

    /// The links that are kept, in order.
    pub fn links(&self) -> Vec<LinkFile> {
        self.chain.0.lock().iter().cloned().map(LinkFile).collect()
    }

    /// The reading end.
    pub fn chain(&self) -> Chain {
        self.chain.clone()
    }

    /// The offset at which the next byte will stand.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Appends `bytes` behind the head. Readers see none of them before [`Spool::publish`].
    ///
    /// Costs one copy into the page cache, about 3 GB/s. On an error (no memory, disk full) a part may have
    /// been written; it lies beyond the head and is never seen.
    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let capacity = self.chain.0.capacity;
        let mut head = self.head;
        while !bytes.is_empty() {
            let link = self.link_to_append(head / capacity)?;
            let within = head % capacity;
            let fits = usize::try_from(capacity - within).unwrap_or(usize::MAX).min(bytes.len());
            let written = rustix::io::pwrite(&link.file, &bytes[..fits], within)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            head += written as u64;
            bytes = &bytes[written..];
        }
        self.head = head;
        Ok(())
    }

    /// The link `index`, which is the newest one or follows it.
    fn link_to_append(&mut self, index: u64) -> io::Result<&Link> {
        if self.newest.as_ref().is_none_or(|link| link.index != index) {
            // There already after a restore, or where a part of an append was written and failed.
            let link = match self.chain.0.link(index) {
                Some(link) => link,
                None => self.chain.0.push(index, open_link(index, &self.settings)?),
            };
            self.newest = Some(link);
        }
        Ok(self.newest.as_deref().expect("it was put there"))
    }

    /// Lets the readers see all that was appended.
    pub fn publish(&self) {
        self.chain.0.head.store(self.head, Ordering::Release);
    }

    /// Gives up what lies before `offset`: each link wholly before it is let go. Readers inside such a link
    /// keep it until they leave it.
    pub fn drop_before(&mut self, offset: u64) {
        let first_kept = offset / self.chain.0.capacity;
        if first_kept == self.first_kept {
            return;
        }
        self.first_kept = first_kept;
        // A link that was filled to its end may be among those that go.
        self.newest.take_if(|link| link.index < first_kept);
        let mut links = self.chain.0.lock();
        while links.front().is_some_and(|link| link.index < first_kept) {
            links.pop_front();
        }
    }
}

/// The reading end of a [`Spool`]; clones read the same bytes.
#[derive(Clone, Debug)]
pub struct Chain(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    capacity: u64,
    links: Mutex<VecDeque<Arc<Link>>>,
    head: AtomicU64,
}

#[derive(Debug)]
struct Link {
    index: u64,
    file: OwnedFd,
    map: OnceLock<Option<Map>>,
}

impl Link {
    /// The link's bytes as memory; `None` where the system does not map it.
    fn map(&self, capacity: u64) -> Option<&Map> {
        let map = || Map::new(&self.file, usize::try_from(capacity).ok()?).ok();
        self.map.get_or_init(map).as_ref()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Link>>> {
        // The lock guards pushes and pops alone, which leave the chain whole whatever panics elsewhere.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, index: u64) -> Option<Arc<Link>> {
        let links = self.lock();
        let first = links.front()?.index;
        let position = usize::try_from(index.checked_sub(first)?).ok()?;
        links.get(position).cloned()
    }

    fn push(&self, index: u64, file: OwnedFd) -> Arc<Link> {
        let link = Arc::new(Link { index, file, map: OnceLock::new() });
        self.lock().push_back(Arc::clone(&link));
        link
    }
}

fn open_link(index: u64, settings: &Settings) -> io::Result<OwnedFd> {
    match &settings.backing {
        // A stream of a few bytes is to take a few bytes.
        Backing::Memory if index > 0 && large_pages::are_there() => {
            large_pages::open().or_else(|_| open_in_memory())
        }
        Backing::Memory => open_in_memory(),
        Backing::Directory(path) => Ok(rustix::fs::open(path, UNNAMED, Mode::RUSR | Mode::WUSR)?),
    }
}

/// A file without a name.
const UNNAMED: OFlags = OFlags::TMPFILE.union(OFlags::RDWR).union(OFlags::CLOEXEC);

fn open_in_memory() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("glassline-spool", MemfdFlags::CLOEXEC)?;
    // Nothing asks when a link was read last, and to write it down is a part of each send. Where a sandbox bars that it is
    // written down.
    let _ = rustix::fs::fcntl_setfl(&file, OFlags::NOATIME);
    Ok(file)
}

impl Chain {
    /// The offset up to which readers may read.
    pub fn head(&self) -> u64 {
        self.0.head.load(Ordering::Acquire)
    }

    /// Bytes that the spool's own links can hold at the moment: its claim on memory, without those links that
    /// only readers still keep.
    pub fn held_bytes(&self) -> u64 {
        self.0.lock().len() as u64 * self.0.capacity
    }
}

/// A link's file.
#[derive(Debug)]
pub struct LinkFile(Arc<Link>);

impl LinkFile {
    /// Its number.
    pub fn index(&self) -> u64 {
        self.0.index
    }
}

impl AsFd for LinkFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

/// A reader's place in a [`Chain`]. Holds the link it stands in, so that what it has begun it can finish.
#[derive(Debug)]
pub struct Reader {
    chain: Chain,
    link: Option<Arc<Link>>,
    offset: u64,
}

/// What became of a [`Reader::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// This many bytes went to the socket; there may be room for more.
    Bytes(usize),
    /// The socket takes nothing now.
    Blocked,
    /// The bytes at the reader's offset are no longer there.
    Gone,
}

impl Reader {
    /// A reader that will begin at `offset`.
    pub fn new(chain: Chain, offset: u64) -> Reader {
        Reader { chain, link: None, offset }
    }

    /// A reader at `offset`, as another process left it, with the link that it alone kept there ([`Reader::own_link`]).
    pub fn restore(chain: Chain, offset: u64, own: Option<(u64, OwnedFd)>) -> Reader {
        let link = own.map(|(index, file)| Arc::new(Link { index, file, map: OnceLock::new() }));
        let mut reader = Reader { chain, link, offset };
        // What it has begun it can finish, as before: also where the chain gives the link up before it next sends.
        let _ = reader.stand(offset / reader.chain.0.capacity);
        reader
    }

    /// The link that it stands in, if the chain has given it up.
    pub fn own_link(&self) -> Option<LinkFile> {
        let link = self.link.as_ref()?;
        let first = self.chain.0.lock().front().map(|link| link.index);
        first.is_none_or(|first| link.index < first).then(|| LinkFile(Arc::clone(link)))
    }

    /// The offset of the next byte that it will send.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves to `offset`.
    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
        self.link = None;
    }

    /// The bytes from the reader's offset up to `end`, for a [`crate::batch::Batch`]; fewer where a link ends
    /// before. `None` where they are no longer there or cannot be had as memory: [`Reader::send`] then tells.
    /// What was sent of them is told to [`Reader::advance`]. `end` as for [`Reader::send`].
    pub fn piece(&mut self, end: u64) -> Option<Piece> {
        let capacity = self.chain.0.capacity;
        let link = self.stand(self.offset / capacity)?;
        link.map(capacity)?;
        let (link, within) = (Arc::clone(link), self.offset % capacity);
        let length = usize::try_from((end - self.offset).min(capacity - within)).unwrap_or(usize::MAX);
        Some(Piece { link, within: usize::try_from(within).ok()?, length })
    }

    /// Moves the reader by `bytes` of its last [`Reader::piece`].
    pub fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
    }

    /// Hands bytes from the reader's offset, up to `end`, to `take`, which says how many it took, and moves the
    /// reader by as many: what [`Reader::send`] does, for bytes that do not go into a socket as they are. `end` as
    /// there.
    ///
    /// # Errors
    /// Those of `take`; `OutOfMemory` where the system does not map the bytes.
    #[allow(unsafe_code)]
    pub fn hand(
        &mut self,
        end: u64,
        take: impl FnOnce(&[u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Sent> {
        let capacity = self.chain.0.capacity;
        let (offset, within) = (self.offset, self.offset % capacity);
        let end = end.min(self.chain.head());
        let Some(link) = self.stand(offset / capacity) else { return Ok(Sent::Gone) };
        let map = link.map(capacity).ok_or(io::ErrorKind::OutOfMemory)?;
        let length = end.saturating_sub(offset).min(capacity - within);
        let count = |bytes| usize::try_from(bytes).expect("a link's bytes are mapped");
        // SAFETY: they lie before the head, so they were written; bytes are never overwritten, and no link's file is
        // cut short. The reader keeps the link for as long as the bytes are borrowed.
        let bytes = unsafe { map.bytes(count(within), count(length)) };
        match take(bytes)? {
            Some(taken) => {
                self.offset += taken.min(bytes.len()) as u64;
                Ok(Sent::Bytes(taken))
            }
            None => Ok(Sent::Blocked),
        }
    }

    /// The link `index`, which the reader then stands in.
    fn stand(&mut self, index: u64) -> Option<&Arc<Link>> {
        if self.link.as_ref().is_none_or(|link| link.index != index) {
            self.link = self.chain.0.link(index);
        }
        self.link.as_ref()
    }

    /// Copies bytes from the reader's offset, up to `end`, into `into` and moves the reader by as many; at most to the
    /// end of a link. Returns how many; `None` where they are no longer there. `end` as for [`Reader::send`].
    pub fn read(&mut self, into: &mut [u8], end: u64) -> io::Result<Option<usize>> {
        let capacity = self.chain.0.capacity;
        let (offset, index) = (self.offset, self.offset / capacity);
        let Some(link) = self.stand(index) else { return Ok(None) };
        let within = offset % capacity;
        let count = usize::try_from((end - offset).min(capacity - within)).unwrap_or(usize::MAX);
        let count = count.min(into.len());
        let read = rustix::io::pread(&link.file, &mut into[..count], within)?;
        self.offset += read as u64;
        Ok((read > 0).then_some(read))
    }

    /// Sends bytes from the reader's offset, up to `end`, to `socket` without copying them through user space,
    /// and moves the reader by as many. One `sendfile`; it stops at the end of a link, and where there are far more than
    /// `most` bytes at a whole segment. `end` must not lie beyond [`Chain::head`], and must lie beyond the reader's offset.
    pub fn send(&mut self, socket: impl AsFd, end: u64, most: u64) -> io::Result<Sent> {
        let capacity = self.chain.0.capacity;
        let (offset, index) = (self.offset, self.offset / capacity);
        let Some(link) = self.stand(index) else { return Ok(Sent::Gone) };
        let mut within = offset % capacity;
        let count = sent_at_once(within, (end - offset).min(capacity - within), most) as usize;
        let sent = wait_is_none(|| Ok(rustix::fs::sendfile(&socket, &link.file, Some(&mut within), count)?))?;
        match sent {
            Some(0) => Ok(Sent::Gone),
            Some(bytes) => {
                self.offset += bytes as u64;
                Ok(Sent::Bytes(bytes))
            }
            None => Ok(Sent::Blocked),
        }
    }
}

/// The pages that the pipe behind `sendfile` holds; it hands so much to the socket at a time.
const PIPE_PAGES: u64 = 16;
const PAGE_BYTES: u64 = 4096;
/// A segment on Ethernet, with time stamps. A path with others costs a short segment now and then.
const SEGMENT_BYTES: u64 = 1448;
/// Segments of a packet; one more would be too many without time stamps.
const PACKET_SEGMENTS: u64 = 44;

/// How many of `bytes` that begin at `within` a file leave as one packet. What goes beyond the pipe leaves in pieces: the
/// kernel holds what fills no segment back for the next, but the last may be a short one, which costs as much as a long one.
fn one_packet(within: u64, bytes: u64) -> u64 {
    let pipe = (PIPE_PAGES * PAGE_BYTES - within % PAGE_BYTES) / SEGMENT_BYTES;
    bytes.min(pipe.min(PACKET_SEGMENTS) * SEGMENT_BYTES)
}

/// How many of them one `sendfile` is to send where it may send `most`, or a quarter more if that is all: one packet where
/// that is not enough for two. What it sends of more than `most` is not less than that: a rest of the share would bring a
/// packet more.
fn sent_at_once(within: u64, bytes: u64, most: u64) -> u64 {
    if most < 2 * one_packet(within, u64::MAX) {
        one_packet(within, bytes)
    } else if bytes <= most.saturating_add(most / 4) {
        bytes
    } else {
        most.div_ceil(SEGMENT_BYTES) * SEGMENT_BYTES
    }
}

/// A run of a spool's bytes as memory. Keeps them there for as long as it is held.
#[derive(Debug)]
pub struct Piece {
    link: Arc<Link>,
    within: usize,
    length: usize,
}

impl Piece {
    /// Bytes; at least one.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where the kernel finds them.
    pub(crate) fn address(&self) -> *const u8 {
        let map = self.link.map.get().and_then(Option::as_ref);
        map.expect("a piece is made of a mapped link").address(self.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: u64 = 2 << 20;

    fn spool(record_bytes: u64) -> Spool {
        Spool::new(Settings { backing: Backing::Memory, link_bytes: LINK, record_bytes })
    }

    #[test]
    fn links_end_on_a_record() {
        let mut spool = spool(188);
        let capacity = LINK - LINK % 188;
        assert_eq!(spool.settings.capacity(), capacity);
        spool.append(&vec![7; capacity as usize]).unwrap();
        assert_eq!(spool.chain().0.lock().len(), 1);
        spool.append(&[8; 188]).unwrap();
        assert_eq!(spool.chain().0.lock().len(), 2);
        assert_eq!(spool.chain().head(), 0, "not published");
        spool.publish();
        assert_eq!(spool.chain().head(), capacity + 188);
    }

    #[test]
    fn appending_to_a_link_takes_no_lock() {
        let mut spool = spool(188);
        spool.append(&[1; 188]).unwrap();
        let chain = spool.chain();
        // A reader that holds the lock would stop whoever takes it.
        let links = chain.0.lock();
        spool.append(&[2; 188]).unwrap();
        spool.publish();
        drop(links);
        let (mut reader, mut buffer) = (Reader::new(chain, 0), vec![0; 376]);
        assert_eq!(reader.read(&mut buffer, 376).unwrap(), Some(376));
        assert_eq!((buffer[0], buffer[375]), (1, 2));
    }

    #[test]
    fn a_full_link_that_is_dropped_is_held_by_nobody() {
        let mut spool = spool(1);
        spool.append(&vec![1; LINK as usize]).unwrap();
        let link = Arc::downgrade(&spool.chain().0.lock()[0]);
        spool.drop_before(LINK);
        assert!(link.upgrade().is_none());
        assert_eq!(spool.chain().held_bytes(), 0);
        spool.append(&[2; 5]).unwrap();
        spool.publish();
        let (mut reader, mut buffer) = (Reader::new(spool.chain(), LINK), [0; 5]);
        assert_eq!(reader.read(&mut buffer, LINK + 5).unwrap(), Some(5));
        assert_eq!(buffer, [2; 5]);
    }

    #[test]
    fn what_was_appended_is_read_over_the_end_of_a_link() {
        let mut spool = spool(188);
        let capacity = LINK - LINK % 188;
        let bytes: Vec<u8> = (0..capacity + 376).map(|at| (at / 188) as u8).collect();
        spool.append(&bytes).unwrap();
        spool.publish();
        let (mut reader, mut buffer) = (Reader::new(spool.chain(), capacity - 188), vec![0; 1000]);
        assert_eq!(reader.read(&mut buffer, capacity + 376).unwrap(), Some(188));
        assert_eq!(buffer[..188], bytes[bytes.len() - 564..][..188]);
        assert_eq!(reader.read(&mut buffer, capacity + 376).unwrap(), Some(376));
        assert_eq!((buffer[0], buffer[375]), (bytes[capacity as usize], bytes[bytes.len() - 1]));
        spool.drop_before(LINK);
        assert_eq!(Reader::new(spool.chain(), 0).read(&mut buffer, 188).unwrap(), None);
    }

    #[test]
    fn a_spool_and_its_readers_can_be_restored_from_their_files() {
        let mut spool = spool(1);
        spool.append(&vec![1; LINK as usize]).unwrap();
        spool.append(&vec![2; LINK as usize + 5]).unwrap();
        spool.publish();
        let mut behind = Reader::new(spool.chain(), 0);
        let sink: OwnedFd = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into();
        behind.send(&sink, 10, u64::MAX).unwrap();
        assert!(behind.own_link().is_none(), "the chain has it too");
        spool.drop_before(LINK);
        let own = behind.own_link().expect("the chain has given it up");
        let copy = |link: &LinkFile| link.as_fd().try_clone_to_owned().unwrap();
        let links: Vec<_> = spool.links().iter().map(copy).collect();
        let (settings, first) = (spool.settings().clone(), spool.first_link());
        let mut restored = Spool::restore(settings.clone(), spool.head(), first, links).unwrap();
        assert_eq!((restored.chain().head(), restored.head()), (2 * LINK + 5, 2 * LINK + 5));
        let mut reader = Reader::restore(restored.chain(), 10, Some((own.index(), copy(&own))));
        assert_eq!(reader.send(&sink, 30, u64::MAX).unwrap(), Sent::Bytes(20));
        // One whose link the chain has until then, and gives up before it sends.
        let mut begun = Reader::restore(restored.chain(), LINK + 10, None);
        restored.append(&[3; 7]).unwrap();
        restored.publish();
        restored.drop_before(2 * LINK);
        assert_eq!(begun.send(&sink, LINK + 30, u64::MAX).unwrap(), Sent::Bytes(20));
        reader.seek(2 * LINK);
        assert_eq!(reader.send(&sink, 2 * LINK + 12, u64::MAX).unwrap(), Sent::Bytes(12));
        assert!(Spool::restore(settings.clone(), 3 * LINK, 1, Vec::new()).is_err());
        for (link_bytes, record_bytes) in [(0, 1), (LINK, 0), (LINK + 1, 1), (LINK, LINK + 1)] {
            let settings = Settings { link_bytes, record_bytes, ..settings.clone() };
            assert!(Spool::restore(settings, 0, 0, Vec::new()).is_err(), "{link_bytes}, {record_bytes}");
        }
    }

    #[test]
    fn a_send_is_all_or_whole_packets_and_segments() {
        let packet = PACKET_SEGMENTS * SEGMENT_BYTES;
        for (within, bytes, most, sent) in [
            (0, 1, 60_000, 1),
            (0, 60_000, 60_000, 60_000),
            (0, 100_000, 60_000, packet),
            (4096 - 1, 100_000, 60_000, 42 * SEGMENT_BYTES),
            (0, 100_000, 1, packet),
            (5, 160_000, 128_000, 160_000),
            (5, 160_001, 128_000, 89 * SEGMENT_BYTES),
        ] {
            assert_eq!(sent_at_once(within, bytes, most), sent, "{bytes} at {within}, of which {most}");
        }
    }

    #[test]
    fn a_dropped_link_is_gone_for_who_comes_later_and_kept_for_who_is_in_it() {
        let mut spool = spool(1);
        spool.append(&vec![1; 2 * LINK as usize]).unwrap();
        spool.publish();
        let mut inside = Reader::new(spool.chain(), 0);
        let sink: OwnedFd = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into();
        assert_eq!(inside.send(&sink, 10, u64::MAX).unwrap(), Sent::Bytes(10));
        spool.drop_before(LINK);
        assert_eq!(inside.send(&sink, 20, u64::MAX).unwrap(), Sent::Bytes(10));
        let mut late = Reader::new(spool.chain(), 0);
        assert_eq!(late.send(&sink, 10, u64::MAX).unwrap(), Sent::Gone);
        assert_eq!(spool.chain().held_bytes(), LINK);
    }
}
