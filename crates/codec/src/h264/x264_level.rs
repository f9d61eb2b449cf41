//! Levels of H.264 (ITU-T H.264 table A-1): how large and how many pictures a decoder has to be able to decode.

use std::fmt;
use std::str::FromStr;

/// A level, of those in table A-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    name: &'static str,
    idc: u8,
    macroblocks_per_second: u32,
    macroblocks: u32,
    /// Macroblocks of all reference pictures.
    buffer_macroblocks: u32,
    /// In kbit/s and kbit; profile high has a quarter more (table A-2).
    bitrate_kbit: u32,
    vbv_kbit: u32,
}

/// What is asked of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Of the picture, in samples.
    pub(super) width: u32,
    /// Of a picture.
    pub(super) macroblocks: u32,
    pub(super) pictures_per_second: f64,
    pub(super) bitrate_kbit: u32,
    pub(super) vbv_kbit: u32,
    pub(super) references: u32,
    /// Whether profile high is sure.
    pub(super) is_high: bool,
}

/// Name, idc, macroblocks a second, macroblocks of a picture and of all references, kbit/s, kbit of the buffer.
type Row = (&'static str, u8, u32, u32, u32, u32, u32);

/// ITU-T H.264 table A-1.
const TABLE: [Row; 20] = [
    ("1", 10, 1_485, 99, 396, 64, 175),
    ("1b", 9, 1_485, 99, 396, 128, 350),
    ("1.1", 11, 3_000, 396, 900, 192, 500),
    ("1.2", 12, 6_000, 396, 2_376, 384, 1_000),
    ("1.3", 13, 11_880, 396, 2_376, 768, 2_000),
    ("2", 20, 11_880, 396, 2_376, 2_000, 2_000),
    ("2.1", 21, 19_800, 792, 4_752, 4_000, 4_000),
    ("2.2", 22, 20_250, 1_620, 8_100, 4_000, 4_000),
    ("3", 30, 40_500, 1_620, 8_100, 10_000, 10_000),
    ("3.1", 31, 108_000, 3_600, 18_000, 14_000, 14_000),
    ("3.2", 32, 216_000, 5_120, 20_480, 20_000, 20_000),
    ("4", 40, 245_760, 8_192, 32_768, 20_000, 25_000),
    ("4.1", 41, 245_760, 8_192, 32_768, 50_000, 62_500),
    ("4.2", 42, 522_240, 8_704, 34_816, 50_000, 62_500),
    ("5", 50, 589_824, 22_080, 110_400, 135_000, 135_000),
    ("5.1", 51, 983_040, 36_864, 184_320, 240_000, 240_000),
    ("5.2", 52, 2_073_600, 36_864, 184_320, 240_000, 240_000),
    ("6", 60, 4_177_920, 139_264, 696_320, 240_000, 240_000),
    ("6.1", 61, 8_355_840, 139_264, 696_320, 480_000, 480_000),
    ("6.2", 62, 16_711_680, 139_264, 696_320, 800_000, 800_000),
];

fn levels() -> impl Iterator<Item = Level> {
    let level =
        |(name, idc, macroblocks_per_second, macroblocks, buffer_macroblocks, bitrate_kbit, vbv_kbit)| {
            Level {
                name,
                idc,
                macroblocks_per_second,
                macroblocks,
                buffer_macroblocks,
                bitrate_kbit,
                vbv_kbit,
            }
        };
    TABLE.into_iter().map(level)
}

impl Level {
    /// x264's number: ten times the level, 9 for 1b.
    pub(super) const fn idc(self) -> u8 {
        self.idc
    }

    /// Why the level does not hold `load`, with the level that does, where one does.
    pub(super) fn check(self, load: &Load) -> Result<(), String> {
        let Some(why) = self.excess(load) else { return Ok(()) };
        let enough = levels().find(|level| level.excess(load).is_none());
        let advice = enough.map_or("no level holds that".to_owned(), |level| format!("{level} or more"));
        Err(format!("{advice} ({why})"))
    }

    /// What of `load` is more than the level holds.
    fn excess(self, load: &Load) -> Option<String> {
        let high = |limit: u32| if load.is_high { limit / 4 * 5 } else { limit };
        let per_second = f64::from(load.macroblocks) * load.pictures_per_second;
        let columns = u64::from(load.width.div_ceil(16));
        let rows = u64::from(load.macroblocks) / columns.max(1);
        let longest = u64::from(self.macroblocks) * 8;
        if load.macroblocks > self.macroblocks || columns.pow(2) > longest || rows.pow(2) > longest {
            return Some(format!("{} macroblocks a picture of {}", load.macroblocks, self.macroblocks));
        }
        if per_second > f64::from(self.macroblocks_per_second) {
            return Some(format!("{per_second:.0} macroblocks a second of {}", self.macroblocks_per_second));
        }
        if load.bitrate_kbit > high(self.bitrate_kbit) {
            return Some(format!("{} kbit/s of {}", load.bitrate_kbit, high(self.bitrate_kbit)));
        }
        if load.vbv_kbit > high(self.vbv_kbit) {
            return Some(format!("a VBV of {} kbit of {}", load.vbv_kbit, high(self.vbv_kbit)));
        }
        let references = self.references_max(load.macroblocks);
        (load.references > references)
            .then(|| format!("{} reference pictures of {references}", load.references))
    }

    /// How many reference pictures of so many macroblocks the level has room for.
    pub(super) fn references_max(self, macroblocks: u32) -> u32 {
        (self.buffer_macroblocks / macroblocks.max(1)).clamp(1, 16)
    }
}

/// What is no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no level of H.264; write one of {names}", names = levels().map(|level| level.name).collect::<Vec<_>>().join(", "))]
pub struct NoLevel(String);

impl FromStr for Level {
    type Err = NoLevel;
    fn from_str(text: &str) -> Result<Level, NoLevel> {
        let name = text.strip_suffix(".0").unwrap_or(text);
        levels().find(|level| level.name == name).ok_or_else(|| NoLevel(text.to_owned()))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> Level {
        text.parse().unwrap()
    }

    /// 720p at 30 pictures a second.
    const LOAD: Load = Load {
        width: 1280,
        macroblocks: 3_600,
        pictures_per_second: 30.0,
        bitrate_kbit: 5_000,
        vbv_kbit: 5_000,
        references: 4,
        is_high: false,
    };

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for known in levels() {
            assert_eq!(known.to_string().parse(), Ok(known));
        }
        assert_eq!("4.0".parse(), Ok(level("4")));
        assert_eq!([level("1b").idc(), level("3.1").idc()], [9, 31]);
        let refused = "3.3".parse::<Level>().unwrap_err().to_string();
        assert!(refused.contains("3.3") && refused.contains("3.1, 3.2, 4"), "{refused}");
    }

    #[test]
    fn a_level_holds_what_the_table_says_and_no_more() {
        assert_eq!(level("3.1").check(&LOAD), Ok(()));
        for (more, why) in [
            (Load { macroblocks: 3_601, ..LOAD }, "a picture"),
            (Load { pictures_per_second: 30.1, ..LOAD }, "a second"),
            (Load { bitrate_kbit: 14_001, ..LOAD }, "kbit/s"),
            (Load { vbv_kbit: 14_001, ..LOAD }, "VBV"),
            (Load { references: 6, ..LOAD }, "reference pictures of 5"),
            // Wider than the square root of eight times its pictures' macroblocks.
            (Load { width: 170 * 16, macroblocks: 170, ..LOAD }, "a picture"),
        ] {
            let refused = level("3.1").check(&more).unwrap_err();
            assert!(refused.contains(why) && refused.contains("or more"), "{refused}");
        }
        let refused = level("3.1").check(&Load { pictures_per_second: 60.0, ..LOAD }).unwrap_err();
        assert!(refused.starts_with("3.2 or more"), "{refused}");
        let most = Load { bitrate_kbit: 17_500, vbv_kbit: 17_500, is_high: true, ..LOAD };
        assert_eq!(level("3.1").check(&most), Ok(()));
        let none = level("6.2").check(&Load { macroblocks: 140_000, ..LOAD }).unwrap_err();
        assert!(none.starts_with("no level"), "{none}");
    }
}
