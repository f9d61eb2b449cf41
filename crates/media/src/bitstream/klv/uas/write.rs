//! The set of drones, written.

use super::{KEY, Set, TEXT_MAX_BYTES, VERSION, checksum, tag};

impl Set {
    /// The set as a packet, with its checksum. The time stands in front and the checksum at the end, as the standard has it
    /// (0601 §6.4); [`VERSION`] is said where the set says none. Pitch and roll that tags 6 and 7 do not reach are written in
    /// full beside them.
    pub fn write(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(128);
        let mut item = |tag: u8, bytes: &[u8]| {
            // Nothing here is longer than a length of one byte can tell.
            let bytes = bytes.get(..bytes.len().min(TEXT_MAX_BYTES)).unwrap_or_default();
            value.extend_from_slice(&[tag, u8::try_from(bytes.len()).unwrap_or(0)]);
            value.extend_from_slice(bytes);
        };
        if let Some(micros) = self.time_micros {
            item(tag::TIME, &micros.to_be_bytes());
        }
        for (tag, text) in
            [(tag::MISSION, &self.mission), (tag::TAIL, &self.tail_number), (tag::PLATFORM, &self.platform)]
        {
            if let Some(text) = text {
                item(tag, text.as_bytes());
            }
        }
        if let Some(heading) = self.heading_deg {
            item(tag::HEADING, &to_unsigned(heading.rem_euclid(360.0), 0.0, 360.0));
        }
        if let Some(pitch) = self.pitch_deg {
            item(tag::PITCH, &to_signed16(pitch, 20.0));
        }
        if let Some(roll) = self.roll_deg {
            item(tag::ROLL, &to_signed16(roll, 50.0));
        }
        for (tag, angle, limit) in [
            (tag::LATITUDE, self.latitude_deg, 90.0),
            (tag::LONGITUDE, self.longitude_deg, 180.0),
            (tag::CENTRE_LATITUDE, self.centre_latitude_deg, 90.0),
            (tag::CENTRE_LONGITUDE, self.centre_longitude_deg, 180.0),
        ] {
            if let Some(angle) = angle {
                item(tag, &to_signed32(angle, limit));
            }
            if tag == tag::LONGITUDE
                && let Some(altitude) = self.altitude_m
            {
                item(tag::ALTITUDE, &to_unsigned(altitude, -900.0, 19_000.0));
            }
        }
        item(tag::VERSION, &[self.version.unwrap_or(VERSION)]);
        for (tag, angle, reached) in
            [(tag::PITCH_FULL, self.pitch_deg, 20.0), (tag::ROLL_FULL, self.roll_deg, 50.0)]
        {
            if let Some(angle) = angle.filter(|angle| angle.abs() > reached) {
                item(tag, &to_signed32(angle, 90.0));
            }
        }
        item(tag::CHECKSUM, &[0, 0]);
        framed(&value)
    }
}

/// A set's value behind key and length, its last two bytes replaced by the checksum.
pub(super) fn framed(value: &[u8]) -> Vec<u8> {
    let mut packet = KEY.to_vec();
    match u8::try_from(value.len()) {
        Ok(length) if length < 0x80 => packet.push(length),
        Ok(length) => packet.extend_from_slice(&[0x81, length]),
        Err(_) => {
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            packet.push(0x82);
            packet.extend_from_slice(&length.to_be_bytes());
        }
    }
    packet.extend_from_slice(value);
    if let Some((covered, stated)) = packet.split_last_chunk_mut::<2>() {
        *stated = checksum(covered).to_be_bytes();
    }
    packet
}

/// A conversion from a float to an integer ends at the integer's limits, and takes what is no number for 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the limits")]
fn to_unsigned(value: f64, least: f64, most: f64) -> [u8; 2] {
    (((value - least) / (most - least) * f64::from(u16::MAX)).round() as u16).to_be_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "what is beyond the limit stands for none")]
fn to_signed16(value: f64, limit: f64) -> [u8; 2] {
    let number =
        if value.abs() > limit { i16::MIN } else { (value / limit * f64::from(i16::MAX)).round() as i16 };
    number.to_be_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "what is beyond the limit stands for none")]
fn to_signed32(value: f64, limit: f64) -> [u8; 4] {
    let number =
        if value.abs() > limit { i32::MIN } else { (value / limit * f64::from(i32::MAX)).round() as i32 };
    number.to_be_bytes()
}
