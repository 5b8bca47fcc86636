//! A lane that holds a lock: what it reads and changes.

use std::sync::Arc;

use pando_client::{Client, Transport};
use pando_types::{Credentials, Errno, Ino, Lock, LockKind, LockRange, SetAttr};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::clients::client::ClientRun;
use crate::clients::execute::{read, write};
use crate::judges::locks::TenureIndex;
use crate::model::Value;

const ROOT: Credentials = Credentials::ROOT;
/// Number of the file that has its size as its value.
pub(super) const SIZED: u64 = 2;

/// Size of a part, bytes.
pub(super) const PART: u64 = 16;

/// A lane that works under a lock.
pub(crate) struct Holder<'a> {
    pub run: &'a ClientRun,
    pub client: &'a Arc<Client>,
    pub ino: Ino,
    pub nth: u64,
    pub lock: Lock,
    pub tenure: TenureIndex,
}

impl Holder<'_> {
    /// The parts of the file that the lock protects.
    pub fn parts(&self) -> Vec<u8> {
        let range = |part: u64| LockRange { first: part * PART, last: (part + 1) * PART - 1 };
        let count = if self.nth == SIZED { 1 } else { 2 };
        (0..count)
            .filter(|part| self.lock.range.meets(range(*part)))
            .map(|part| part as u8)
            .collect()
    }

    /// Reads and changes the protected parts a few times, with pauses.
    pub async fn work(&self, random: &mut Random) {
        for _ in 0..random.between(1, 4) {
            for part in self.parts() {
                if self.read(part).await.is_err() {
                    return;
                }
                if random.chance(1, 3) {
                    let most = *random.pick(&[2, 2, 2, 10, 40]);
                    self.run.shared.mail.sleep(random.below(most * MILLISECOND)).await;
                }
                if self.lock.kind == LockKind::Exclusive && random.chance(3, 4) {
                    self.write(part).await;
                }
            }
        }
    }

    pub async fn read(&self, part: u8) -> Result<(), Errno> {
        let value = match self.nth {
            SIZED => self.client.getattr(self.ino).await?.size,
            _ => match read(self.client, self.ino, u64::from(part) * PART, PART).await? {
                Value::Bytes(bytes) => value_in(&bytes),
                other => panic!("{other:?} is read"),
            },
        };
        lock(&self.run.shared.locks).read(self.tenure, part, value);
        Ok(())
    }

    async fn write(&self, part: u8) {
        let (value, writing) = {
            let mut locks = lock(&self.run.shared.locks);
            let value = locks.new_value();
            (value, locks.writes(self.tenure, part, value))
        };
        let written = match self.nth {
            SIZED => {
                let set = SetAttr { size: Some(value), ..SetAttr::default() };
                self.client.setattr(&ROOT, self.ino, set).await.map(drop)
            }
            _ => {
                let bytes = [value.to_le_bytes(), (!value).to_le_bytes()].concat();
                let at = u64::from(part) * PART;
                write(self.client, &ROOT, self.ino, at, &bytes).await.map(drop)
            }
        };
        lock(&self.run.shared.locks).written(writing, written.is_ok());
    }

    /// Waits until the outcome of each write is known. Only then may the lock be released.
    pub async fn settle(&self) {
        while self.client.settled(self.ino).await == Err(Errno::ETIMEDOUT) {
            self.run.shared.mail.sleep(MILLISECOND).await;
        }
    }
}

/// The value in the bytes of a part; `u64::MAX` if no write has written the part as a whole.
fn value_in(bytes: &[u8]) -> u64 {
    let half = |at: usize| {
        bytes.get(at..at + 8).and_then(|half| half.try_into().ok()).map(u64::from_le_bytes)
    };
    match (half(0), half(8)) {
        (Some(value), Some(check)) if value == !check || (value, check) == (0, 0) => value,
        (None, None) => 0,
        _ if bytes.iter().all(|byte| *byte == 0) => 0,
        _ => u64::MAX,
    }
}
