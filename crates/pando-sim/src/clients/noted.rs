//! The transport of a client that borrows. It notes which operations are answered from lent parts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pando_client::{BoxFuture, Called, Calling, Grounds, Transport};
use pando_lent::Borrowing;
use pando_types::lend::{Act, Change, Element};
use pando_types::op::{AccessMask, FileRef, Op, Request};
use pando_types::{Attr, Credentials, DirId, Ino, ShardIndex};

use crate::base::lock::lock;
use crate::check::{ElementOf, EventIndex, History};
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

/// The changes among elements, each with the inode that it makes.
fn changes_in(elements: &[Element]) -> BTreeMap<ElementOf, Option<Ino>> {
    let changes = elements.iter().filter_map(|it| match &it.act {
        Act::Change(Change { ino, .. }) => {
            Some(((it.grant, it.number), (ino.0 > 0).then_some(*ino)))
        }
        Act::Return(_) => None,
    });
    changes.collect()
}

impl Noted {
    /// Runs the part of a call that needs no wait, and notes what it changed here, and whether it
    /// was answered here.
    fn watch<R>(
        &self,
        (shard, ops): (ShardIndex, &[Op]),
        has_travelled: &mut bool,
        run: impl FnOnce() -> (R, bool),
    ) -> R {
        let before = changes_in(&self.lender.not_durable());
        let (sent, remembered) = (self.mail.sent(), self.lender.remembered());
        let (result, is_answered) = run();
        *has_travelled |= self.mail.sent() > sent;
        lock(&self.history).loans.remembered += self.lender.remembered() - remembered;
        let Some(event) = CURRENT.get().filter(|_| !*has_travelled) else { return result };
        for (element, made) in changes_in(&self.lender.not_durable()) {
            if !before.contains_key(&element) {
                lock(&self.history).changes(event, element, made);
            }
        }
        let stands = ops.iter().filter_map(|op| self.lender.stands_on(shard, op));
        for stands in stands.filter(|_| is_answered) {
            lock(&self.history).answers(event, stands);
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

    fn remembers(&self) -> bool {
        self.lender.remembers()
    }

    fn is_remembering(&self) -> bool {
        self.lender.is_remembering()
    }

    fn reader(&self) -> Option<Credentials> {
        self.lender.reader()
    }

    fn may_open(
        &self,
        file: &FileRef,
        access: AccessMask,
        credentials: &Credentials,
    ) -> Option<Attr> {
        self.lender.may_open(file, access, credentials)
    }

    fn reads_end<'a>(&'a self) -> BoxFuture<'a, (u64, Vec<DirId>)> {
        self.lender.reads_end()
    }

    fn reads_ended(&self, number: u64) {
        self.lender.reads_ended(number);
    }

    fn grounds(&self) -> Option<&Arc<Grounds>> {
        self.lender.grounds()
    }

    fn afterwards(&self) {
        self.lender.afterwards();
    }
}
