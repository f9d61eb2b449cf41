//! Texts of `/proc` and `/sys`.

/// The word in brackets of a choice, as in `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once('[')?;
    behind.split_once(']').map(|(word, _)| word)
}

/// Major and minor of a kernel's release, as in `6.1.0-18-amd64`.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// All memory and what programs can still have, in bytes, of `/proc/meminfo` (proc(5)).
pub fn memory(text: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let kib = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"))?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((bytes("MemTotal:")?, bytes("MemAvailable:")?))
}

/// The path of this process' group in version 2's one tree, of `/proc/self/cgroup` (cgroups(7)). `None` where only
/// version 1 is there.
pub fn group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| !path.contains(".."))
}

/// How many processors' time `cpu.max` allows, `150000 100000` for one and a half; `None` for `max`.
pub fn processor_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (u32, u32) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// Whether a mask of processors, as in `00000000,0000000f`, has any.
pub fn has_processors(mask: &str) -> Option<bool> {
    let mut digits = mask.chars().filter(|letter| *letter != ',').peekable();
    digits.peek()?;
    let mut any = false;
    for digit in digits {
        any |= digit.to_digit(16)? != 0;
    }
    Some(any)
}

/// The mask of all of `count` processors as `rps_cpus` takes it: groups of 32 bits, the highest first.
pub fn mask_of_all(count: usize) -> String {
    let count = count.max(1);
    let groups = count.div_ceil(32);
    let first = match count % 32 {
        0 => u32::MAX,
        some => (1 << some) - 1,
    };
    let rest = std::iter::repeat_n("ffffffff".to_owned(), groups - 1);
    std::iter::once(format!("{first:x}")).chain(rest).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("[always] madvise never"), Some("always"));
        for bad in ["", "always", "[never", "] ["] {
            assert_eq!(chosen(bad), None, "{bad}");
        }
    }

    #[test]
    fn releases_of_all_kinds_begin_with_two_numbers() {
        for (text, expected) in [
            ("6.1.0-18-amd64", Some((6, 1))),
            ("5.15", Some((5, 15))),
            ("4.19.0+", Some((4, 19))),
            ("6.6-rc1", Some((6, 6))),
            ("linux", None),
            ("", None),
            ("6", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(kernel_version(text), expected, "{text}");
        }
    }

    #[test]
    fn memory_is_in_bytes() {
        let text = "MemTotal:        8040464 kB\nMemFree: 1 kB\nMemAvailable:    6000000 kB\n";
        assert_eq!(memory(text), Some((8_040_464 << 10, 6_000_000 << 10)));
        assert_eq!(memory("MemTotal: 1 kB"), None);
        assert_eq!(memory("MemTotal: 99999999999999999 kB\nMemAvailable: 99999999999999999 kB"), None);
        assert_eq!(memory("MemTotal: x kB\nMemAvailable: 1 kB"), None);
    }

    #[test]
    fn groups_and_quotas_are_those_of_version_2() {
        assert_eq!(group("0::/system.slice/glassline.service\n"), Some("/system.slice/glassline.service"));
        assert_eq!(group("12:cpu:/x\n0::/\n"), Some("/"));
        assert_eq!(group("12:cpu:/x\n"), None);
        assert_eq!(group("0::/../x"), None);
        assert_eq!(processor_quota("150000 100000"), Some(1.5));
        for none in ["max 100000", "", "1", "1 0", "-1 2"] {
            assert_eq!(processor_quota(none), None, "{none}");
        }
    }

    #[test]
    fn masks_have_groups_of_32() {
        assert_eq!(has_processors("00000000,00000001"), Some(true));
        assert_eq!(has_processors("00"), Some(false));
        for bad in ["", "xyz"] {
            assert_eq!(has_processors(bad), None, "{bad}");
        }
        for (count, expected) in
            [(0, "1"), (1, "1"), (4, "f"), (32, "ffffffff"), (33, "1,ffffffff"), (64, "ffffffff,ffffffff")]
        {
            assert_eq!(mask_of_all(count), expected, "{count}");
        }
    }
}
