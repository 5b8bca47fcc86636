//! Formats the measured parts as a table.

use serde::Serialize;

use super::measure::Costs;
use crate::bench::show;
use crate::output::text::table;

/// Parts of one operation, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Parts {
    pub operation: String,
    pub kernel: f64,
    pub shard: f64,
    pub log: f64,
    /// Counts only where a socket lies between kernel and shard.
    pub codec: f64,
    pub up: Road,
    pub unix: Road,
    pub tcp: Road,
}

/// One path from kernel to shard: what its hops add, and what an operation takes on it, in
/// microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Road {
    pub hops: f64,
    pub measured: f64,
}

impl Parts {
    /// Sum of all parts of an operation on this path.
    fn sum(&self, road: Road) -> f64 {
        let codec = if road.hops > 0.0 { self.codec } else { 0.0 };
        self.kernel + self.shard + self.log + codec + road.hops
    }

    fn rest(&self, road: Road) -> f64 {
        road.measured - self.sum(road)
    }
}

pub fn show_parts(parts: &[Parts]) -> String {
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(parts.iter().map(|part| part.operation.clone()))
            .collect::<Vec<_>>(),
    ];
    let mut row = |name: &str, figure: &dyn Fn(&Parts) -> f64| {
        let figures = parts.iter().map(|part| show::micros(figure(part)));
        rows.push(std::iter::once(name.to_owned()).chain(figures).collect());
    };
    row("kernel: the null file system", &|part| part.kernel);
    row("shard", &|part| part.shard);
    row("log", &|part| part.log);
    row("the rest", &|part| part.rest(part.up));
    row("= `pando up`, measured", &|part| part.up.measured);
    row("codec, where there are sockets", &|part| part.codec);
    row("hops, Unix", &|part| part.unix.hops);
    row("the rest", &|part| part.rest(part.unix));
    row("= through a Unix socket, measured", &|part| part.unix.measured);
    row("hops, TCP", &|part| part.tcp.hops);
    row("the rest", &|part| part.rest(part.tcp));
    row("= through TCP, measured", &|part| part.tcp.measured);
    table(&rows)
}

pub fn show_costs(costs: &Costs) -> String {
    let heading = ["request", "codec", "shard", "log"].map(str::to_owned).to_vec();
    let rows = costs.list().into_iter().map(|cost| {
        let whole = |nanos: f64| format!("{nanos:.0}");
        vec![cost.request, whole(cost.codec), whole(cost.shard), whole(cost.log)]
    });
    table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}
