//! A tool's connection: questions about volume and process, one after the other.

use std::sync::Arc;

use pando_net::{Inbound, Outbound};
use pando_wire::{Ask, Message, Told, encode};

use super::limits::TOOL_FRAME_MAX;
use super::{say, say_end};

/// Answers questions; runs on a thread that may wait. The flag: the question came over a Unix socket.
pub type Answer = Arc<dyn Fn(Ask, bool) -> Told + Send + Sync>;

/// Serves it until it ends.
pub(super) async fn serve(mut inbound: Inbound, from: String, answer: Answer) {
    inbound.limit(TOOL_FRAME_MAX);
    let out = Arc::new(Outbound::new(inbound.stream().clone()));
    let mut buffer = vec![0; 16 << 10];
    loop {
        let (stream, ask) = match inbound.message(&mut buffer).await {
            Ok((stream, Message::Ask(ask))) => (stream, ask),
            Ok(_) => {
                say(&format!("closed the connection from {from}: a tool asks questions only"));
                break;
            }
            Err(closed) => {
                say_end(&format!("the connection from {from}"), &closed);
                break;
            }
        };
        let (answer, is_unix) = (answer.clone(), inbound.stream().is_unix());
        let told = tokio::task::spawn_blocking(move || answer(ask, is_unix)).await;
        let told = told.unwrap_or_else(|_| Told::Failed("the server could not answer".to_owned()));
        out.append(|bytes| encode(bytes, stream, &Message::Told(told)));
        out.flush();
        while out.waiting() > 0 && !out.is_closed() {
            if out.stream().writable().await.is_err() {
                break;
            }
            out.flush();
        }
    }
    out.close();
}
