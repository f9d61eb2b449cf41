//! Rotations: quaternions and the angles of aircraft, by which those are turned in the order yaw, pitch, roll.

/// Angles in degrees: roll with the right side down, pitch with the nose up, yaw to the right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Angles {
    pub(super) roll: f64,
    pub(super) pitch: f64,
    pub(super) yaw: f64,
}

/// A rotation, of length 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rotation {
    w: f64,
    x: f64,
    y: f64,
    z: f64,
}

/// A quaternion of a length that is further from 1 is damaged, or stands for none.
const LENGTH_TOLERANCE: f64 = 0.1;
/// The cosine of half the angle of a rotation by a degree.
const TURNS_BELOW: f64 = 0.999_96;

impl Angles {
    /// Of radians; `None` where one is no number.
    pub(super) fn of_radians(roll: f32, pitch: f32, yaw: f32) -> Option<Angles> {
        Angles { roll: f64::from(roll), pitch: f64::from(pitch), yaw: f64::from(yaw) }
            .map(f64::to_degrees)
            .finite()
    }

    fn map(self, turn: impl Fn(f64) -> f64) -> Angles {
        Angles { roll: turn(self.roll), pitch: turn(self.pitch), yaw: turn(self.yaw) }
    }

    pub(super) fn finite(self) -> Option<Angles> {
        [self.roll, self.pitch, self.yaw].into_iter().all(f64::is_finite).then_some(self)
    }

    /// The rotation by these angles.
    pub(super) fn rotation(self) -> Rotation {
        let half = self.map(|angle| angle.to_radians() / 2.0);
        let ((sr, cr), (sp, cp), (sy, cy)) = (half.roll.sin_cos(), half.pitch.sin_cos(), half.yaw.sin_cos());
        Rotation {
            w: cr * cp * cy + sr * sp * sy,
            x: sr * cp * cy - cr * sp * sy,
            y: cr * sp * cy + sr * cp * sy,
            z: cr * cp * sy - sr * sp * cy,
        }
    }
}

impl Rotation {
    /// Of w, x, y, z; `None` where they are no rotation.
    pub(super) fn of_quaternion(quaternion: [f32; 4]) -> Option<Rotation> {
        // What is no number is not within it either.
        Rotation::of_length(quaternion, |length| (length - 1.0).abs() <= LENGTH_TOLERANCE)
    }

    /// The same of an offset: zeros stand for none, and what is at least half as long as it should be is one, as ground stations take
    /// it.
    pub(super) fn of_offset(quaternion: [f32; 4]) -> Option<Rotation> {
        Rotation::of_length(quaternion, |length| length >= 0.5 && length.is_finite())
    }

    fn of_length(quaternion: [f32; 4], is_right: impl Fn(f64) -> bool) -> Option<Rotation> {
        let [w, x, y, z] = quaternion.map(f64::from);
        let length = (w * w + x * x + y * y + z * z).sqrt();
        is_right(length).then(|| Rotation { w: w / length, x: x / length, y: y / length, z: z / length })
    }

    /// Whether it changes anything.
    pub(super) fn turns(self) -> bool {
        self.w.abs() < TURNS_BELOW
    }

    /// The angles of it.
    pub(super) fn angles(self) -> Angles {
        let Rotation { w, x, y, z } = self;
        let roll = (2.0 * (w * x + y * z)).atan2(1.0 - 2.0 * (x * x + y * y));
        let pitch = (2.0 * (w * y - z * x)).clamp(-1.0, 1.0).asin();
        let yaw = (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z));
        Angles { roll, pitch, yaw }.map(f64::to_degrees)
    }

    /// The rotation by a yaw alone, in degrees.
    pub(super) fn of_yaw(yaw: f64) -> Rotation {
        Angles { roll: 0.0, pitch: 0.0, yaw }.rotation()
    }

    /// `inner`, which was measured from within this rotation, as it is from outside.
    pub(super) fn around(self, inner: Rotation) -> Rotation {
        let (a, b) = (self, inner);
        Rotation {
            w: a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            x: a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            y: a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            z: a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
        }
    }

    /// This rotation as it is seen from within `other`.
    pub(super) fn within(self, other: Rotation) -> Rotation {
        Rotation { x: -other.x, y: -other.y, z: -other.z, ..other }.around(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: Angles, expected: Angles) {
        let (found, expected) =
            ([found.roll, found.pitch, found.yaw], [expected.roll, expected.pitch, expected.yaw]);
        for (found, expected) in found.into_iter().zip(expected) {
            let apart = (found - expected).rem_euclid(360.0);
            assert!(apart.min(360.0 - apart) < 1e-6, "{found}, expected {expected}");
        }
    }

    #[test]
    fn a_camera_that_looks_north_from_a_vehicle_that_flies_east_looks_to_its_left() {
        let level = Rotation::of_yaw;
        near(level(0.0).within(level(90.0)).angles(), Angles { roll: 0.0, pitch: 0.0, yaw: -90.0 });
        near(level(90.0).around(level(20.0)).angles(), Angles { roll: 0.0, pitch: 0.0, yaw: 110.0 });
        // The nose is up by 10 degrees and the camera level, so that it looks down from the vehicle.
        let nose_up = Angles { roll: 0.0, pitch: 10.0, yaw: 30.0 }.rotation();
        near(level(30.0).within(nose_up).angles(), Angles { roll: 0.0, pitch: -10.0, yaw: 0.0 });
    }

    #[test]
    fn what_is_no_rotation_is_none() {
        for bad in [[0.0; 4], [f32::NAN, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0], [f32::INFINITY, 1.0, 0.0, 0.0]]
        {
            assert_eq!(Rotation::of_quaternion(bad), None);
        }
        assert!(Rotation::of_quaternion([1.01, 0.0, 0.0, 0.0]).is_some());
    }

    proptest! {
        #[test]
        fn angles_survive(roll in -179.0f64..179.0, pitch in -89.0f64..89.0, yaw in -179.0f64..179.0) {
            let angles = Angles { roll, pitch, yaw };
            near(angles.rotation().angles(), angles);
            let none = Angles { roll: 0.0, pitch: 0.0, yaw: 0.0 };
            near(angles.rotation().within(none.rotation()).angles(), angles);
            near(angles.rotation().within(angles.rotation()).angles(), none);
        }
    }
}
