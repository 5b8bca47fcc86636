//! Parses numbers on the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser of numbers within limits, both included. Its error names the limits.
pub fn number<T>(limits: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| match text.parse::<T>() {
        Ok(number) if limits.contains(&number) => Ok(number),
        _ => Err(format!("write a number from {} to {}", limits.start(), limits.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_refused_the_limits_are_said() {
        let parse = number::<u16>(1..=256);
        assert_eq!((parse("1"), parse("256")), (Ok(1), Ok(256)));
        for text in ["0", "257", "65536", "-1", "abc", "", "1.5", " 1"] {
            assert_eq!(parse(text).unwrap_err(), "write a number from 1 to 256", "{text}");
        }
    }
}
