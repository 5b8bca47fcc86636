//! Starts programs for a test that has files open on a mount. A program that such a test starts
//! itself inherits those files. When it closes them, it waits for the mount, and the program may be
//! the one that must mend the mount.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use rustix::process::Pid;

/// A shell that was started before anything was mounted. The programs that it starts die with it,
/// and it dies with the test.
pub struct Keeper {
    shell: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Keeper {
    pub fn new() -> Self {
        let mut command = Command::new("bash");
        // The shell reports there which programs have died.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().expect("`bash` is needed");
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        Self { shell, pipes: Mutex::new((input, BufReader::new(output))) }
    }

    /// Runs a line of shell that prints a line.
    fn ask(&self, line: &[u8]) -> String {
        let mut pipes = self.pipes.lock().unwrap();
        let (input, output) = &mut *pipes;
        input.write_all(&[line, b"\n"].concat()).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// Runs a command, which must succeed.
    pub fn run(&self, command: &Command) {
        let words = quoted(command);
        let line = [
            b"if said=$(",
            words.as_slice(),
            b" 2>&1 < /dev/null); then echo; else echo \"fails: ${said//$'\\n'/ }\"; fi",
        ]
        .concat();
        let answer = self.ask(&line);
        assert!(answer.is_empty(), "{command:?} {answer}");
    }

    /// Starts a command in the background. `output` is a file or pipe for its standard output. Its
    /// standard error is added to `log`.
    pub fn start(&self, command: &Command, output: &Path, log: &Path) -> Pid {
        let [output, log] = [output, log].map(|path| quote(path.as_os_str().as_bytes()));
        let words = quoted(command);
        let line =
            [words.as_slice(), b" < /dev/null > ", &output, b" 2>> ", &log, b" & echo $!"].concat();
        Pid::from_raw(self.ask(&line).parse().unwrap()).expect("a process")
    }

    /// Waits for the end of a started program, and returns its exit code.
    pub fn wait(&self, pid: Pid) -> i32 {
        let line = format!("wait {}; echo $?", pid.as_raw_nonzero());
        self.ask(line.as_bytes()).parse().unwrap()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A command in the syntax of the shell.
fn quoted(command: &Command) -> Vec<u8> {
    let mut line = b"env".to_vec();
    let mut word = |bytes: &[u8]| {
        line.push(b' ');
        line.extend(quote(bytes));
    };
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default();
        word(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    word(command.get_program().as_bytes());
    command.get_args().for_each(|argument| word(argument.as_bytes()));
    line
}

fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = b"'".to_vec();
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}
