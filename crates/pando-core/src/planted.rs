//! Faults that tests plant, to prove that the simulator finds them.

/// Faults that tests plant, to prove that the simulator finds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A changing request does not record its outcome.
    OutcomeNotRecorded,
    /// A coordinator forgets a decision before all participants have it.
    IntentForgottenEarly,
    /// The half that a split moves stays open to changes during the exchange.
    SplitTailUnlocked,
    /// A partition that is given back stays open to changes during the exchange.
    MergeTailUnlocked,
    /// A copy does not send again the rows that changed while it ran.
    ChangeNotResent,
    /// A shard says that it knows a version, and does not.
    VersionNotLearned,
    /// A directory's move is announced before its names are locked.
    VersionBeforeLocks,
    /// A change of which users may search a directory ignores that it has subdirectories.
    SubdirsNotCounted,
    /// Shard 0 gives a claim without looking at other claims, standing or ended.
    ClaimUnchecked,
    /// A removed directory's id is free before all its partitions are dropped.
    TombstoneLost,
    /// The burial of a directory removes any directory that has its id.
    BuriesAnother,
    /// A hash slot stays open to changes during the exchange that hands it over.
    HashSlotUnlocked,
    /// A file is said to be durable before it is.
    SyncFileUnsynced,
    /// Objects are told to be garbage before the change that dropped them is durable.
    GarbageEarly,
    /// A sync of a file does not wait for what other shards have decided about it.
    SyncFileAwaitsNothing,
    /// Further blocks of numbers are reserved in memory only.
    ReservationLost,
    /// Others use a part that is lent.
    RecallNotAwaited,
    /// Others change a part that sessions read.
    ReadersNotAsked,
    /// A shard that starts changes what sessions may have read before.
    ReadersForgotten,
    /// A session reads before it is on disk that it does.
    ReaderUnsynced,
    /// A holder may begin before its grant is durable.
    LentUnsynced,
    /// Elements are applied though others come before them.
    ElementsOutOfOrder,
    /// Elements are applied as often as they come.
    ElementsTwice,
    /// A part is lent under a generation that was used before.
    GenerationReused,
    /// Elements are applied though their part was taken back.
    FencedApplied,
    /// Elements are applied though one before them was refused.
    RefusedPassedOver,
    /// A session that is over may go on using what it has borrowed.
    HoldOutlivesSession,
    /// A holder gives one number to two inodes.
    InoGivenTwice,
    /// A holder takes rows that were not lent along for absent.
    NotLentIsAbsent,
    /// A holder that has returned a part still answers from it.
    AnswersAfterReturn,
    /// What a holder has open is not taken over when it returns a part.
    OpensNotReturned,
    /// Every vote is sent before it is synced.
    VoteUnsynced,
    /// A floor tells participants that living transactions are over.
    FloorOverLiving,
    /// A rename does not check under the lock what it found before it held the lock.
    LookTrusted,
    /// A write leaves setuid and setgid set.
    SetuidKept,
    /// The end of a session leaves what the session had open.
    OpensOutlive,
    /// A further name of a file does not raise its link count.
    LinkNotCounted,
    /// A repetition of a request begins again while the request is under way.
    CopyRunsBeside,
    /// Only the outcomes of what moves go along with a hash slot or a half; the floors of all
    /// others stay.
    FloorsLeftBehind,
    /// A write does not change the version of the data.
    DataVersionStays,
    /// A write does not change the time of the last change of the content.
    TimeStays,
    /// A shard that has heard of the end of a session still runs its requests.
    EndedSessionRuns,
    /// A handover of a hash slot loses the locks of programs.
    LocksNotHandedOver,
    /// On a full disk, a request that has run is refused.
    RanAndRefused,
    /// The outcome of a local session's request is forgotten.
    LocalOutcomeForgotten,
    /// A session may write although another one holds.
    WokenBesideHolder,
    /// A session counts as quiet by what it said before it wanted to write again.
    LateQuietCounts,
    /// What a request under a loan has changed is not counted.
    AmendmentNotCounted,
}
