//! A tool's connection: questions about the volume and the process, one after the other.

use std::sync::Arc;

use pando_net::{Inbound, Outbound, Who};
use pando_wire::{Ask, Message, Told, encode};

use crate::net::bounds::limits::TOOL_FRAME_MAX;
use crate::net::bounds::murmur::{Murmur, say_end};
use crate::net::keys::roles::{For, of_ask};

/// Answers questions, on a thread that may wait. The flag says that the question came over a Unix
/// socket.
pub type Answer = Arc<dyn Fn(Ask, bool) -> Told + Send + Sync>;

/// Serves the connection until it ends.
pub(crate) async fn serve(
    mut inbound: Inbound,
    from: String,
    who: Who,
    answer: Answer,
    murmur: Arc<Murmur>,
) {
    inbound.limit(TOOL_FRAME_MAX);
    let out = Arc::new(Outbound::new(&mut inbound));
    let mut buffer = vec![0; 16 << 10];
    loop {
        let (stream, ask) = match inbound.message(&mut buffer).await {
            Ok((stream, Message::Ask(ask))) => (stream, ask),
            Ok(_) => {
                murmur
                    .say(&format!("closed the connection from {from}: a tool asks questions only"));
                break;
            }
            Err(closed) => {
                say_end(&murmur, &format!("the connection from {from}"), &closed);
                break;
            }
        };
        let told = if of_ask(&ask).admits(&who) {
            let (answer, is_unix) = (answer.clone(), inbound.stream().is_unix());
            let told = tokio::task::spawn_blocking(move || answer(ask, is_unix)).await;
            told.unwrap_or_else(|_| Told::Failed("the server could not answer".to_owned()))
        } else {
            murmur.say(&format!("did not answer {from}: its key does not allow what it asks"));
            Told::Failed(format!(
                "{who} may not ask that: use {}",
                if of_ask(&ask) == For::Servers { "a server's key" } else { "an admin's key" }
            ))
        };
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
