//! Roles and serial numbers from their texts, and new serial numbers.

use core::str::FromStr;

use crate::identity::error::KeyError;
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;

impl FromStr for KeyRole {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text {
            "server" => Ok(Self::Server),
            "admin" => Ok(Self::Admin),
            "client" => Ok(Self::Client),
            _ => Err(KeyError::NoRole(text.to_owned())),
        }
    }
}

impl Serial {
    /// A new serial number. Fails if the system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Random(error.to_string()))?;
        bytes[0] = bytes[0] & 0x3f | 0x40;
        Ok(Self(bytes))
    }
}

impl FromStr for Serial {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let number = u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()));
        number
            .filter(|serial| serial.to_string() == text)
            .ok_or_else(|| KeyError::NoSerial(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_return_as_they_are_written() {
        let serial = Serial::random().unwrap();
        assert_eq!(serial.to_string().parse::<Serial>().unwrap(), serial);
        assert_ne!(Serial::random().unwrap(), serial);
        assert!((0x40..0x80).contains(&serial.0[0]));
    }

    #[test]
    fn what_is_no_serial_is_refused() {
        let long = "0".repeat(33);
        let upper = "A".repeat(32);
        let signed = format!("+{}", "1".repeat(31));
        for text in ["", "12", "ada", &long, &upper, &signed] {
            assert!(text.parse::<Serial>().is_err(), "{text}");
        }
    }
}
