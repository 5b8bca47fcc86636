//! What the holder of a post does: it reads requests from a channel or a ring and has them handled,
//! or runs woken tasks.

mod channel;
mod ring;
mod take;

use std::sync::Arc;

use crate::device::session::Session;
use crate::device::threads::reader_pool::Post;

impl Session {
    /// Works at a post until the thread loses it or the session is over.
    pub(crate) fn hold(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
        // Posts of channels come first, then those of queues. The last one is the task runner's.
        let readers = self.config.readers.max(1);
        match (post.role.checked_sub(readers), &self.rings) {
            (None, _) => self.read_requests(post, buffer),
            (Some(number), Some(rings)) if number < rings.queues.len() => {
                self.read_ring(post, &rings.queues[number], number, buffer);
            }
            _ => self.run_tasks(post),
        }
    }

    fn run_tasks(&self, mut post: Post) {
        while let Some(task) = self.tasks.next() {
            match self.work_at(post, || task.run()) {
                Some(again) => post = again,
                None => return,
            }
        }
    }

    /// Runs `work` as the holder of a post. Returns `None` if another thread has the post now.
    fn work_at(&self, post: Post, work: impl FnOnce()) -> Option<Post> {
        self.reader_pool.begin(post);
        self.watch.wake();
        work();
        self.reader_pool.end()
    }
}
