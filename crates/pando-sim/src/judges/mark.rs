//! Recognizes the operation of a client by the credentials of its requests.

use pando_types::Credentials;

use crate::check::EventIndex;

/// A watcher of the network recognizes a client's operation by an extra group in its credentials.
/// The group is this number plus the number of the event.
pub(crate) const MARK: u32 = 1 << 24;

/// The operation that a request with these credentials is part of, if it is a client's.
#[must_use]
pub fn event_of(credentials: &Credentials) -> Option<EventIndex> {
    credentials
        .groups()
        .iter()
        .find_map(|group| group.checked_sub(MARK))
        .map(|event| event as EventIndex)
}
