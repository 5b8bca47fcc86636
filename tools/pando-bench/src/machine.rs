//! The machine on which figures are measured.

use serde::Serialize;

/// Facts that are stored with every figure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Model name of the first CPU.
    pub cpu_model: String,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// The CPU architecture.
    pub architecture: String,
}

impl Machine {
    /// The machine that runs this process.
    #[must_use]
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| "unknown".to_owned()),
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
            kernel: text(uname.release()),
            architecture: text(uname.machine()),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // ARM reports no name there, only the numbers of maker and part.
    field(cpuinfo, "model name").or_else(|| field(cpuinfo, "CPU part")).map(str::to_owned)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kilobytes: u64 = field(meminfo, "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        let cpus = "processor\t: 0\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\n";
        assert_eq!(cpu_model(cpus).as_deref(), Some("AMD EPYC 7B13"));
        assert_eq!(
            memory_bytes("MemTotal:       24684304 kB\nMemFree: 1 kB\n"),
            Some(25_276_727_296)
        );
        let machine = Machine::this();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
