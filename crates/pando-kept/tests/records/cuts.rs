//! A writer is cut off after each of its stores. What a successor finds is the state before the
//! call that was under way, or the state after it.

use std::collections::BTreeMap;

use pando_kept::{At, Node, Nodes};

use crate::log::{Log, Model, any_node, identity, model};

/// Calls of each writer.
const CALLS: usize = 40;
/// Writers, each of which goes on with what the one before has left.
const WRITERS: u64 = 4;

/// How many stores had been made at the end of each call, and the state then.
type History = Vec<(usize, Model)>;

#[test]
fn a_writer_that_is_cut_off_anywhere_leaves_the_state_before_or_after_its_call() {
    for seed in 0..8 {
        writers_are_cut_off(seed);
    }
}

pub fn writers_are_cut_off(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut nodes = Nodes::create(Log::new(), identity(0)).unwrap();
    let mut places = BTreeMap::new();
    let mut state = Model::new();
    let mut replay = Log::new();
    for generation in 0..WRITERS {
        // The first one is not cut off while it makes the memory. The others are, at once.
        let begin = nodes.memory().events.len();
        let mut history = vec![(begin, state.clone())];
        if generation > 0 {
            history.insert(0, (0, state.clone()));
        } else {
            nodes.memory().events.iter().for_each(|&event| replay.repeat(event));
        }
        for _ in 0..CALLS {
            call(&mut random, &mut nodes, &mut places, &mut state);
            history.push((nodes.memory().events.len(), state.clone()));
        }
        let cut = random.usize(history[0].0..=nodes.memory().events.len());
        let left = every_cut_is_sound(&nodes, replay.clone(), &history, generation + 1, cut);
        let (next, found) = Nodes::adopt(left.clone(), identity(generation + 1)).unwrap();
        (state, replay) = (model(&found), left);
        places = found.nodes.iter().map(|(at, node)| (node.ino, *at)).collect();
        nodes = next;
    }
}

/// One call of a writer, on any node.
fn call(
    random: &mut fastrand::Rng,
    nodes: &mut Nodes<Log>,
    places: &mut BTreeMap<u64, At>,
    state: &mut Model,
) {
    let ino = random.u64(2..60);
    let at = places.get(&ino).copied();
    match (at, random.u8(0..4)) {
        (Some(at), 0) => {
            nodes.free(at);
            places.remove(&ino);
            state.remove(&ino);
        }
        (Some(at), 1) => {
            let (number, word) = (random.usize(0..2), random.u64(..));
            nodes.set_own(at, number, word);
            state.entry(ino).and_modify(|node| node.own[number] = word);
        }
        _ => {
            let node: Node = any_node(random, ino);
            places.insert(ino, nodes.put(at, &node).unwrap());
            state.insert(ino, node);
        }
    }
}

/// Returns what is left at one of the cuts.
fn every_cut_is_sound(
    nodes: &Nodes<Log>,
    mut replay: Log,
    history: &History,
    generation: u64,
    wanted: usize,
) -> Log {
    let begin = history[0].0;
    let mut left = None;
    for calls in history.windows(2) {
        let ((from, before), (to, after)) = (&calls[0], &calls[1]);
        for cut in *from..=*to {
            if cut > begin && cut > *from {
                replay.repeat(nodes.memory().events[cut - 1]);
            }
            let (_, found) = Nodes::adopt(replay.clone(), identity(generation)).unwrap();
            assert_eq!(found.damaged, 0, "a record is half-made at cut {cut}");
            let state = model(&found);
            let is_sound = match cut {
                _ if cut == *from => state == *before,
                _ if cut == *to => state == *after,
                _ => state == *before || state == *after,
            };
            assert!(is_sound, "a successor reads another state at cut {cut}");
            if cut == wanted {
                left = Some(replay.clone());
            }
        }
    }
    left.expect("the cut is one of those that were tried")
}
