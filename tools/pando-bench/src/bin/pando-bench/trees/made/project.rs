//! A small C project: modules with a header each, a main program, a makefile with dependencies.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

/// Modules, beside the main program.
pub const MODULES: u32 = 30;
/// Functions of each module.
const FUNCTIONS: u32 = 12;

/// The program that `make` builds. It prints [`expected`].
pub const PROGRAM: &str = "program";

/// What the program prints.
pub fn expected() -> String {
    let sum: u32 = (0..MODULES).map(|module| module + FUNCTIONS * (FUNCTIONS - 1) / 2).sum();
    format!("{sum}\n")
}

/// Makes the project in a folder, which it makes, too.
pub fn make(root: &Path) -> io::Result<()> {
    fs::create_dir(root)?;
    let mut main = "#include <stdio.h>\n".to_owned();
    let mut sum = String::new();
    for module in 0..MODULES {
        fs::write(root.join(format!("module{module}.h")), header(module))?;
        fs::write(root.join(format!("module{module}.c")), source(module))?;
        let _ = writeln!(main, "#include \"module{module}.h\"");
        let _ = write!(sum, " + module{module}({module})");
    }
    let _ = writeln!(main, "int main(void) {{ printf(\"%d\\n\", 0{sum}); return 0; }}");
    fs::write(root.join("main.c"), main)?;
    fs::write(root.join("Makefile"), makefile())
}

fn header(module: u32) -> String {
    let guard = format!("MODULE{module}_H");
    format!("#ifndef {guard}\n#define {guard}\nint module{module}(int seed);\n#endif\n")
}

fn source(module: u32) -> String {
    let next = (module + 1) % MODULES;
    let mut text = format!(
        "#include <stdlib.h>\n#include <string.h>\n#include \"module{module}.h\"\n\
         #include \"module{next}.h\"\n"
    );
    let mut calls = String::new();
    for function in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "static int step{function}(int value) {{\n    char buffer[64];\n    \
             memset(buffer, value, sizeof buffer);\n    return buffer[0] - value + {function};\n}}"
        );
        let _ = write!(calls, " + step{function}(1)");
    }
    let _ = writeln!(text, "int module{module}(int seed) {{ return seed{calls}; }}");
    text
}

fn makefile() -> String {
    let objects: Vec<_> = (0..MODULES).map(|module| format!("module{module}.o")).collect();
    let objects = objects.join(" ");
    format!(
        "CFLAGS = -O1\nOBJECTS = main.o {objects}\n{PROGRAM}: $(OBJECTS)\n\
         \tcc -o $@ $(OBJECTS)\n%.o: %.c $(wildcard *.h)\n\tcc $(CFLAGS) -c -o $@ $<\n"
    )
}
