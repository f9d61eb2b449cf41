//! The set of drones, written.

use super::{KEY, Set, TEXT_MAX_BYTES, VERSION, checksum, tag};

/// What tags 90 and 91 reach.
const FULL_DEG: f64 = 90.0;

impl Set {
    /// The set as a packet, with its checksum. The time stands in front and the checksum at the end, as the standard has it
    /// (0601 §6.4); [`VERSION`] is said where the set says none. Pitch and roll that tags 6 and 7 do not reach are written in
    /// full beside them, as far as tags 90 and 91 reach.
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
        if let Some(latitude) = self.latitude_deg {
            item(tag::LATITUDE, &to_signed32(latitude, 90.0));
        }
        if let Some(longitude) = self.longitude_deg {
            item(tag::LONGITUDE, &to_signed32(longitude, 180.0));
        }
        if let Some(altitude) = self.altitude_m {
            item(tag::ALTITUDE, &to_unsigned(altitude, -900.0, 19_000.0));
        }
        for (tag, angle) in
            [(tag::HORIZONTAL_VIEW, self.horizontal_view_deg), (tag::VERTICAL_VIEW, self.vertical_view_deg)]
        {
            if let Some(angle) = angle {
                item(tag, &to_unsigned(angle, 0.0, 180.0));
            }
        }
        if let Some(azimuth) = self.relative_azimuth_deg {
            item(tag::RELATIVE_AZIMUTH, &to_circle(azimuth));
        }
        if let Some(elevation) = self.relative_elevation_deg {
            item(tag::RELATIVE_ELEVATION, &to_signed32(elevation, 180.0));
        }
        if let Some(roll) = self.relative_roll_deg {
            item(tag::RELATIVE_ROLL, &to_circle(roll));
        }
        if let Some(latitude) = self.centre_latitude_deg {
            item(tag::CENTRE_LATITUDE, &to_signed32(latitude, 90.0));
        }
        if let Some(longitude) = self.centre_longitude_deg {
            item(tag::CENTRE_LONGITUDE, &to_signed32(longitude, 180.0));
        }
        item(tag::VERSION, &[self.version.unwrap_or(VERSION)]);
        if let Some(height) = self.ellipsoid_height_m {
            item(tag::ELLIPSOID_HEIGHT, &to_unsigned(height, -900.0, 19_000.0));
        }
        for (tag, angle, reached) in
            [(tag::PITCH_FULL, self.pitch_deg, 20.0), (tag::ROLL_FULL, self.roll_deg, 50.0)]
        {
            // Beyond that none of the tags can say it, and each would say that it is out of its range.
            if let Some(angle) = angle.filter(|angle| angle.abs() > reached && angle.abs() <= FULL_DEG) {
                item(tag, &to_signed32(angle, FULL_DEG));
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

/// Degrees of a circle in 32 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the limits")]
fn to_circle(value: f64) -> [u8; 4] {
    ((value.rem_euclid(360.0) / 360.0 * f64::from(u32::MAX)).round() as u32).to_be_bytes()
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
