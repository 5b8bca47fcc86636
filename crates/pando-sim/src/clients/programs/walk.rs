//! A new client looks at everything while nothing else runs.

use std::collections::VecDeque;
use std::sync::Arc;

use pando_types::{Credentials, FileKind, Ino};

use crate::base::lock::lock;
use crate::check::file_names::{has_objects, is_locked};
use crate::clients::client::ClientRun;
use crate::clients::execute::{Executed, execute};
use crate::model::{Call, Op, Outcome, Value};

/// Walks the tree from the root, and adds all that it finds to the history.
pub async fn walk(run: Arc<ClientRun>) {
    Arc::clone(&run).connect().await;
    let Some(client) = run.client() else { return };
    let (lane, aside) = {
        let mut history = lock(&run.shared.history);
        (history.lane(), history.lane())
    };
    let perform = async |op: Op| -> Outcome {
        let call = Call { who: run.who, credentials: Credentials::ROOT, op };
        let event = lock(&run.shared.history).invoke_exact(lane, call.clone());
        let Executed { outcome, attr, .. } = execute(&client, &call, 5).await;
        let mut history = lock(&run.shared.history);
        history.respond(event, outcome.clone(), aside);
        history.mark(event, attr);
        outcome
    };
    let mut dirs = VecDeque::from([Ino::ROOT]);
    while let Some(dir) = dirs.pop_front() {
        perform(Op::GetAttr(dir)).await.ok();
        perform(Op::Parent(dir)).await.ok();
        perform(Op::ListXattr(dir)).await.ok();
        let Ok(Value::Entries(entries)) = perform(Op::ReadDir(dir)).await else { continue };
        for (name, (ino, kind)) in entries {
            // The model does not know the contents of these files.
            if is_locked(&name) || has_objects(&name) {
                continue;
            }
            perform(Op::Lookup(dir, name)).await.ok();
            match kind {
                FileKind::Directory => dirs.push_back(ino),
                FileKind::Symlink => {
                    perform(Op::Readlink(ino)).await.ok();
                }
                _ => {
                    perform(Op::Read(ino, 0, 100)).await.ok();
                    perform(Op::ListXattr(ino)).await.ok();
                }
            }
        }
    }
    client.close().await.ok();
}
