# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of perf with a stream of Intel PT, as perf record would have made them,
of one thread that executes what an image has (see pt-encode)."""

import os
import struct

PAGE = 4096
THREAD = 1000
PMU = 8                         # the number of intel_pt's PMU: any
ID = 1
TSC = 1 << 10
MTC = 1 << 9
CYC = 1 << 1
NORETCOMP = 1 << 11

# Of include/uapi/linux/perf_event.h, and of tools/perf
COMM, MMAP2 = 3, 10
AUXTRACE_INFO, AUXTRACE = 70, 71
HEADER_AUXTRACE = 18
ATTR_SIZE = 128
SAMPLE = 1 | 2 | 1 << 16        # IP, TID, IDENTIFIER


def event(kind, body, misc=0):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def padded(text):
    raw = text.encode() + b'\0'
    return raw + bytes(-len(raw) % 8)


def ids():
    """What each event of the kernel ends with"""
    return struct.pack('<IIQ', THREAD, THREAD, ID)


def attr(config):
    flags = 1 << 18 | 1 << 23   # sample_id_all, mmap2
    raw = struct.pack('<IIQQQQQ', PMU, ATTR_SIZE, config, 1, SAMPLE, 0, flags)
    return raw + bytes(ATTR_SIZE - len(raw))


def info(noretcomp):
    """Without a way from TSC to time: decoded in the order of the bytes"""
    private = [0] * 18
    private[0] = PMU
    private[5] = TSC
    private[6] = NORETCOMP
    private[10] = MTC
    private[11] = 0xf << 14
    private[12], private[13] = 125, 1
    private[14] = CYC
    private[15] = 30
    return event(AUXTRACE_INFO, struct.pack('<II18Q', 1, 0, *private))


def elf(image, path):
    """An ELF file with an image's pages; [(address, size, offset)]"""
    with open(image, 'rb') as f:
        raw = f.read()
    pages = []
    for at in range(0, len(raw), 16):
        address, offset = struct.unpack_from('<QQ', raw, at)
        if not address:
            break
        pages.append((address, offset))
    pages.sort()
    names = b'\0.text\0.symtab\0.strtab\0.shstrtab\0'
    body = b''.join(raw[o:o + PAGE] for _, o in pages)
    end = PAGE + len(body)
    symbols = bytes(24) + struct.pack('<IBBHQQ', 1, 0x12, 0, 1, 0, len(body))
    strings = b'\0code\0'
    places = [end, end + len(symbols), end + len(symbols) + len(strings)]
    table = places[2] + len(names)
    table += -table % 8

    def section(name, kind, flags, address, offset, size, link=0, extra=0,
                entry=0):
        return struct.pack('<IIQQQQIIQQ', name, kind, flags, address, offset,
                           size, link, extra, 8, entry)

    sections = [
        bytes(64),
        section(1, 1, 6, PAGE, PAGE, len(body)),
        section(7, 2, 0, 0, places[0], len(symbols), 3, 1, 24),
        section(15, 3, 0, 0, places[1], len(strings)),
        section(23, 3, 0, 0, places[2], len(names)),
    ]
    header = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack(
        '<HHIQQQIHHHHHH', 3, 62, 1, 0, 64, table, 0, 64, 56, 1, 64,
        len(sections), 4)
    load = struct.pack('<IIQQQQQQ', 1, 5, PAGE, PAGE, PAGE, len(body),
                       len(body), PAGE)
    with open(path, 'wb') as f:
        f.write(header + load)
        f.seek(PAGE)
        f.write(body + symbols + strings + names)
        f.seek(table)
        f.write(b''.join(sections))
    maps = []
    for i, (address, _) in enumerate(pages):
        if maps and maps[-1][0] + maps[-1][1] == address:
            maps[-1][1] += PAGE
        else:
            maps.append([address, PAGE, PAGE + i * PAGE])
    return maps


def write(path, stream, image, noretcomp=True):
    """A file of perf, and beside it the program that its thread executes."""
    program = f'{path}.elf'
    maps = elf(image, program)
    with open(stream, 'rb') as f:
        raw = f.read()
    raw += bytes(-len(raw) % 8)
    config = 1 | 1 << 13 | TSC | (NORETCOMP if noretcomp else 0)
    data = [info(noretcomp),
            event(COMM, struct.pack('<II', THREAD, THREAD) + padded('traced')
                  + ids())]
    for address, size, offset in maps:
        data.append(event(MMAP2, struct.pack(
            '<IIQQQIIQQII', THREAD, THREAD, address, size, offset, 8, 1,
            os.stat(program).st_ino, 0, 5, 2) + padded(program) + ids(), 2))
    at = sum(len(piece) for piece in data)
    data.append(event(AUXTRACE, struct.pack(
        '<QQQIIII', len(raw), 0, 0, 0, THREAD, 0xffffffff, 0)))
    data.append(raw)
    events = b''.join(data)
    ids_at = 104
    attr_at = ids_at + 8
    data_at = attr_at + ATTR_SIZE + 16
    # The index: where in the file what is traced is
    index = struct.pack('<QQQ', 1, data_at + at, len(data[-2]))
    features = (1 << HEADER_AUXTRACE).to_bytes(32, 'little')
    with open(path, 'wb') as f:
        f.write(struct.pack('<8sQQQQQQQQ32s', b'PERFILE2', 104,
                            ATTR_SIZE + 16, attr_at, ATTR_SIZE + 16, data_at,
                            len(events), 0, 0, features))
        f.write(struct.pack('<Q', ID))
        f.write(attr(config) + struct.pack('<QQ', ids_at, 8))
        f.write(events)
        f.write(struct.pack('<QQ', data_at + len(events) + 16, len(index)))
        f.write(index)
