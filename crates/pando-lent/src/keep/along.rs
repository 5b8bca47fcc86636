//! Contents of files that come along with that of one of their directory
//! (docs/design/holds.md, "Contents of small files").

use pando_client::{Called, Transport};
use pando_types::op::{FILES_BYTES_MAX, FileAt, Head, Op, Request};
use pando_types::{DirRef, Order, ShardIndex};

use crate::borrowing::Borrowing;

/// Contents of a directory's files that are to be asked for. They are until this is dropped.
pub(crate) struct Along<'a, T: Transport> {
    borrowing: &'a Borrowing<T>,
    dir: DirRef,
    from: Order,
    of_use: bool,
}

impl<T: Transport> Drop for Along<'_, T> {
    fn drop(&mut self) {
        let now = self.borrowing.inner.machine_nanos();
        self.borrowing.memory.has_read(self.dir.id, self.of_use, now);
    }
}

impl<T: Transport> Borrowing<T> {
    /// Contents to ask for instead of those of one file.
    pub(crate) fn reads_along(&self, request: &Request) -> Option<Along<'_, T>> {
        let Op::ReadData { file, .. } = &request.op else { return None };
        let FileAt::Name(dir, name) = &file.at else { return None };
        self.settings.opens?;
        let order = self.settings.secrets.order(name.as_bytes());
        let from = self.memory.reads_along(request, order, self.inner.machine_nanos())?;
        Some(Along { borrowing: self, dir: *dir, from, of_use: false })
    }

    /// Asks for contents of many files, and then answers a request for those of one.
    pub(crate) async fn read_along(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        mut along: Along<'_, T>,
    ) -> Called {
        let op = Op::ReadFiles { dir: along.dir, from: along.from, bytes: FILES_BYTES_MAX };
        let head = Head { trace: request.head.trace, clock: request.head.clock, ..Head::default() };
        let credentials = request.credentials.clone();
        // If it fails, the file is asked for alone.
        let _ = self.travel(shard, Box::new(Request { head, credentials, op, trail: None })).await;
        let answer = self.answer_again(shard, &request);
        along.of_use = answer.is_some();
        drop(along);
        match answer {
            Some(reply) => Ok(reply),
            None => self.call_later(shard, request).await,
        }
    }
}
