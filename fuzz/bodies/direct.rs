//! Both ends of direct video against a peer that sends anything: a receiver takes pictures whose headers are true, damaged or
//! made up, a sender takes reports of it.
//!
//! Of each step the first byte chooses what comes (pictures of ours, true or with bytes of the input over their header; bytes of the
//! input as they are; reports), the second how many bytes of the input belong to it.

use bytes::Bytes;
use glassline_codec::vp8::{Limits, Serial};
use glassline_direct::wire::{PictureHeader, Report};
use glassline_direct::{Conditions, Fate, Receiver, Sender, SenderSettings};
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time};
use std::time::Duration;

/// Takes the bytes. Panics where something is written that reads otherwise, where an end holds more than it may, or where the
/// numbers of pictures that are shown do not rise.
pub fn run(data: &[u8]) {
    let rate = FrameRate::new(25, 1).expect("a rate");
    let mut sender = Sender::new(SenderSettings { candidates: 1, speed: 10, ..SenderSettings::new(1, rate) });
    let mut receiver = Receiver::new(Limits { max_pixels: 1 << 14 });
    let size = Size::new(16, 16).expect("a size");
    let (mut now, mut last, mut newest) = (Time::from_millis(1), Bytes::new(), None);
    let mut rest = data;
    while let Some((&[kind, count], behind)) = rest.split_first_chunk() {
        let (taken, behind) = behind.split_at(usize::from(count).min(behind.len()));
        rest = behind;
        now += Duration::from_millis(u64::from(count));
        match kind % 5 {
            0 => {
                let mut picture = Picture::new(PixelFormat::I420, size, now);
                picture.planes_mut()[0].bytes_mut().fill(count);
                let conditions = Conditions { budget: 4_000, silence: Duration::ZERO };
                sender.encode(now, &picture, conditions, &Serial).expect("a small picture");
                let choice = sender.choose(4_000, false, &Serial).expect("a small picture");
                if let Some(message) = choice.and_then(|choice| choice.message) {
                    last = message;
                }
            }
            1 => handle(&mut receiver, now, &last, &mut newest),
            2 => {
                let mut damaged = last.to_vec();
                let over = taken.len().min(damaged.len());
                damaged[..over].copy_from_slice(&taken[..over]);
                check_picture(&damaged);
                handle(&mut receiver, now, &damaged.into(), &mut newest);
            }
            3 => {
                check_report(taken);
                let _ = sender.handle_report(now, taken);
            }
            _ => {
                receiver.handle_timeout(now);
                if count & 1 == 1 {
                    receiver.ask_key_frame();
                }
                if let Some(report) = receiver.poll_report() {
                    assert!(Report::parse(&report).is_ok());
                    let _ = sender.handle_report(now, &report);
                }
            }
        }
        assert!(receiver.states() <= 40 && sender.states().0 <= 33);
    }
}

/// Hands over a message; `newest` is the run and the number of what was shown last.
fn handle(receiver: &mut Receiver, now: Time, message: &Bytes, newest: &mut Option<(u32, u64)>) {
    let Ok(Fate::Shown(pictures)) = receiver.handle(now, message) else { return };
    for shown in pictures {
        let (epoch, number) = (shown.header.epoch, shown.header.number);
        assert!(newest.is_none_or(|(before, last)| before != epoch || last < number));
        *newest = Some((epoch, number));
    }
}

fn check_picture(message: &[u8]) {
    let Ok((header, frame)) = PictureHeader::parse(message) else { return };
    let mut written = Vec::new();
    header.write(&mut written);
    written.extend_from_slice(frame);
    assert_eq!(PictureHeader::parse(&written), Ok((header, frame)));
}

fn check_report(message: &[u8]) {
    if let Ok(report) = Report::parse(message) {
        assert_eq!(Report::parse(&report.to_bytes()), Ok(report));
    }
}
