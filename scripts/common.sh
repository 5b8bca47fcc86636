# What ./run and ./test share. Sourced by bash.

began=$(date +%s)

say() { printf '  %s\n' "$*" >&2; }
step() { printf '[%3d s] %s\n' "$(($(date +%s) - began))" "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "this needs root, and sudo is not installed: $*"
    fi
}

# Installs Debian packages that are not there.
need_packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    command -v apt-get >/dev/null || fail "please install: ${missing[*]} (no apt-get here)"
    say "Installing packages: ${missing[*]}"
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
}

# A real source tree: the newest package linux-source-*. Sets `tarball`.
need_linux_source() {
    local package
    package=$(newest_linux_source)
    if [ -z "$package" ]; then
        say "Updating the list of packages"
        as_root apt-get update -qq
        package=$(newest_linux_source)
    fi
    [ -n "$package" ] || fail "no package linux-source-* in the package registry"
    need_packages "$package"
    tarball=$(find /usr/src -maxdepth 2 -name "$package.tar.*" ! -name '*.sig' | sort | head -n 1)
    [ -n "$tarball" ] || fail "package $package has no tarball below /usr/src"
}

newest_linux_source() {
    apt-cache search --names-only '^linux-source-[0-9.]+$' | awk '{print $1}' | sort -V | tail -n 1
}

# A cargo of at least the version the workspace asks for.
need_rust() {
    local wanted
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    [ -e "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    if command -v cargo >/dev/null; then
        local found
        found=$(cargo --version | awk '{print $2}')
        [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] && return
        say "cargo $found is older than $wanted"
        if command -v rustup >/dev/null; then
            say "Updating it with rustup"
            rustup toolchain install stable --profile minimal -c clippy -c rustfmt && rustup default stable
            return
        fi
    fi
    need_packages curl ca-certificates
    say "Installing Rust in $HOME/.cargo with rustup (https://rustup.rs)"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y -q --profile minimal -c clippy -c rustfmt --default-toolchain stable
    . "$HOME/.cargo/env"
}

# Runs a command and says how long it took.
timed() {
    local what=$1 start
    shift
    start=$(date +%s%N)
    "$@"
    local tenths=$((($(date +%s%N) - start) / 100000000))
    say "$what: $((tenths / 10)).$((tenths % 10)) s"
}
