"""Pages written by the kernel's AIO with O_DIRECT, beside readers that go by the page cache. The argument: a file to make.

Whatever a reader puts into the cache while a write is under way: once that is over, what it wrote is read.
"""

import ctypes
import mmap
import os
import platform
import struct
import sys
import threading

PAGE, PAGES, ROUNDS, READERS = 4096, 16, 200, 3
SIZE = PAGE * PAGES
PWRITE = 1
# Of io_setup, io_submit, io_getevents.
SETUP, SUBMIT, GETEVENTS = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4)}[platform.machine()]
PATIENCE = struct.pack("qq", 60, 0)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write_all(context, file, address):
    """All pages at once, each by a request of its own."""
    requests = []
    for page in range(PAGES):
        at = page * PAGE
        packed = struct.pack("=QIIHhIQQqQII", page, 0, 0, PWRITE, 0, file, address + at, PAGE, at, 0, 0, 0)
        requests.append(ctypes.create_string_buffer(packed, len(packed)))
    pointers = (ctypes.c_void_p * PAGES)(*(ctypes.addressof(request) for request in requests))
    assert call(SUBMIT, context, ctypes.c_long(PAGES), pointers) == PAGES
    events = ctypes.create_string_buffer(32 * PAGES)
    count = ctypes.c_long(PAGES)
    assert call(GETEVENTS, context, count, count, events, PATIENCE) == PAGES, "a write does not end"
    results = [result for _, _, result, _ in struct.iter_unpack("=QQqq", events.raw)]
    assert results == [PAGE] * PAGES, results


def read(path, is_over):
    file = os.open(path, os.O_RDONLY)
    while not is_over.is_set():
        os.pread(file, SIZE, 0)
    os.close(file)


path = sys.argv[1]
with open(path, "wb") as made:
    made.write(bytes(SIZE))
direct = os.open(path, os.O_WRONLY | os.O_DIRECT)
buffered = os.open(path, os.O_RDONLY)
memory = mmap.mmap(-1, SIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
context = ctypes.c_ulong(0)
call(SETUP, ctypes.c_long(PAGES), ctypes.byref(context))
is_over = threading.Event()
readers = [threading.Thread(target=read, args=(path, is_over)) for _ in range(READERS)]
for reader in readers:
    reader.start()
try:
    for turn in range(ROUNDS):
        written = bytes([turn % 255 + 1])
        memory[:] = written * SIZE
        write_all(context, direct, address)
        found = os.pread(buffered, SIZE, 0)
        stale = [page for page in range(PAGES) if found[page * PAGE : (page + 1) * PAGE] != written * PAGE]
        assert not stale, f"round {turn}: pages {stale} are not what was written"
finally:
    is_over.set()
    for reader in readers:
        reader.join()
