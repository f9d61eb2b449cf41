//! Quantities as people read them: three digits, decimal multiples, as networks count.

/// `value` with three digits, without needless zeros.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn scaled(value: f64, units: [&str; 4]) -> String {
    // What rounds to 1000 of a unit is 1 of the next.
    let step = [999.5, 999.5e3, 999.5e6].iter().filter(|limit| value >= **limit).count();
    format!("{} {}", three_digits(value / 1000f64.powi(step as i32)), units[step])
}

/// Bytes: "950 B", "181 kB", "3.91 MB".
pub fn bytes(count: f64) -> String {
    scaled(count, ["B", "kB", "MB", "GB"])
}

/// Bits a second: "512 kb/s", "3.1 Mb/s".
pub fn bits_per_second(rate: f64) -> String {
    scaled(rate, ["b/s", "kb/s", "Mb/s", "Gb/s"])
}

/// A length of time given in seconds: "150 µs", "2.5 ms", "10 s".
pub fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".into(),
        long if long >= 0.9995 => format!("{} s", three_digits(seconds)),
        _ => scaled(seconds * 1e9, ["ns", "µs", "ms", "s"]),
    }
}

/// A count with its digits in groups of three: "2,800".
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things: "1 packet", "2,800 packets".
pub fn things(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1448.0), "1.45 kB");
        assert_eq!(bytes(181_000.0), "181 kB");
        assert_eq!(bytes(999_600.0), "1 MB");
        assert_eq!(bits_per_second(3.1e6), "3.1 Mb/s");
        assert_eq!(bits_per_second(10e9), "10 Gb/s");
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(0.0001), "100 µs");
        assert_eq!(seconds(0.02), "20 ms");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(90.0), "90 s");
        assert_eq!(
            (count(7), count(1000), count(1_234_567)),
            ("7".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(
            (things(1, "packet"), things(2000, "packet")),
            ("1 packet".into(), "2,000 packets".into())
        );
    }
}
