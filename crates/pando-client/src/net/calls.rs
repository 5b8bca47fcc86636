//! The pending calls to one shard. A call's stream number holds its index in a table, and how often
//! that index was used. So a late reply reaches no other call.

use std::task::Waker;

use pando_types::op::Request;
use pando_types::reply::Reply;
use pando_wire::Stream;

use crate::transport::traits::{Called, TransportError};

/// The table of pending calls.
#[derive(Default)]
pub(super) struct Calls {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Number of places that are not free.
    busy: usize,
}

#[derive(Default)]
struct Place {
    generation: u32,
    /// Sweeps since the call began, or since its request was sent.
    age: u32,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    /// Waits, with a request that is not sent yet, or for the answer to one that is.
    Waiting(Option<Box<Request>>, Option<Waker>),
    Done(Called),
}

impl Calls {
    /// Begins a call. `unsent` is its request, if that cannot be sent yet.
    pub(super) fn begin(&mut self, unsent: Option<Box<Request>>) -> Stream {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.age = 0;
        place.state = State::Waiting(unsent, None);
        self.busy += 1;
        Stream(u64::from(place.generation) << 32 | u64::from(index))
    }

    fn place(&mut self, stream: Stream) -> Option<&mut Place> {
        let place = self.places.get_mut(stream.0 as u32 as usize)?;
        (u64::from(place.generation) == stream.0 >> 32).then_some(place)
    }

    /// Takes the result if there is one. Else it keeps the waker.
    pub(super) fn poll(&mut self, stream: Stream, waker: &Waker) -> Option<Called> {
        // Only the call itself frees its place.
        let place = self.place(stream)?;
        match &mut place.state {
            State::Done(_) => match std::mem::take(&mut place.state) {
                State::Done(result) => {
                    self.release(stream);
                    Some(result)
                }
                _ => None,
            },
            State::Waiting(_, kept) => {
                if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
                    *kept = Some(waker.clone());
                }
                None
            }
            State::Free => None,
        }
    }

    /// Frees the place of a call.
    pub(super) fn release(&mut self, stream: Stream) {
        let Some(place) = self.place(stream) else { return };
        place.state = State::Free;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(stream.0 as u32);
        self.busy -= 1;
    }

    /// Takes a reply in, and adds the call's waker to `wakers`.
    pub(super) fn answer(&mut self, stream: Stream, reply: Box<Reply>, wakers: &mut Vec<Waker>) {
        if let Some(place) = self.place(stream) {
            place.finish(Ok(reply), wakers);
        }
    }

    /// Takes all requests that waited for the connection, in no order.
    pub(super) fn unsent(&mut self) -> Vec<(Stream, Box<Request>)> {
        let places = self.places.iter_mut().zip(0_u64..);
        places
            .filter_map(|(place, index)| {
                let State::Waiting(unsent, _) = &mut place.state else { return None };
                let request = unsent.take()?;
                place.age = 0;
                Some((Stream(u64::from(place.generation) << 32 | index), request))
            })
            .collect()
    }

    /// Ends all calls with requests that were sent, as their connection broke.
    pub(super) fn lose_sent(&mut self, wakers: &mut Vec<Waker>) {
        for place in &mut self.places {
            if matches!(place.state, State::Waiting(None, _)) {
                place.finish(Err(TransportError::Lost), wakers);
            }
        }
    }

    /// Ends all calls.
    pub(super) fn end(&mut self, error: TransportError, wakers: &mut Vec<Waker>) {
        self.places.iter_mut().for_each(|place| place.finish(Err(error), wakers));
    }

    /// Ages all calls by a sweep. Calls older than `patience` sweeps end as lost. Returns whether
    /// the request of any of these had been sent.
    pub(super) fn sweep(&mut self, patience: u32, wakers: &mut Vec<Waker>) -> bool {
        if self.busy == 0 {
            return false;
        }
        let mut is_sent_lost = false;
        for place in &mut self.places {
            if matches!(place.state, State::Waiting(..)) {
                place.age += 1;
                if place.age > patience {
                    is_sent_lost |= matches!(place.state, State::Waiting(None, _));
                    place.finish(Err(TransportError::Lost), wakers);
                }
            }
        }
        is_sent_lost
    }
}

impl Place {
    fn finish(&mut self, result: Called, wakers: &mut Vec<Waker>) {
        if let State::Waiting(_, waker) = &mut self.state {
            wakers.extend(waker.take());
            self.state = State::Done(result);
        }
    }
}
