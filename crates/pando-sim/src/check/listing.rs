//! Listings: every entry that existed throughout is there once; nothing is there that never existed meanwhile.

use std::collections::BTreeMap;

use pando_model::{Op, Tree, Value};
use pando_types::{FileKind, Ino, Name};

use super::history::created;
use super::{Event, EventIndex, History};

/// A time in which a name led to one inode, as wide and as narrow as the operations around it allow.
struct Binding {
    ino: Ino,
    kind: FileKind,
    earliest: u64,
    surely: u64,
    surely_until: u64,
    latest: u64,
}

/// Checks the listings of `history`, whose operations took place in `order`.
pub fn check_listings(history: &History, order: &[(EventIndex, Ino)]) -> Result<(), String> {
    let bindings = bindings(history, order);
    for event in history.events() {
        let Some((returned, Ok(value))) = &event.returned else { continue };
        if let (Op::ReadDir(dir), Value::Entries(listed)) = (&event.call.op, value) {
            check(event, *returned, *dir, listed, &bindings)?;
        }
    }
    Ok(())
}

type Bindings = BTreeMap<(Ino, Name), Vec<Binding>>;

fn check(
    event: &Event,
    returned: u64,
    dir: Ino,
    listed: &BTreeMap<Name, (Ino, FileKind)>,
    bindings: &Bindings,
) -> Result<(), String> {
    for ((_, name), times) in range(bindings, dir) {
        let must = times.iter().any(|b| b.surely < event.invoked && b.surely_until > returned);
        if must && !listed.contains_key(name) {
            return Err(format!(
                "{name} of {dir:?} existed throughout, but was not listed: {event:?}"
            ));
        }
    }
    for (name, (ino, kind)) in listed {
        let times = bindings.get(&(dir, name.clone()));
        let may = times.is_some_and(|times| {
            times.iter().any(|b| {
                (b.ino, b.kind) == (*ino, *kind)
                    && b.earliest < returned
                    && b.latest > event.invoked
            })
        });
        if !may {
            return Err(format!(
                "{name} -> {ino:?} of {dir:?} did not exist, but was listed: {event:?}"
            ));
        }
    }
    Ok(())
}

fn range(bindings: &Bindings, dir: Ino) -> impl Iterator<Item = (&(Ino, Name), &Vec<Binding>)> {
    bindings.iter().filter(move |((at, _), _)| *at == dir)
}

/// Runs the model once more and notes when each name led where.
fn bindings(history: &History, order: &[(EventIndex, Ino)]) -> Bindings {
    let mut tree = Tree::new();
    let mut bindings = Bindings::new();
    for &(index, ino) in order {
        let event = &history.events()[index];
        let end = event.returned.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let new = match &event.returned {
            Some((_, Ok(value))) => created(&event.call.op, value).unwrap_or(ino),
            Some((_, Err(_))) => continue,
            None => ino,
        };
        let touched = touched(&event.call.op);
        let before: Vec<_> = touched.iter().map(|at| lookup(&tree, at)).collect();
        let _ = tree.apply(&event.call, new);
        for (at, was) in touched.into_iter().zip(before) {
            let is = lookup(&tree, &at);
            let times = bindings.entry(at).or_default();
            if let (Some(_), Some(last)) = (was, times.last_mut()) {
                last.surely_until = event.invoked;
                last.latest = end;
            }
            if let Some((ino, kind)) = is {
                times.push(Binding {
                    ino,
                    kind,
                    earliest: event.invoked,
                    surely: end,
                    surely_until: u64::MAX,
                    latest: u64::MAX,
                });
            }
        }
    }
    bindings
}

fn lookup(tree: &Tree, at: &(Ino, Name)) -> Option<(Ino, FileKind)> {
    tree.node(at.0).ok()?.entries.get(&at.1).copied()
}

fn touched(op: &Op) -> Vec<(Ino, Name)> {
    match op {
        Op::Create { dir, name, .. }
        | Op::Mkdir(dir, name, _)
        | Op::Unlink(dir, name)
        | Op::Rmdir(dir, name)
        | Op::Link(_, dir, name) => vec![(*dir, name.clone())],
        Op::Rename { from, name, to, new_name, .. } => {
            vec![(*from, name.clone()), (*to, new_name.clone())]
        }
        _ => Vec::new(),
    }
}
