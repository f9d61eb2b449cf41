//! The ceiling: datagrams sealed and opened as ours are (AES-128-GCM, ring), sent and received with GSO and GRO, and
//! nothing else. What the receiver does not keep up with is lost.

use anyhow::{Context, Result};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::carrier::{DATAGRAM, MAX_SEGMENTS, Socket};
use crate::end::{Meter, Received, Sent, cpu_seconds};

const HEADER: usize = 13;
const TAG: usize = 16;
/// Bytes of payload in a datagram.
pub(crate) const PAYLOAD: usize = DATAGRAM - HEADER - TAG;
/// A datagram that says that nothing follows.
const END: [u8; 1] = [0];
const ENDS: usize = 20;

fn key() -> Result<LessSafeKey> {
    UnboundKey::new(&AES_128_GCM, &[7; 16]).map(LessSafeKey::new).ok().context("AES")
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

pub(crate) fn send(address: SocketAddr, seconds: Duration) -> Result<Sent> {
    let (socket, key) = (Socket::toward(address)?, key()?);
    let (mut batch, message) = (Vec::with_capacity(MAX_SEGMENTS * DATAGRAM), vec![0x5A; PAYLOAD]);
    let (mut number, begin, cpu) = (0u64, Instant::now(), cpu_seconds());
    while begin.elapsed() < seconds {
        batch.clear();
        for _ in 0..MAX_SEGMENTS {
            let start = batch.len();
            batch.extend_from_slice(&[0x40; HEADER - 8]);
            batch.extend_from_slice(&number.to_be_bytes());
            batch.extend_from_slice(&message);
            let (header, text) = batch[start..].split_at_mut(HEADER);
            let tag = key.seal_in_place_separate_tag(nonce(number), Aad::from(&*header), text);
            batch.extend_from_slice(tag.ok().context("AES")?.as_ref());
            number += 1;
        }
        while !socket.send(address, &batch, DATAGRAM)? {
            socket.wait(true, Duration::from_millis(10))?;
        }
    }
    let cpu = cpu_seconds() - cpu;
    for _ in 0..ENDS {
        socket.send(address, &END, END.len())?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Sent { bytes: number as f64 * PAYLOAD as f64, cpu })
}

pub(crate) fn receive(address: SocketAddr) -> Result<Received> {
    let (mut socket, key) = (Socket::bind(address)?, key()?);
    println!("ready");
    let mut meter = Meter::new();
    let mut ended = false;
    while !ended && !meter.is_over() {
        let mut count = 0;
        let more = socket.receive(|_, bytes, size| {
            for datagram in bytes.chunks_mut(size) {
                ended |= datagram.len() == END.len();
                let Some((header, text)) = datagram.split_at_mut_checked(HEADER) else { continue };
                let number = header.last_chunk().map_or(0, |number| u64::from_be_bytes(*number));
                count += u64::from(key.open_in_place(nonce(number), Aad::from(&*header), text).is_ok());
            }
        })?;
        meter.count(count * PAYLOAD as u64);
        if !more && count == 0 {
            socket.wait(false, Duration::from_millis(20))?;
        }
    }
    Ok(meter.received())
}
