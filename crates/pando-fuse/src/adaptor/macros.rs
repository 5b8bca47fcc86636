//! Macros of requests: an answer that comes later, and credentials that a shard may refuse.

/// Answers `$reply` with the future `$work`. It can use `$this`, the inner adaptor, and `$answer`,
/// the reply.
macro_rules! later {
    ($inner:expr, $reply:expr, |$this:ident, $answer:ident| $work:expr) => {{
        let $this = Arc::clone($inner);
        $reply.run(move |$answer| async move { $work })
    }};
}

/// Makes a request about `$nodes` on behalf of `$caller`. If a shard refuses it, the request is
/// made again with the caller's groups and capabilities. `$work` is an expression of type `Result`
/// that uses `$by`.
macro_rules! judged {
    ($inner:expr, $caller:expr, $nodes:expr, |$by:ident| $work:expr) => {{
        let mut by = $inner.caller($caller, $nodes);
        loop {
            let $by = &by;
            let result = $work;
            let Err(errno) = &result else { break result };
            match $inner.refused(*errno, &by, $caller, $nodes).await {
                Refused::Known(known) => by = known,
                Refused::Gone => break Err(Errno::ENOENT),
                Refused::Finally => break result,
            }
        }
    }};
}

/// Answers a request about one node. `$work` computes the result as in `judged!`, and `$answer`
/// replies with it.
macro_rules! of_node {
    ($inner:expr, $reply:expr, $request:expr, |$this:ident, $by:ident, $ino:ident| $work:expr, $answer:expr) => {{
        let (caller, node) = ($request.caller, $request.node);
        later!($inner, $reply, |$this, reply| {
            let $ino = Ino(node);
            let result = judged!($this, caller, &[node], |$by| $work.await);
            $answer(&$this, reply, result);
        })
    }};
}
