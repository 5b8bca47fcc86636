//! Acts on changes of revoked keys: ends connections, and tells clients.

use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use pando_keys::Serial;

use crate::common::log::say;
use crate::net::keys::guests::Guests;
use crate::net::keys::revoked::Revoked;
use crate::net::peers::links::Links;

impl Revoked {
    /// Looks whether anything has changed. If so, ends connections with revoked keys, and tells
    /// clients. Connections to and from other servers end, too, and begin anew, so that all servers
    /// hear. Connections with expired certificates end in any case.
    pub(crate) fn look(&self, guests: &Guests, links: &Links) {
        let Some(keys) = &self.keys else { return };
        let now = SystemTime::now();
        guests.expire(now);
        links.expire(now);
        let trust = match keys.trust() {
            Ok(trust) => trust,
            Err(error) => {
                self.note();
                // No new connection is admitted. Existing ones that are known to be revoked must
                // end all the same.
                guests.cut_revoked(&keys.revoked_in_any_case());
                let why = error.to_string();
                let mut last = self.failure.lock();
                if *last != why {
                    say(&format!("this server refuses all new TCP connections: {why}"));
                    *last = why;
                }
                return;
            }
        };
        self.failure.lock().clear();
        let mut judged = self.judged.lock();
        let is_same = judged.as_ref() == Some(&trust);
        if is_same && !self.is_unwritten.load(Ordering::Acquire)
            || !self.pace.lock().is_due(Instant::now())
        {
            return;
        }
        self.note();
        if is_same {
            return;
        }
        let has_others = judged.as_ref().is_some_and(|old| old.authorities != trust.authorities);
        let is_known =
            |serial: &&Serial| judged.as_ref().is_some_and(|old| old.revoked.contains(*serial));
        let news = trust.revoked.iter().filter(|serial| !is_known(serial));
        guests.cut_revoked(&trust.revoked);
        if has_others {
            guests.cut_unaccepted(keys);
        }
        guests.cut_peers();
        guests.tell(news.map(|serial| serial.0).collect());
        links.reopen();
        *judged = Some(trust);
    }
}
