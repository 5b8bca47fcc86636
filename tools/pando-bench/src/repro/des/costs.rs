//! Costs of the steps in the model.

use serde::Serialize;

/// Costs in nanoseconds, except `page_rows`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// A create at the server that has the name, including its socket calls.
    pub create: u64,
    /// A request at a server that does not have the name.
    pub redirect: u64,
    /// Time between a reply and the next request of that process, in client library and
    /// application.
    pub client: u64,
    /// One way of a message between two programs.
    pub hop: u64,
    /// Number of rows of a full page of a split.
    pub page_rows: u64,
    /// A full page at the source, which reads and sends it.
    pub page_read: u64,
    /// A full page at the target, which stores it.
    pub page_take: u64,
    /// The source closes the half and sends the exchange.
    pub close: u64,
    /// The target takes the exchange and votes, without its fsync.
    pub arrive: u64,
    /// The source decides and drops what moved, without its fsync.
    pub decide: u64,
    /// The target learns that it owns the partition.
    pub own: u64,
    /// A split within a server, for each entry that changes its partition.
    pub split_here_entry: u64,
    /// An fsync.
    pub sync: u64,
}

impl Costs {
    /// Costs of GIGA+'s prototype on tmpfs, from §5.2: one server makes 7,500 files a second. A
    /// moved entry costs a create, as the poster counts it. Steps that the text does not mention
    /// cost nothing: closing, deciding, fsyncs. A hop over 10 GigE counts 50 µs.
    pub const GIGAPLUS_TMPFS: Self = Self::gigaplus(1_000_000_000 / 7_500);

    /// Costs of the prototype with another cost of a create, as in the user-level report or on a
    /// disk.
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

    /// Returns the costs with one of [`Costs::NAMES`] multiplied by `factor`.
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

    /// The costs that [`Costs::with`] can vary: name and description.
    pub const NAMES: [(&'static str, &'static str); 7] = [
        ("create", "a create at the server"),
        ("hop", "a message on its way"),
        ("client", "client between two requests"),
        ("redirect", "a misrouted request at the server"),
        ("pages", "pages of a split, read and taken"),
        ("exchange", "closing, voting, deciding, owning"),
        ("sync", "an fsync"),
    ];

    /// Cost of a page with `rows` rows, if a full page costs `full`.
    pub(super) const fn page(&self, full: u64, rows: u64) -> u64 {
        let of = if self.page_rows == 0 { 1 } else { self.page_rows };
        full * rows / of
    }
}
