//! Days of the Gregorian calendar.

/// Year, month and day of so many days after 1970-01-01, by the Gregorian calendar. Years begin in March here, so that the
/// leap day is their last one.
pub(crate) fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, the other way round of [`civil`]; `None` where there is no such day.
pub(crate) fn days_of(year: u32, month: u32, day: u32) -> Option<i64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    let year = i64::from(year) - i64::from(month <= 2);
    let month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_nine_centuries_is_one_and_follows_the_other() {
        let mut days = 0;
        for year in 1970..2870 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let Some(found) = days_of(year, month, day) else { continue };
                    assert_eq!(found, days);
                    let civil = civil(u64::try_from(days).unwrap());
                    assert_eq!(civil, (year.into(), month.into(), day.into()));
                    days += 1;
                }
            }
        }
        let is_there = |year, month, day| days_of(year, month, day).is_some();
        assert!(
            is_there(2000, 2, 29)
                && is_there(2028, 2, 29)
                && !is_there(2100, 2, 29)
                && !is_there(2026, 2, 29)
        );
        assert!(
            !is_there(2026, 0, 1)
                && !is_there(2026, 13, 1)
                && !is_there(2026, 4, 31)
                && !is_there(2026, 1, 0)
        );
    }
}
