//! Judges times and versions of files, which the model does not have. They must not go back between
//! calls that follow each other, and each acknowledged change must raise what it changes.
//!
//! Directories are left out, because several partitions answer for one.

use std::collections::BTreeMap;

use pando_types::attr::TimeSet;
use pando_types::{Attr, FileKind, Ino, Timestamp};

use super::{Event, History};
use crate::model::Op;

/// Seconds. No machine's time of day is before, and every other clock of the simulator is.
const DECADES: i64 = 500_000_000;

/// The highest versions and times that answers told of a file before a call began.
#[derive(Clone, Copy, Default)]
struct Known {
    change: u64,
    data_version: u64,
    ctime: Timestamp,
    mtime: Timestamp,
}

impl Known {
    fn learn(&mut self, attr: &Attr) {
        self.change = self.change.max(attr.change);
        self.data_version = self.data_version.max(attr.data_version);
        self.ctime = self.ctime.max(attr.ctime);
        self.mtime = self.mtime.max(attr.mtime);
    }
}

/// Attributes that an answer told of a file.
struct Told<'a> {
    /// When the call began, and when it returned.
    invoked: u64,
    returned: u64,
    event: &'a Event,
    attr: &'a Attr,
}

/// Judges all attributes that answers told of files. `is_one_clock`: times are judged, too.
/// Otherwise clocks that are set or differ may make them go back.
pub fn go_forward(history: &History, is_one_clock: bool) -> Result<(), String> {
    let mut files: BTreeMap<Ino, Vec<Told<'_>>> = BTreeMap::new();
    for event in history.events() {
        if let (Some(attr), Some((at, Ok(_)))) = (&event.attr, &event.returned)
            && attr.kind != FileKind::Directory
        {
            let told = Told { invoked: event.invoked, returned: *at, event, attr };
            files.entry(attr.ino).or_default().push(told);
        }
    }
    files.values_mut().try_for_each(|told| forward(told, is_one_clock))
}

fn forward(told: &mut [Told<'_>], is_one_clock: bool) -> Result<(), String> {
    let mut ended: Vec<_> = told.iter().map(|it| (it.returned, it.attr)).collect();
    ended.sort_unstable_by_key(|(at, _)| *at);
    told.sort_unstable_by_key(|it| it.invoked);
    let mut ended = ended.into_iter().peekable();
    let mut known = Known::default();
    for Told { invoked, event, attr, .. } in told {
        while let Some((_, before)) = ended.next_if(|(at, _)| *at < *invoked) {
            known.learn(before);
        }
        if let Some(what) = wrong(&known, event, attr, is_one_clock) {
            return Err(format!("{what}: {event:?}"));
        }
    }
    Ok(())
}

/// What is wrong with an answer, if anything.
fn wrong(known: &Known, event: &Event, attr: &Attr, is_one_clock: bool) -> Option<&'static str> {
    let op = event.call.op.inner();
    let writes = matches!(op, Op::Write(_, _, bytes) if !bytes.is_empty());
    if attr.change < known.change || attr.data_version < known.data_version {
        return Some("a version went back");
    }
    if attr.ctime.seconds < DECADES {
        return Some("a time that is no time of day");
    }
    if is_one_clock && (attr.ctime < known.ctime || attr.mtime < known.mtime) {
        return Some("a time went back");
    }
    if writes && (attr.change <= known.change || attr.data_version <= known.data_version) {
        return Some("a write raised no version");
    }
    if writes && attr.mtime != attr.ctime {
        return Some("a write left the time of the last one");
    }
    match op {
        Op::SetAttr(_, set) => match set.mtime {
            Some(TimeSet::Now) if attr.mtime != attr.ctime => Some("a time that was not set"),
            Some(TimeSet::To(time)) if attr.mtime != time => Some("a time that was not set"),
            Some(_) if attr.change <= known.change => Some("a setattr raised no version"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Call, Value};
    use pando_types::{Credentials, ShardIndex};

    use super::*;

    /// Judges two looks at one file, one after the other or both at once.
    fn judged(first: (u64, u32), second: (u64, u32), at_once: bool) -> Result<(), String> {
        judged_in(DECADES, first, second, at_once)
    }

    /// The same, with times in a second.
    fn judged_in(
        seconds: i64,
        first: (u64, u32),
        second: (u64, u32),
        at_once: bool,
    ) -> Result<(), String> {
        let ino = Ino::new(ShardIndex(0), 100);
        let (mut history, lanes) = (History::default(), [0, 1]);
        let mut told = Vec::new();
        for (lane, (version, nanos)) in lanes.into_iter().zip([first, second]) {
            let call = Call { who: 1, credentials: Credentials::ROOT, op: Op::GetAttr(ino) };
            let event = history.invoke(lane, call);
            let time = Timestamp { seconds, nanos };
            told.push((event, attr(ino, version, time)));
            if !at_once {
                answer(&mut history, &mut told);
            }
        }
        answer(&mut history, &mut told);
        go_forward(&history, true)
    }

    fn answer(history: &mut History, told: &mut Vec<(usize, Attr)>) {
        for (event, attr) in told.drain(..) {
            history.respond(event, Ok(Value::Done), 2);
            history.mark(event, Some(attr));
        }
    }

    fn attr(ino: Ino, version: u64, time: Timestamp) -> Attr {
        Attr {
            ino,
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            data_version: version,
            change: version,
            project: 0,
        }
    }

    #[test]
    fn what_goes_back_between_two_calls_is_found() {
        assert_eq!(judged((1, 5), (2, 6), false), Ok(()));
        assert!(judged((2, 5), (1, 5), false).is_err_and(|what| what.contains("a version")));
        assert!(judged((1, 6), (1, 5), false).is_err_and(|what| what.contains("a time")));
    }

    #[test]
    fn a_time_since_a_machine_began_is_no_time_of_day() {
        let judged = judged_in(40_000, (1, 5), (2, 6), false);
        assert!(judged.is_err_and(|what| what.contains("no time of day")));
    }

    #[test]
    fn two_calls_at_once_may_see_it_in_either_order() {
        assert_eq!(judged((2, 6), (1, 5), true), Ok(()));
    }
}
