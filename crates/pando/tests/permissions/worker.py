# A caller: makes system calls that it is told of, a line each, as one user in one tree, and answers with an errno or what it found.
#
#   ROOT UID GID GROUPS HOW STORE
#
# HOW: plain; lacking (user 0 without capabilities over permissions); able (some user with them); mapped (user 0 of a namespace of its
# own). STORE: whether each write is stored at once, as other mounts see it only then.
#
# A path begins at `.`, the working directory, `/`, or a number: a descriptor that is held. `-` is the empty path.

import ctypes, errno, os, socket, stat, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
root, uid, gid, groups, how, store = sys.argv[1:]
uid, gid, store = int(uid), int(gid), store == "store"
groups = [int(group) for group in groups.split(",") if group]
EMPTY_PATH, NOFOLLOW, FOLLOW = 0x1000, 0x100, 0x400
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
CWD = -100

def call(function, *words):
    """A function of the C library that tells errno."""
    words = [os.fsencode(word) if isinstance(word, str) else word for word in words]
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    found = getattr(libc, function)(*words)
    if found == -1:
        raise OSError(ctypes.get_errno(), function)
    return found

def capabilities(keep):
    """Sets those that are permitted and effective to those of them that `keep` leaves."""
    header = struct.pack("Ii", 0x20080522, 0)
    now = ctypes.create_string_buffer(24)
    call("capget", header, now)
    low_effective, low_permitted, _, high_effective, high_permitted, _ = struct.unpack("6I", now)
    permitted = keep(low_permitted | high_permitted << 32)
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    call("capset", header, struct.pack("6I", low, low, 0, high, high, 0))

def become():
    """The user, and within the tree. Root of the tree is `/`, so that nothing leads out of it."""
    own = os.open("/proc/self/fd", os.O_RDONLY)
    if how == "able":
        call("prctl", 8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    if how != "mapped":
        os.chroot(root)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    call("prctl", 4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: `/proc/self` is the user's
    if how == "able":
        capabilities(lambda now: now & (DAC_OVERRIDE | FOWNER))
    if how == "lacking":
        capabilities(lambda now: now & ~(CHOWN | DAC_OVERRIDE | DAC_READ_SEARCH | FOWNER))
    if how == "mapped":
        call("unshare", 0x10000000)
        for name, text in [("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")]:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        os.chroot(root)
    return own

slots, sockets = {}, []

def put(slot, fd):
    if slot in slots:
        os.close(slots.pop(slot))
    slots[slot] = fd
    return "ok"

def held(slot):
    if slot not in slots:
        raise OSError(errno.EBADF, "nothing is held")
    return slots[slot]

def at(base, path):
    """For calls that take a descriptor and a path."""
    path = "" if path == "-" else path
    if base == "/":
        return CWD, "/" + path
    return (CWD if base == "." else held(base)), path

def plain(base, path):
    """For calls that take a path only."""
    _, path = at(base, path)
    return path

def when(time):
    """Those that nobody has set are all the same."""
    return str(time) if time < 1_000_000_000 else "now"

def told(found):
    kind = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
            stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}[stat.S_IFMT(found.st_mode)]
    size = found.st_size if kind in ("file", "symlink") else "-"
    # A fifo's change on a local disk when something goes through: a node of FUSE has S_NOCMTIME, so that `pipe_write` leaves them.
    # Of a directory that is removed and held, a mount tells the time of its removal only (docs/SEMANTICS.md).
    is_removed = kind == "dir" and found.st_nlink == 0
    times = "-" if kind == "fifo" or is_removed else f"{when(int(found.st_atime))} {when(int(found.st_mtime))}"
    return f"{kind} {stat.S_IMODE(found.st_mode):o} {found.st_uid}:{found.st_gid} links {found.st_nlink} size {size} times {times}"

def taken(fd):
    """What a fifo gives is told apart: it is that of one kernel's node."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return f"read {os.read(fd, 100)}"
    try:
        return f"piped {os.read(fd, 100)}"
    except BlockingIOError:
        return "piped nothing"

def names(fd):
    return " ".join(sorted(os.listdir(fd))) or "empty"

def times(how):
    now, omit, at = (0, (1 << 30) - 1), (0, (1 << 30) - 2), (1000, 0)
    both = {"now": (now, now), "omit": (omit, omit), "set": (at, (2000, 0)), "atime": (at, omit), "mtime": (omit, at),
            "touch": (now, omit), "mixed": (now, at)}[how]
    return struct.pack("4q", *both[0], *both[1])

def stored(fd):
    if store and stat.S_ISREG(os.fstat(fd).st_mode):
        os.fsync(fd)

def tree(path, lines, name):
    if not os.path.lexists(path):
        return
    found = os.lstat(path)
    text = ""
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            text = " " + ascii(file.read())
    elif stat.S_ISLNK(found.st_mode):
        text = " " + os.readlink(path)
    xattrs = sorted((name, os.getxattr(path, name, follow_symlinks=False)) for name in os.listxattr(path, follow_symlinks=False))
    lines.append(f"{name or '/'} {told(found)}{text}{xattrs or ''}")
    if stat.S_ISDIR(found.st_mode):
        for entry in sorted(os.listdir(path)):
            tree(f"{path.rstrip('/')}/{entry}", lines, f"{name}/{entry}")

def wipe(path):
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            wipe(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)

class Calls:
    def open(base, path, flags, mode, slot):
        fd, path = at(base, path)
        # Nobody waits for the other end of a fifo.
        opened = call("openat", fd, path, int(flags, 16) | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, int(mode, 8))
        return put(slot, opened)

    def reopen(held_as, flags, slot):
        path = str(held(held_as))
        return put(slot, call("openat", own, path, int(flags, 16) | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0))

    def close(slot):
        held(slot)
        os.close(slots.pop(slot))

    def read(slot):
        return taken(held(slot))

    def write(slot, text):
        fd = held(slot)
        written = os.write(fd, text.encode())
        stored(fd)
        return f"wrote {written}"

    def pwrite(slot, offset, text):
        fd = held(slot)
        written = os.pwrite(fd, text.encode(), int(offset))
        stored(fd)
        return f"wrote {written}"

    def noappend(slot, offset, text):
        fd, bytes = held(slot), ctypes.create_string_buffer(text.encode())
        vector = struct.pack("PN", ctypes.addressof(bytes), len(text))
        written = call("pwritev2", fd, vector, 1, int(offset), 0x20)  # RWF_NOAPPEND
        stored(fd)
        return f"wrote {written}"

    def ftruncate(slot, size):
        fd = held(slot)
        os.ftruncate(fd, int(size))
        stored(fd)

    def fallocate(slot, mode, offset, size):
        fd = held(slot)
        call("fallocate", fd, int(mode), int(offset), int(size))
        stored(fd)

    def copy(one, other, size):
        other = held(other)
        zero, end = struct.pack("q", 0), struct.pack("q", 0)
        copied = call("copy_file_range", held(one), zero, other, end, int(size), 0)
        stored(other)
        return f"copied {copied}"

    def fstat(slot):
        return told(os.fstat(held(slot)))

    def fchmod(slot, mode):
        os.fchmod(held(slot), int(mode, 8))

    def fchown(slot, uid, gid):
        os.fchown(held(slot), int(uid), int(gid))

    def futimens(slot, how):
        call("futimens", held(slot), times(how))

    def getdents(slot):
        return names(held(slot))

    def fchdir(slot):
        os.fchdir(held(slot))

    def fgetxattr(slot, name):
        return "value " + os.getxattr(held(slot), name).decode()

    def fsetxattr(slot, name, value):
        os.setxattr(held(slot), name, value.encode())

    def flistxattr(slot):
        return " ".join(sorted(os.listxattr(held(slot)))) or "none"

    def fsync(slot):
        os.fsync(held(slot))

    def stat(base, path, flags):
        fd, path = at(base, path)
        if path == "" and int(flags, 16) & EMPTY_PATH:
            return told(os.stat(fd if fd != CWD else "."))
        return told(os.stat(path, dir_fd=None if fd == CWD else fd, follow_symlinks=not int(flags, 16) & NOFOLLOW))

    def access(base, path, mask, flags):
        fd, path = at(base, path)
        call("syscall", 439, fd, path, int(mask), int(flags, 16))  # faccessat2

    def chmod(base, path, mode, flags):
        fd, path = at(base, path)
        call("syscall", 452, fd, path, int(mode, 8), int(flags, 16))  # fchmodat2

    def chown(base, path, uid, gid, flags):
        fd, path = at(base, path)
        call("fchownat", fd, path, int(uid), int(gid), int(flags, 16))

    def utimens(base, path, how, flags):
        fd, path = at(base, path)
        call("utimensat", fd, path, times(how), int(flags, 16))

    def truncate(base, path, size):
        os.truncate(plain(base, path), int(size))

    def mkdir(base, path, mode):
        fd, path = at(base, path)
        call("mkdirat", fd, path, int(mode, 8))

    def mknod(base, path, kind, mode):
        fd, path = at(base, path)
        kind = {"file": stat.S_IFREG, "fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "char": stat.S_IFCHR}[kind]
        call("mknodat", fd, path, kind | int(mode, 8), os.makedev(1, 3) if kind == stat.S_IFCHR else 0)

    def symlink(target, base, path):
        fd, path = at(base, path)
        call("symlinkat", target, fd, path)

    def link(base, path, to_base, to_path, flags):
        fd, path = at(base, path)
        to_fd, to_path = at(to_base, to_path)
        call("linkat", fd, path, to_fd, to_path, int(flags, 16))

    def linkself(slot, base, path):
        fd, path = at(base, path)
        call("linkat", own, str(held(slot)), fd, path, FOLLOW)

    def unlink(base, path):
        fd, path = at(base, path)
        call("unlinkat", fd, path, 0)

    def rmdir(base, path):
        fd, path = at(base, path)
        call("unlinkat", fd, path, 0x200)

    def rename(base, path, to_base, to_path, flags):
        fd, path = at(base, path)
        to_fd, to_path = at(to_base, to_path)
        call("renameat2", fd, path, to_fd, to_path, int(flags, 16))

    def readlink(base, path):
        fd, path = at(base, path)
        return "target " + os.readlink(path, dir_fd=None if fd == CWD else fd)

    def list(base, path):
        fd, path = at(base, path)
        opened = call("openat", fd, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return names(opened)
        finally:
            os.close(opened)

    def cat(base, path):
        fd, path = at(base, path)
        opened = call("openat", fd, path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return taken(opened)
        finally:
            os.close(opened)

    def chdir(base, path):
        os.chdir(plain(base, path))

    def getxattr(base, path, name):
        return "value " + os.getxattr(plain(base, path), name, follow_symlinks=False).decode()

    def setxattr(base, path, name, value):
        os.setxattr(plain(base, path), name, value.encode(), follow_symlinks=False)

    def removexattr(base, path, name):
        os.removexattr(plain(base, path), name, follow_symlinks=False)

    def listxattr(base, path):
        return " ".join(sorted(os.listxattr(plain(base, path), follow_symlinks=False))) or "none"

    def statfs(base, path):
        os.statvfs(plain(base, path))

    def inotify(base, path):
        watcher = call("inotify_init1", os.O_CLOEXEC)
        try:
            call("inotify_add_watch", watcher, plain(base, path), 0xFFF)
        finally:
            os.close(watcher)

    def handle(base, path):
        fd, path = at(base, path)
        room = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        mount = ctypes.c_int()
        call("name_to_handle_at", fd, path, room, ctypes.byref(mount), 0)

    def bind(base, path):
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound.bind(plain(base, path))
        sockets.append(bound)

    def connect(base, path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.connect(plain(base, path))

    def exec(base, path):
        path = plain(base, path)
        path = path if "/" in path else "./" + path
        os.waitpid(os.posix_spawn(path, [path], {}), 0)

    def umask(mode):
        os.umask(int(mode, 8))

    def reset():
        for fd in slots.values():
            os.close(fd)
        slots.clear()
        for bound in sockets:
            bound.close()
        sockets.clear()
        os.chdir("/")
        os.umask(0o022)

    # Of the harness: by root only.
    def wipe():
        wipe("/")
        os.chown("/", 0, 0)
        os.chmod("/", 0o777)
        for name in os.listxattr("/"):
            os.removexattr("/", name)

    def tree(path="/"):
        lines = []
        tree(path, lines, path.rstrip("/"))
        return "\t".join(lines)

def answer(words):
    try:
        return calls[words[0]](*words[1:]) or "ok"
    except OSError as error:
        return errno.errorcode[error.errno]

own = become()
os.chdir("/")
os.umask(0o022)
calls = vars(Calls)
print("ready", flush=True)
for line in sys.stdin:
    # Several calls at once are asked for with `;` between them.
    print(" ; ".join(answer(part.split()) for part in line.split(";")), flush=True)
