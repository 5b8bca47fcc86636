//! Names of files. They have a fixed width, are changed in place, and tell client and file when
//! parsed.
//!
//! ```text
//!   c0012-00345678      client 12, file 345,678
//! ```

use crate::{Order, Phase, Workload};

/// Length of a name in bytes.
pub const NAME_LEN: usize = 14;
/// The most clients.
pub const CLIENTS_MAX: u32 = 9_999;
/// The most files of one client.
pub const FILES_MAX: u64 = 99_999_999;

const CLIENT: std::ops::Range<usize> = 1..5;
const FILE: std::ops::Range<usize> = 6..NAME_LEN;

/// A path that ends in a file name. The name is changed in place from file to file.
#[derive(Clone, Debug)]
pub struct FilePath {
    bytes: Vec<u8>,
}

impl FilePath {
    /// `directory`, a slash, and the name of the first file of `client`.
    #[must_use]
    pub fn new(directory: &[u8], client: u32) -> Self {
        let mut bytes = Vec::with_capacity(directory.len() + 1 + NAME_LEN);
        bytes.extend_from_slice(directory);
        bytes.extend_from_slice(b"/c0000-00000000");
        let name = bytes.len() - NAME_LEN;
        digits(&mut bytes[name..][CLIENT], u64::from(client));
        Self { bytes }
    }

    /// Changes the name to that of file `file`, of the same client.
    pub fn set(&mut self, file: u64) {
        let name = self.bytes.len() - NAME_LEN;
        digits(&mut self.bytes[name..][FILE], file);
    }

    /// The whole path.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.bytes
    }

    /// The last component.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - NAME_LEN..]
    }
}

/// A random name for a run's directory: `pando-bench-` and eight hexadecimal digits.
#[must_use]
pub fn run_name() -> String {
    format!("pando-bench-{:08x}", fastrand::u32(..))
}

/// The client and the file number of a name. `None` if the name is foreign.
#[must_use]
pub fn parse(name: &[u8]) -> Option<(u32, u64)> {
    if name.len() != NAME_LEN || name[0] != b'c' || name[CLIENT.end] != b'-' {
        return None;
    }
    let client = number(&name[CLIENT])?;
    Some((u32::try_from(client).ok()?, number(&name[FILE])?))
}

fn digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// The order in which `client` visits its files in `phase`.
#[must_use]
pub fn order(workload: &Workload, client: u32, phase: Phase) -> Vec<u32> {
    let files = u32::try_from(workload.files_of(client)).expect("the workload was checked");
    let mut order: Vec<u32> = (0..files).collect();
    if workload.order == Order::Random {
        let mix = (u64::from(client) << 8 | phase as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        fastrand::Rng::with_seed(workload.seed ^ mix).shuffle(&mut order);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn names_are_read_back() {
        for (client, file) in [(0, 0), (7, 12), (CLIENTS_MAX, FILES_MAX)] {
            let mut path = FilePath::new(b"/a/b", client);
            path.set(file);
            assert_eq!(parse(path.name()), Some((client, file)));
            assert!(path.path().starts_with(b"/a/b/c"));
        }
        for name in [
            &b""[..],
            b"c0001-0000001",
            b"c0001-000000001",
            b"c0001.00000001",
            b"x0001-00000001",
            b"c0001-0000000a",
        ] {
            assert_eq!(parse(name), None);
        }
    }

    #[test]
    fn an_order_has_every_file_once_and_is_the_seeds() {
        let workload = Workload {
            clients: 2,
            files: 201,
            depth: 1,
            layout: Layout::Shared,
            phases: vec![Phase::Create],
            order: Order::Random,
            seed: 5,
        };
        let first = order(&workload, 0, Phase::Create);
        assert_eq!(first, order(&workload, 0, Phase::Create));
        assert_ne!(first, order(&workload, 0, Phase::Stat));
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..101).collect::<Vec<_>>());
        assert_eq!(order(&workload, 1, Phase::Create).len(), 100);
    }
}
