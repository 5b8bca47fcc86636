//! A disk that forgets. Of every file and directory it keeps what is visible, what is durable, and
//! what lies between.
//!
//! What was not synced may survive a loss of power in part. Of a page, any version since the last
//! sync may survive, torn or whole. Of a file, any size since then may survive, and of a directory,
//! all changes up to any one of them. A file's name is durable only once its directory was synced:
//! a sync of the file is not enough.

use std::collections::BTreeMap;
use std::sync::Arc;

pub const PAGE: u64 = 4096;
/// The unit that a disk writes as a whole, bytes.
const SECTOR: usize = 512;
pub const ROOT: u64 = 1;

type Page = Arc<[u8; PAGE as usize]>;
type Pages = BTreeMap<u64, Page>;
pub type Entries = BTreeMap<Vec<u8>, u64>;

#[derive(Clone)]
pub struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

#[derive(Clone)]
pub struct Node {
    pub mode: u32,
    pub rdev: u32,
    pub links: u32,
    pub content: Content,
}

#[derive(Clone)]
pub enum Content {
    File(File),
    Dir(Dir),
    /// A socket or the like, which has no content.
    Nothing,
}

#[derive(Clone, Default)]
pub struct File {
    pub size: u64,
    pages: Pages,
    durable_size: u64,
    durable: Pages,
    /// Versions of each page since the last sync. `None`: the page was cut off.
    versions: BTreeMap<u64, Vec<Option<Page>>>,
    sizes: Vec<u64>,
}

#[derive(Clone, Default)]
pub struct Dir {
    pub entries: Entries,
    durable: Entries,
    /// Changes since the last sync. Each is the set of names that one operation has set.
    changes: Vec<Vec<(Vec<u8>, Option<u64>)>>,
}

impl File {
    fn set(&mut self, number: u64, page: Option<Page>) {
        match &page {
            Some(page) => self.pages.insert(number, page.clone()),
            None => self.pages.remove(&number),
        };
        self.versions.entry(number).or_default().push(page);
    }

    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (number, from) = (at / PAGE, (at % PAGE) as usize);
            let len = bytes.len().min(PAGE as usize - from);
            let mut page = self.pages.get(&number).map_or([0; PAGE as usize], |page| **page);
            page[from..from + len].copy_from_slice(&bytes[..len]);
            self.set(number, Some(Arc::new(page)));
            (at, bytes) = (at + len as u64, &bytes[len..]);
        }
        if at > self.size {
            self.set_size(at);
        }
    }

    pub fn read(&self, offset: u64, size: u32) -> Vec<u8> {
        let end = self.size.min(offset + u64::from(size));
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let from = (at % PAGE) as usize;
            let len = ((end - at) as usize).min(PAGE as usize - from);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => bytes.extend_from_slice(&page[from..from + len]),
                None => bytes.resize(bytes.len() + len, 0),
            }
            at += len as u64;
        }
        bytes
    }

    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            for (number, page) in cut(&self.pages, size) {
                self.set(number, page);
            }
        }
        self.size = size;
        self.sizes.push(size);
    }

    pub fn sync(&mut self) {
        for number in std::mem::take(&mut self.versions).into_keys() {
            match self.pages.get(&number) {
                Some(page) => self.durable.insert(number, page.clone()),
                None => self.durable.remove(&number),
            };
        }
        self.durable_size = self.size;
        self.sizes.clear();
    }

    /// The file after a loss of power. `keep`: some of what was not synced may survive.
    fn survivor(&self, random: &mut fastrand::Rng, keep: bool) -> Self {
        let (mut pages, mut size) = (self.durable.clone(), self.durable_size);
        if keep {
            for (&number, versions) in &self.versions {
                let Some(version) = random.choice(versions).filter(|_| random.bool()) else {
                    continue;
                };
                match version {
                    Some(page) => pages.insert(number, torn(random, pages.get(&number), page)),
                    None => pages.remove(&number),
                };
            }
            let kept = random.choice(&self.sizes).filter(|_| random.bool());
            size = kept.copied().unwrap_or(size);
        }
        for (number, page) in cut(&pages, size) {
            match page {
                Some(page) => pages.insert(number, page),
                None => pages.remove(&number),
            };
        }
        Self { size, durable_size: size, durable: pages.clone(), pages, ..Self::default() }
    }
}

/// The changes of pages that a cut to `size` removes, in whole or in part.
fn cut(pages: &Pages, size: u64) -> Vec<(u64, Option<Page>)> {
    let rest = (size % PAGE) as usize;
    let cut = |(&number, page): (&u64, &Page)| {
        let is_part = number == size / PAGE && rest > 0;
        let part = is_part.then(|| {
            let mut page = **page;
            page[rest..].fill(0);
            Arc::new(page)
        });
        (number, part)
    };
    pages.range(size / PAGE..).map(cut).collect()
}

/// One write in four stops in the middle of its page.
fn torn(random: &mut fastrand::Rng, old: Option<&Page>, new: &Page) -> Page {
    if random.u64(..4) > 0 {
        return new.clone();
    }
    let mut page = old.map_or([0; PAGE as usize], |page| **page);
    let sectors = random.usize(..PAGE as usize / SECTOR);
    page[..sectors * SECTOR].copy_from_slice(&new[..sectors * SECTOR]);
    Arc::new(page)
}

impl Dir {
    pub fn change(&mut self, names: Vec<(Vec<u8>, Option<u64>)>) {
        apply(&mut self.entries, &names);
        self.changes.push(names);
    }

    pub fn sync(&mut self) {
        self.changes.clear();
        self.durable.clone_from(&self.entries);
    }

    fn survivor(&self, random: &mut fastrand::Rng, keep: bool) -> Self {
        let mut entries = self.durable.clone();
        let kept = if keep { random.usize(..=self.changes.len()) } else { 0 };
        self.changes[..kept].iter().for_each(|names| apply(&mut entries, names));
        Self { durable: entries.clone(), entries, changes: Vec::new() }
    }
}

fn apply(entries: &mut Entries, names: &[(Vec<u8>, Option<u64>)]) {
    for (name, node) in names {
        match node {
            Some(node) => entries.insert(name.clone(), *node),
            None => entries.remove(name),
        };
    }
}

impl Disk {
    pub fn new() -> Self {
        let content = Content::Dir(Dir::default());
        let root = Node { mode: 0o040_755, rdev: 0, links: 2, content };
        Self { nodes: [(ROOT, root)].into(), next: ROOT + 1 }
    }

    pub fn get(&self, node: u64) -> Option<&Node> {
        self.nodes.get(&node)
    }

    pub fn get_mut(&mut self, node: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    pub fn dir(&mut self, node: u64) -> Option<&mut Dir> {
        match &mut self.nodes.get_mut(&node)?.content {
            Content::Dir(dir) => Some(dir),
            _ => None,
        }
    }

    pub fn file(&mut self, node: u64) -> Option<&mut File> {
        match &mut self.nodes.get_mut(&node)?.content {
            Content::File(file) => Some(file),
            _ => None,
        }
    }

    /// A new node without a name.
    pub fn make(&mut self, mode: u32, rdev: u32) -> u64 {
        let content = match mode & 0o170_000 {
            0o100_000 => Content::File(File::default()),
            0o040_000 => Content::Dir(Dir::default()),
            _ => Content::Nothing,
        };
        let links = 1;
        self.nodes.insert(self.next, Node { mode, rdev, links, content });
        self.next += 1;
        self.next - 1
    }

    /// The disk after a loss of power. `keep`: some of what was not synced may survive.
    pub fn survivor(&self, random: &mut fastrand::Rng, keep: bool) -> Self {
        let mut left = Self { nodes: BTreeMap::new(), next: self.next };
        let mut names = vec![ROOT];
        while let Some(number) = names.pop() {
            if let Some(node) = left.nodes.get_mut(&number) {
                node.links += 1;
                continue;
            }
            let node = &self.nodes[&number];
            let content = match &node.content {
                Content::File(file) => Content::File(file.survivor(random, keep)),
                Content::Dir(dir) => Content::Dir(dir.survivor(random, keep)),
                Content::Nothing => Content::Nothing,
            };
            if let Content::Dir(dir) = &content {
                names.extend(dir.entries.values());
            }
            left.nodes.insert(number, Node { links: 1, content, ..*node });
        }
        left
    }
}
