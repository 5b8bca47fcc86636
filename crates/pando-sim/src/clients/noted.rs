//! The transport of a client that borrows. It notes which operations are answered from lent parts.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pando_client::{BoxFuture, Called, Calling, Transport};
use pando_lent::Borrowing;
use pando_types::ShardIndex;
use pando_types::op::{Op, Request};

use crate::base::lock::lock;
use crate::check::{EventIndex, History};
use crate::network::mail::Mail;

std::thread_local! {
    /// The operation of which a client's code runs.
    static CURRENT: Cell<Option<EventIndex>> = const { Cell::new(None) };
}

/// Runs the code of an operation. All that it asks is part of the operation.
pub async fn as_event<T>(event: EventIndex, code: impl Future<Output = T>) -> T {
    let mut code = pin!(code);
    poll_fn(|context| {
        let outer = CURRENT.replace(Some(event));
        let polled = code.as_mut().poll(context);
        CURRENT.set(outer);
        polled
    })
    .await
}

/// A transport that answers from lent parts.
pub struct Noted {
    /// What answers from them.
    pub lender: Arc<Borrowing<Mail>>,
    /// What travels.
    pub mail: Mail,
    /// The history of what all clients did.
    pub history: Arc<Mutex<History>>,
}

/// The operations of a request: of several closes each.
fn parts_of(op: &Op) -> Vec<Op> {
    match op {
        Op::ReleaseAll(_, files) => files.iter().cloned().map(Op::Release).collect(),
        op => vec![op.clone()],
    }
}

impl Noted {
    /// Runs the part of a call that needs no wait, and notes whether it was answered here.
    fn watch<R>(
        &self,
        (shard, ops): (ShardIndex, &[Op]),
        has_travelled: &mut bool,
        run: impl FnOnce() -> (R, bool),
    ) -> R {
        let stands = |op: &Op| self.lender.stands_on(shard, op);
        let before: Vec<_> = ops.iter().map(stands).collect();
        let sent = self.mail.sent();
        let (result, is_answered) = run();
        *has_travelled |= self.mail.sent() > sent;
        if !is_answered || *has_travelled {
            return result;
        }
        let Some(event) = CURRENT.get() else { return result };
        for (op, before) in ops.iter().zip(before) {
            if let Some(now) = stands(op) {
                let is_new = before.is_none_or(|before| before != now) && now.1 > 0;
                lock(&self.history).answers(event, now, is_new);
            }
        }
        result
    }
}

impl Transport for Noted {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let ops = parts_of(&request.op);
        let mut has_travelled = false;
        let calling = self.watch((shard, &ops), &mut has_travelled, || {
            let calling = self.lender.call(shard, request);
            let is_answered = matches!(calling, Calling::Answered(_));
            (calling, is_answered)
        });
        let Calling::Waiting(mut waiting) = calling else { return calling };
        Calling::waiting(async move {
            let polled = poll_fn(|context| {
                self.watch((shard, &ops), &mut has_travelled, || {
                    let polled: Poll<Called> = waiting.as_mut().poll(context);
                    let is_answered = matches!(polled, Poll::Ready(Ok(_)));
                    (polled, is_answered)
                })
            });
            polled.await
        })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        self.lender.sleep(nanos)
    }

    fn now_nanos(&self) -> u64 {
        self.lender.now_nanos()
    }

    fn machine_nanos(&self) -> u64 {
        self.lender.machine_nanos()
    }

    fn is_local(&self) -> bool {
        self.lender.is_local()
    }

    fn is_settled(&self) -> bool {
        self.lender.is_settled()
    }

    fn settle<'a>(&'a self) -> BoxFuture<'a, ()> {
        self.lender.settle()
    }

    fn afterwards(&self) {
        self.lender.afterwards();
    }
}
