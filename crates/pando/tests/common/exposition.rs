//! Reads the text of OpenMetrics strictly, and without the library that writes it.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a series.
pub type Labels = BTreeMap<String, String>;

/// One metric family.
#[derive(Default, Debug)]
pub struct Family {
    pub help: String,
    pub kind: String,
    unit: Option<String>,
    /// Series by the name of the sample and its labels.
    pub series: BTreeMap<(String, Labels), f64>,
}

/// All families of a text, by name.
#[derive(Debug)]
pub struct Exposition(pub BTreeMap<String, Family>);

impl Exposition {
    /// The sum of all series of this name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let all = self.0.values().flat_map(|family| &family.series);
        let has =
            |found: &Labels| labels.iter().all(|(l, v)| found.get(*l).is_some_and(|f| f == v));
        all.filter(|((found, with), _)| found == name && has(with)).map(|(_, value)| value).sum()
    }

    /// The names that queries may use.
    pub fn names(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|(name, family)| Self::suffixed(name, family)).collect()
    }

    /// The names of a family's samples.
    pub fn suffixed(name: &str, family: &Family) -> Vec<String> {
        suffixes(&family.kind).iter().map(|suffix| format!("{name}{suffix}")).collect()
    }
}

fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => &[],
    }
}

/// Reads a text. `Err`: what is wrong with it, and with which line.
pub fn parse(text: &str) -> Result<Exposition, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no end")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(told) = line.strip_prefix("# ") {
            let mut words = told.splitn(3, ' ');
            let [Some(what), Some(name), Some(rest)] = [(); 3].map(|()| words.next()) else {
                return Err(wrong("not three words"));
            };
            if name != current {
                if !is_name(name) || families.contains_key(name) {
                    return Err(wrong("no name, or told before"));
                }
                families.insert(name.to_owned(), Family::default());
                name.clone_into(&mut current);
            }
            let family = families.get_mut(name).ok_or_else(|| wrong("of no family"))?;
            match what {
                "HELP" if !rest.contains(['"', '\\']) => rest.clone_into(&mut family.help),
                "TYPE" if !suffixes(rest).is_empty() => rest.clone_into(&mut family.kind),
                "UNIT" if name.ends_with(&format!("_{rest}")) => {
                    family.unit = Some(rest.to_owned())
                }
                _ => return Err(wrong("neither HELP, TYPE nor UNIT")),
            }
            continue;
        }
        let family = families.get_mut(&current).ok_or_else(|| wrong("of no family"))?;
        let (name, labels, value) = sample(line).ok_or_else(|| wrong("no sample"))?;
        let suffix = name.strip_prefix(&current).ok_or_else(|| wrong("of another family"))?;
        if !suffixes(&family.kind).contains(&suffix) {
            return Err(wrong("a suffix that is not of the type"));
        }
        let value: f64 = value.parse().map_err(|_| wrong("no number"))?;
        if family.kind != "gauge" && (value < 0.0 || value.is_nan()) {
            return Err(wrong("negative"));
        }
        if family.series.insert((name, labels), value).is_some() {
            return Err(wrong("told twice"));
        }
    }
    for (name, family) in &families {
        if family.help.is_empty() || family.kind.is_empty() {
            return Err(format!("{name} has no HELP or no TYPE"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(Exposition(families))
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_part)
}

/// Name, labels and value of a line.
fn sample(line: &str) -> Option<(String, Labels, &str)> {
    let at = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(at);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at + 1,
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (_, other) => value.push(other),
                }
            };
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = &quoted[end..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    Some((name.to_owned(), labels, rest.strip_prefix(' ')?))
}

/// Buckets of each series ascend, and the last one has everything.
fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut all: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((_, labels), value) in family.series.iter().filter(|((it, _), _)| it.ends_with("_bucket"))
    {
        let mut labels = labels.clone();
        let end = labels.remove("le").ok_or_else(|| format!("{name} has a bucket without le"))?;
        let end = end.parse().map_err(|_| format!("{name}: le={end}"))?;
        all.entry(labels).or_default().push((end, *value));
    }
    for (labels, mut buckets) in all {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let ascends = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let of = |suffix: &str| family.series.get(&(format!("{name}{suffix}"), labels.clone()));
        let last = buckets.last().filter(|(end, _)| *end == f64::INFINITY).map(|(_, value)| value);
        if !ascends || last.is_none() || last != of("_count") || of("_sum").is_none() {
            return Err(format!("{name}{labels:?}: {buckets:?}"));
        }
    }
    Ok(())
}
