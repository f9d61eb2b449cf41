//! The messages that tell time, position and attitude (mavlink.io, dialects "minimal", "standard" and "common").
//!
//! A payload has its fields by size, the largest first, and behind them those that were added later ("extensions"). What a sender
//! leaves out at the end is zero.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// Bytes of the longest payload that is read: those messages have 53 at most, and room for what may be added to them.
pub(super) const PAYLOAD_MAX_BYTES: usize = 64;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Message {
    /// 0, `HEARTBEAT`: the sender is there.
    Heartbeat {
        /// What it is (`MAV_TYPE`): 6 is a ground station.
        kind: u8,
        /// Which autopilot it is (`MAV_AUTOPILOT`): 8 is none.
        autopilot: u8,
    },
    /// 2, `SYSTEM_TIME`.
    WallClock {
        /// Microseconds since 1970; 0, or some early year, while it is not known.
        unix_micros: u64,
        /// The same moment in milliseconds since the sender has started.
        boot_ms: u32,
    },
    /// 24, `GPS_RAW_INT`: what the receiver of satellites says.
    Gps {
        /// `GPS_FIX_TYPE`: 2 is a position, 3 one with height.
        fix: u8,
        /// Degrees north × 10⁷.
        latitude_e7: i32,
        /// Degrees east × 10⁷.
        longitude_e7: i32,
        /// Millimetres above the mean level of the sea.
        altitude_mm: i32,
        /// Millimetres above the ellipsoid of WGS 84; 0 where it is not told.
        ellipsoid_mm: i32,
    },
    /// 30, `ATTITUDE`: angles in radians.
    Attitude {
        /// Milliseconds since the sender has started.
        boot_ms: u32,
        /// The right wing down.
        roll: f32,
        /// The nose up.
        pitch: f32,
        /// Clockwise from north.
        yaw: f32,
    },
    /// 31, `ATTITUDE_QUATERNION`.
    AttitudeQuaternion {
        /// Milliseconds since the sender has started.
        boot_ms: u32,
        /// w, x, y, z: from north, east, down to the vehicle's axes.
        quaternion: [f32; 4],
        /// w, x, y, z: from the vehicle's axes to those by which it is told, which differ where it flies on its tail; zeros where
        /// they do not.
        offset: [f32; 4],
    },
    /// 33, `GLOBAL_POSITION_INT`: the position that the autopilot flies by.
    Position {
        /// Milliseconds since the sender has started.
        boot_ms: u32,
        /// Degrees north × 10⁷.
        latitude_e7: i32,
        /// Degrees east × 10⁷.
        longitude_e7: i32,
        /// Millimetres above the mean level of the sea.
        altitude_mm: i32,
        /// Degrees × 100 from north; 65,535 where it is not known.
        heading_cdeg: u16,
    },
    /// 265, `MOUNT_ORIENTATION`: where a gimbal points, in degrees; what is no number is not known.
    Mount {
        /// Roll against the horizon.
        roll: f32,
        /// Pitch against the horizon.
        pitch: f32,
        /// Yaw against the vehicle's heading.
        yaw: f32,
        /// Yaw against north, where it is told.
        yaw_absolute: Option<f32>,
    },
    /// 271, `CAMERA_FOV_STATUS`: what a camera sees.
    FieldOfView {
        /// The middle of the picture, degrees north × 10⁷; the largest and the least number: it is not known, or in the sky.
        latitude_e7: i32,
        /// The same, degrees east × 10⁷.
        longitude_e7: i32,
        /// Degrees from left to right; what is no number is not known.
        horizontal_deg: f32,
        /// Degrees from top to bottom.
        vertical_deg: f32,
        /// Which camera it is of those that its sender speaks for: 0 is the sender itself.
        device: u8,
    },
    /// 285, `GIMBAL_DEVICE_ATTITUDE_STATUS`: where a gimbal points.
    Gimbal {
        /// `GIMBAL_DEVICE_FLAGS`: 16, 32 and 64 say what the yaw is measured from.
        flags: u16,
        /// w, x, y, z against the horizon.
        quaternion: [f32; 4],
        /// Which gimbal it is of those that its sender speaks for: 0 is the sender itself.
        device: u8,
    },
}

/// How a message is checked and read.
pub(super) struct Layout {
    /// The last byte under the checksum (`CRC_EXTRA`).
    pub(super) extra: u8,
    read: fn(&Payload, usize) -> Message,
}

/// The layout of the message with this number, where it is read.
pub(super) fn layout(number: u32) -> Option<&'static Layout> {
    let layout: &Layout = match number {
        0 => &Layout {
            extra: 50,
            read: |payload, _| Message::Heartbeat { kind: payload.byte(4), autopilot: payload.byte(5) },
        },
        2 => &Layout {
            extra: 137,
            read: |payload, _| Message::WallClock {
                unix_micros: u64::from_le_bytes(payload.bytes(0)),
                boot_ms: payload.u32(8),
            },
        },
        24 => &Layout {
            extra: 24,
            read: |payload, _| Message::Gps {
                latitude_e7: payload.i32(8),
                longitude_e7: payload.i32(12),
                altitude_mm: payload.i32(16),
                fix: payload.byte(28),
                ellipsoid_mm: payload.i32(30),
            },
        },
        30 => &Layout {
            extra: 39,
            read: |payload, _| Message::Attitude {
                boot_ms: payload.u32(0),
                roll: payload.f32(4),
                pitch: payload.f32(8),
                yaw: payload.f32(12),
            },
        },
        31 => &Layout {
            extra: 246,
            read: |payload, _| Message::AttitudeQuaternion {
                boot_ms: payload.u32(0),
                quaternion: payload.quaternion(4),
                offset: payload.quaternion(32),
            },
        },
        33 => &Layout {
            extra: 104,
            read: |payload, _| Message::Position {
                boot_ms: payload.u32(0),
                latitude_e7: payload.i32(4),
                longitude_e7: payload.i32(8),
                altitude_mm: payload.i32(12),
                heading_cdeg: u16::from_le_bytes(payload.bytes(26)),
            },
        },
        265 => &Layout {
            extra: 26,
            read: |payload, length| Message::Mount {
                roll: payload.f32(4),
                pitch: payload.f32(8),
                yaw: payload.f32(12),
                // Zero stands for north too, and for a sender that does not know of this field.
                yaw_absolute: (length > 16).then(|| payload.f32(16)),
            },
        },
        271 => &Layout {
            extra: 22,
            read: |payload, _| Message::FieldOfView {
                latitude_e7: payload.i32(16),
                longitude_e7: payload.i32(20),
                horizontal_deg: payload.f32(44),
                vertical_deg: payload.f32(48),
                device: payload.byte(52),
            },
        },
        285 => &Layout {
            extra: 137,
            read: |payload, _| Message::Gimbal {
                quaternion: payload.quaternion(4),
                flags: u16::from_le_bytes(payload.bytes(36)),
                device: payload.byte(48),
            },
        },
        _ => return None,
    };
    Some(layout)
}

/// `CRC_EXTRA` of a message that carries other bytes, which may be frames of MAVLink themselves: files and logs that are fetched, what
/// is tunnelled, and corrections for receivers of satellites.
pub(super) fn carrier(number: u32) -> Option<u8> {
    Some(match number {
        110 => 84,  // FILE_TRANSFER_PROTOCOL
        120 => 134, // LOG_DATA
        123 => 250, // GPS_INJECT_DATA
        126 => 220, // SERIAL_CONTROL
        131 => 223, // ENCAPSULATED_DATA
        233 => 35,  // GPS_RTCM_DATA
        248 => 8,   // V2_EXTENSION
        266 => 193, // LOGGING_DATA
        267 => 35,  // LOGGING_DATA_ACKED
        385 => 147, // TUNNEL
        _ => return None,
    })
}

/// A payload with the zeros that were left out.
struct Payload([u8; PAYLOAD_MAX_BYTES]);

impl Payload {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    fn byte(&self, at: usize) -> u8 {
        let [byte] = self.bytes(at);
        byte
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.bytes(at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes(at))
    }

    fn quaternion(&self, at: usize) -> [f32; 4] {
        std::array::from_fn(|index| self.f32(at.saturating_add(index.saturating_mul(4))))
    }
}

impl Message {
    /// Reads a payload, which may lack zeros at its end, or have more than is known here.
    pub(super) fn read(layout: &Layout, payload: &[u8]) -> Message {
        let mut whole = Payload([0; PAYLOAD_MAX_BYTES]);
        for (to, from) in whole.0.iter_mut().zip(payload) {
            *to = *from;
        }
        (layout.read)(&whole, payload.len())
    }
}
