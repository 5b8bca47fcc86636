//! What each step takes.

use serde::Serialize;

/// Nanoseconds, unless said otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// A create at the server that has the name, from its socket to its socket.
    pub create: u64,
    /// A request at a server that does not have the name.
    pub redirect: u64,
    /// Between an answer and the next request of the same process: client library and application.
    pub client: u64,
    /// A message on its way, from one program to the other.
    pub hop: u64,
    /// Rows of a full page of a split.
    pub page_rows: u64,
    /// A full page at the source.
    pub page_read: u64,
    /// A full page at the target.
    pub page_take: u64,
    /// The source closes the half and sends the exchange.
    pub close: u64,
    /// The target takes the exchange and votes, without its fsync.
    pub arrive: u64,
    /// The source decides and drops what moved, without its fsync.
    pub decide: u64,
    /// The target hears that it owns the partition.
    pub own: u64,
    /// A split within a server, for each entry that changes its partition.
    pub split_here_entry: u64,
    /// One fsync.
    pub sync: u64,
}

impl Costs {
    /// GIGA+'s prototype on tmpfs, from the text of §5.2: one server makes 7,500 files a second,
    /// and a moved entry is created anew (the poster counts it so). Everything else it says nothing
    /// of is nothing: closing, deciding, fsyncs; the network of 10 GigE is put at 50 µs.
    pub const GIGAPLUS_TMPFS: Self = Self::gigaplus(1_000_000_000 / 7_500);

    /// The same with another cost of a create, as in the user-level report or on a disk.
    #[must_use]
    pub const fn gigaplus(create: u64) -> Self {
        Self {
            create,
            redirect: create / 4,
            client: 0,
            hop: 50_000,
            page_rows: 128,
            page_read: 0,
            page_take: 128 * create,
            close: 0,
            arrive: 0,
            decide: 0,
            own: 0,
            split_here_entry: create,
            sync: 0,
        }
    }

    /// One of them changed by a factor; for [`Costs::NAMES`].
    ///
    /// # Panics
    ///
    /// If there is no cost of that name.
    #[must_use]
    pub fn with(mut self, name: &str, factor: f64) -> Self {
        let fields: &mut [&mut u64] = match name {
            "create" => &mut [&mut self.create],
            "hop" => &mut [&mut self.hop],
            "client" => &mut [&mut self.client],
            "redirect" => &mut [&mut self.redirect],
            "pages" => &mut [&mut self.page_read, &mut self.page_take],
            "exchange" => &mut [&mut self.close, &mut self.arrive, &mut self.decide, &mut self.own],
            "sync" => &mut [&mut self.sync],
            _ => panic!("no cost is called {name}"),
        };
        for field in fields {
            **field = (**field as f64 * factor).round() as u64;
        }
        self
    }

    /// What can be varied, in words.
    pub const NAMES: [(&'static str, &'static str); 7] = [
        ("create", "a create at the server"),
        ("hop", "a message on its way"),
        ("client", "client between two requests"),
        ("redirect", "a misrouted request at the server"),
        ("pages", "pages of a split, read and taken"),
        ("exchange", "closing, voting, deciding, owning"),
        ("sync", "an fsync"),
    ];

    /// A page with so many rows, of one that takes `full` when it is full.
    pub(super) const fn page(&self, full: u64, rows: u64) -> u64 {
        let of = if self.page_rows == 0 { 1 } else { self.page_rows };
        full * rows / of
    }
}
