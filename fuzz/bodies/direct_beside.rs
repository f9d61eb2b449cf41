//! What goes beside pictures of ours: sound, and access units of another encoder, against a peer that sends anything; and the
//! byte stream that units are cut from.
//!
//! Of each step the first byte chooses what comes, the second how many bytes of the input belong to it.

use bytes::Bytes;
use glassline_direct::coded::{CodedReceiver, CodedSender, Unit, UnitHeader, is_unit};
use glassline_direct::sound::{Redundancy, SoundMessage, SoundReceiver, SoundSender};
use glassline_media::bitstream::h264::units::Splitter;
use glassline_media::{Time, Utc};
use glassline_transport::link::{MessageId, Outcome};
use std::time::Duration;

/// Takes the bytes. Panics where something is written that reads otherwise, where bytes are made up, or where an end gives
/// more than it may.
pub fn run(data: &[u8]) {
    let mut now = Time::from_millis(1);
    let (mut sounds, mut heard) = (SoundSender::new(Redundancy::Auto, 4, 2, false), SoundReceiver::new());
    let (mut units, mut shown) = (CodedSender::new(1, None), CodedReceiver::new());
    let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
    let (mut given, mut taken_bytes, mut id) = (0, 0, 0);
    let (mut last_sound, mut last_unit) = (Bytes::new(), Bytes::new());
    let mut newest = None;
    let mut rest = data;
    while let Some((&[kind, count], behind)) = rest.split_first_chunk() {
        let (taken, behind) = behind.split_at(usize::from(count).min(behind.len()));
        rest = behind;
        now += Duration::from_millis(u64::from(count));
        let captured = Utc::from_nanos(now.as_nanos());
        let mut arrived = None;
        match kind % 8 {
            0 => {
                last_sound = sounds.message(Bytes::copy_from_slice(&[count]), captured);
                let _ = heard.handle(now, &last_sound);
            }
            1 => {
                let message = over(&last_sound, taken);
                if let Ok(parsed) = SoundMessage::parse(&message) {
                    assert_eq!(SoundMessage::parse(&parsed.to_bytes()), Ok(parsed));
                }
                let _ = heard.handle(now, &message);
            }
            2 => sounds.handle_outcome(if count > 99 { Outcome::Lost } else { Outcome::Delivered }),
            3 => {
                splitter.push(taken, &mut pieces);
                given += taken.len() as u64;
                if count % 2 == 0 {
                    splitter.flush(&mut pieces);
                }
                for piece in pieces.drain(..) {
                    taken_bytes += piece.data.len() as u64;
                    let (data, key) = (piece.data, piece.key);
                    let (reference, continues) = (piece.reference, piece.continues);
                    let unit = Unit { data, key, reference, continues, captured, passed: Default::default() };
                    if let Some(message) = units.message(&unit, 100) {
                        assert!(is_unit(&message));
                        units.sent(MessageId(id));
                        id += 1;
                        last_unit = message;
                    }
                }
                assert!(taken_bytes + splitter.dropped_bytes() <= given);
            }
            4 => arrived = Some(last_unit.clone()),
            5 => arrived = Some(over(&last_unit, taken)),
            6 => {
                let lost = MessageId(u64::from(count));
                units.handle_outcome(lost, Outcome::Lost);
                let _ = units.handle_report(taken);
            }
            _ => {
                shown.handle_timeout(now);
                if let Some(report) = shown.poll_report() {
                    units.handle_report(&report).expect("a report of ours");
                }
            }
        }
        if let Some(message) = arrived {
            if let Ok((header, unit)) = UnitHeader::parse(&message) {
                let mut written = Vec::new();
                header.write(&mut written);
                written.extend_from_slice(unit);
                assert_eq!(UnitHeader::parse(&written), Ok((header, unit)));
            }
            for unit in shown.handle(now, &message).unwrap_or_default() {
                let (epoch, number) = (unit.header.epoch, unit.header.number);
                assert!(newest.is_none_or(|(before, last)| before != epoch || last < number));
                newest = Some((epoch, number));
            }
        }
        let mut plays = 0;
        while let Some(play) = heard.poll(now) {
            assert!(play.at <= now);
            plays += 1;
        }
        assert!(plays <= 400, "{plays}");
    }
}

/// A message with bytes of the input over its beginning.
fn over(message: &Bytes, with: &[u8]) -> Bytes {
    let mut bytes = message.to_vec();
    bytes.resize(bytes.len().max(with.len()), 1);
    bytes[..with.len()].copy_from_slice(with);
    bytes.into()
}
