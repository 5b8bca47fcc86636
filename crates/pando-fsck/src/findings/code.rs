//! Codes of findings. They are stable, since scripts may rely on them.

use std::fmt;

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// A violated invariant.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Name of the code. It never changes.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What the finding means for users of the volume.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    UnknownKey = "unknown-key",
        "a row whose key this program does not know: nothing reads it";
    UnreadableRecord = "unreadable-record",
        "a record that cannot be decoded: whatever needs it fails";
    UnreadableBlock = "unreadable-block",
        "records that the disk does not give back: whatever needs one fails, and nothing that may follow from one is judged";
    MisplacedRow = "misplaced-row",
        "a row on a shard that does not own its hash slot: no lookup finds it there";
    RowOutsidePartition = "row-outside-partition",
        "rows of names in no partition of their shard: no lookup finds them there";

    NameAtWrongOrder = "name-at-wrong-order",
        "a name that is not where its hash says: it is listed, and cannot be opened";
    NameTwice = "name-twice",
        "one name twice in a directory: only the first is ever found";
    WrongCrowding = "wrong-crowding",
        "names of one hash whose first record does not name the others: those are not found";

    RootMissing = "root-missing",
        "the root directory is not there: nothing can be reached";
    EntryWithoutContent = "entry-without-content",
        "a directory's name that leads to nothing";
    DirectoryWithoutEntry = "directory-without-entry",
        "a directory without a name: it and all beneath cannot be reached";
    EntryOfOtherLife = "entry-of-other-life",
        "a name whose inode number is not that of the directory with its id";
    DirectoryNamedTwice = "directory-named-twice",
        "a directory with two names";
    WrongParentPointer = "wrong-parent-pointer",
        "a directory that names another parent than the one it is in: `..` and renames go wrong";
    DirectoryLoop = "directory-loop",
        "directories that are each within the other: none can be reached from the root";
    WrongPermissionCopy = "wrong-permission-copy",
        "a copy of a directory's mode or owner that differs: permissions are checked wrongly";
    WrongDirectoryAttributes = "wrong-directory-attributes",
        "a directory's own record with counts or a kind that it cannot have";
    TombstoneLeft = "tombstone-left",
        "what is left of a removed directory: a new one of that name must take another id";

    PartitionWithoutContent = "partition-without-content",
        "a partition of a directory that is not there";
    PartitionOfOtherLife = "partition-of-other-life",
        "a partition of an earlier directory of the same id: its names cannot be reached";
    PartitionsDoNotTile = "partitions-do-not-tile",
        "partitions that leave a gap or overlap: names in there are not found, or twice";
    MisplacedPartition = "misplaced-partition",
        "a partition on a shard, at a place or with a spread that it cannot have: no lookup finds it";
    WrongEntryCount = "wrong-entry-count",
        "a partition that counts its names wrongly: `stat`, `rmdir` and splits go wrong";

    WrongLinkCount = "wrong-link-count",
        "a file whose link count is not the number of its names";
    LinkWithoutInode = "link-without-inode",
        "a file's name that leads to no inode";
    LinkNameMissing = "link-name-missing",
        "a file with a name that its inode does not know of";
    LinkNameWithoutEntry = "link-name-without-entry",
        "an inode that knows a name which is not there";
    WrongLinkKind = "wrong-link-kind",
        "a name that says another kind of file than the inode is";
    InoTwice = "ino-twice",
        "two files with one inode number: programs take them for one";
    Orphan = "orphan",
        "a file without names that no session has open: it only takes space";
    StrayRow = "stray-row",
        "extended attributes or data of no file: they only take space, and would be taken for a new file's";
    WrongDataLayout = "wrong-data-layout",
        "a file whose rows of data are not as its inode says: reading it fails or gives wrong bytes";
    WrongXattrFlag = "wrong-xattr-flag",
        "a file whose inode is wrong about whether there are extended attributes";

    NumbersMissing = "numbers-missing",
        "a shard without its record of numbers given: it does not start";
    InoBeyondCounter = "ino-beyond-counter",
        "an inode number that was never given: it will be given again";
    TransactionBeyondCounter = "transaction-beyond-counter",
        "a transaction's or session's number that was never given: it will be given again";
    WrongUsage = "wrong-usage",
        "a shard that counts its files and bytes wrongly: `df` is wrong";

    SessionNotEverywhere = "session-not-everywhere",
        "a client's session that not all shards know";
    SessionOfTwoKeys = "session-of-two-keys",
        "a client's session that shards take for two clients': some refuse all that its client asks, and serve another's";
    OpenOfUnknownSession = "open-of-unknown-session",
        "a file held open by a session that is over: its space never comes back";
    OpenWithoutInode = "open-without-inode",
        "an open file that is not there";
    LockOfUnknownSession = "lock-of-unknown-session",
        "a lock of a file (flock, fcntl) of a session that is over: it blocks no program, and only takes space";
    OutcomeOfUnknownSession = "outcome-of-unknown-session",
        "an answer kept for a session that is over";

    DecisionWithoutParticipant = "decision-without-participant",
        "a decided operation that a shard has no record of: it refuses that, and the operation stays half done";
    StepOfUnknownTransaction = "step-of-unknown-transaction",
        "a step of a transaction whose coordinator cannot exist: it is never finished";
    LockHeldTwice = "lock-held-twice",
        "two transactions that hold the same place: the shard does not start";
    StepBelowFloor = "step-below-floor",
        "a finished step that should have been forgotten";
    FloorAboveTransaction = "floor-above-transaction",
        "a shard that has given up a decided operation which is not finished";
    SlotOwnersDiffer = "slot-owners-differ",
        "shards that name different owners of a hash slot: what is in it is found at one, and changed at another";
    SlotOwnerUnknown = "slot-owner-unknown",
        "a hash slot whose owner does not know that it owns it: no shard answers for what is in it";
    ArrivalInPartition = "arrival-in-partition",
        "a partition on its way to a shard that has those names already";

    ObjectMissing = "object-missing",
        "data of a file that is not in the object store: reading it fails";
    ObjectTooShort = "object-too-short",
        "an object that is shorter than the file needs: reading it fails";
    ObjectUnnamed = "object-unnamed",
        "an object that no file needs: it only takes space";
    ObjectNamedTwice = "object-named-twice",
        "an object that two files need: when one is removed, the other loses its data";
    GarbageStillNamed = "garbage-still-named",
        "an object that is to be deleted, although a file needs it";
}

impl Code {
    /// Whether the code may be caused by missing rows anywhere, which the finding's evidence does
    /// not list.
    pub(crate) const fn follows_from_absence(self) -> bool {
        matches!(
            self,
            Self::RowOutsidePartition
                | Self::DirectoryWithoutEntry
                | Self::WrongParentPointer
                | Self::TombstoneLeft
                | Self::PartitionWithoutContent
                | Self::WrongLinkCount
                | Self::LinkNameWithoutEntry
                | Self::Orphan
                | Self::WrongUsage
                | Self::ObjectUnnamed
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
