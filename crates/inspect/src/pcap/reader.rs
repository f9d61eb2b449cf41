//! The containers, read as they come.

use super::block::{INTERFACES_MAX, Interface, Order, classic_header};
use super::packet::{HEAD_BYTES, LinkType, Packet};
use super::{MAGIC_BYTES, PcapError, is_capture};
use glassline_media::Time;

/// The longest packet that may be captured; libpcap takes no more than 256 KiB, but for USB.
pub(super) const RECORD_MAX_BYTES: u32 = 1 << 27;
/// So much of an interface description is read; comments may follow.
const DESCRIPTION_MAX_BYTES: usize = 1024;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const CLASSIC_HEADER_BYTES: usize = 24;
const CLASSIC_RECORD_BYTES: usize = 16;
/// Type and length of a block; of a section's header also its byte-order magic, version and length.
const BLOCK_HEAD_BYTES: usize = 8;
const SECTION_BYTES: usize = 24;
/// An enhanced packet's fields before the packet: interface, time stamp, both lengths. The obsolete one's are as long.
const PACKET_FIELDS_BYTES: usize = PACKET_FIELDS_LENGTH as usize;
const PACKET_FIELDS_LENGTH: u32 = 20;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first bytes, which tell the format.
    Magic,
    ClassicHeader,
    ClassicRecord,
    Block,
    Section,
    Description {
        body_bytes: u32,
    },
    PacketFields {
        body_bytes: u32,
        obsolete: bool,
    },
    Packet(Coming),
}

/// A packet before its head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coming {
    time: Time,
    interface: u32,
    link_type: LinkType,
    original_bytes: u32,
    head_bytes: usize,
    /// What follows the head before the next record or block.
    rest_bytes: u64,
}

/// Of the classic format: what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Classic {
    nanos: bool,
    link_type: LinkType,
}

/// Reads a capture of either format. Memory: some KiB, and at most 128 KiB for interfaces.
#[derive(Clone, Debug)]
pub struct Reader {
    state: State,
    order: Order,
    classic: Option<Classic>,
    /// Of the section that is being read.
    interfaces: Vec<Interface>,
    /// Collected until what the state needs is there.
    held: Vec<u8>,
    /// Bytes that are of no interest and come before it.
    skip: u64,
    /// Bytes taken so far, and where the current record or block began.
    at: u64,
    record_at: u64,
    packets: u64,
    failed: Option<PcapError>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// Before the first byte.
    pub fn new() -> Reader {
        Reader {
            state: State::Magic,
            order: Order::Little,
            classic: None,
            interfaces: Vec::new(),
            held: Vec::new(),
            skip: 0,
            at: 0,
            record_at: 0,
            packets: 0,
            failed: None,
        }
    }

    /// Takes the next bytes and gives each packet once its head is complete.
    ///
    /// # Errors
    /// Where the capture is damaged or none; what was given before stays good, and each later call fails alike.
    pub fn push(&mut self, mut bytes: &[u8], give: &mut impl FnMut(Packet<'_>)) -> Result<(), PcapError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        loop {
            let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip = self.skip.saturating_sub(skipped as u64);
            self.at = self.at.saturating_add(skipped as u64);
            bytes = &bytes[skipped..];
            if self.held.is_empty() && matches!(self.state, State::ClassicRecord | State::Block) {
                self.record_at = self.at;
            }
            let taken = bytes.len().min(self.needed().saturating_sub(self.held.len()));
            self.held.extend_from_slice(&bytes[..taken]);
            self.at = self.at.saturating_add(taken as u64);
            bytes = &bytes[taken..];
            // No state needs nothing twice in a row: this ends.
            if self.skip > 0 || self.held.len() < self.needed() {
                return Ok(());
            }
            let mut held = std::mem::take(&mut self.held);
            match self.step(&held, give) {
                Ok(Held::Again) => {}
                Ok(Held::Used) => held.clear(),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
            self.held = held;
        }
    }

    /// Packets given so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether the capture, were it over now, would end within a record: its writer was stopped.
    pub fn is_cut(&self) -> bool {
        let between = matches!(self.state, State::ClassicRecord | State::Block);
        self.skip > 0 || !self.held.is_empty() || !between
    }

    /// Bytes that the state's step takes.
    fn needed(&self) -> usize {
        match self.state {
            State::Magic => MAGIC_BYTES,
            State::ClassicHeader => CLASSIC_HEADER_BYTES,
            State::ClassicRecord => CLASSIC_RECORD_BYTES,
            State::Block => BLOCK_HEAD_BYTES,
            State::Section => SECTION_BYTES,
            State::Description { body_bytes } => DESCRIPTION_MAX_BYTES.min(body_bytes as usize),
            State::PacketFields { .. } => PACKET_FIELDS_BYTES,
            State::Packet(Coming { head_bytes, .. }) => head_bytes,
        }
    }

    /// Goes on by what is held, exactly as long as [`Reader::needed`].
    fn step(&mut self, held: &[u8], give: &mut impl FnMut(Packet<'_>)) -> Result<Held, PcapError> {
        match self.state {
            State::Magic if !is_capture(held) => {
                return Err(PcapError::Magic(held.first_chunk().copied().unwrap_or_default()));
            }
            State::Magic => {
                let next_generation = held == SECTION_HEADER.to_be_bytes();
                self.state = if next_generation { State::Block } else { State::ClassicHeader };
                return Ok(Held::Again);
            }
            State::ClassicHeader => {
                let (order, nanos, link_type) = classic_header(held)?;
                self.order = order;
                self.classic = Some(Classic { nanos, link_type: LinkType(link_type) });
                self.state = State::ClassicRecord;
            }
            State::ClassicRecord => self.classic_record(held)?,
            State::Block => return self.block(held),
            State::Section => self.section(held)?,
            State::Description { body_bytes } => {
                if self.interfaces.len() == INTERFACES_MAX {
                    return Err(PcapError::TooManyInterfaces);
                }
                self.interfaces.push(Interface::parse(held, self.order));
                self.next_block(u64::from(body_bytes).saturating_sub(held.len() as u64));
            }
            State::PacketFields { body_bytes, obsolete } => self.packet_fields(held, body_bytes, obsolete)?,
            State::Packet(Coming { time, interface, link_type, original_bytes, rest_bytes, .. }) => {
                self.skip = rest_bytes;
                self.state = if self.classic.is_some() { State::ClassicRecord } else { State::Block };
                self.packets = self.packets.saturating_add(1);
                give(Packet { time, interface, link_type, original_bytes, head: held });
            }
        }
        Ok(Held::Used)
    }

    fn classic_record(&mut self, held: &[u8]) -> Result<(), PcapError> {
        let Some(classic) = self.classic else { return Ok(()) };
        let field = |index: usize| self.order.u32(held, index << 2);
        let (seconds, parts, captured_bytes, original_bytes) = (field(0), field(1), field(2), field(3));
        if captured_bytes > RECORD_MAX_BYTES {
            return Err(PcapError::Record { found: captured_bytes, at: self.record_at });
        }
        let nanos = u64::from(parts).saturating_mul(if classic.nanos { 1 } else { 1000 });
        let head_bytes = HEAD_BYTES.min(captured_bytes as usize);
        self.state = State::Packet(Coming {
            time: Time::from_nanos(u64::from(seconds).saturating_mul(1_000_000_000).saturating_add(nanos)),
            interface: 0,
            link_type: classic.link_type,
            original_bytes,
            head_bytes,
            rest_bytes: u64::from(captured_bytes).saturating_sub(head_bytes as u64),
        });
        Ok(())
    }

    fn block(&mut self, held: &[u8]) -> Result<Held, PcapError> {
        let kind = self.order.u32(held, 0);
        // A section may have another byte order; its type reads the same in both.
        if kind == SECTION_HEADER {
            self.state = State::Section;
            return Ok(Held::Again);
        }
        let least = match kind {
            INTERFACE_DESCRIPTION => 20,
            OBSOLETE_PACKET | ENHANCED_PACKET => 32,
            _ => 12,
        };
        let body_bytes = self.body_bytes(held, least)?;
        match kind {
            INTERFACE_DESCRIPTION => self.state = State::Description { body_bytes },
            OBSOLETE_PACKET | ENHANCED_PACKET => {
                self.state = State::PacketFields { body_bytes, obsolete: kind == OBSOLETE_PACKET };
            }
            _ => self.next_block(body_bytes.into()),
        }
        Ok(Held::Used)
    }

    /// The length of a block without what frames it; `least` is the least that the whole of it can be.
    fn body_bytes(&self, held: &[u8], least: u32) -> Result<u32, PcapError> {
        let (kind, found) = (self.order.u32(held, 0), self.order.u32(held, 4));
        if found < least || !found.is_multiple_of(4) {
            return Err(PcapError::Block { kind, found, least, at: self.record_at });
        }
        Ok(found.saturating_sub(12))
    }

    /// Goes on behind `rest_bytes` of this block and its length, which stands once more at its end.
    fn next_block(&mut self, rest_bytes: u64) {
        self.skip = rest_bytes.saturating_add(4);
        self.state = State::Block;
    }

    fn section(&mut self, held: &[u8]) -> Result<(), PcapError> {
        self.order = match Order::Big.u32(held, 8) {
            BYTE_ORDER_MAGIC => Order::Big,
            magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => Order::Little,
            magic => return Err(PcapError::ByteOrder { found: magic.to_be_bytes(), at: self.record_at }),
        };
        let (major, minor) = (self.order.u16(held, 12), self.order.u16(held, 14));
        if major != 1 {
            return Err(PcapError::Version(major, minor, self.record_at));
        }
        self.interfaces.clear();
        let body_bytes = self.body_bytes(held, 28)?;
        self.next_block(
            u64::from(body_bytes).saturating_sub(const { (SECTION_BYTES - BLOCK_HEAD_BYTES) as u64 }),
        );
        Ok(())
    }

    fn packet_fields(&mut self, held: &[u8], body_bytes: u32, obsolete: bool) -> Result<(), PcapError> {
        let field = |index: usize| self.order.u32(held, index << 2);
        // The obsolete block counts dropped packets in the other half of the field.
        let interface = if obsolete { self.order.u16(held, 0).into() } else { field(0) };
        let (stamp, captured_bytes) = (u64::from(field(1)) << 32 | u64::from(field(2)), field(3));
        let data_bytes = body_bytes.saturating_sub(PACKET_FIELDS_LENGTH);
        if captured_bytes > data_bytes {
            let (kind, found) =
                (if obsolete { OBSOLETE_PACKET } else { ENHANCED_PACKET }, body_bytes.saturating_add(12));
            let least = captured_bytes.saturating_add(32);
            return Err(PcapError::Block { kind, found, least, at: self.record_at });
        }
        let known = self.interfaces.len();
        let Some(about) = self.interfaces.get(interface as usize) else {
            return Err(PcapError::Interface { found: interface, known, at: self.record_at });
        };
        let head_bytes = HEAD_BYTES.min(captured_bytes as usize);
        self.state = State::Packet(Coming {
            time: about.time(stamp),
            interface,
            link_type: LinkType(about.link_type),
            original_bytes: field(4),
            head_bytes,
            rest_bytes: u64::from(data_bytes).saturating_sub(head_bytes as u64).saturating_add(4),
        });
        Ok(())
    }
}

/// Whether the next state wants the same bytes again.
enum Held {
    Used,
    Again,
}
