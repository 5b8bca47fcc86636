//! Contents of files that come along with that of one of their directory
//! (docs/design/holds.md, "Contents of small files").

use pando_client::{Called, Transport};
use pando_types::op::{FILES_BYTES_MAX, FileAt, Head, Op, Request};
use pando_types::{DirRef, Order, ShardIndex};

use crate::borrowing::Borrowing;
use crate::memory::Memory;

/// Contents of a directory's files that are to be asked for. They are until this is dropped.
pub(crate) struct Along<'a> {
    memory: &'a Memory,
    dir: DirRef,
    from: Order,
}

impl Drop for Along<'_> {
    fn drop(&mut self) {
        self.memory.has_read(self.dir.id);
    }
}

impl<T: Transport> Borrowing<T> {
    /// Contents to ask for instead of those of one file.
    pub(crate) fn reads_along(&self, request: &Request) -> Option<Along<'_>> {
        let Op::ReadData { file, .. } = &request.op else { return None };
        let FileAt::Name(dir, name) = &file.at else { return None };
        self.settings.opens?;
        let order = self.settings.secrets.order(name.as_bytes());
        let from = self.memory.reads_along(request, order, self.inner.machine_nanos())?;
        Some(Along { memory: &self.memory, dir: *dir, from })
    }

    /// Asks for contents of many files, and then answers a request for those of one.
    pub(crate) async fn read_along(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        along: Along<'_>,
    ) -> Called {
        let op = Op::ReadFiles { dir: along.dir, from: along.from, bytes: FILES_BYTES_MAX };
        let head = Head { trace: request.head.trace, clock: request.head.clock, ..Head::default() };
        let credentials = request.credentials.clone();
        // If it fails, the file is asked for alone.
        let _ = self.travel(shard, Box::new(Request { head, credentials, op, trail: None })).await;
        drop(along);
        match self.answer_again(shard, &request) {
            Some(reply) => Ok(reply),
            None => self.call_later(shard, request).await,
        }
    }
}
